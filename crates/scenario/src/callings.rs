//! How the calls of a pattern hang together: streams, requests that are passed on, groups.

use crate::engines::SpecError;
use crate::file::{Scenario, TrafficSpec};
use sim::{Calling, Distribution, Receivers, Reply, Traffic};
use std::ops::Range;

/// Calls of a stream in flight, at most, and of a run: as many as an endpoint of VMTP takes.
const RUN_MAX: u64 = 64;

/// Octets of the longest message to a group, and of its replies: a packet group (RFC 1045 section 2.4).
const GROUP_MESSAGE_MAX: u64 = 16 << 10;

/// How the calls of a pattern hang together.
///
/// # Errors
///
/// Two ways at once, or a value out of range.
pub(crate) fn calling(spec: &TrafficSpec) -> Result<Calling, SpecError> {
    let given = [
        spec.stream.as_ref().map(|value| ("stream", value.span())),
        spec.forward.as_ref().map(|value| ("forward", value.span())),
        spec.collect.as_ref().map(|value| ("collect", value.span())),
    ];
    let mut given = given.into_iter().flatten();
    if let (Some((first, _)), Some((second, span))) = (given.next(), given.next()) {
        let refusal = format!("{first} and {second} exclude each other; leave one out");
        return Err((span, refusal));
    }
    if let Some(run) = &spec.stream {
        return stream(spec, *run.get_ref(), run.span());
    }
    if let Some(to) = &spec.forward {
        return Ok(Calling::Forwarded(*to.get_ref()));
    }
    match (&spec.collect, &spec.replies) {
        (Some(time), replies) => Ok(Calling::Collected {
            time_ps: time.get_ref().0,
            replies: replies.as_ref().map(|replies| (*replies.get_ref()).max(1)),
        }),
        (None, Some(replies)) => {
            let refusal = "replies is for calls that collect them; give collect, or leave it out";
            Err((replies.span(), refusal.to_owned()))
        }
        (None, None) => Ok(Calling::Single),
    }
}

fn stream(spec: &TrafficSpec, run: u64, span: Range<usize>) -> Result<Calling, SpecError> {
    if !(1..=RUN_MAX).contains(&run) {
        let refusal = format!("a run of {run} calls; a stream has runs of 1 to {RUN_MAX}");
        return Err((span, refusal));
    }
    let clients = spec.clients.as_ref().map(|clients| *clients.get_ref());
    let in_flight = clients.or(spec.outstanding);
    if in_flight.is_none_or(|calls| calls > RUN_MAX) {
        let refusal =
            format!("a stream has {RUN_MAX} calls in flight at most; give outstanding or clients");
        return Err((span, refusal));
    }
    Ok(Calling::Stream(run))
}

/// Checks that `protocol` has what the pattern asks for, and its stations too.
///
/// # Errors
///
/// A protocol without it, a stream to a group, a station that cannot be passed on to, replies that are
/// collected from one station, messages that no group takes.
pub(crate) fn check(
    scenario: &Scenario,
    spec: &TrafficSpec,
    traffic: &Traffic,
    protocol: &str,
) -> Result<(), SpecError> {
    let is_group = !matches!(traffic.receivers, Receivers::One(_));
    if protocol != "vmtp" && is_group {
        let refusal = format!("{protocol} has no groups; give to numbers of stations");
        return Err((spec.to.span(), refusal));
    }
    let option = [
        spec.stream.as_ref().map(|value| ("streams", value.span())),
        spec.forward
            .as_ref()
            .map(|value| ("forwarding", value.span())),
        spec.collect.as_ref().map(|value| ("groups", value.span())),
    ];
    let option = option.into_iter().flatten().next();
    if let Some((what, span)) = option.clone().filter(|_| protocol != "vmtp") {
        return Err((span, format!("{protocol} has no {what}; use vmtp")));
    }
    match (traffic.service.calling, option) {
        (Calling::Stream(_) | Calling::Forwarded(_), Some((what, span))) if is_group => {
            let refusal = format!("there is no {what} of calls to a group; leave it out");
            Err((span, refusal))
        }
        (Calling::Forwarded(to), Some((_, span))) => check_forward(scenario, traffic, to, span),
        (Calling::Collected { .. }, Some((_, span))) if !is_group => {
            let refusal = "one station replies once; collect is for to = \"all\" or a group";
            Err((span, refusal.to_owned()))
        }
        _ if is_group => check_group(spec, traffic),
        _ => Ok(()),
    }
}

/// A request is passed on to a station that does not call.
fn check_forward(
    scenario: &Scenario,
    traffic: &Traffic,
    to: usize,
    span: Range<usize>,
) -> Result<(), SpecError> {
    let count = scenario.station_count();
    let refusal = if to as u64 >= count {
        format!("no station {to}; there are 0 to {}", count - 1)
    } else if traffic.senders.contains(&to) {
        format!("station {to} calls; forward to one that does not")
    } else {
        return Ok(());
    };
    Err((span, refusal))
}

fn check_group(spec: &TrafficSpec, traffic: &Traffic) -> Result<(), SpecError> {
    let (Distribution::Fixed(longest)
    | Distribution::Uniform { max: longest, .. }
    | Distribution::Exponential(longest)) = traffic.length;
    let reply = match traffic.service.reply {
        Reply::Bytes(len) => len,
        Reply::Empty | Reply::SameLength => 0,
    };
    let given = match &spec.reply {
        Some(given) if reply > GROUP_MESSAGE_MAX => Some((given.span(), "reply", reply)),
        _ => (longest > GROUP_MESSAGE_MAX).then(|| (spec.to.span(), "message", longest)),
    };
    match given {
        None => Ok(()),
        Some((span, what, len)) => {
            let kib = GROUP_MESSAGE_MAX >> 10;
            let refusal =
                format!("a {what} of {len} B is longer than calls to a group carry: {kib} KiB");
            Err((span, refusal))
        }
    }
}
