//! udp: the kernel's UDP, one sendto per message.

use crate::contract::{Circuit, Class, Listener, Reach, Rendezvous, Transport, Unavailable};
use crate::datagram::{
    AddressFamily, DatagramListener, DatagramSocket, SocketKind, configure_nothing,
};
use crate::options::Options;
use crate::plain_circuit::plain_circuit;
use socket2::Protocol;
use std::io;

/// The transport.
#[derive(Debug)]
pub struct Udp;

static KIND: SocketKind = SocketKind {
    family: AddressFamily::Internet(Protocol::UDP),
    connected: false,
    configure: configure_nothing,
};

impl Transport for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP, one sendto a message"
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

/// The class of plain UDP.
pub(crate) const CLASS: Class = Class {
    reliable: false,
    ordered: false,
    encrypted: false,
    stream: false,
    kernel: true,
    connectionless: true,
    connects: true,
    flow_control: false,
    half_close: false,
    calls: false,
    reach: Reach::Network,
    checksum: "Internet, 16 bit",
    congestion: "",
    offload: "none",
};
