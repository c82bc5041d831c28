//! Disturbances at certain times: crashes, partitions, flaps, periods of loss.

use crate::build::{FIRST_LIFE, fault_config};
use crate::engines::{self, SharedConfig, SpecError};
use crate::file::{FaultSpec, Scenario};
use crate::units::{Fraction, SimTime};
use engine::{KeyedStream, Purpose};
use link::LinkConfig;
use serde::Deserialize;
use sim::{Disturbance, Network, Node, PARTITIONS_MAX, Partition};
use toml::Spanned;

/// A disturbance, once or repeated.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DisturbanceSpec {
    /// `crash`: stations stop, lose their state and restart. `partition`: nothing passes between
    /// them and the others. `flap`: the same, repeated. `loss`: frames are lost, besides what
    /// `[faults]` has. `rings`: the shortcuts of these stations end, with what is in their rings, and
    /// none begin meanwhile.
    pub kind: Spanned<String>,
    /// Which stations; not for `loss`.
    #[serde(default)]
    pub stations: Vec<usize>,
    /// When it begins.
    pub at: SimTime,
    /// How long it lasts.
    pub lasts: SimTime,
    /// From one beginning to the next.
    pub every: Option<SimTime>,
    /// How often; once if not given.
    pub times: Option<u64>,
    /// `partition`, `flap`, `loss`: on this path; on all if not given.
    pub path: Option<usize>,
    /// `loss`: frames lost.
    pub loss: Option<Fraction>,
    /// `loss`: mean length of a burst of losses; independent losses if not given.
    pub loss_run: Option<f64>,
    /// `crash`: the first key that the restarted station chooses has the ten random bits of the first
    /// one of its earlier life, if its keys have no more (XTP 3.x). Otherwise once in 1,024 times.
    #[serde(default)]
    pub repeat_keys: bool,
}

/// Repetitions of one disturbance at most.
const TIMES_MAX: u64 = 10_000;

/// Schedules the disturbances of a scenario, and the end of its faults. `base` are the faults
/// of each path without disturbances; engines of restarted stations are passed through `wrap`.
///
/// # Errors
///
/// The first invalid value and its place in the file.
pub fn schedule_disturbances(
    network: &mut Network,
    scenario: &Scenario,
    (base, seed): (&[LinkConfig], u64),
    wrap: &dyn Fn(Node) -> Node,
) -> Result<(), SpecError> {
    let mut partitions = 0;
    for (index, spec) in scenario.disturbance.iter().enumerate() {
        validate(scenario, spec)?;
        for time in 0..spec.times.unwrap_or(1) {
            let from_ps = spec.at.0 + time * spec.every.map_or(0, |every| every.0);
            let span = (from_ps, from_ps + spec.lasts.0);
            match spec.kind.get_ref().as_str() {
                "crash" => {
                    let salt = (index as u64) << 32 | time;
                    schedule_crash(network, scenario, (spec, span), (seed, salt), wrap)?;
                }
                "loss" => schedule_loss(network, scenario, spec, span, base)?,
                "rings" => {
                    let stations = spec.stations.clone();
                    network.disturb(span.0, Disturbance::CutRings(stations.clone()));
                    network.disturb(span.1, Disturbance::AllowRings(stations));
                }
                _ => {
                    let stations = spec.stations.clone();
                    let cut = Partition {
                        number: partitions,
                        path: spec.path,
                    };
                    network.disturb(span.0, Disturbance::Partition(cut, stations.clone()));
                    network.disturb(span.1, Disturbance::Heal(cut, stations));
                }
            }
        }
        partitions += u32::from(matches!(spec.kind.get_ref().as_str(), "partition" | "flap"));
    }
    if let Some(until) = scenario.faults.and_then(|faults| faults.until) {
        for (path, base) in base.iter().enumerate() {
            let fault_free = LinkConfig {
                rate_bps: base.rate_bps,
                delay_ps: base.delay_ps,
                queue_bytes: base.queue_bytes,
                ..LinkConfig::default()
            };
            network.disturb(until.0, Disturbance::Faults(path, fault_free));
        }
    }
    Ok(())
}

fn validate(scenario: &Scenario, spec: &DisturbanceSpec) -> Result<(), SpecError> {
    let at = |text: String| Err((spec.kind.span(), text));
    let kind = spec.kind.get_ref().as_str();
    if !matches!(kind, "crash" | "partition" | "flap" | "loss" | "rings") {
        return at(format!(
            "no disturbance {kind:?}; use crash, partition, flap, loss or rings"
        ));
    }
    let count = scenario.station_count();
    if let Some(station) = spec.stations.iter().find(|&&at| at as u64 >= count) {
        return at(format!(
            "no station {station}; there are 0 to {}",
            count - 1
        ));
    }
    if kind == "crash" && spec.path.is_some() {
        return at("a crash takes no path: a station stops with all of its addresses".to_owned());
    }
    if kind == "rings" && spec.path.is_some() {
        return at("rings take no path: they are beside the medium".to_owned());
    }
    if kind != "crash" && spec.repeat_keys {
        return at(format!("a {kind} takes no repeat_keys; leave it out"));
    }
    let paths = scenario.medium.paths();
    if let Some(path) = spec.path.filter(|&path| path >= paths) {
        return at(format!(
            "no path {path}; there are 0 to {}; give [medium] more paths",
            paths - 1
        ));
    }
    match (kind, spec.stations.is_empty(), spec.loss) {
        ("loss", true, Some(_)) => {}
        ("loss", _, _) => return at("kind = \"loss\" takes loss and no stations".to_owned()),
        (_, true, _) => return at(format!("a {kind} needs stations; name them")),
        (_, _, Some(_)) => return at(format!("a {kind} takes no loss; use kind = \"loss\"")),
        _ => {}
    }
    let takes_shortcut = |&at: &usize| {
        let station = scenario.station_spec(at);
        station.is_some_and(|spec| spec.engine.shortcut == Some(true))
    };
    if kind == "rings" && !spec.stations.iter().any(takes_shortcut) {
        return at("none of these stations has a shortcut; name those that do".to_owned());
    }
    if scenario.disturbance.len() > PARTITIONS_MAX as usize {
        return at(format!(
            "more than {PARTITIONS_MAX} disturbances; give fewer"
        ));
    }
    let times = spec.times.unwrap_or(1);
    let every = spec.every.map_or(0, |every| every.0);
    if !(1..=TIMES_MAX).contains(&times) {
        return at(format!(
            "{times} times is out of range; use 1 to {TIMES_MAX}"
        ));
    }
    if (times > 1 || kind == "flap") && every <= spec.lasts.0 {
        return at("a repeated disturbance needs every, longer than lasts".to_owned());
    }
    let end = u128::from(every) * u128::from(times) + u128::from(spec.at.0 + spec.lasts.0);
    match u64::try_from(end) {
        Ok(_) => Ok(()),
        Err(_) => at("it would end after 200 days; make it shorter".to_owned()),
    }
}

fn schedule_crash(
    network: &mut Network,
    scenario: &Scenario,
    (spec, (from_ps, to_ps)): (&DisturbanceSpec, (u64, u64)),
    (seed, salt): (u64, u64),
    wrap: &dyn Fn(Node) -> Node,
) -> Result<(), SpecError> {
    for &station in &spec.stations {
        let Some(kind) = scenario.station_spec(station) else {
            continue;
        };
        // Another seed: an engine that reused the keys of the one before would be taken for it.
        let mut own = engine::SplitMix64::at(seed ^ salt, 0x2000 + station as u64);
        if spec.repeat_keys {
            let before = engine::SplitMix64::at(seed, FIRST_LIFE + station as u64);
            own = seed_with_key_of(before, own);
        }
        let mut shared = SharedConfig::default();
        let engine =
            engines::make_engine(&kind.engine, own, &scenario.medium, &mut shared).map(wrap)?;
        network.disturb(from_ps, Disturbance::Crash(station));
        network.disturb(to_ps, Disturbance::Restart(station, engine));
    }
    Ok(())
}

/// The next seed from `own` on whose engine's first key has the same random bits as that of `before`.
fn seed_with_key_of(before: u64, own: u64) -> u64 {
    let bits = |seed: u64| {
        let secret = engine::Secret::from_seed(seed);
        KeyedStream::new(&secret, Purpose::Keys, seed).next_u64() >> (64 - SHORT_KEY_BITS)
    };
    let wanted = bits(before);
    let same = |seed: &u64| bits(*seed) == wanted;
    let mut tried = (0..KEY_TRIES).map(|index| own.wrapping_add(index));
    tried.find(same).unwrap_or(own)
}

/// Random bits of a key of XTP 3.x, the upper ones of a number of the stream (0008, Names).
const SHORT_KEY_BITS: u32 = 10;

/// Seeds tried for a key: all of them fail once in e^16 times.
const KEY_TRIES: u64 = 16 << SHORT_KEY_BITS;

/// Schedules a period of loss.
fn schedule_loss(
    network: &mut Network,
    scenario: &Scenario,
    spec: &DisturbanceSpec,
    (from_ps, to_ps): (u64, u64),
    base: &[LinkConfig],
) -> Result<(), SpecError> {
    let faults = FaultSpec {
        loss: spec.loss.unwrap_or_default(),
        loss_run: spec.loss_run,
        ..FaultSpec::default()
    };
    let lost = fault_config(&scenario.medium, &faults)?;
    let base = base.iter().enumerate();
    for (path, &base) in base.filter(|(path, _)| spec.path.is_none_or(|only| only == *path)) {
        let lossy = LinkConfig {
            loss_ppm: lost.loss_ppm.max(base.loss_ppm),
            bursts: lost.bursts.or(base.bursts),
            ..base
        };
        network.disturb(from_ps, Disturbance::Faults(path, lossy));
        network.disturb(to_ps, Disturbance::Faults(path, base));
    }
    Ok(())
}
