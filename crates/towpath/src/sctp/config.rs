//! Configuration of an SCTP endpoint, and the options it is made from.

use crate::contract::OptionHelp;
use crate::engine_setup;
use crate::xtp::option_values::{OFF_ON, parse_bytes, parse_choice, parse_count, parse_time};
use engine::{Framing, Reliability};
use engine_sctp::pdu::KeyId;
use engine_sctp::{Authentication, CongestionChoice, Scheduler, SctpConfig, SharedKey};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Configuration of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointConfig {
    /// The engine's configuration.
    pub config: SctpConfig,
    /// Bytes of a circuit's send buffer; data stay in it until they are acknowledged. The largest
    /// message is half of it.
    pub send_buffer_len: usize,
    /// Whether to use the kernel's segmentation and coalescing of UDP, where available.
    pub segmentation: bool,
}

/// Default send buffer: that of `xtp`.
const SEND_BUFFER_LEN: usize = 512 << 10;

/// Valid packet lengths, octets. The state cookie of 100 octets must fit with what is around it.
const PACKET_LENS: RangeInclusive<usize> = 512..=wire_udp::UDP_PAYLOAD_MAX;

/// Valid lengths of buffers, bytes: two full packets at least.
const QUEUE_LENS: RangeInclusive<usize> = 4096..=64 << 20;

/// The longest delay of an acknowledgement that RFC 9260 section 6.2 allows.
const SACK_DELAY_MAX: Duration = Duration::from_millis(500);

/// Shortest times of timers: they limit the load that a race can put on an agent's host.
const TIMER_MIN: Duration = Duration::from_millis(1);

const FRAMINGS: [(&str, Framing); 2] =
    [("messages", Framing::Messages), ("stream", Framing::Stream)];

const PATH_MTUS: [(&str, bool); 2] = [("fixed", false), ("probe", true)];

const fn option(name: &'static str, values: &'static str, meaning: &'static str) -> OptionHelp {
    OptionHelp {
        name,
        values,
        meaning,
    }
}

/// Makes what a word of `auth` stands for.
type MakeAuthentication = fn() -> Option<Authentication>;

/// The words of `auth`.
const AUTHENTICATIONS: [(&str, MakeAuthentication); 3] = [
    ("off", || None),
    ("on", || Some(Authentication::default())),
    ("all", || Some(Authentication::of_everything())),
];

const ADDRESSES: [(&str, bool); 2] = [("fixed", false), ("dynamic", true)];

/// The number of the key of option `key`.
const KEY: KeyId = KeyId(1);

/// All options.
const HELP: &[OptionHelp] = &[
    option(
        "adaptation",
        "COUNT",
        "a number that the peer's user is told; none if not given",
    ),
    option(
        "addresses",
        "fixed|dynamic",
        "addresses of either end may come and go (RFC 5061); authenticated: auth=on",
    ),
    option(
        "auth",
        "off|on|all",
        "chunks are authenticated (RFC 4895): none, those about addresses, all that may be",
    ),
    option("bundle", "on|off", "whether messages share packets"),
    option(
        "checksum",
        "on|off",
        "CRC-32c of each packet; off by agreement of both ends (RFC 9653)",
    ),
    option(
        "congestion",
        "rfc9260|off|newreno|ledbat|bbr",
        "congestion control of each path",
    ),
    option(
        "framing",
        "messages|stream",
        "messages, or one message without end, whose parts share packets",
    ),
    option(
        "heartbeat",
        "TIME",
        "silence before a path is probed; 0s for never, 30s if not given",
    ),
    option(
        "interleave",
        "off|on",
        "long messages of several streams take turns (I-DATA), if both ends say so",
    ),
    option(
        "key",
        "TEXT",
        "the key that both ends authenticate with; the empty one if not given",
    ),
    option(
        "life",
        "TIME",
        "messages that were not received for so long are given up; never if not given",
    ),
    option(
        "packet",
        "BYTES",
        "octets of a full packet, 512 to 65507; if not given, 1472, or in races on the loopback as many as it \
         carries",
    ),
    option(
        "path_mtu",
        "probe|fixed",
        "packets grow from 1200 octets to what probes find that the path carries (RFC 8899); or all may \
         have the length of packet=",
    ),
    option(
        "queue",
        "BYTES",
        "send buffer and receive window of a circuit, such as 64k; 512k if not given",
    ),
    option(
        "retries",
        "PATH/ASSOC/INIT",
        "timeouts that a path, an association and its opening survive; 5/10/8 if not given",
    ),
    option(
        "rto",
        "TIME",
        "retransmission timeout before an RTT was measured; 1s if not given",
    ),
    option(
        "rto_max",
        "TIME",
        "longest retransmission timeout; 60s if not given",
    ),
    option(
        "rto_min",
        "TIME",
        "shortest retransmission timeout; 200ms if not given (the RFC's is 1s)",
    ),
    option(
        "sack_delay",
        "TIME",
        "longest delay of an acknowledgement, up to 500ms; 20ms if not given",
    ),
    option(
        "scheduler",
        "fcfs|rr|rr-packet|priority|fair|wfq",
        "whose message is next: as sent, streams in turn, lowest stream, equal shares, by weight",
    ),
    option(
        "segmentation",
        "on|off",
        "segmentation offload: many packets per system call",
    ),
    option(
        "streams",
        "COUNT",
        "streams that messages take in turn, 1 to 65535; 1 if not given",
    ),
    option("unordered", "off|on", "messages may overtake each other"),
];

impl Default for EndpointConfig {
    fn default() -> EndpointConfig {
        EndpointConfig {
            config: SctpConfig {
                probes_path_mtu: true,
                ..SctpConfig::default()
            },
            send_buffer_len: SEND_BUFFER_LEN,
            segmentation: true,
        }
    }
}

impl EndpointConfig {
    /// The options that [`parse`](EndpointConfig::parse) accepts.
    pub const HELP: &'static [OptionHelp] = HELP;

    /// A configuration from options.
    ///
    /// # Errors
    ///
    /// A sentence that names the option and its valid values.
    pub fn parse(own: &BTreeMap<String, String>) -> Result<EndpointConfig, String> {
        EndpointConfig::default().with_options(own)
    }

    /// This configuration, changed by options. Errors are those of [`parse`](EndpointConfig::parse).
    pub fn with_options(
        mut self,
        own: &BTreeMap<String, String>,
    ) -> Result<EndpointConfig, String> {
        for (name, value) in own {
            self.set(name, value)?;
        }
        let rto = &self.config.rto;
        if rto.min > rto.max {
            return Err("rto_min is above rto_max; lower one or raise the other".to_owned());
        }
        if own.contains_key("key") && self.config.authentication.is_none() {
            return Err("key needs authentication; give auth=on or auth=all too".to_owned());
        }
        if self.config.dynamic_addresses && self.config.authentication.is_none() {
            let text =
                "addresses=dynamic needs authentication (RFC 5061); give auth=on or auth=all too";
            return Err(text.to_owned());
        }
        let config = &mut self.config;
        let has_choice = config.spread
            || config.unordered
            || config.interleave
            || config.scheduler != Scheduler::Fcfs
            || config.reliability != Reliability::Full;
        if config.framing == Framing::Stream && has_choice {
            return Err(
                "framing=stream is one message of one stream; leave streams, unordered, \
                 interleave, scheduler and life out"
                    .to_owned(),
            );
        }
        config.send_buffer = self.send_buffer_len as u64 / 4 * 3;
        Ok(self)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match name {
            "adaptation" => config.adaptation = Some(parse_count(name, value, 0..=u32::MAX)?),
            "addresses" => config.dynamic_addresses = parse_choice(name, value, &ADDRESSES)?,
            "auth" => config.authentication = parse_choice(name, value, &AUTHENTICATIONS)?(),
            // Behind auth, in the order of names.
            "key" => {
                if let Some(authentication) = &mut config.authentication {
                    let key = SharedKey::new(value.as_bytes());
                    authentication.keys.insert(KEY, key);
                    authentication.active_key = KEY;
                }
            }
            "bundle" => config.bundle = parse_choice(name, value, &OFF_ON)?,
            "checksum" => config.checksum = parse_choice(name, value, &OFF_ON)?,
            "segmentation" => self.segmentation = parse_choice(name, value, &OFF_ON)?,
            "unordered" => config.unordered = parse_choice(name, value, &OFF_ON)?,
            "interleave" => config.interleave = parse_choice(name, value, &OFF_ON)?,
            "scheduler" => {
                config.scheduler = Scheduler::from_name(value).ok_or_else(|| {
                    let names = Scheduler::names();
                    format!("scheduler={value} is not possible; choose {names}")
                })?;
            }
            "framing" => config.framing = parse_choice(name, value, &FRAMINGS)?,
            "packet" => config.packet_len = parse_bytes(name, value, PACKET_LENS)?,
            "path_mtu" => config.probes_path_mtu = parse_choice(name, value, &PATH_MTUS)?,
            "queue" => {
                let len = parse_bytes(name, value, QUEUE_LENS)?;
                self.send_buffer_len = len;
                config.receive_buffer = len as u64;
            }
            "streams" => {
                let streams = parse_count(name, value, 1..=u16::MAX)?;
                config.spread = streams > 1;
                config.outbound_streams = config.outbound_streams.max(streams);
                config.inbound_streams = config.inbound_streams.max(streams);
                if config.spread {
                    config.outbound_streams = streams;
                }
            }
            "congestion" => {
                config.congestion = CongestionChoice::from_name(value).ok_or_else(|| {
                    let names = CongestionChoice::names();
                    format!("congestion={value} is not possible; choose {names}")
                })?;
            }
            "retries" => set_retries(config, value)?,
            _ => return self.set_time(name, value),
        }
        Ok(())
    }

    fn set_time(&mut self, name: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        let at_least = |time: Duration| {
            (time >= TIMER_MIN)
                .then_some(time)
                .ok_or_else(|| format!("{name}={value} is too short; give at least 1ms"))
        };
        match name {
            "rto" => config.rto.initial = at_least(parse_time(name, value)?)?,
            "rto_min" => config.rto.min = at_least(parse_time(name, value)?)?,
            "rto_max" => config.rto.max = at_least(parse_time(name, value)?)?,
            "life" => {
                let life = at_least(parse_time(name, value)?)?;
                config.reliability = Reliability::Lifetime(life);
            }
            "heartbeat" => {
                let time = parse_time(name, value)?;
                let is_off = time.is_zero();
                config.heartbeat_interval = if is_off { time } else { at_least(time)? };
            }
            "sack_delay" => {
                let time = parse_time(name, value)?;
                if time > SACK_DELAY_MAX {
                    let text = format!("{name}={value} is too long; give at most 500ms");
                    return Err(text);
                }
                config.sack_delay = time;
            }
            _ => {
                let known: Vec<&str> = HELP.iter().map(|help| help.name).collect();
                let known = known.join(", ");
                return Err(format!("sctp has no option {name}; it has {known}"));
            }
        }
        Ok(())
    }

    /// The engine's configuration, with a seed and a secret of its own.
    pub(crate) fn config(&self) -> SctpConfig {
        SctpConfig {
            seed: engine_setup::random_seed(),
            secret: engine_setup::random_secret(),
            ..self.config.clone()
        }
    }

    /// Whether messages arrive in the order in which they were sent.
    pub(crate) fn is_ordered(&self) -> bool {
        !self.config.spread && !self.config.unordered
    }

    /// Whether every message arrives while the association lives.
    pub(crate) fn is_reliable(&self) -> bool {
        self.config.reliability == Reliability::Full
    }

    /// The congestion control, as `towpath transports` shows it; empty for none.
    pub(crate) fn congestion_class(&self) -> &'static str {
        match self.config.congestion.name() {
            "rfc9260" => "RFC 9260",
            "newreno" => "NewReno",
            "ledbat" => "LEDBAT-like",
            "bbr" => "BBR",
            _ => "",
        }
    }

    /// What `auth` was set to.
    fn authentication_word(&self) -> &'static str {
        match &self.config.authentication {
            None => "off",
            Some(authentication) if authentication.chunks.is_empty() => "on",
            Some(_) => "all",
        }
    }

    /// Effective options, as shown in results.
    pub(crate) fn effective(&self) -> BTreeMap<String, String> {
        let config = &self.config;
        let word = |on: bool| if on { "on" } else { "off" }.to_owned();
        let framings = FRAMINGS.iter();
        let framing = framings.clone().find(|(_, one)| *one == config.framing);
        let streams = if config.spread {
            config.outbound_streams
        } else {
            1
        };
        let ms = |time: Duration| format!("{} ms", time.as_millis());
        let life = match config.reliability {
            Reliability::Lifetime(life) => ms(life),
            _ => "for ever".to_owned(),
        };
        BTreeMap::from([
            ("auth".into(), self.authentication_word().to_owned()),
            ("bundle".into(), word(config.bundle)),
            ("checksum".into(), word(config.checksum)),
            ("congestion".into(), config.congestion.name().into()),
            (
                "framing".into(),
                framing.map_or("?", |(name, _)| name).into(),
            ),
            ("interleave".into(), word(config.interleave)),
            ("life".into(), life),
            ("packet".into(), config.packet_len.to_string()),
            (
                "path_mtu".into(),
                if config.probes_path_mtu {
                    "probe"
                } else {
                    "fixed"
                }
                .into(),
            ),
            ("rto_min".into(), ms(config.rto.min)),
            ("sack_delay".into(), ms(config.sack_delay)),
            ("scheduler".into(), config.scheduler.name().into()),
            ("send_store".into(), self.send_buffer_len.to_string()),
            ("streams".into(), streams.to_string()),
            ("unordered".into(), word(config.unordered)),
            ("window".into(), config.receive_buffer.to_string()),
        ])
    }
}

/// Three numbers of retries.
fn set_retries(config: &mut SctpConfig, value: &str) -> Result<(), String> {
    let numbers: Option<Vec<u32>> = value.split('/').map(|word| word.parse().ok()).collect();
    let valid = numbers.filter(|numbers| numbers.iter().all(|count| (1..=100).contains(count)));
    let Some(&[path, association, init]) = valid.as_deref() else {
        return Err(format!(
            "retries={value} is not possible; give three numbers from 1 to 100, such as 5/10/8"
        ));
    };
    config.path_retries = path;
    config.association_retries = association;
    config.init_retries = init;
    Ok(())
}

#[cfg(test)]
mod tests;
