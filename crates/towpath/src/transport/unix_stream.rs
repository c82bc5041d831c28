//! unix-stream: byte streams between Unix sockets, one send per message.

use crate::connection_info;
use crate::contract::{CircuitResult, Class, Listener, Reach, Rendezvous, Transport, Unavailable};
use crate::options::Options;
use crate::stream::{SocketReadback, StreamCircuit};
use crate::transport::tcp;
use crate::unix_socket::{self, UnixSocketListener};
use socket2::{Socket, Type};
use std::io;

/// The transport.
#[derive(Debug)]
pub struct UnixStream;

/// The class of connections between Unix sockets.
pub(crate) const CLASS: Class = Class {
    reach: Reach::Host,
    checksum: "none: memory",
    congestion: "",
    offload: "none",
    ..tcp::CLASS
};

impl Transport for UnixStream {
    fn name(&self) -> &'static str {
        "unix-stream"
    }

    fn summary(&self) -> &'static str {
        "local stream sockets, one send a message"
    }

    fn class(&self) -> Class {
        CLASS
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        UnixSocketListener::bind(Type::STREAM, options, stream_circuit)
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        let socket = unix_socket::connect(Type::STREAM, rendezvous, options)?;
        stream_circuit(socket, options)
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max options check_options connect_all connect_to_many
    }
}

fn stream_circuit(socket: Socket, options: &Options) -> CircuitResult {
    let nothing_more = SocketReadback {
        effective: |_, _| {},
        counts: |_, _| {},
        connection_info: |_| Err(connection_info::NO_PATH),
    };
    let circuit = StreamCircuit::new(socket, options, nothing_more);
    Ok(Box::new(circuit))
}
