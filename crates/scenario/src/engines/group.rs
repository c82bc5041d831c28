//! XTP 4.0 to groups.

use super::{ERRORS, EngineSpec, Fault, choice, duration, limit, packet_len};
use crate::units::Time;
use core::time::Duration;
use engine::Framing;
use engine_xtp::group::{Buckets, Config, Reliability};

/// The configuration of an endpoint of groups with the options of `spec`. Sender and receivers have
/// their part of it each.
pub(super) fn config(spec: &EngineSpec, seed: u64) -> Result<Config, Fault> {
    let at = |message: String| (spec.protocol.span(), message);
    let default = Config::default();
    let packet_len = packet_len(spec.packet.map_or(1500, |octets| octets.0)).map_err(at)?;
    let span = |time: Option<Time>, usual: Duration| time.map_or(usual, duration);
    let burst = spec.burst.map_or(8 * packet_len as u64, |bytes| bytes.0);
    let count = |count: Option<u64>, usual: usize| count.map_or(usual, |count| count as usize);
    Ok(Config {
        packet_len,
        window: spec.window.map_or(default.window, |bytes| bytes.0.max(1)),
        checksum: spec.checksum.unwrap_or(default.checksum),
        framing: Framing::Messages,
        reliability: reliability(spec)?,
        error: choice(&spec.error, default.error, "error control", &ERRORS)?,
        fastnak: spec.fastnak.unwrap_or(default.fastnak),
        members_min: count(spec.members, default.members_min),
        members_keep: count(spec.members_keep, default.members_keep),
        answer_to: spec.answer_to_group.unwrap_or(false).then_some(sim::GROUP),
        slot: span(spec.slot, default.slot),
        damping: spec.damping.unwrap_or(default.damping),
        rate: spec.rate.map(|rate| limit(rate, burst)),
        status_every: spec
            .status_every
            .map_or(default.status_every, |bytes| bytes.0.max(1)),
        status_delay: span(spec.status_delay, default.status_delay),
        wait_initial: span(spec.wait_initial, default.wait_initial),
        wait_min: span(spec.wait_min, default.wait_min),
        wait_max: span(spec.wait_max, default.wait_max),
        retries_max: spec.retries.unwrap_or(default.retries_max),
        keep_alive: span(spec.keep_alive, default.keep_alive),
        seed,
        ..default
    })
}

/// Status requests, and lost answers, at most: buckets there are of all of them.
const BUCKETS_MAX: u64 = 64;

fn reliability(spec: &EngineSpec) -> Result<Reliability, Fault> {
    let usual = Buckets::default();
    let number = |name: &str, count: Option<u64>, usual: u32, least: u64| match count {
        None => Ok(usual),
        Some(count) if (least..=BUCKETS_MAX).contains(&count) => Ok(count as u32),
        Some(count) => Err((
            spec.protocol.span(),
            format!("{name} of {count} is out of range; use {least} to {BUCKETS_MAX}"),
        )),
    };
    let buckets = Reliability::Buckets(Buckets {
        requests: number("requests", spec.requests, usual.requests, 1)?,
        tolerated: number("tolerated", spec.tolerated, usual.tolerated, 0)?,
    });
    let choices = [
        ("counted", Reliability::Counted),
        ("buckets", buckets),
        ("none", Reliability::None),
    ];
    choice(
        &spec.reliability,
        Reliability::Counted,
        "reliability",
        &choices,
    )
}
