//! Stations of one host, and the shortcut between them.

use crate::engines::SpecError;
use crate::file::{HostSpec, Scenario, StationSpec};
use sim::{Network, PerByte, RingConfig};
use std::collections::BTreeMap;

/// Octets of a ring, as of the real shortcut.
const RING_OCTETS: u64 = 1 << 20;

/// Octets of the shortest ring: a packet of an Ethernet.
const RING_MIN: u64 = 2048;

/// Octets of the longest ring, as of crate `channel`.
const RING_MAX: u64 = 256 << 20;

/// Stations of a host that take the shortcut, at most: as many peers as a real endpoint has rings with.
const STATIONS_MAX: usize = 64;

/// Several times what a spinning end takes to see a packet: 1 us, ps.
const LATENCY_PS: u64 = 1_000_000;

/// A Unix socket is found, opened and passes two descriptors: 100 us, ps.
const MEETING_PS: u64 = 100_000_000;

/// Gives the stations of each host their shortcuts.
/// Errors: the first host that is unknown, named twice or without stations, and a shortcut without a host.
pub(crate) fn set_shortcuts(network: &mut Network, scenario: &Scenario) -> Result<(), SpecError> {
    let mut hosts = configs(scenario)?;
    let mut number = 0;
    for spec in &scenario.station {
        let stations = number..number + spec.count as usize;
        number = stations.end;
        check(spec)?;
        let Some(name) = &spec.host else { continue };
        let host = hosts.entry(name.get_ref().as_str()).or_default();
        host.is_used = true;
        if spec.engine.shortcut == Some(true) {
            host.stations.extend(stations);
        }
        if host.stations.len() > STATIONS_MAX {
            let count = host.stations.len();
            let refusal = format!("{count} stations of a host with a shortcut; use {STATIONS_MAX}");
            return Err((name.span(), refusal));
        }
    }
    for spec in &scenario.host {
        let name = spec.name.get_ref();
        if hosts.get(name.as_str()).is_some_and(|host| !host.is_used) {
            let refusal = format!("no station is on host {name:?}; give one host = {name:?}");
            return Err((spec.name.span(), refusal));
        }
    }
    for host in hosts.values().filter(|host| host.stations.len() > 1) {
        network.add_shortcuts(&host.stations, host.config);
    }
    Ok(())
}

/// A host, and those of its stations that take the shortcut.
struct Host {
    config: RingConfig,
    stations: Vec<usize>,
    is_used: bool,
}

impl Default for Host {
    fn default() -> Host {
        Host {
            config: RingConfig {
                octets: RING_OCTETS,
                latency_ps: LATENCY_PS,
                copy: PerByte::FREE,
                copy_fixed_ps: 0,
                meeting_ps: MEETING_PS,
            },
            stations: Vec::new(),
            is_used: false,
        }
    }
}

/// The hosts that the file describes, by name.
fn configs(scenario: &Scenario) -> Result<BTreeMap<&str, Host>, SpecError> {
    let mut hosts = BTreeMap::new();
    for spec in &scenario.host {
        let host = Host {
            config: config(spec)?,
            ..Host::default()
        };
        if hosts.insert(spec.name.get_ref().as_str(), host).is_some() {
            let refusal = format!("host {:?} is described twice", spec.name.get_ref());
            return Err((spec.name.span(), refusal));
        }
    }
    Ok(hosts)
}

fn config(spec: &HostSpec) -> Result<RingConfig, SpecError> {
    let usual = Host::default().config;
    if let Some(ring) = &spec.ring
        && !(RING_MIN..=RING_MAX).contains(&ring.get_ref().0)
    {
        let octets = ring.get_ref().0;
        let refusal = format!("a ring of {octets} B is out of range; use 2 KiB to 256 MiB");
        return Err((ring.span(), refusal));
    }
    Ok(RingConfig {
        octets: spec
            .ring
            .as_ref()
            .map_or(usual.octets, |ring| ring.get_ref().0),
        latency_ps: spec.latency.map_or(usual.latency_ps, |time| time.0),
        copy: PerByte {
            ps: spec.copy_delay.0,
            bytes: spec.copy_bytes.map_or(1, |bytes| bytes.0.max(1)),
        },
        copy_fixed_ps: spec.copy_fixed.0,
        meeting_ps: spec.meeting.map_or(usual.meeting_ps, |time| time.0),
    })
}

fn check(spec: &StationSpec) -> Result<(), SpecError> {
    if spec.engine.shortcut != Some(true) {
        return Ok(());
    }
    let refusal = match (&spec.host, &spec.chips.adapter) {
        (None, _) => "shortcut is between stations of one host; give them host = \"a\"",
        (_, Some(_)) => "an adapter's cells do not go through rings; leave shortcut or adapter out",
        _ => return Ok(()),
    };
    Err((spec.engine.protocol.span(), refusal.to_owned()))
}
