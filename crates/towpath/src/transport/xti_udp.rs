//! xti-udp: the kernel's UDP under XTI over STREAMS in the user's process.
//!
//! One system call a datagram, as with `udp`: what differs is the stream, its queues and when a datagram
//! leaves.

use super::xti_datagrams::{DatagramCircuit, DatagramEnds};
use super::xti_udp_sockets;
use super::xti_words::{self, StreamWords};
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::transport::datagrams::UDP_CLASS;
use crate::{socket, source_filter};
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use xti::{XtiEndpoint, inet};

/// The transport.
#[derive(Debug)]
pub struct XtiUdp;

/// Its options: those of all streams, and whether there is one.
const OPTIONS: [OptionHelp; 6] = {
    let [hysteresis, deferred, affinity, marks, crossing] = xti_words::OF_STREAMS;
    let streams = xti_words::STREAMS;
    [hysteresis, deferred, affinity, marks, crossing, streams]
};

impl Transport for XtiUdp {
    fn name(&self) -> &'static str {
        "xti-udp"
    }

    fn summary(&self) -> &'static str {
        "kernel UDP under XTI over STREAMS, with queues and deferred service procedures"
    }

    fn class(&self) -> Class {
        UDP_CLASS
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn options(&self) -> &[OptionHelp] {
        &OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        words(own).map(|_| ())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        if parsed(options)?.is_plain {
            return xti_udp_sockets::listen(setup(options), options);
        }
        let mut listener = DatagramEnds::new(Reach::Network);
        for _ in 0..options.circuits.max(1) {
            let (end, address) = bind(options, SocketAddr::new(options.bind_address(), 0))?;
            listener.add(end, socket::encode_address(address));
        }
        Ok(Box::new(listener))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let peer = socket::decode_address(line)?;
        if parsed(options)?.is_plain {
            return xti_udp_sockets::connect(setup(options), peer, options);
        }
        let (end, _) = bind(options, socket::wildcard_address(&peer))?;
        let peer = inet::encode(peer);
        Ok(Box::new(DatagramCircuit::new(Arc::new(end), peer)))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

fn words(own: &BTreeMap<String, String>) -> Result<StreamWords, String> {
    StreamWords::parse("xti-udp", &OPTIONS, own)
}

fn parsed(options: &Options) -> io::Result<StreamWords> {
    words(&options.transport_specific).map_err(crate::options::invalid)
}

/// What each socket gets.
fn setup(options: &Options) -> inet::Setup {
    let options = options.clone();
    Arc::new(move |socket: &Socket| {
        socket::set_buffers(socket, options.buffers);
        source_filter::attach(socket.as_fd(), options.only_from)
    })
}

/// An endpoint at an address, and the address it got.
fn bind(options: &Options, address: SocketAddr) -> io::Result<(XtiEndpoint, SocketAddr)> {
    let end = XtiEndpoint::open_udp(setup(options), parsed(options)?.stream)?;
    let bound = end.bind(&inet::encode(address), 0)?;
    let bound = inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok((end, bound))
}
