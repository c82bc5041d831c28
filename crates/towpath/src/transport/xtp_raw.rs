//! xtp-rawip and xtp-ether: XTP 4.0 without UDP, directly over IP and over Ethernet.
//!
//! Byte streams, like `xtp`. Endpoints on one address receive each other's packets and select their
//! own by XTP's keys and ports; on the IPv4 loopback each takes its own address. Raw IP has no
//! checksum over user data, so XTP's is on by default there; an Ethernet frame has its FCS.

use crate::connection_info;
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Rendezvous, Transport, Unavailable,
};
use crate::engine_circuit;
use crate::engine_setup::{self, EngineSetup, Introspection};
use crate::medium::{ETHER_PACKET_MAX, EtherMedium, IpMedium, LLC};
use crate::options::{Family, Options, invalid};
use crate::xtp::EndpointConfig;
use engine::Framing;
use engine_xtp::{Config, Xtp as Engine};
use std::collections::BTreeMap;
use std::io;
use std::sync::LazyLock;
use wire_ether::Encapsulation;
use wire_ip::IpWire;

/// Raw IP with XTP's protocol number (IANA).
pub(crate) const IP: IpMedium = IpMedium { protocol: 36 };

/// Ethernet with XTP's EtherType.
pub(crate) const ETHERNET: EtherMedium = EtherMedium { ethertype: 0x817d };

/// Octets of a full packet: Ethernet's 1500 less 20 for the IPv4 header.
const V4_PACKET_LEN: usize = 1480;

/// Octets of a full packet: 1500 less 40 for the IPv6 header.
const V6_PACKET_LEN: usize = 1460;

/// Options of what is beside UDP: its segmentation, its shortcut; and an address in place of the port, by which ends on one
/// host know their packets here.
const OF_UDP: [&str; 4] = ["address", "segmentation", "shortcut", "splice"];

/// The options of `xtp-ether`.
static ETHER_OPTIONS: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let words = EndpointConfig::HELP.iter().copied();
    let words = words.filter(|word| !OF_UDP.contains(&word.name));
    let own = |word: OptionHelp| match word.name {
        "checksum" => OptionHelp {
            meaning: "XTP's own checksum over user bytes, besides the frame's",
            ..word
        },
        "packet" => OptionHelp {
            meaning: "octets of a full packet, 128 to 1500; 1500 if not given",
            ..word
        },
        _ => word,
    };
    let bypass = OptionHelp {
        name: "bypass",
        values: "off|on",
        meaning: "whether frames go to the device past its queueing discipline",
    };
    let llc = OptionHelp {
        name: LLC,
        values: "off|on",
        meaning: "whether frames have a length and LLC with SNAP (IEEE 802.3, RFC 1042) instead of an EtherType",
    };
    words.map(own).chain([bypass, llc]).collect()
});

/// The options of `xtp-rawip`: XTP's, without those for UDP.
static IP_OPTIONS: LazyLock<Vec<OptionHelp>> = LazyLock::new(|| {
    let words = EndpointConfig::HELP.iter().copied();
    let words = words.filter(|word| !OF_UDP.contains(&word.name));
    let own = |word: OptionHelp| match word.name {
        "checksum" => OptionHelp {
            values: "on|off",
            meaning: "XTP's own checksum over user bytes, which nothing else sums",
            ..word
        },
        "packet" => OptionHelp {
            meaning: "octets of a full packet, 128 to 65475; what an Ethernet frame holds if not \
                      given",
            ..word
        },
        _ => word,
    };
    words.map(own).collect()
});

/// XTP over raw IP.
#[derive(Debug)]
pub struct RawIp;

impl Transport for RawIp {
    fn name(&self) -> &'static str {
        "xtp-rawip"
    }

    fn summary(&self) -> &'static str {
        "XTP 4.0 straight over IP (protocol 36) by raw sockets, a byte stream"
    }

    fn options(&self) -> &'static [OptionHelp] {
        &IP_OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        ip_config(Family::V4, own).map(|_| ())
    }

    fn class(&self) -> Class {
        Class {
            stream: true,
            checksum: "Internet, 16 bit, by XTP",
            offload: "none",
            ..engine_setup::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(settings) = ip_config(Family::V4, own) else {
            return class;
        };
        class_with_config(class, &settings)
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        check_ip(&IP, options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = ip_config(options.family, &options.transport_specific).map_err(invalid)?;
        engine_circuit::listen(&IP, options, |port| setup(&settings, port))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let settings = ip_config(options.family, &options.transport_specific).map_err(invalid)?;
        engine_circuit::connect_again(&IP, (rendezvous, index), options, |port| {
            setup(&settings, port)
        })
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

/// XTP over Ethernet.
#[derive(Debug)]
pub struct Ethernet;

impl Transport for Ethernet {
    fn name(&self) -> &'static str {
        "xtp-ether"
    }

    fn summary(&self) -> &'static str {
        "XTP 4.0 in Ethernet frames (type 0x817D) by rings shared with the kernel, a byte stream"
    }

    fn options(&self) -> &'static [OptionHelp] {
        &ETHER_OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        ether_config(own).map(|_| ())
    }

    fn class(&self) -> Class {
        Class {
            checksum: "the frame's, 32 bit, where there is a wire; XTP's own over headers, and \
                       over data if asked",
            offload: "rings of frames shared with the kernel",
            ..RawIp.class()
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(settings) = ether_config(own) else {
            return class;
        };
        Class {
            checksum: class.checksum,
            ..class_with_config(class, &settings)
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        check_ether(&ETHERNET, options)
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let settings = ether_config(&options.transport_specific).map_err(invalid)?;
        engine_circuit::listen(&ETHERNET, options, |port| setup(&settings, port))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let settings = ether_config(&options.transport_specific).map_err(invalid)?;
        engine_circuit::connect_again(&ETHERNET, (rendezvous, index), options, |port| {
            setup(&settings, port)
        })
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

/// Whether this host can run a transport on raw IP. Errors: what is missing, and the remedy.
pub(crate) fn check_ip(medium: &IpMedium, options: &Options) -> Result<(), Unavailable> {
    let probe = IpWire::bind(options.bind_address(), medium.protocol);
    probe.map(drop).map_err(|error| Unavailable {
        reason: format!("no raw IP socket: {}", error_cause(&error)),
        remedy: "run as root, or give the program the capability cap_net_raw".into(),
    })
}

/// Whether this host can run a transport on Ethernet. Errors: what is missing, and the remedy.
pub(crate) fn check_ether(medium: &EtherMedium, options: &Options) -> Result<(), Unavailable> {
    let found = EtherMedium::interface(options).map_err(|error| match &options.interface {
        None => Unavailable {
            reason: "no network interface is named".into(),
            remedy: "name one with --interface, for example lo".into(),
        },
        Some(_) => Unavailable {
            reason: error.to_string(),
            remedy: "name another with --interface".into(),
        },
    });
    let probe = found.and_then(|_| {
        medium.open_wire(options).map_err(|error| Unavailable {
            reason: format!("no packet socket: {}", error_cause(&error)),
            remedy: "run as root, or give the program the capability cap_net_raw".into(),
        })
    });
    probe.map(drop)
}

/// `class`, as changed by `settings`.
fn class_with_config(class: Class, settings: &EndpointConfig) -> Class {
    Class {
        reliable: settings.is_reliable(),
        congestion: settings.congestion_class(),
        checksum: match settings.config.checksum {
            true => class.checksum,
            false => "Internet, 16 bit, by XTP over headers alone",
        },
        ..class
    }
}

/// An engine that shares its address with others, identified by `port`.
fn setup(settings: &EndpointConfig, port: u16) -> EngineSetup<Engine> {
    let config = Config {
        port,
        shared_address: true,
        ..settings.config(Framing::Stream)
    };
    let mut effective = settings.effective();
    let checksum = match settings.config.checksum {
        true => "on: XTP sums the data",
        false => "off: XTP sums headers alone",
    };
    effective.insert("checksum".into(), checksum.into());
    EngineSetup {
        ends_by_handshake: false,
        effective,
        engine: Engine::new(config),
        send_buffer_len: settings.send_buffer_len,
        use_segmentation: false,
        splice: None,
        empty_message_error: None,
        introspection: Introspection::from_config(settings),
        buffer_posting: settings.buffer_posting(),
        connection_info: connection_info::of_xtp,
        zero_copy: false,
    }
}

/// `base` changed by options, for packets of up to `packet_max` octets.
fn parse_options(
    base: EndpointConfig,
    own: &BTreeMap<String, String>,
    packet_max: usize,
) -> Result<EndpointConfig, String> {
    if let Some(name) = OF_UDP.iter().find(|name| own.contains_key(**name)) {
        return Err(format!(
            "there is no option {name} here: only over UDP is there one; leave it out, or take xtp"
        ));
    }
    let settings = base.with_options(own)?;
    let len = settings.config.packet_len;
    if len > packet_max {
        return Err(format!(
            "packet={len} is not possible; give bytes from 128 to {packet_max}"
        ));
    }
    Ok(settings)
}

fn ip_config(family: Family, own: &BTreeMap<String, String>) -> Result<EndpointConfig, String> {
    let settings = default_ip_config(family == Family::V4);
    parse_options(settings, own, wire_ip::PAYLOAD_MAX)
}

/// The defaults on raw IP: XTP sums user data, which nothing else does.
pub(crate) fn default_ip_config(is_v4: bool) -> EndpointConfig {
    let mut settings = EndpointConfig::default();
    settings.config.checksum = true;
    settings.config.packet_len = match is_v4 {
        true => V4_PACKET_LEN,
        false => V6_PACKET_LEN,
    };
    settings
}

/// The defaults on Ethernet, whose frames hold packets of `packet_max` octets.
pub(crate) fn default_ether_config(packet_max: usize) -> EndpointConfig {
    let mut settings = EndpointConfig::default();
    settings.config.packet_len = packet_max;
    settings
}

fn ether_config(own: &BTreeMap<String, String>) -> Result<EndpointConfig, String> {
    let mut own = own.clone();
    let mut switch = |name: &str| match own.remove(name).as_deref() {
        None | Some("off") => Ok(false),
        Some("on") => Ok(true),
        Some(value) => Err(format!("{name}={value} is not possible; choose off, on")),
    };
    switch("bypass")?;
    let packet_max = match switch(LLC)? {
        true => ETHER_PACKET_MAX - Encapsulation::Llc.overhead(),
        false => ETHER_PACKET_MAX,
    };
    parse_options(default_ether_config(packet_max), &own, packet_max)
}

/// The cause of an error, without the remedy that follows it.
fn error_cause(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "the right to raw sockets (CAP_NET_RAW) is missing".into()
        }
        _ => error.to_string(),
    }
}
