//! udp-connected: the kernel's UDP on connected sockets, one send per message.
//!
//! The kernel looks up the route and the peer once instead of on every call.

use crate::contract::{Circuit, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::datagram::{
    AddressFamily, DatagramListener, DatagramSocket, SocketKind, configure_nothing,
};
use crate::options::Options;
use crate::plain_circuit::plain_circuit;
use crate::transport::udp;
use socket2::Protocol;
use std::io;

/// The transport.
#[derive(Debug)]
pub struct UdpConnected;

static KIND: SocketKind = SocketKind {
    family: AddressFamily::Internet(Protocol::UDP),
    connected: true,
    configure: configure_nothing,
};

impl Transport for UdpConnected {
    fn name(&self) -> &'static str {
        "udp-connected"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP on connected sockets, one send a message"
    }

    fn class(&self) -> Class {
        udp::CLASS
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
