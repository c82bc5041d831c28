//! sctp and sctp-rawip: SCTP over UDP (RFC 6951) and straight over IP.
//!
//! The engine is crate `engine-sctp`, run by `driver` in the user's thread. A short message leaves at
//! once if nothing is in flight; otherwise it is coalesced for about a millisecond or until a flush, and
//! shares a packet. Each listener binds a UDP port of its own instead of 9899, so that many of them run
//! on one host. Where several links join the ends, `sctp` has a path over each. On raw IP endpoints of one address receive each other's packets and select their own by
//! SCTP's ports; on the IPv4 loopback each takes its own address.

use crate::connection_info;
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Rendezvous, Transport, Unavailable,
};
use crate::engine_circuit;
use crate::engine_setup::{self, EngineSetup, Introspection};
use crate::medium::{IpMedium, UdpMedium};
use crate::options::{Family, Options, invalid};
use crate::sctp::EndpointConfig;
use crate::socket;
use crate::udp_links::UdpLinksMedium;
use engine::Framing;
use engine_sctp::numbers::Port;
use engine_sctp::{LocalAddresses, Sctp as Engine, SctpConfig};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::LazyLock;
use wire_ip::IpWire;

/// Raw IP with SCTP's protocol number (IANA).
pub(crate) const IP: IpMedium = IpMedium { protocol: 132 };

/// Octets of a full packet on raw IP: Ethernet's 1500 less 20 or 40 for the header.
const V4_PACKET_LEN: usize = 1480;
const V6_PACKET_LEN: usize = 1460;

const CLASS: Class = Class {
    half_close: false,
    checksum: "CRC-32c by SCTP; Internet, 16 bit, by UDP",
    congestion: "RFC 9260",
    ..engine_setup::CLASS
};

/// `class`, as changed by options.
fn class_with(class: Class, settings: &EndpointConfig) -> Class {
    Class {
        reliable: settings.is_reliable(),
        ordered: settings.is_ordered(),
        stream: settings.config.framing == Framing::Stream,
        congestion: settings.congestion_class(),
        ..class
    }
}

/// SCTP over UDP.
#[derive(Debug)]
pub struct Sctp;

impl Transport for Sctp {
    fn name(&self) -> &'static str {
        "sctp"
    }

    fn summary(&self) -> &'static str {
        "SCTP over segmented UDP (RFC 9260, RFC 6951), messages that share packets"
    }

    fn options(&self) -> &'static [OptionHelp] {
        EndpointConfig::HELP
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        EndpointConfig::parse(own).map(|_| ())
    }

    fn class(&self) -> Class {
        CLASS
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let Ok(settings) = EndpointConfig::parse(own) else {
            return CLASS;
        };
        let class = class_with(CLASS, &settings);
        Class {
            checksum: match settings.config.checksum {
                true => class.checksum,
                false => "Internet, 16 bit, by UDP",
            },
            offload: match settings.segmentation {
                true => class.offload,
                false => "",
            },
            ..class
        }
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = EndpointConfig::parse(&options.transport_specific).map_err(invalid)?;
        let host = Some(options.bind_address());
        let setup = |_| udp_setup(&with_long_packets(&settings, options, host), options);
        match has_several_links(options) {
            true => engine_circuit::listen(&UdpLinksMedium, options, setup),
            false => engine_circuit::listen(&UdpMedium, options, setup),
        }
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let host = socket::decode_address(line).ok().map(|peer| peer.ip());
        let mut settings = EndpointConfig::parse(&options.transport_specific).map_err(invalid)?;
        settings.config.connects_early = true;
        let to = (rendezvous, index);
        let setup = |_| udp_setup(&with_long_packets(&settings, options, host), options);
        match has_several_links(options) {
            true => engine_circuit::connect(&UdpLinksMedium, to, options, setup),
            false => engine_circuit::connect_again(&UdpMedium, to, options, setup),
        }
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max connect_all connect_to_many
    }
}

/// The options of `sctp-rawip`: without those for UDP.
static IP_OPTIONS: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let words = EndpointConfig::HELP.iter().copied();
    let words = words.filter(|word| word.name != "segmentation");
    let own = |word: OptionHelp| match word.name {
        "packet" => OptionHelp {
            meaning: "octets of a full packet, 512 to 65475; what an Ethernet frame holds if not \
                      given",
            ..word
        },
        _ => word,
    };
    words.map(own).collect()
});

/// SCTP over raw IP.
#[derive(Debug)]
pub struct SctpRawIp;

impl Transport for SctpRawIp {
    fn name(&self) -> &'static str {
        "sctp-rawip"
    }

    fn summary(&self) -> &'static str {
        "SCTP straight over IP (protocol 132) by raw sockets, messages that share packets"
    }

    fn options(&self) -> &'static [OptionHelp] {
        &IP_OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        ip_config(Family::V4, own).map(|_| ())
    }

    fn class(&self) -> Class {
        Class {
            checksum: "CRC-32c by SCTP",
            offload: "none",
            ..CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let Ok(settings) = ip_config(Family::V4, own) else {
            return self.class();
        };
        let class = class_with(self.class(), &settings);
        Class {
            checksum: match settings.config.checksum {
                true => class.checksum,
                false => "none",
            },
            ..class
        }
    }

    fn carries_empty(&self, _own: &BTreeMap<String, String>) -> bool {
        false
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        let probe = IpWire::bind(options.bind_address(), IP.protocol);
        probe.map(drop).map_err(|error| Unavailable {
            reason: match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    "no raw IP socket: the right to raw sockets (CAP_NET_RAW) is missing".into()
                }
                _ => format!("no raw IP socket: {error}"),
            },
            remedy: "run as root, or give the program the capability cap_net_raw".into(),
        })
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = ip_config(options.family, &options.transport_specific).map_err(invalid)?;
        engine_circuit::listen(&IP, options, |port| ip_setup(&settings, port))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let mut settings =
            ip_config(options.family, &options.transport_specific).map_err(invalid)?;
        settings.config.connects_early = true;
        engine_circuit::connect(&IP, (rendezvous, index), options, |port| {
            ip_setup(&settings, port)
        })
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered option_to_many message_max connect_all connect_to_many
    }
}

fn ip_config(family: Family, own: &BTreeMap<String, String>) -> Result<EndpointConfig, String> {
    if own.contains_key("segmentation") {
        return Err("there is no option segmentation here: the kernel segments UDP only".into());
    }
    let mut settings = EndpointConfig::default();
    settings.config.packet_len = match family {
        Family::V4 => V4_PACKET_LEN,
        Family::V6 => V6_PACKET_LEN,
    };
    let settings = settings.with_options(own)?;
    let (len, packet_max) = (settings.config.packet_len, wire_ip::PAYLOAD_MAX);
    if len > packet_max {
        return Err(format!(
            "packet={len} is not possible; give bytes from 512 to {packet_max}"
        ));
    }
    Ok(settings)
}

/// Full packets that a send buffer holds at least: fewer would leave sender and receiver waiting for each other.
const PACKETS_PER_BUFFER: usize = 8;

/// The settings of associations with `host`. On the loopback their packets may be as long as what that carries, as
/// TCP's are, unless `packet=` says otherwise. A socket is asked: once an endpoint, not for each association.
pub(crate) fn with_long_packets(
    settings: &EndpointConfig,
    options: &Options,
    host: Option<IpAddr>,
) -> EndpointConfig {
    let mut settings = settings.clone();
    if !options.transport_specific.contains_key("packet")
        && let Some(long) = host.and_then(engine_setup::loopback_packet_len)
    {
        let len = long.min(settings.send_buffer_len / PACKETS_PER_BUFFER) & !3;
        settings.config.packet_len = settings.config.packet_len.max(len);
    }
    settings
}

pub(crate) fn udp_setup(settings: &EndpointConfig, options: &Options) -> EngineSetup<Engine> {
    let config = settings.config();
    let packet_len = engine_setup::packet_len_for_family(config.packet_len, options);
    setup(
        settings,
        SctpConfig {
            packet_len,
            local_addresses: match has_several_links(options) {
                true => LocalAddresses::Internet(options.local_addresses.clone()),
                false => config.local_addresses,
            },
            ..config
        },
    )
}

/// Whether several links join the ends, each of which is a path then.
fn has_several_links(options: &Options) -> bool {
    options.local_addresses.len() > 1
}

/// An engine that shares its address with others, which have other ports.
fn ip_setup(settings: &EndpointConfig, port: u16) -> EngineSetup<Engine> {
    let config = SctpConfig {
        port: Port(port),
        peer_port: Port(port),
        shared_address: true,
        ..settings.config()
    };
    let settings = EndpointConfig {
        segmentation: false,
        ..settings.clone()
    };
    setup(&settings, config)
}

fn setup(settings: &EndpointConfig, config: SctpConfig) -> EngineSetup<Engine> {
    let empty = "sctp carries no empty messages; send at least one byte";
    let has_messages = config.framing == Framing::Messages;
    EngineSetup {
        ends_by_handshake: true,
        effective: settings.effective(),
        engine: Engine::new(config),
        send_buffer_len: settings.send_buffer_len,
        use_segmentation: settings.segmentation,
        splice: None,
        empty_message_error: has_messages.then_some(empty),
        introspection: Introspection::trace_only(),
        buffer_posting: None,
        connection_info: connection_info::of_sctp,
        zero_copy: false,
    }
}
