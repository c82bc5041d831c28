//! null: no transport, the baseline of the measuring loops.
//!
//! A send discards the message; a receive returns one at once, without touching memory.

use crate::connection_info;
use crate::contract::{
    Circuit, CircuitResult, Class, ConnectionInfo, Interest, Listener, NoConnectionInfo, Note,
    Part, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::parts;
use crate::transport::datagrams;
use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

/// The transport.
#[derive(Debug)]
pub struct Null;

#[derive(Debug)]
struct NullCircuit {
    message_len: usize,
}

impl Transport for Null {
    fn name(&self) -> &'static str {
        "null"
    }

    fn summary(&self) -> &'static str {
        "nothing is moved: the floor of the measuring loops"
    }

    fn class(&self) -> Class {
        Class {
            ordered: true,
            duplicates: false,
            kernel: false,
            connectionless: false,
            connects: false,
            checksum: "none",
            ..datagrams::UDP_CLASS
        }
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        Ok(Box::new(NullCircuit {
            message_len: options.message_len,
        }))
    }

    fn connect(&self, _rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        Ok(Box::new(NullCircuit {
            message_len: options.message_len,
        }))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

impl Listener for NullCircuit {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(Rendezvous::new(Reach::Network, Vec::new()))
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        Ok(Box::new(NullCircuit {
            message_len: self.message_len,
        }))
    }
}

impl Circuit for NullCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        std::hint::black_box(message);
        Ok(())
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        std::hint::black_box(buffer);
        Ok(Some(self.message_len))
    }

    // The default implementation reads the clock before it waits; this transport never waits.
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.try_send(message)
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        let len = self.message_len.min(buffer.len());
        std::hint::black_box(buffer);
        Ok(Some(Part {
            len,
            end: true,
            note: Note::default(),
        }))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _interest: Interest, _deadline: Instant) -> io::Result<()> {
        Ok(())
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    crate::usual_circuit! { recv send_run send_shared_run recv_run flush descriptor next_deadline counts }
}
