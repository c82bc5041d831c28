//! Shared by the stream-socket transports: the circuit on a connected socket.

use crate::contract::{Circuit, ConnectionInfo, NoConnectionInfo};
use crate::options::Options;
use crate::parts;
use crate::socket::{self, UnsentTail};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

/// A circuit on a connected stream socket, one system call per message.
#[derive(Debug)]
pub(crate) struct StreamCircuit {
    pub(crate) socket: Socket,
    unsent: UnsentTail,
    read_len: usize,
    send_calls: u64,
    receive_calls: u64,
    readback: SocketReadback,
    acknowledgement: Acknowledgement,
    /// The listening socket it came from, where that has to stay open as long as the circuit.
    listening: Option<Socket>,
}

/// When a TCP socket acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledgement {
    /// As the kernel does, which delays acknowledgements of what is answered.
    Delayed,
    /// At once: TCP_QUICKACK, which the kernel forgets as the connection goes on (tcp(7)), and so is
    /// set again after each receive.
    Quick,
}

/// Reads back the options and counters of a transport's socket, besides its buffer sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketReadback {
    /// Adds options in effect.
    pub(crate) effective: fn(&Socket, &mut BTreeMap<String, String>),
    /// Adds counters.
    pub(crate) counts: fn(&Socket, &mut BTreeMap<String, u64>),
    /// Reads the connection's state.
    pub(crate) connection_info: fn(&Socket) -> Result<ConnectionInfo, NoConnectionInfo>,
}

impl StreamCircuit {
    /// Wraps a connected socket.
    pub(crate) fn new(
        socket: Socket,
        options: &Options,
        readback: SocketReadback,
    ) -> StreamCircuit {
        StreamCircuit {
            socket,
            unsent: UnsentTail::default(),
            read_len: options.read_len,
            send_calls: 0,
            receive_calls: 0,
            readback,
            acknowledgement: Acknowledgement::Delayed,
            listening: None,
        }
    }

    /// Replaces the readback, for a transport of another kind.
    pub(crate) fn with_readback(self, readback: SocketReadback) -> StreamCircuit {
        StreamCircuit { readback, ..self }
    }

    /// Changes when it acknowledges.
    pub(crate) fn with_acknowledgement(self, when: Acknowledgement) -> io::Result<StreamCircuit> {
        if when == Acknowledgement::Quick {
            self.socket.set_tcp_quickack(true)?;
        }
        Ok(StreamCircuit {
            acknowledgement: when,
            ..self
        })
    }

    /// Keeps the listening socket open as long as this circuit.
    pub(crate) fn keep_listening(&mut self, listening: Socket) {
        self.listening = Some(listening);
    }

    /// Writes part of `bytes`; returns how many.
    #[inline]
    pub(crate) fn write(&mut self, bytes: &[u8], block: bool) -> io::Result<usize> {
        self.send_calls += 1;
        socket::send(self.socket.as_fd(), bytes, block)
    }

    /// Keeps what is left of a message that was sent in part; it is sent before all else.
    pub(crate) fn keep_unsent(&mut self, rest: &[u8]) {
        self.unsent.keep(rest);
    }

    #[inline]
    fn send_whole(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        self.send_calls += 1;
        self.unsent.send(self.socket.as_fd(), message, block)
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        self.receive_calls += 1;
        let len = buffer.len().min(self.read_len);
        let got = socket::recv(self.socket.as_fd(), &mut buffer[..len], block)?;
        if self.acknowledgement == Acknowledgement::Quick {
            self.socket.set_tcp_quickack(true)?;
        }
        Ok((got > 0 || len == 0).then_some(got))
    }
}

impl Circuit for StreamCircuit {
    parts::blocks_by_flag! { send_whole, read }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.unsent.flush(self.socket.as_fd(), true)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    parts::ready_as_socket! {}

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        (self.readback.connection_info)(&self.socket)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = socket::buffer_sizes(self.socket.as_fd());
        effective.insert("read_len".into(), self.read_len.to_string());
        if self.acknowledgement == Acknowledgement::Quick {
            effective.insert("quickack".into(), "on".into());
        }
        (self.readback.effective)(&self.socket, &mut effective);
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = parts::call_counts((self.send_calls, self.receive_calls));
        (self.readback.counts)(&self.socket, &mut counts);
        counts
    }

    crate::usual_circuit! { send_run send_shared_run recv_run next_deadline }
}
