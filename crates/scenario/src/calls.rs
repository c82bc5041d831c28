//! What transactions and layers of a scenario need.

use crate::callings::{self, calling};
use crate::cells::{self, CellsSpec};
use crate::engines::SpecError;
use crate::file::{ReplySpec, Scenario, TrafficSpec};
use crate::units::ByteCount;
use engine::{Layer, SplitMix64};
use layer_halves::Halves;
use sim::{Calling, Distribution, Network, Receivers, Reply, Service, Traffic};
use std::rc::Rc;
use toml::Spanned;

/// The longest packet of a layer: its length has 16 bits.
const PACKET_MAX: usize = 65_535;

/// Protocols of transactions, and octets of their longest message.
const CALLING: [(&str, u64); 2] = [("call", 1 << 20), ("vmtp", 4 << 20)];

/// Gives each station its layer; its random choices follow from `seed`.
/// Errors: a layer that is not known, or does not fit.
pub(crate) fn set_layers(
    network: &mut Network,
    scenario: &Scenario,
    seed: u64,
) -> Result<(), SpecError> {
    let is_atm = cells::is_atm(scenario);
    let mut first = 0;
    for spec in &scenario.station {
        let stations = first..first + spec.count as usize;
        first = stations.end;
        for station in stations {
            let own = SplitMix64::at(seed, 0x3000_0000 + station as u64);
            let set = match (&spec.layer, &spec.cells) {
                (Some(name), _) => (name.span(), network.set_layer(station, halves(name, own)?)),
                (None, Some(cells)) => {
                    let make = make_cells(cells, is_atm, own)?;
                    (cells.span(), network.set_layer(station, make))
                }
                (None, None) => continue,
            };
            set.1.map_err(|misfit| (set.0, misfit.to_string()))?;
        }
    }
    Ok(())
}

/// Makes a layer at a station's first start, which is number 0, and after each crash.
type MakeLayer = Rc<dyn Fn(u64) -> Box<dyn Layer>>;

/// Layer `halves`.
fn halves(name: &Spanned<String>, own: u64) -> Result<MakeLayer, SpecError> {
    if name.get_ref() != "halves" {
        let refusal = format!("no layer {:?}; use halves, or leave it out", name.get_ref());
        return Err((name.span(), refusal));
    }
    // Another number after each start: halves of before must not be taken for others.
    let first_number = move |start: u64| SplitMix64::at(own, start) as u32;
    Ok(Rc::new(move |start| {
        Box::new(Halves::new(PACKET_MAX, first_number(start)))
    }))
}

/// Cells, with other numbers after each start.
fn make_cells(spec: &Spanned<CellsSpec>, is_atm: bool, own: u64) -> Result<MakeLayer, SpecError> {
    let cells = spec.get_ref().clone();
    let make = move |start| cells::layer(&cells, is_atm, SplitMix64::at(own, start));
    make(0).map_err(|refusal| (spec.span(), refusal))?;
    Ok(Rc::new(move |start| {
        make(start).unwrap_or_else(|_| unreachable!("it was made before"))
    }))
}

/// Clients of a pattern, at most.
const CLIENTS_MAX: u64 = 10_000;

/// Who calls in a pattern, and how calls are answered.
/// Errors: a reply that is not known, a number of clients out of range, clients whose messages are limited twice.
pub(crate) fn service(spec: &TrafficSpec) -> Result<Service, SpecError> {
    let clients = spec.clients.as_ref();
    if let Some(clients) = clients {
        let number = *clients.get_ref();
        if !(1..=CLIENTS_MAX).contains(&number) {
            let refusal = format!("{number} clients; a pattern has 1 to {CLIENTS_MAX}");
            return Err((clients.span(), refusal));
        }
        if spec.outstanding.is_some() {
            let refusal =
                "each client has one message outstanding; leave out clients or outstanding";
            return Err((clients.span(), refusal.to_owned()));
        }
    }
    Ok(Service {
        reply: reply(spec)?,
        time_ps: spec.service.as_ref().map_or(0, |time| time.get_ref().0),
        clients: clients.map(|clients| *clients.get_ref()),
        calling: calling(spec)?,
        retries: callings::retries(spec)?,
    })
}

fn reply(spec: &TrafficSpec) -> Result<Reply, SpecError> {
    let Some(reply) = &spec.reply else {
        return Ok(Reply::Empty);
    };
    match reply.get_ref() {
        ReplySpec::Bytes(ByteCount(0)) => Ok(Reply::Empty),
        ReplySpec::Bytes(bytes) => Ok(Reply::Bytes(bytes.0)),
        ReplySpec::Word(word) => match word.as_str() {
            "empty" => Ok(Reply::Empty),
            "same" => Ok(Reply::SameLength),
            other => Err((
                reply.span(),
                format!("no reply {other:?}; use empty or same, or a number of bytes"),
            )),
        },
    }
}

/// Checks that senders and receivers of a pattern understand each other.
/// Errors: the first that do not: layers that differ, a call to a station without transactions or to a group,
/// messages longer than a call carries, replies where there are no calls.
pub(crate) fn check_traffic(
    scenario: &Scenario,
    spec: &TrafficSpec,
    traffic: &Traffic,
) -> Result<(), SpecError> {
    if let Some(calls) = check_peers(scenario, spec, traffic)? {
        callings::check(scenario, spec, traffic, calls.0)?;
        return check_calls(spec, traffic, calls);
    }
    check_datagrams(scenario, spec, traffic)?;
    let given = [
        ("a reply", spec.reply.as_ref().map(toml::Spanned::span)),
        ("a service", spec.service.as_ref().map(toml::Spanned::span)),
        ("clients", spec.clients.as_ref().map(toml::Spanned::span)),
        ("a stream", spec.stream.as_ref().map(toml::Spanned::span)),
        (
            "a station to forward to",
            spec.forward.as_ref().map(toml::Spanned::span),
        ),
        (
            "replies to collect",
            spec.collect.as_ref().map(toml::Spanned::span),
        ),
        (
            "a repetition",
            spec.repeat.as_ref().map(toml::Spanned::span),
        ),
        ("tries", spec.tries.as_ref().map(toml::Spanned::span)),
        ("a spacing", spec.spacing.as_ref().map(toml::Spanned::span)),
        ("a repair", spec.repair.as_ref().map(toml::Spanned::span)),
        (
            "a group of some stations",
            matches!(traffic.receivers, Receivers::Group(_)).then(|| spec.to.span()),
        ),
    ];
    for (what, span) in given {
        if let Some(span) = span {
            return Err((span, format!("only calls have {what}; leave it out")));
        }
    }
    Ok(())
}

/// Checks that all stations of a pattern have the same layer and half; the protocol of transactions
/// that they call with, and its longest message.
fn check_peers(
    scenario: &Scenario,
    spec: &TrafficSpec,
    traffic: &Traffic,
) -> Result<Option<(&'static str, u64)>, SpecError> {
    let receivers = match &traffic.receivers {
        Receivers::One(stations) | Receivers::Group(stations) => stations.clone(),
        Receivers::All => (0..scenario.station_count() as usize).collect(),
    };
    let last = match traffic.service.calling {
        Calling::Forwarded(to) => Some(to),
        _ => None,
    };
    let last = last.filter(|&to| (to as u64) < scenario.station_count());
    let called = receivers.iter().chain(&last);
    let mut stations = traffic.senders.iter().chain(called).map(|&station| {
        let spec = scenario.station_spec(station);
        let layer = spec.map(|spec| {
            let name = spec.layer.as_ref().map(|layer| layer.get_ref().as_str());
            let cells = spec.cells.as_ref().map(|cells| cells.get_ref());
            (name, cells.map(CellsSpec::of_both_ends))
        });
        let protocol = spec.map(|spec| spec.engine.protocol.get_ref().as_str());
        let mut calling = CALLING.into_iter();
        let calls = calling.find(|(name, _)| protocol == Some(*name));
        (station, layer, calls)
    });
    let Some((first, layer, calls)) = stations.next() else {
        return Ok(None);
    };
    for (other, other_layer, other_calls) in stations {
        if layer != other_layer {
            let refusal =
                format!("stations {first} and {other} have different layers; give both the same");
            return Err((spec.to.span(), refusal));
        }
        if calls != other_calls {
            let refusal = format!(
                "one of stations {first} and {other} has calls and one circuits, or calls of another \
                 protocol; give both the same protocol"
            );
            return Err((spec.to.span(), refusal));
        }
    }
    Ok(calls)
}

/// Checks that datagrams are no longer than UDP has them.
fn check_datagrams(
    scenario: &Scenario,
    spec: &TrafficSpec,
    traffic: &Traffic,
) -> Result<(), SpecError> {
    let mut senders = traffic.senders.iter();
    let is_udp = senders.any(|&station| {
        let spec = scenario.station_spec(station);
        spec.is_some_and(|spec| spec.engine.protocol.get_ref() == "udp")
    });
    match traffic.length {
        Distribution::Fixed(max) | Distribution::Uniform { max, .. }
            if is_udp && max > engine_udp::MESSAGE_MAX =>
        {
            let most = engine_udp::MESSAGE_MAX;
            let refusal = format!("a message of {max} B is longer than udp carries: {most} B");
            Err((spec.from.span(), refusal))
        }
        _ => Ok(()),
    }
}

fn check_calls(
    spec: &TrafficSpec,
    traffic: &Traffic,
    (protocol, message_max): (&str, u64),
) -> Result<(), SpecError> {
    match traffic.length {
        Distribution::Fixed(max) | Distribution::Uniform { max, .. } if max > message_max => {
            let mib = message_max >> 20;
            let refusal =
                format!("a message of {max} B is longer than {protocol} carries: {mib} MiB");
            Err((spec.from.span(), refusal))
        }
        _ => check_reply(spec, traffic, (protocol, message_max)),
    }
}

fn check_reply(
    spec: &TrafficSpec,
    traffic: &Traffic,
    (protocol, message_max): (&str, u64),
) -> Result<(), SpecError> {
    match (&spec.reply, traffic.service.reply) {
        (Some(reply), Reply::Bytes(len)) if len > message_max => {
            let mib = message_max >> 20;
            let refusal =
                format!("a reply of {len} B is longer than {protocol} carries: {mib} MiB");
            Err((reply.span(), refusal))
        }
        _ => Ok(()),
    }
}
