//! xtp-multicast: one sender, many receivers in the listening process, each with a socket and a
//! thread of its own.
//!
//! The receiving circuit delivers only bytes that *all* receivers have: its own receiver does not
//! read past the slowest of the others. So a rate is that of the slowest receiver, and a delay ends
//! when the last one has the message. The sender first waits until all have joined.

use super::xtp_multicast_receiver::{GroupReceiverCircuit, OtherReceivers};
use super::xtp_multicast_sender::GroupSenderCircuit;
use crate::cells;
use crate::contract::{
    CircuitResult, Class, Listener, OptionHelp, Rendezvous, Transport, Unavailable,
};
use crate::engine_setup;
use crate::options::{Family, Options, invalid};
use crate::socket;
use crate::socket::source_address_to;
use crate::xtp::LONG_PACKET_LEN;
use crate::xtp::group::{GroupEndpointConfig, GroupWords, Receiver, Sender, example_group, words};
use crate::xtp::option_values::{OFF_ON, parse_choice};
use engine::Address;
use engine_xtp::ErrorControl;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

/// How long receivers may take to join.
const JOIN_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a dropped sender waits until all receivers have acknowledged.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Default and maximum number of receivers; each takes two threads.
const RECEIVERS_DEFAULT: usize = 8;
const RECEIVERS_MAX: usize = 100;

/// A receiver's window. 2 MiB: receivers share CPUs, and while one reads, data queue up at the
/// others. A status request is sent every quarter of it: each receiver replies to each, and a reply
/// that wakes the sender costs a receiver as much as copying 30 KiB.
const WINDOW: u64 = 2 << 20;

/// The send buffer. Two windows: the user writes one while the other is in flight.
const SEND_BUFFER_LEN: usize = 4 << 20;

const OWN: [OptionHelp; 3] = [
    OptionHelp {
        name: "acknowledged",
        values: "off|on",
        meaning: "whether a send returns when all receivers have acknowledged it; one message is on its way then",
    },
    OptionHelp {
        name: "receivers",
        values: "8|1..100",
        meaning: "receivers in the listening process, each with a socket and a thread",
    },
    OptionHelp {
        name: "group",
        values: "GROUP:PORT",
        meaning: "the group, for receivers in several processes; default: one at random for each circuit",
    },
];

/// The options of this transport, and those of every group.
static HELP: LazyLock<Vec<OptionHelp>> =
    LazyLock::new(|| OWN.iter().chain(words::HELP).copied().collect());

/// XTP to a group.
#[derive(Debug)]
pub struct XtpMulticast;

fn parse_receivers(own: &BTreeMap<String, String>) -> Result<usize, String> {
    let Some(text) = own.get("receivers") else {
        return Ok(RECEIVERS_DEFAULT);
    };
    let count = text.parse().ok();
    count
        .filter(|count| (1..=RECEIVERS_MAX).contains(count))
        .ok_or_else(|| format!("receivers of '{text}' are out of range, from 1 to {RECEIVERS_MAX}"))
}

/// The group that was asked for: one of the organization-local scope (RFC 2365, 239.192.0.0/14), where a client
/// of an agent reaches no group of the network's own protocols, and no reserved port.
fn parse_group(own: &BTreeMap<String, String>) -> Result<Option<SocketAddr>, String> {
    let Some(text) = own.get("group") else {
        return Ok(None);
    };
    let is_local = |group: &SocketAddrV4| {
        let [first, second, ..] = group.ip().octets();
        first == 239 && (192..196).contains(&second) && group.port() >= 1024
    };
    let group = text.parse().ok().filter(is_local);
    let group = group.map(|group| Some(SocketAddr::V4(group)));
    group.ok_or_else(|| {
        format!(
            "group of '{text}' is none of 239.192.0.0 to 239.195.255.255 with a port from 1024; give one such as \
             239.192.1.2:20000"
        )
    })
}

/// Whether a send waits for the acknowledgements of all receivers.
fn parse_acknowledged(own: &BTreeMap<String, String>) -> Result<bool, String> {
    let text = own.get("acknowledged").map_or("off", String::as_str);
    parse_choice("acknowledged", text, &OFF_ON)
}

/// The words of every group.
fn parse_words(own: &BTreeMap<String, String>) -> Result<GroupWords, String> {
    let mut own = own.clone();
    let has_group = own.remove("group").is_some();
    own.remove("receivers");
    let acknowledged = parse_acknowledged(&own)?;
    own.remove("acknowledged");
    let words = GroupWords::parse(&own)?;
    if acknowledged && !words.is_reliable() {
        return Err(
            "acknowledged=on waits for each member, and a group with buckets, error=none or a dialect of 3.x knows \
             none; leave one of them out"
                .to_owned(),
        );
    }
    if words.replicate && has_group {
        return Err(
            "replicate=on sends to the receivers of one process, and a group is for several; leave one of them out"
                .to_owned(),
        );
    }
    Ok(words)
}

/// What the options say.
struct Settings {
    receivers: usize,
    words: GroupWords,
    acknowledged: bool,
    endpoint: GroupEndpointConfig,
}

fn settings(options: &Options) -> io::Result<Settings> {
    let receivers = parse_receivers(&options.transport_specific).map_err(invalid)?;
    let words = parse_words(&options.transport_specific).map_err(invalid)?;
    let acknowledged = parse_acknowledged(&options.transport_specific).map_err(invalid)?;
    let mut settings = GroupEndpointConfig::for_members(receivers);
    settings.config.window = WINDOW;
    settings.config.status_interval_bytes = WINDOW / 4;
    settings.send_buffer_len = SEND_BUFFER_LEN;
    settings.cells = options.cells.clone();
    settings.only_from = options.only_from;
    if let Some(len) = options.buffers {
        settings.socket_buffer_len = len;
    }
    words.apply(&mut settings);
    Ok(Settings {
        receivers,
        words,
        acknowledged,
        endpoint: settings,
    })
}

impl Settings {
    /// Packets to a group on this host are long, unless their length is counted with: a packet costs its sender and each
    /// receiver the same at any length.
    fn lengthen_packets(&mut self, local: IpAddr) {
        let is_counted = self.words.rate_bytes_per_s.is_some() || self.endpoint.cells.is_some();
        if is_counted || self.words.version.is_v3() {
            return;
        }
        if let Some(len_max) = engine_setup::loopback_packet_len(local) {
            let len = &mut self.endpoint.config.packet_len;
            *len = LONG_PACKET_LEN.min(len_max).max(*len);
        }
    }
}

/// Receivers of one circuit, and the sender's entry of the rendezvous for them: a group, or the address of each.
fn join_all(
    settings: &Settings,
    group: Option<SocketAddr>,
    local: IpAddr,
) -> io::Result<(Vec<Receiver>, String)> {
    let group = group.unwrap_or_else(example_group);
    let join = |_| match settings.words.replicate {
        true => Receiver::listen(SocketAddr::new(local, 0), &settings.endpoint),
        false => Receiver::join(group, local, &settings.endpoint),
    };
    let receivers: Vec<Receiver> = (0..settings.receivers)
        .map(join)
        .collect::<io::Result<_>>()?;
    let to: Vec<String> = match settings.words.replicate {
        true => receivers
            .iter()
            .map(|receiver| receiver.local_addr().to_string())
            .collect(),
        false => vec![group.to_string()],
    };
    Ok((receivers, format!("{} {local}", to.join(","))))
}

impl Transport for XtpMulticast {
    fn name(&self) -> &'static str {
        "xtp-multicast"
    }

    fn summary(&self) -> &'static str {
        "XTP 4.0 to a multicast group, one sender to 8 receivers or receivers=N, at the pace of the slowest"
    }

    fn options(&self) -> &'static [OptionHelp] {
        &HELP
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        let is_known = |key: &String| HELP.iter().any(|option| option.name == key.as_str());
        if let Some(key) = own.keys().find(|key| !is_known(key)) {
            let names: Vec<&str> = HELP.iter().map(|option| option.name).collect();
            let names = names.join(", ");
            return Err(format!(
                "xtp-multicast has no option '{key}'; it has {names}"
            ));
        }
        parse_receivers(own).and(parse_group(own))?;
        parse_words(own).map(drop)
    }

    fn class(&self) -> Class {
        Class {
            stream: true,
            connects: false,
            half_close: false,
            checksum: "Internet, 16 bit, by UDP; XTP's own over headers",
            ..engine_setup::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        let class = self.class();
        let Ok(words) = parse_words(own) else {
            return class;
        };
        Class {
            reliable: words.is_reliable(),
            flow_control: words.error != Some(ErrorControl::None),
            ..class
        }
    }

    fn is_one_to_many(&self) -> bool {
        true
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        if options.family == Family::V6 && options.bind.is_none() {
            return Err(Unavailable {
                reason: "the loopback has no route for groups of IPv6".into(),
                remedy: "use IPv4, or hosts with a link between them".into(),
            });
        }
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let mut settings = settings(options)?;
        let local = options.bind_address();
        settings.lengthen_packets(local);
        let asked = parse_group(&options.transport_specific).map_err(invalid)?;
        let join = |_| join_all(&settings, asked, local);
        let joined: Vec<(Vec<Receiver>, String)> = (0..options.circuits.max(1))
            .map(join)
            .collect::<io::Result<_>>()?;
        let (mut groups, lines): (Vec<_>, Vec<_>) = joined.into_iter().unzip();
        groups.reverse();
        Ok(Box::new(GroupListener {
            groups,
            lines,
            words: settings.words,
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, index: usize, options: &Options) -> CircuitResult {
        let mut settings = settings(options)?;
        let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
        let unclear = || io::Error::new(io::ErrorKind::InvalidData, "the rendezvous is no group");
        let text = std::str::from_utf8(line).map_err(|_| unclear())?;
        let (to, listener) = text.split_once(' ').ok_or_else(unclear)?;
        let to = to
            .split(',')
            .map(|address| address.parse().map_err(|_| unclear()));
        let to: Vec<SocketAddr> = to.collect::<io::Result<_>>()?;
        // A listener elsewhere does not say where packets go, if this end knows.
        let asked = parse_group(&options.transport_specific).map_err(invalid)?;
        let first = asked.or(to.first().copied()).ok_or_else(unclear)?;
        let listener = listener.parse().map_err(|_| unclear())?;
        let local = match options.local_addresses.first() {
            Some(local) => *local,
            None => source_address_to(SocketAddr::new(listener, 0))?,
        };
        settings.lengthen_packets(local);
        let Settings {
            words,
            acknowledged,
            mut endpoint,
            ..
        } = settings;
        // Members answer from many addresses.
        endpoint.only_from = None;
        if words.replicate {
            endpoint.config.replicate = to.into_iter().map(Address::Socket).collect();
        }
        let mut sender = Sender::open(first, local, &endpoint)?;
        sender.wait_ready(JOIN_TIMEOUT)?;
        let mut effective = words.effective();
        if let Some(cells) = &options.cells {
            effective.insert("cells".into(), cells::name(cells).into());
        }
        if acknowledged {
            effective.insert("acknowledged".into(), "on".into());
        }
        Ok(Box::new(GroupSenderCircuit {
            sender,
            acknowledged,
            effective,
        }))
    }

    crate::usual_transport! {
        only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

struct GroupListener {
    /// The receivers of circuits not accepted yet, in reverse order.
    groups: Vec<Vec<Receiver>>,
    lines: Vec<String>,
    words: GroupWords,
}

impl Listener for GroupListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of(&self.lines))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let none = || io::Error::new(io::ErrorKind::TimedOut, "every group has its sender");
        let mut receivers = self.groups.pop().ok_or_else(none)?;
        let limit = deadline.saturating_duration_since(Instant::now());
        let first_receiver = receivers.swap_remove(0);
        let others = Arc::new(OtherReceivers::new(receivers.len()));
        for (index, receiver) in receivers.into_iter().enumerate() {
            let others = Arc::clone(&others);
            std::thread::Builder::new()
                .name("towpath-receiver".into())
                .spawn(move || others.receive(index, &receiver, limit))?;
        }
        let stream = first_receiver.accept(limit)?;
        Ok(Box::new(GroupReceiverCircuit {
            stream,
            first_receiver,
            others,
            received: 0,
            effective: self.words.effective(),
        }))
    }
}

pub(super) fn one_way_error(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_len(word: Option<(&str, &str)>, local: [u8; 4]) -> usize {
        let own = word.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let options = Options {
            transport_specific: own.into_iter().collect(),
            ..Options::default()
        };
        let mut settings = settings(&options).expect("good options");
        settings.lengthen_packets(IpAddr::from(local));
        settings.endpoint.config.packet_len
    }

    #[test]
    fn packets_are_long_on_the_loopback_unless_their_length_is_counted_with() {
        let short = GroupEndpointConfig::default().config.packet_len;
        assert!(short < 1500);
        assert_eq!(packet_len(None, [127, 0, 0, 1]), LONG_PACKET_LEN);
        for word in [("rate", "10mbit"), ("dialect", "3.6")] {
            assert_eq!(packet_len(Some(word), [127, 0, 0, 1]), short, "{word:?}");
        }
        // No address of this host (RFC 5737), so no path of the loopback either.
        assert_eq!(packet_len(None, [192, 0, 2, 1]), short);
    }
}
