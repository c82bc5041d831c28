//! vmtp, vmtp-rawip and vmtp-ether: VMTP (RFC 1045) over UDP, over IP (protocol 81), and in Ethernet
//! frames (type 0x805B); a message a transaction.
//!
//! The client's end is an entity that calls: a send begins a transaction, up to 64 at a time, and a
//! receive takes a reply, in the order of the calls. The server's end is an entity that is called: a
//! receive takes a request, and a send answers it. A request that is still open at the next receive is
//! answered with nothing, by a code of this transport, which the client's end drops: so messages that
//! want no reply flow one way. With `repeat` messages are datagrams, copied for paths that carry
//! nothing back. The engine is crate `engine-vmtp`; the thread that waits runs it.
//!
//! * `end` - what both ends have: options, an endpoint, an entity.
//! * `client`, `server` - the circuits.

mod client;
pub(crate) mod end;
mod server;

use crate::contract::{
    Circuit, CircuitResult, CircuitsResult, Class, Listener, OptionHelp, Rendezvous, Transport,
    Unavailable,
};
use crate::engine_setup;
use crate::medium::{ETHER_PACKET_MAX, EtherMedium, IpMedium, Medium, UdpMedium, random_port};
use crate::options::{Family, Options};
use crate::socket;
use crate::transport::xtp_raw;
use client::ClientCircuit;
use end::{End, Place, Settings, entity, host_of};
use engine::EntityId;
use engine_vmtp::VmtpConfig;
use server::ServerCircuit;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Instant;

/// VMTP over one medium.
#[derive(Debug)]
pub struct Vmtp {
    medium: MediumKind,
}

/// Over UDP.
pub const UDP: Vmtp = Vmtp {
    medium: MediumKind::Udp,
};

/// Straight over IP.
pub const RAW_IP: Vmtp = Vmtp {
    medium: MediumKind::RawIp,
};

/// In Ethernet frames.
pub const ETHERNET: Vmtp = Vmtp {
    medium: MediumKind::Ethernet,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MediumKind {
    Udp,
    RawIp,
    Ethernet,
}

/// Raw IP with VMTP's protocol number (IANA).
pub(crate) const IP_MEDIUM: IpMedium = IpMedium { protocol: 81 };

/// Ethernet with the type that tables of such list for VMTP.
pub(crate) const ETHER_MEDIUM: EtherMedium = EtherMedium { ethertype: 0x805b };

/// Discriminators of entities: one half of them for those that are called, one for those that call.
/// Over UDP, where ports tell endpoints apart, one of each does.
const DISCRIMINATORS: u64 = 0x7000;

const HELP: [OptionHelp; 5] = [
    OptionHelp {
        name: "packet",
        values: "BYTES",
        meaning: "octets of the longest packet, from 580 on; if not given, what an Ethernet frame \
                  holds",
    },
    OptionHelp {
        name: "checksum",
        values: "on|off",
        meaning: "VMTP's check of packets, besides the one of the layer below",
    },
    OptionHelp {
        name: "stream",
        values: "off|on",
        meaning: "whether the calls of a client are a stream: served one after another, in order",
    },
    OptionHelp {
        name: "repeat",
        values: "COUNT",
        meaning: "messages are datagrams that nothing answers, each sent so often (1 to 8), 10 ms \
                  apart and delivered once: for paths that carry nothing back; such a circuit may \
                  lose messages, and carries them one way",
    },
    OptionHelp {
        name: "bypass",
        values: "off|on",
        meaning: "whether frames go to the device past its queueing discipline",
    },
];

impl Transport for Vmtp {
    fn name(&self) -> &'static str {
        match self.medium {
            MediumKind::Udp => "vmtp",
            MediumKind::RawIp => "vmtp-rawip",
            MediumKind::Ethernet => "vmtp-ether",
        }
    }

    fn summary(&self) -> &'static str {
        match self.medium {
            MediumKind::Udp => "VMTP (RFC 1045) over segmented UDP, a message a transaction",
            MediumKind::RawIp => "VMTP straight over IP (protocol 81) by raw sockets",
            MediumKind::Ethernet => {
                "VMTP in Ethernet frames (type 0x805B) by rings shared with the kernel"
            }
        }
    }

    fn class(&self) -> Class {
        Class {
            // Calls that overtake each other on the path are served as they come.
            ordered: false,
            connectionless: true,
            connects: false,
            half_close: false,
            checksum: match self.medium {
                MediumKind::Udp => {
                    "Internet, 16 bit, by UDP; two sums of 16 bit of VMTP's own over each packet"
                }
                _ => "two sums of 16 bit of VMTP's own over each packet",
            },
            offload: match self.medium {
                MediumKind::Udp => engine_setup::CLASS.offload,
                MediumKind::RawIp => "none",
                MediumKind::Ethernet => "rings of frames shared with the kernel",
            },
            ..engine_setup::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let is_one_way = self.is_one_way(own);
        let class = self.class();
        Class {
            reliable: class.reliable && !is_one_way,
            flow_control: class.flow_control && !is_one_way,
            ..class
        }
    }

    fn only_answers(&self) -> bool {
        true
    }

    fn is_one_way(&self, own: &BTreeMap<String, String>) -> bool {
        Settings::parse(own, self.packet_max()).is_ok_and(|settings| settings.is_one_way())
    }

    fn sends_unanswered(&self, own: &BTreeMap<String, String>) -> bool {
        self.is_one_way(own)
    }

    fn message_max(&self) -> Option<u64> {
        Some(u64::from(VmtpConfig::default().message_max))
    }

    fn options(&self) -> &'static [OptionHelp] {
        match self.medium {
            MediumKind::Ethernet => &HELP,
            _ => &HELP[..4],
        }
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let names: Vec<&str> = self.options().iter().map(|help| help.name).collect();
        if let Some(key) = own.keys().find(|key| !names.contains(&key.as_str())) {
            let (name, has) = (self.name(), names.join(", "));
            return Err(format!("{name} has no option '{key}'; it has {has}"));
        }
        if let Some(value) = own
            .get("bypass")
            .filter(|word| !["on", "off"].contains(&word.as_str()))
        {
            return Err(format!("bypass={value} is not possible; choose off, on"));
        }
        Settings::parse(own, self.packet_max()).map(drop)
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        match self.medium {
            MediumKind::Udp => Ok(()),
            MediumKind::RawIp => xtp_raw::check_ip(&IP_MEDIUM, options),
            MediumKind::Ethernet => xtp_raw::check_ether(&ETHER_MEDIUM, options),
        }
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        match self.medium {
            MediumKind::Udp => self.listen_on(&UdpMedium, options),
            MediumKind::RawIp => self.listen_on(&IP_MEDIUM, options),
            MediumKind::Ethernet => self.listen_on(&ETHER_MEDIUM, options),
        }
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        match self.medium {
            MediumKind::Udp => self.connect_on(&UdpMedium, line, options),
            MediumKind::RawIp => self.connect_on(&IP_MEDIUM, line, options),
            MediumKind::Ethernet => self.connect_on(&ETHER_MEDIUM, line, options),
        }
    }

    fn connect_all(&self, rendezvous: &Rendezvous, options: &Options) -> CircuitsResult {
        if !options.share_endpoint {
            let all = 0..options.circuits;
            return all
                .map(|index| self.connect(rendezvous, index, options))
                .collect();
        }
        let line = socket::rendezvous_entry(&rendezvous.bytes, 0)?;
        match self.medium {
            MediumKind::Udp => self.connect_all_on(&UdpMedium, line, options),
            MediumKind::RawIp => self.connect_all_on(&IP_MEDIUM, line, options),
            MediumKind::Ethernet => self.connect_all_on(&ETHER_MEDIUM, line, options),
        }
    }

    crate::usual_transport! { is_one_to_many carries_empty option_to_many connect_to_many }
}

impl Vmtp {
    fn listen_on<M: Medium>(&self, medium: &M, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut ends = VecDeque::new();
        let mut lines = Vec::new();
        let circuits = options.circuits.max(1);
        let endpoints = if options.share_endpoint { 1 } else { circuits };
        for _ in 0..endpoints {
            let mut opened = medium.listen(options)?;
            // A filter of sources drops the datagrams by which a wire ends its own receive.
            if options.only_from.is_none() {
                M::disable_receive_timeout(&mut opened.wire)?;
            }
            lines.push(opened.rendezvous_entry.clone());
            let place = self.place(server_discriminator(opened.port), options);
            ends.push_back(End::open::<M>(opened, options, &place)?);
        }
        // Servers of one endpoint are one entity: each takes the request that comes next.
        let more = circuits - endpoints;
        ends.extend((0..more).map(|_| ends[0].share()).collect::<Vec<_>>());
        Ok(Box::new(VmtpListener::<M> { ends, lines }))
    }

    fn connect_on<M: Medium>(&self, medium: &M, line: &[u8], options: &Options) -> CircuitResult {
        let (end, server) = self.open_client(medium, line, options)?;
        Ok(Box::new(ClientCircuit::new(end, server)))
    }

    /// Clients of one endpoint: entities whose discriminators follow each other.
    fn connect_all_on<M: Medium>(
        &self,
        medium: &M,
        line: &[u8],
        options: &Options,
    ) -> CircuitsResult {
        let (first, server) = self.open_client(medium, line, options)?;
        let mut ends = Vec::with_capacity(options.circuits);
        for number in 1..options.circuits as u64 {
            ends.push(first.share_as(nth_client(first.entity, number))?);
        }
        ends.insert(0, first);
        let circuit = |end| -> Box<dyn Circuit> { Box::new(ClientCircuit::new(end, server)) };
        Ok(ends.into_iter().map(circuit).collect())
    }

    /// The end of a client, and its server.
    fn open_client<M: Medium>(
        &self,
        medium: &M,
        line: &[u8],
        options: &Options,
    ) -> io::Result<(End<M::Wire>, EntityId)> {
        let (opened, peer) = medium.connect(line, options)?;
        M::restrict_to_peer(&opened.wire, peer)?;
        let server = entity(server_discriminator(opened.port), host_of(peer));
        let place = self.place(client_discriminator(opened.port), options);
        let end = End::open::<M>(opened, options, &place)?;
        end.endpoint.locate(server, peer);
        Ok((end, server))
    }

    fn place(&self, discriminator: u64, options: &Options) -> Place {
        let ip = |v4: usize, v6: usize| match options.family {
            Family::V4 => v4,
            Family::V6 => v6,
        };
        Place {
            discriminator,
            packet_len: match self.medium {
                MediumKind::Udp => engine_setup::packet_len_for_family(1472, options),
                // Ethernet's 1500 octets less the header of IP.
                MediumKind::RawIp => ip(1480, 1460),
                MediumKind::Ethernet => ETHER_PACKET_MAX,
            },
            packet_max: self.packet_max(),
            shared_address: self.medium != MediumKind::Udp,
        }
    }

    fn packet_max(&self) -> usize {
        match self.medium {
            MediumKind::Udp => wire_udp::UDP_PAYLOAD_MAX,
            MediumKind::RawIp => wire_ip::PAYLOAD_MAX,
            MediumKind::Ethernet => ETHER_PACKET_MAX,
        }
    }
}

/// The discriminator of the entity behind a port of a listener; 0 for a medium with ports of its own.
fn server_discriminator(port: u16) -> u64 {
    1 + u64::from(port) % DISCRIMINATORS
}

/// One of an entity that calls: a random one where an address is shared.
fn client_discriminator(port: u16) -> u64 {
    let number = if port == 0 { 0 } else { random_port() };
    1 + DISCRIMINATORS + u64::from(number) % DISCRIMINATORS
}

/// The client `number` places after `first`, among those that call.
fn nth_client(first: EntityId, number: u64) -> EntityId {
    let (discriminator, host) = (first.0 >> 32, first.0 as u32);
    let place = (discriminator - 1 - DISCRIMINATORS + number) % DISCRIMINATORS;
    entity(1 + DISCRIMINATORS + place, host)
}

struct VmtpListener<M: Medium> {
    ends: VecDeque<End<M::Wire>>,
    lines: Vec<String>,
}

impl<M: Medium> Listener for VmtpListener<M> {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of(&self.lines))
    }

    fn accept(&mut self, _deadline: Instant) -> CircuitResult {
        let end = self.ends.pop_front();
        let end = end.ok_or_else(|| {
            let text = "all circuits of this listener are accepted; listen again";
            io::Error::new(io::ErrorKind::TimedOut, text)
        })?;
        Ok(Box::new(ServerCircuit::new(end)))
    }
}
