//! udp-connected: the kernel's UDP on connected sockets, one send a message.
//!
//! The kernel looks up the route and the peer once instead of at every call.

use crate::contract::{Circuit, Class, Listener, Rendezvous, Transport, Unavailable};
use crate::datagram::{Flavour, Listening, Port, Space, dress_plain, plain};
use crate::options::Options;
use crate::transport::udp;
use socket2::Protocol;
use std::io;

/// The transport.
#[derive(Debug)]
pub struct UdpConnected;

static FLAVOUR: Flavour = Flavour {
    space: Space::Internet(Protocol::UDP),
    connected: true,
    prepare: plain,
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
        Listening::bind(&FLAVOUR, options, dress_plain)
    }

    fn connect(
        &self,
        rendezvous: &Rendezvous,
        index: usize,
        options: &Options,
    ) -> io::Result<Box<dyn Circuit>> {
        dress_plain(
            Port::connect(&FLAVOUR, rendezvous, index, options)?,
            options,
        )
    }
}
