//! udp-streams and rawip-streams: drivers of STREAMS that make their packets themselves, under XTI's functions.
//!
//! `xti-udp` puts a stream over the kernel's UDP; here UDP itself is in the driver, above raw IP, as a STREAMS
//! system has it. Datagrams that wait in the queue leave many a system call. Raw sockets need CAP_NET_RAW.

use super::xti_datagrams::{DatagramCircuit, DatagramEnds};
use super::xti_words::{self, StreamWords};
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Reach, Rendezvous, Transport, Unavailable,
};
use crate::ip_datagrams::{Header, IpDatagrams};
use crate::medium::IpMedium;
use crate::options::Options;
use crate::socket;
use crate::socket::source_address_to;
use crate::transport::datagrams::UDP_CLASS;
use crate::transport::xtp_raw;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use xti::{XtiEndpoint, inet};

/// `udp-streams`.
pub static UDP: IpStreams = IpStreams {
    header: Header::Udp,
};

/// `rawip-streams`.
pub static RAW_IP: IpStreams = IpStreams {
    header: Header::Ports,
};

/// Their options: those of all streams, and where the header goes.
const OPTIONS: [OptionHelp; 6] = {
    let [hysteresis, deferred, affinity, marks, crossing] = xti_words::OF_STREAMS;
    let headroom = xti_words::HEADROOM;
    [hysteresis, deferred, affinity, marks, crossing, headroom]
};

/// The transport.
#[derive(Debug)]
pub struct IpStreams {
    header: Header,
}

impl IpStreams {
    fn words(&self, own: &BTreeMap<String, String>) -> Result<StreamWords, String> {
        StreamWords::parse(self.name(), &OPTIONS, own)
    }

    /// An endpoint at an address, and the address it got.
    fn bind(&self, options: &Options, host: SocketAddr) -> io::Result<(XtiEndpoint, SocketAddr)> {
        let words = self.words(&options.transport_specific);
        let words = words.map_err(crate::options::invalid)?;
        // The driver's own reason says more than XTI's number.
        IpDatagrams::check(self.header, host.ip())?;
        let driver = Box::new(IpDatagrams::new(self.header, options.buffers));
        let end = XtiEndpoint::open_datagrams(driver, words.stream)?;
        let bound = end.bind(&inet::encode(host), 0)?;
        let bound = inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?;
        Ok((end, bound))
    }
}

impl Transport for IpStreams {
    fn name(&self) -> &'static str {
        match self.header {
            Header::Udp => "udp-streams",
            Header::Ports => "rawip-streams",
        }
    }

    fn summary(&self) -> &'static str {
        match self.header {
            Header::Udp => {
                "UDP in a STREAMS driver of the process, over raw IP, many datagrams a call"
            }
            Header::Ports => "datagrams straight over IP (protocol 253) from such a driver",
        }
    }

    fn class(&self) -> Class {
        Class {
            kernel: false,
            offload: "sendmmsg and recvmmsg",
            checksum: match self.header {
                Header::Udp => UDP_CLASS.checksum,
                Header::Ports => "none",
            },
            ..UDP_CLASS
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        let protocol = self.header.protocol();
        xtp_raw::check_ip(&IpMedium { protocol }, options)
    }

    fn options(&self) -> &[OptionHelp] {
        &OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        self.words(own).map(|_| ())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut listener = DatagramEnds::new(Reach::Network);
        for _ in 0..options.circuits.max(1) {
            let host = SocketAddr::new(options.bind_address(), 0);
            let (end, address) = self.bind(options, host)?;
            listener.add(end, socket::encode_address(address));
        }
        Ok(Box::new(listener))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let peer = socket::decode_address(line)?;
        let host = SocketAddr::new(source_address_to(peer)?, 0);
        let (end, _) = self.bind(options, host)?;
        let peer = inet::encode(peer);
        Ok(Box::new(DatagramCircuit::new(Arc::new(end), peer)))
    }

    crate::usual_transport! {
        class_with is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}
