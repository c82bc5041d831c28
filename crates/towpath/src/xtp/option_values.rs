//! The XTP options: names, help texts, and parsers of their values.

use crate::contract::OptionHelp;
use engine_xtp::pdu::{NamedAddress, Service, Version};
use engine_xtp::{Congestion, ErrorControl, FlowControl, RateLimit, StatusRequestKind};
use std::ops::RangeInclusive;
use std::time::Duration;

const fn option(name: &'static str, values: &'static str, meaning: &'static str) -> OptionHelp {
    OptionHelp {
        name,
        values,
        meaning,
    }
}

/// All options. Those from the XTP studies keep their names.
pub(crate) const HELP: &[OptionHelp] = &[
    option(
        "accept_early",
        "on|off",
        "whether circuits of peers are accepted before their address is known not to be forged",
    ),
    option(
        "address",
        "direct:HEX|iso:HEX|xns:NET.HOST.SOCKET",
        "an address of another format that circuits call and listeners answer to, in place of the Internet's; the same \
         at both ends",
    ),
    option(
        "ask",
        "received|delivered",
        "status requests ask for data received, or for data delivered to the user",
    ),
    option(
        "burst",
        "BYTES",
        "burst of the rate limit, bytes; 8 full packets if not given",
    ),
    option(
        "checksum",
        "off|on",
        "XTP's own checksum over user data, besides UDP's",
    ),
    option(
        "congestion",
        "off|newreno|ledbat|bbr",
        "congestion control, by loss, delay or a model of the path; XTP itself has none",
    ),
    option(
        "ctimeout",
        "TIME",
        "how long an opening or a synchronizing handshake may last, such as 30s",
    ),
    option(
        "ctimer",
        "TIME",
        "keepalive: silence of the peer before a status request, from 1ms; 0s for never",
    ),
    option(
        "dialect",
        "4.0|3.6|3.5|3.3",
        "XTP version; the same at both ends",
    ),
    option(
        "error",
        "selective|gbn|none",
        "retransmission after a loss: selective, go-back-N, or none",
    ),
    option(
        "fastnak",
        "off|on",
        "whether the receiver reports each gap at once",
    ),
    option(
        "flow",
        "allocation|reservation|off",
        "flow control: a window beyond what the user read, posted receive buffers, or none",
    ),
    option(
        "gateway",
        "ADDR:PORT",
        "the router (intermediate system) that circuits pass through; needs dialect=3.6",
    ),
    option(
        "input_rate",
        "RATE",
        "rate limit, bits per second, imposed on the peer; that of rate if not given",
    ),
    option(
        "iqmax",
        "BYTES",
        "receive buffer: most bytes kept for a user that does not read",
    ),
    option(
        "managers",
        "ADDR/ADDR",
        "hosts that may ask for contexts, routes and counters; needs a dialect of 3.x",
    ),
    option(
        "nulldata",
        "off|on",
        "whether status requests without data are sent as empty DATA packets",
    ),
    option(
        "oqmax",
        "BYTES",
        "most unacknowledged bytes kept for retransmission",
    ),
    option(
        "open",
        "explicit|implicit",
        "whether the first data wait for the answer to FIRST, or leave with it and save a round trip; without data \
         FIRST leaves after a millisecond",
    ),
    option(
        "output_rate",
        "RATE",
        "rate limit, bits per second, of what is sent; that of rate if not given",
    ),
    option(
        "packet",
        "BYTES",
        "octets of a full packet, 128 to 65507; if not given, 1472, or 15360 on the loopback in a byte stream with splice=on",
    ),
    option(
        "pairs",
        "needed|fixed",
        "resend pairs in control packets: as needed, or always sixteen; fixed needs a dialect of 3.x",
    ),
    option(
        "queue",
        "BYTES|study",
        "send buffer and receive window of a circuit, such as 32k; the study's are 16k",
    ),
    option("ralloc", "BYTES", "receive window"),
    option(
        "rate",
        "RATE",
        "rate limit, bits per second sent and accepted, such as 100mbit",
    ),
    option(
        "retrycount",
        "COUNT",
        "status requests without a reply before a circuit is aborted",
    ),
    option(
        "routes",
        "off|on",
        "whether neighbours assign routes to circuits; on needs a dialect of 3.x",
    ),
    option("rtt", "TIME", "initial RTT, until one is measured"),
    option(
        "segmentation",
        "on|off",
        "segmentation offload: many packets per system call",
    ),
    option(
        "service",
        "stream|isochronous|bulk",
        "reliable stream; isochronous: at a rate, unreliable; bulk: into posted receive buffers",
    ),
    option(
        "shortcut",
        "off|on|DIRECTORY",
        "shared memory instead of UDP to endpoints of this host; across network namespaces by a directory that \
         both see",
    ),
    option(
        "sort",
        "COUNT",
        "priority among the circuits of an endpoint: the lowest is served first",
    ),
    option(
        "splice",
        "on|off",
        "whether first transmissions leave by reference instead of being copied, where a circuit's two ends are on \
         one host; captures may show later bytes",
    ),
    option(
        "talloc",
        "BYTES",
        "initial send window, until the receiver advertises its own",
    ),
    option(
        "wtimer",
        "TIME",
        "initial WTIMER: wait for a reply until an RTT is measured, from 100us",
    ),
];

pub(crate) const OFF_ON: [(&str, bool); 2] = [("off", false), ("on", true)];

pub(crate) const STATUS_REQUEST_KINDS: [(&str, StatusRequestKind); 2] = [
    ("received", StatusRequestKind::Received),
    ("delivered", StatusRequestKind::Delivered),
];

pub(crate) const VERSIONS: [(&str, Version); 4] = [
    ("4.0", Version::V40),
    ("3.6", Version::V36),
    ("3.5", Version::V35),
    ("3.3", Version::V33),
];

pub(crate) const ERROR_CONTROLS: [(&str, ErrorControl); 3] = [
    ("selective", ErrorControl::Selective),
    ("gbn", ErrorControl::GoBackN),
    ("none", ErrorControl::None),
];

pub(crate) const FLOW_CONTROLS: [(&str, FlowControl); 3] = [
    ("allocation", FlowControl::Allocation),
    ("reservation", FlowControl::Reservation),
    ("off", FlowControl::Off),
];

/// Whether control packets always have sixteen resend pairs.
pub(crate) const PAIRS: [(&str, bool); 2] = [("needed", false), ("fixed", true)];

/// Whether data wait for the answer to FIRST.
pub(crate) const OPENINGS: [(&str, bool); 2] = [("explicit", true), ("implicit", false)];

pub(crate) const SERVICES: [(&str, Service); 3] = [
    ("stream", Service::Stream),
    ("isochronous", Service::Isochronous),
    ("bulk", Service::Bulk),
];

/// The congestion control that `value` names.
pub(crate) fn parse_congestion(value: &str) -> Result<Congestion, String> {
    Congestion::from_name(value).ok_or_else(|| {
        let names = Congestion::names();
        format!("congestion={value} is not possible; choose {names}")
    })
}

pub(crate) fn parse_choice<T: Copy>(
    name: &str,
    value: &str,
    choices: &[(&str, T)],
) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| *word == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        format!(
            "{name}={value} is not possible; choose {}",
            words.join(", ")
        )
    })
}

/// A number of bytes.
pub(crate) fn parse_bytes(
    name: &str,
    value: &str,
    range: RangeInclusive<usize>,
) -> Result<usize, String> {
    let len = quantity::bytes(value).ok();
    let len = len.and_then(|len| usize::try_from(len).ok());
    len.filter(|len| range.contains(len)).ok_or_else(|| {
        format!(
            "{name}={value} is not possible; give bytes from {} to {}, such as 32k",
            range.start(),
            range.end()
        )
    })
}

pub(crate) fn parse_count<T>(name: &str, value: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let number = value.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| {
        format!(
            "{name}={value} is not possible; give a number from {} to {}",
            range.start(),
            range.end()
        )
    })
}

/// An address of another format than the Internet's.
pub(crate) fn parse_address(name: &str, value: &str) -> Result<NamedAddress, String> {
    NamedAddress::parse(value).ok_or_else(|| {
        format!(
            "{name}={value} is not possible; give direct: and up to 32 octets in hexadecimal digits, iso: and up to 20, or \
             xns:NETWORK.HOST.SOCKET, such as direct:0a0b or xns:1.020000000002.451"
        )
    })
}

/// The address of a router.
pub(crate) fn parse_gateway(name: &str, value: &str) -> Result<engine::Address, String> {
    let address = value.parse::<std::net::SocketAddr>();
    address.map(engine::Address::Socket).map_err(|_| {
        format!("{name}={value} is not possible; give ADDR:PORT, such as 10.0.0.1:9000")
    })
}

/// Addresses of hosts with `/` between them.
pub(crate) fn parse_hosts(name: &str, value: &str) -> Result<Vec<std::net::IpAddr>, String> {
    let hosts: Result<Vec<_>, _> = value.split('/').map(str::parse).collect();
    hosts.map_err(|_| {
        format!("{name}={value} is not possible; give addresses, such as 10.0.0.5/10.0.0.6")
    })
}

/// The longest time that can be set.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// A time.
pub(crate) fn parse_time(name: &str, value: &str) -> Result<Duration, String> {
    let time = quantity::time_ps(value).ok();
    let time = time.map(|ps| Duration::from_nanos(ps / 1000));
    time.filter(|time| *time <= TIME_MAX).ok_or_else(|| {
        format!("{name}={value} is not possible; give us, ms or s up to an hour, such as 500ms")
    })
}

/// The interval of a repeated packet, at least `minimum` to limit its load.
pub(crate) fn parse_interval(
    name: &str,
    value: &str,
    minimum: Duration,
) -> Result<Duration, String> {
    let time = parse_time(name, value)?;
    if time < minimum {
        let least_us = minimum.as_micros();
        return Err(format!(
            "{name}={value} is too short; give at least {least_us}us"
        ));
    }
    Ok(time)
}

/// Bits a second as bytes a second.
pub(crate) fn parse_rate(name: &str, value: &str) -> Result<u32, String> {
    let bits = quantity::rate_bps(value).ok();
    let bytes = bits.and_then(|bits| u32::try_from(bits / 8).ok());
    bytes
        .filter(|bytes| (1..u32::MAX).contains(bytes))
        .ok_or_else(|| {
            format!("{name}={value} is not possible; give 8bit to 34gbit, such as 100mbit")
        })
}

/// The limit of a rate, with a burst of eight full packets where none is given.
pub(crate) fn rate_limit(rate: u32, burst: Option<u32>, packet_len: usize) -> RateLimit {
    RateLimit {
        rate_bytes_per_s: rate,
        burst_bytes: burst.unwrap_or(8 * packet_len as u32),
    }
}
