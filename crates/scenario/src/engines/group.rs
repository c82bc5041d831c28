//! XTP to groups.

use super::{ERRORS, EngineSpec, SpecError, choice, duration, packet_len, rate_limit};
use crate::units::SimTime;
use core::time::Duration;
use engine::Framing;
use engine_xtp::ErrorControl;
use engine_xtp::group::{BucketConfig, Config, Reliability};
use engine_xtp::pdu::Version;

/// The configuration of a group endpoint with the options of `spec`. Sender and receivers use their
/// part of it each.
pub(super) fn config(spec: &EngineSpec, seed: u64) -> Result<Config, SpecError> {
    let at = |message: String| (spec.protocol.span(), message);
    let default = Config::default();
    let packet_len = packet_len(spec.packet.map_or(1500, |octets| octets.0)).map_err(at)?;
    let span =
        |time: Option<SimTime>, default_value: Duration| time.map_or(default_value, duration);
    let burst = spec.burst.map_or(8 * packet_len as u64, |bytes| bytes.0);
    let count = |count: Option<u64>, default_value: usize| {
        count.map_or(default_value, |count| count as usize)
    };
    let version = version(spec)?;
    Ok(Config {
        version,
        packet_len,
        window: spec.window.map_or(default.window, |bytes| bytes.0.max(1)),
        checksum: spec.checksum.unwrap_or(default.checksum),
        framing: Framing::Messages,
        reliability: reliability(spec, version)?,
        error: choice(&spec.error, default.error, "error control", &ERRORS)?,
        fastnak: spec.fastnak.unwrap_or(default.fastnak),
        members_min: count(spec.members, default.members_min),
        members_keep: count(spec.members_keep, default.members_keep),
        answer_to: spec.answer_to_group.unwrap_or(false).then_some(sim::GROUP),
        slot: span(spec.slot, default.slot),
        damping: spec.damping.unwrap_or(default.damping),
        rate: spec.rate.map(|rate| rate_limit(rate, burst)),
        status_interval_bytes: spec
            .status_every
            .map_or(default.status_interval_bytes, |bytes| bytes.0.max(1)),
        status_delay: span(spec.status_delay, default.status_delay),
        wtimer_initial: span(spec.wait_initial, default.wtimer_initial),
        wtimer_min: span(spec.wait_min, default.wtimer_min),
        wtimer_max: span(spec.wait_max, default.wtimer_max),
        retries_max: spec.retries.unwrap_or(default.retries_max),
        keepalive: span(spec.keep_alive, default.keepalive),
        seed,
        secret: engine::Secret::from_seed(seed),
        ..default
    })
}

/// Limit of requests and of tolerated losses of the bucket algorithm.
const BUCKETS_MAX: u64 = 64;

/// The versions that have groups.
const VERSIONS: [(&str, Version); 3] = [
    ("4.0", Version::V40),
    ("3.6", Version::V36),
    ("3.5", Version::V35),
];

/// The version, with options that it has.
fn version(spec: &EngineSpec) -> Result<Version, SpecError> {
    let version = choice(&spec.dialect, Version::V40, "dialect", &VERSIONS)?;
    let error = choice(&spec.error, ErrorControl::GoBackN, "error control", &ERRORS)?;
    match &spec.error {
        Some(given) if version.is_v3() && error == ErrorControl::Selective => Err((
            given.span(),
            "3.6 and 3.5 go back in a group; leave out error, or use \"go-back-n\"".to_owned(),
        )),
        _ => Ok(version),
    }
}

fn reliability(spec: &EngineSpec, version: Version) -> Result<Reliability, SpecError> {
    let default_value = BucketConfig::default();
    let number = |name: &str, count: Option<u64>, default_value: u32, min: u64| match count {
        None => Ok(default_value),
        Some(count) if (min..=BUCKETS_MAX).contains(&count) => Ok(count as u32),
        Some(count) => Err((
            spec.protocol.span(),
            format!("{name} of {count} is out of range; use {min} to {BUCKETS_MAX}"),
        )),
    };
    let buckets = Reliability::Buckets(BucketConfig {
        requests: number("requests", spec.requests, default_value.requests, 1)?,
        tolerated: number("tolerated", spec.tolerated, default_value.tolerated, 0)?,
    });
    let choices = [
        ("counted", Reliability::Counted),
        ("buckets", buckets),
        ("none", Reliability::None),
    ];
    let default_value = if version.is_v3() {
        buckets
    } else {
        Reliability::Counted
    };
    let chosen = choice(&spec.reliability, default_value, "reliability", &choices)?;
    match &spec.reliability {
        Some(given) if version.is_v3() && chosen == Reliability::Counted => Err((
            given.span(),
            "3.6 and 3.5 know no members; leave out reliability, or use \"buckets\" or \"none\""
                .to_owned(),
        )),
        _ => Ok(chosen),
    }
}
