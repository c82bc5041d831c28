//! unix-seqpacket: messages in order between connected Unix sockets.
//!
//! The receiver cannot tell an empty message from the end of the stream, so empty messages are
//! refused.

use crate::connection_info;
use crate::contract::{
    Circuit, CircuitResult, Class, ConnectionInfo, Listener, NoConnectionInfo, Part, Rendezvous,
    Transport, Unavailable,
};
use crate::options::Options;
use crate::parts::{self, MessageRest};
use crate::socket;
use crate::transport::unix_stream;
use crate::unix_socket::{self, UnixSocketListener};
use socket2::{Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

/// The transport.
#[derive(Debug)]
pub struct UnixSeqpacket;

impl Transport for UnixSeqpacket {
    fn name(&self) -> &'static str {
        "unix-seqpacket"
    }

    fn summary(&self) -> &'static str {
        "local sequenced-packet sockets, one send a message"
    }

    fn class(&self) -> Class {
        Class {
            stream: false,
            ..unix_stream::CLASS
        }
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        UnixSocketListener::bind(Type::SEQPACKET, options, seqpacket_circuit)
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        let socket = unix_socket::connect(Type::SEQPACKET, rendezvous, options)?;
        seqpacket_circuit(socket, options)
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max options check_options connect_all connect_to_many
    }
}

fn seqpacket_circuit(socket: Socket, _options: &Options) -> CircuitResult {
    Ok(Box::new(SeqpacketCircuit {
        socket,
        send_calls: 0,
        receive_calls: 0,
        rest: MessageRest::default(),
    }))
}

#[derive(Debug)]
struct SeqpacketCircuit {
    socket: Socket,
    send_calls: u64,
    receive_calls: u64,
    /// What is left of a message received in parts.
    rest: MessageRest,
}

impl SeqpacketCircuit {
    #[inline]
    fn write(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        if message.is_empty() {
            return Err(empty_message_error());
        }
        self.send_calls += 1;
        socket::send_message(&self.socket, message, block)
    }

    #[inline]
    fn read(&mut self, buffer: &mut [u8], block: bool) -> io::Result<Option<usize>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        self.receive_calls += 1;
        let got = socket::recv(self.socket.as_fd(), buffer, block)?;
        Ok((got > 0).then_some(got))
    }
}

#[cold]
fn empty_message_error() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        "a message of 0 bytes would look like the end of the stream; send at least 1 byte",
    )
}

impl Circuit for SeqpacketCircuit {
    parts::blocks_by_flag! { write, read }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        self.receive_calls += 2;
        let len = socket::message_len(self.socket.as_fd())?;
        let room = self.rest.room(len.saturating_sub(buffer.len()));
        let (len, _) =
            socket::recv_split(self.socket.as_fd(), buffer, room).map_err(socket::to_io_error)?;
        Ok((len > 0).then(|| self.rest.keep(len, buffer.len())))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Write)
    }

    parts::ready_as_socket! {}

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        socket::buffer_sizes(self.socket.as_fd())
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        parts::call_counts((self.send_calls, self.receive_calls))
    }

    crate::usual_circuit! { send_run send_shared_run recv_run flush next_deadline }
}
