//! A circuit on a datagram socket, with one system call per message.

use crate::contract::{Circuit, CircuitResult, Interest, Part};
use crate::datagram::DatagramSocket;
use crate::options::Options;
use crate::parts;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// A circuit that makes one system call per message.
#[derive(Debug)]
pub(crate) struct PlainCircuit {
    socket: DatagramSocket,
    extra_options: &'static [(&'static str, &'static str)],
}

impl PlainCircuit {
    /// A circuit on `socket`; `extra_options` are added to the effective options.
    pub(crate) fn new(port: DatagramSocket, more: &'static [(&'static str, &'static str)]) -> Self {
        PlainCircuit {
            socket: port,
            extra_options: more,
        }
    }
}

/// A [`PlainCircuit`] without extra options.
pub(crate) fn plain_circuit(port: DatagramSocket, _options: &Options) -> CircuitResult {
    Ok(Box::new(PlainCircuit::new(port, &[])))
}

impl Circuit for PlainCircuit {
    parts::blocks_by_flag! { socket.send, socket.recv }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.socket.recv_part(buffer).map(Some)
    }

    parts::lends_nothing! {}

    engine::forward! { self.socket;
        fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()>;
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    parts::connectionless! {}

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.socket.effective();
        for (name, value) in self.extra_options {
            effective.insert((*name).into(), (*value).into());
        }
        effective
    }

    crate::usual_circuit! { send_run send_shared_run recv_run flush next_deadline }
}
