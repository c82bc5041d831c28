//! How the calls of a pattern hang together: streams, requests that are passed on, groups.

use crate::engines::SpecError;
use crate::file::{Scenario, StationsSpec, TrafficSpec};
use sim::{Calling, Distribution, Receivers, Reply, Retries, Traffic};
use std::ops::Range;
use toml::Spanned;

/// Calls of a stream in flight, at most, and of a run: as many as an endpoint of VMTP takes.
const RUN_MAX: u64 = 64;

/// Copies of a datagram, at most: RetransmitCount tells as many apart (RFC 1045 section 2.4).
const COPIES_MAX: u64 = 8;

/// Octets of the longest message to a group, and of its replies: a packet group (RFC 1045 section 2.4).
const GROUP_MESSAGE_MAX: u64 = 16 << 10;

/// How the calls of a pattern hang together. Errors: two ways at once, or a value out of range.
pub(crate) fn calling(spec: &TrafficSpec) -> Result<Calling, SpecError> {
    let given = [
        spec.stream.as_ref().map(|value| ("stream", value.span())),
        spec.forward.as_ref().map(|value| ("forward", value.span())),
        spec.collect.as_ref().map(|value| ("collect", value.span())),
        spec.repeat.as_ref().map(|value| ("repeat", value.span())),
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
    if let Some(copies) = &spec.repeat {
        return datagrams(spec, *copies.get_ref(), copies.span());
    }
    match (&spec.collect, &spec.replies) {
        (Some(time), replies) => Ok(Calling::Collected {
            time_ps: time.get_ref().0,
            replies: match replies {
                None => None,
                Some(replies) => Some(wanted_replies(spec, replies)?),
            },
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

/// Replies that settle a call: as many as are given, or those of all members.
fn wanted_replies(spec: &TrafficSpec, replies: &Spanned<u64>) -> Result<u64, SpecError> {
    match (*replies.get_ref(), spec.to.get_ref()) {
        (0, StationsSpec::Group { group }) => Ok(group.len() as u64),
        (0, StationsSpec::Members { members }) => Ok(*members as u64),
        (0, _) => {
            let refusal = "0 replies are those of all members; give to a group, or the replies";
            Err((replies.span(), refusal.to_owned()))
        }
        (replies, _) => Ok(replies),
    }
}

fn datagrams(spec: &TrafficSpec, copies: u64, span: Range<usize>) -> Result<Calling, SpecError> {
    if !(1..=COPIES_MAX).contains(&copies) {
        let refusal = format!("{copies} copies of a datagram; use 1 to {COPIES_MAX}");
        return Err((span, refusal));
    }
    let given = [
        spec.reply.as_ref().map(|value| ("a reply", value.span())),
        spec.tries.as_ref().map(|value| ("tries", value.span())),
        spec.repair.as_ref().map(|value| ("a repair", value.span())),
    ];
    match given.into_iter().flatten().next() {
        Some((what, span)) => Err((
            span,
            format!("datagrams have no {}; leave it out", bare(what)),
        )),
        None => Ok(Calling::Datagrams(copies as u8)),
    }
}

/// A word without its article.
fn bare(word: &str) -> &str {
    word.trim_start_matches("a ")
}

/// How often requests of a pattern are sent. Errors: a value out of range.
pub(crate) fn retries(spec: &TrafficSpec) -> Result<Retries, SpecError> {
    let tries = match &spec.tries {
        None => 0,
        Some(tries) => u8::try_from(*tries.get_ref())
            .ok()
            .filter(|&tries| tries > 0)
            .ok_or_else(|| {
                let refusal = format!("{} tries; use 1 to 255", tries.get_ref());
                (tries.span(), refusal)
            })?,
    };
    let spacing_us = match &spec.spacing {
        None => 0,
        Some(spacing) => u32::try_from(spacing.get_ref().0 / 1_000_000)
            .ok()
            .filter(|&us| us > 0)
            .ok_or_else(|| {
                let refusal = "a spacing out of range; use 1 us to an hour".to_owned();
                (spacing.span(), refusal)
            })?,
    };
    let no_repair = match &spec.repair {
        None => false,
        Some(word) => match word.get_ref().as_str() {
            "notify" => false,
            "timeout" => true,
            other => {
                let refusal = format!("no repair {other:?}; use notify or timeout");
                return Err((word.span(), refusal));
            }
        },
    };
    Ok(Retries {
        tries,
        spacing_us,
        no_repair,
    })
}

/// Checks that `protocol` has what the pattern asks for, and its stations too.
/// Errors: a protocol without it, a stream to a group, a station that cannot be passed on to, replies that are
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
        spec.repeat
            .as_ref()
            .map(|value| ("datagrams", value.span())),
        spec.tries.as_ref().map(|value| ("tries", value.span())),
        spec.spacing.as_ref().map(|value| ("spacing", value.span())),
        spec.repair.as_ref().map(|value| ("repair", value.span())),
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
