//! Settings as words: what they are called, and how their values are read.

use crate::contract::OptionHelp;
use engine_xtp::pdu::{Dialect, Service};
use engine_xtp::{Ask, Congestion, ErrorControl, RateLimit};
use std::ops::RangeInclusive;
use std::time::Duration;

const fn help(name: &'static str, values: &'static str, meaning: &'static str) -> OptionHelp {
    OptionHelp {
        name,
        values,
        meaning,
    }
}

/// All words. Those of the studies keep their names.
pub(super) const HELP: &[OptionHelp] = &[
    help(
        "ask",
        "received|delivered",
        "what status requests ask for: what arrived, or what the user took",
    ),
    help(
        "burst",
        "BYTES",
        "bytes sent at once under a rate; 8 full packets if not given",
    ),
    help(
        "checksum",
        "off|on",
        "XTP's own checksum over user bytes, besides UDP's",
    ),
    help(
        "congestion",
        "off|loss|delay|rate",
        "how the sender learns what a shared path takes; XTP itself has nothing",
    ),
    help(
        "ctimeout",
        "TIME",
        "how long a peer that does not answer is asked, such as 30s",
    ),
    help(
        "ctimer",
        "TIME",
        "silence after which a peer is asked whether it is there, from 1ms; 0s for never",
    ),
    help(
        "dialect",
        "4.0|3.6|3.5|3.3",
        "which revision; both ends the same",
    ),
    help(
        "error",
        "selective|gbn|none",
        "what is sent again after a loss: what is missing, all from there on, nothing",
    ),
    help(
        "fastnak",
        "off|on",
        "whether the receiver reports each gap at once",
    ),
    help(
        "gateway",
        "ADDR:PORT",
        "the intermediate system that circuits go through, and come from; dialect=3.6",
    ),
    help(
        "iqmax",
        "BYTES",
        "bytes kept for a user that does not take them",
    ),
    help(
        "nulldata",
        "off|on",
        "whether status requests without bytes travel as DATA without bytes",
    ),
    help(
        "oqmax",
        "BYTES",
        "bytes sent and kept to be sent again at most",
    ),
    help(
        "packet",
        "BYTES",
        "octets of a full packet, 128 to 65507; 1472 if not given",
    ),
    help(
        "queue",
        "BYTES|study",
        "send store and receive window of a circuit, such as 32k; the study's are 16k",
    ),
    help("ralloc", "BYTES", "receive window"),
    help(
        "rate",
        "RATE",
        "packets sent a second, and accepted, in bits: such as 100mbit",
    ),
    help(
        "retrycount",
        "COUNT",
        "status requests without an answer before a circuit is given up",
    ),
    help(
        "rtt",
        "TIME",
        "round trip taken for granted before one was measured",
    ),
    help(
        "segmentation",
        "on|off",
        "whether many packets pass through the kernel in one call",
    ),
    help(
        "service",
        "stream|isochronous|bulk",
        "what is asked for: all bytes, those in time at a rate, all into buffers posted for them",
    ),
    help(
        "sort",
        "COUNT",
        "priority among the circuits of an endpoint: the lowest is served first",
    ),
    help(
        "talloc",
        "BYTES",
        "what a sender may send before it heard of the receiver's window",
    ),
    help(
        "wtimer",
        "TIME",
        "wait for an answer before a round trip was measured, from 100us",
    ),
];

pub(super) const ON: [(&str, bool); 2] = [("off", false), ("on", true)];

pub(super) const ASK: [(&str, Ask); 2] =
    [("received", Ask::Received), ("delivered", Ask::Delivered)];

pub(super) const DIALECT: [(&str, Dialect); 4] = [
    ("4.0", Dialect::V40),
    ("3.6", Dialect::V36),
    ("3.5", Dialect::V35),
    ("3.3", Dialect::V33),
];

pub(super) const ERROR: [(&str, ErrorControl); 3] = [
    ("selective", ErrorControl::Selective),
    ("gbn", ErrorControl::GoBackN),
    ("none", ErrorControl::None),
];

pub(super) const SERVICE: [(&str, Service); 3] = [
    ("stream", Service::Stream),
    ("isochronous", Service::Isochronous),
    ("bulk", Service::Bulk),
];

pub(super) const CONGESTION: [(&str, Congestion); 4] = [
    ("off", Congestion::Off),
    ("loss", Congestion::Loss),
    ("delay", Congestion::Delay),
    ("rate", Congestion::Rate),
];

pub(super) fn choose<T: Copy>(name: &str, value: &str, choices: &[(&str, T)]) -> Result<T, String> {
    let found = choices.iter().find(|(word, _)| *word == value);
    found.map(|(_, choice)| *choice).ok_or_else(|| {
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        format!(
            "{name}={value} is not possible; choose {}",
            words.join(", ")
        )
    })
}

/// The digits of `value`, and the letters behind them.
fn split(value: &str) -> (Option<u64>, &str) {
    let digits = value.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    (digits.parse().ok(), &value[digits.len()..])
}

/// A number of bytes, with k or M for powers of 1024.
pub(super) fn bytes(
    name: &str,
    value: &str,
    range: RangeInclusive<usize>,
) -> Result<usize, String> {
    let (number, unit) = split(value);
    let factor = match unit {
        "" | "B" => Some(1),
        "k" | "K" | "KiB" => Some(1 << 10),
        "m" | "M" | "MiB" => Some(1 << 20),
        _ => None,
    };
    let len = number.zip(factor).and_then(|(n, f)| n.checked_mul(f));
    let len = len.and_then(|len| usize::try_from(len).ok());
    len.filter(|len| range.contains(len)).ok_or_else(|| {
        format!(
            "{name}={value} is not possible; give bytes from {} to {}, such as 32k",
            range.start(),
            range.end()
        )
    })
}

pub(super) fn count<T>(name: &str, value: &str, range: RangeInclusive<T>) -> Result<T, String>
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

/// The address of a neighbour.
pub(super) fn gateway(name: &str, value: &str) -> Result<engine::Address, String> {
    let address = value.parse::<std::net::SocketAddr>();
    address.map(engine::Address::Socket).map_err(|_| {
        format!("{name}={value} is not possible; give ADDR:PORT, such as 10.0.0.1:9000")
    })
}

/// The longest time that can be set.
const TIME_MAX: Duration = Duration::from_secs(3600);

/// A time in us, ms or s.
pub(super) fn time(name: &str, value: &str) -> Result<Duration, String> {
    let (number, unit) = split(value);
    let one_us = match unit {
        "us" => Some(1),
        "ms" => Some(1000),
        "s" => Some(1_000_000),
        _ => None,
    };
    let us = number.zip(one_us).and_then(|(n, f)| n.checked_mul(f));
    let time = us.map(Duration::from_micros);
    time.filter(|time| *time <= TIME_MAX).ok_or_else(|| {
        format!("{name}={value} is not possible; give us, ms or s up to an hour, such as 500ms")
    })
}

/// A time after which something is sent, again and again: not so short that it is all that is sent.
pub(super) fn interval(name: &str, value: &str, least: Duration) -> Result<Duration, String> {
    let time = time(name, value)?;
    if time < least {
        let least_us = least.as_micros();
        return Err(format!(
            "{name}={value} is too short; give at least {least_us}us"
        ));
    }
    Ok(time)
}

/// Bits a second as bytes a second.
pub(super) fn rate(name: &str, value: &str) -> Result<u32, String> {
    let (number, unit) = split(value);
    let factor = match unit {
        "bit" => Some(1),
        "kbit" => Some(1000),
        "mbit" => Some(1_000_000),
        "gbit" => Some(1_000_000_000),
        _ => None,
    };
    let bits = number.zip(factor).and_then(|(n, f)| n.checked_mul(f));
    let bytes = bits.and_then(|bits| u32::try_from(bits / 8).ok());
    bytes
        .filter(|bytes| (1..u32::MAX).contains(bytes))
        .ok_or_else(|| {
            format!("{name}={value} is not possible; give 8bit to 34gbit, such as 100mbit")
        })
}

/// A rate and a burst, which needs one.
pub(super) fn limit(
    rate: Option<u32>,
    burst: Option<u32>,
    packet_len: usize,
) -> Result<Option<RateLimit>, String> {
    match (rate, burst) {
        (None, Some(_)) => Err("burst needs a rate; add rate=100mbit or leave it out".to_owned()),
        (None, None) => Ok(None),
        (Some(rate_bytes_per_s), burst) => Ok(Some(RateLimit {
            rate_bytes_per_s,
            burst_bytes: burst.unwrap_or(8 * packet_len as u32),
        })),
    }
}
