//! unix-dgram: datagrams between Unix sockets.
//!
//! The kernel queues at most `net.unix.max_dgram_qlen` messages for a receiver that is not
//! connected to the sender, then blocks the sender; once both ends are connected to each other, the
//! sender's buffer is the limit.

use crate::contract::{Circuit, Class, Listener, Reach, Rendezvous, Transport, Unavailable};
use crate::datagram::{
    AddressFamily, DatagramListener, DatagramSocket, SocketKind, configure_nothing,
};
use crate::options::Options;
use crate::plain_circuit::plain_circuit;
use crate::transport::udp;
use std::io;

/// The transport.
#[derive(Debug)]
pub struct UnixDgram;

/// The class of datagrams within a host.
pub(crate) const CLASS: Class = Class {
    reliable: true,
    ordered: true,
    flow_control: true,
    half_close: false,
    calls: false,
    reach: Reach::Host,
    checksum: "none: memory",
    ..udp::CLASS
};

static KIND: SocketKind = SocketKind {
    family: AddressFamily::Unix,
    connected: true,
    configure: configure_nothing,
};

impl Transport for UnixDgram {
    fn name(&self) -> &'static str {
        "unix-dgram"
    }

    fn summary(&self) -> &'static str {
        "local datagram sockets, one send a message"
    }

    fn class(&self) -> Class {
        CLASS
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        DatagramListener::bind(&KIND, options, plain_circuit)
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        plain_circuit(
            DatagramSocket::connect(&KIND, rendezvous, index, options)?,
            options,
        )
    }
}
