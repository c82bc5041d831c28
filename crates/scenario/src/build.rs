//! Builds a network from a scenario.

use crate::calls::{check_traffic, service, set_layers};
use crate::cells;
use crate::disturbance::schedule_disturbances;
use crate::engines::{self, SharedConfig, SpecError};
use crate::file::{
    ChipsSpec, FaultSpec, IntervalSpec, LengthSpec, MediumSpec, Scenario, StationsSpec,
    TrafficSpec, UnsentSpec,
};
use crate::hosts::set_shortcuts;
use crate::patterns;
use link::{EtherConfig, FddiConfig, GilbertElliott, LinkConfig};
use sim::{
    Distribution, HostCost, MediumConfig, Network, NetworkConfig, Node, PATHS_MAX, PerByte,
    Receivers, Traffic, UnsentMessages,
};

/// Stations of a scenario at most: at some 2 kB each 20 MB.
pub const STATIONS_MAX: u64 = 10_000;

/// A clock runs up to 50 % fast or slow.
const CLOCK_MAX: i32 = 500_000;

/// Circuits of a pattern at most.
const CIRCUITS_MAX: usize = 100_000;

/// Seeds of the engines that the stations begin with are numbered from here.
pub(crate) const FIRST_LIFE: u64 = 0x1000;

/// The network of `scenario`, ready to run, with `seed` in place of the scenario's.
///
/// # Errors
///
/// The first invalid value and its place in the file.
pub fn build(scenario: &Scenario, seed: u64) -> Result<Network, SpecError> {
    build_with(scenario, seed, &|engine| engine)
}

/// The same with every engine passed through `wrap`. Errors are those of [`build`].
pub fn build_with(
    scenario: &Scenario,
    seed: u64,
    wrap: &dyn Fn(Node) -> Node,
) -> Result<Network, SpecError> {
    let count = scenario.station_count();
    if !(2..=STATIONS_MAX).contains(&count) {
        let refusal = format!("{count} stations; a network has 2 to {STATIONS_MAX}");
        return Err((0..0, refusal));
    }
    cells::check_stations(scenario)?;
    let mut paths = media(scenario, count)?;
    let base: Vec<LinkConfig> = paths.iter().map(base_faults).collect();
    let (medium, faults) = paths.remove(0);
    let is_switch = matches!(medium, MediumConfig::Switch { .. });
    let config = NetworkConfig {
        medium,
        faults,
        seed,
    };
    let mut stations = Vec::with_capacity(count as usize);
    for spec in &scenario.station {
        let cost = HostCost {
            adapter: cells::adapter(spec)?,
            ..cost(&spec.chips)
        };
        let is_router = spec.engine.protocol.get_ref() == "xtp-forwarder";
        if cost.cut_through.is_some() && !(is_router && is_switch) {
            let refusal = "chips.cut_through is for xtp-forwarder on a switch; leave it out";
            return Err((spec.engine.protocol.span(), refusal.to_owned()));
        }
        let mut shared = SharedConfig::default();
        for _ in 0..spec.count {
            let own = engine::SplitMix64::at(seed, FIRST_LIFE + stations.len() as u64);
            let medium = &scenario.medium;
            let engine = engines::make_engine(&spec.engine, own, medium, &mut shared)?;
            stations.push((wrap(engine), cost));
        }
    }
    let mut network = Network::new(&config, stations);
    network.set_path_mtu(path_mtu(&scenario.medium)?);
    for (medium, faults) in &paths {
        network.add_path(medium, *faults);
    }
    set_shortcuts(&mut network, scenario)?;
    set_layers(&mut network, scenario, seed)?;
    set_notes(&mut network, scenario);
    for spec in &scenario.traffic {
        let traffic = traffic(spec, count as usize)?;
        check_traffic(scenario, spec, &traffic)?;
        let unsent = unsent(spec, &traffic, count as usize)?;
        let opened = network.add_traffic(traffic);
        opened.map_err(|error| (spec.from.span(), error.to_string()))?;
        for messages in unsent {
            network.add_unsent(messages);
        }
    }
    schedule_disturbances(&mut network, scenario, (&base, seed), wrap)?;
    Ok(network)
}

/// The least length of a packet that links may be limited to: what every path carries is 576 octets of IPv4 (RFC
/// 1122 section 3.3.2), less 28 for its header and that of UDP.
const MTU_MIN: u64 = 548;

/// Octets of the longest packet that the links of `medium` carry.
fn path_mtu(medium: &MediumSpec) -> Result<Option<usize>, SpecError> {
    let Some(mtu) = &medium.mtu else {
        return Ok(None);
    };
    let octets = mtu.get_ref().0;
    let kind = medium.kind.get_ref().as_str();
    if !["direct", "switch"].contains(&kind) {
        let refusal = format!("mtu is for links, not for {kind:?}; leave it out");
        return Err((mtu.span(), refusal));
    }
    if octets < MTU_MIN {
        let refusal = format!("an mtu of {octets} B; links carry {MTU_MIN} B or more");
        return Err((mtu.span(), refusal));
    }
    Ok(Some(octets as usize))
}

/// Tells the stations what travels with their messages.
fn set_notes(network: &mut Network, scenario: &Scenario) {
    let specs = scenario.station.iter();
    let stations = specs.flat_map(|spec| (0..spec.count).map(move |_| spec));
    for (station, spec) in stations.enumerate() {
        if let Some(notes) = engines::message_notes(&spec.engine) {
            network.set_message_notes(station, notes);
        }
    }
}

/// A medium, and the faults at the receivers of an ether or a ring.
type PathMedium = (MediumConfig, Option<LinkConfig>);

/// The faults of a path without disturbances.
fn base_faults((medium, faults): &PathMedium) -> LinkConfig {
    match medium {
        MediumConfig::Direct(link)
        | MediumConfig::Switch { link, .. }
        | MediumConfig::Atm { link, .. } => *link,
        MediumConfig::Ether { .. } | MediumConfig::Fddi { .. } => faults.unwrap_or_default(),
    }
}

/// The medium of each path.
fn media(scenario: &Scenario, count: u64) -> Result<Vec<PathMedium>, SpecError> {
    let paths = scenario.medium.paths();
    let span = scenario.medium.paths.as_ref().map(toml::Spanned::span);
    if !(1..=PATHS_MAX).contains(&paths) {
        let refusal = format!("{paths} paths; a network has 1 to {PATHS_MAX}");
        return Err((span.unwrap_or_default(), refusal));
    }
    let only = scenario.faults.and_then(|faults| faults.path);
    if let Some(path) = only.filter(|&path| path >= paths) {
        let last = paths - 1;
        let refusal = format!("[faults] names path {path}; there are 0 to {last}");
        return Err((span.unwrap_or(scenario.medium.kind.span()), refusal));
    }
    let faults_of = |path| {
        scenario
            .faults
            .filter(|_| only.is_none_or(|only| only == path))
    };
    (0..paths)
        .map(|path| medium(scenario, count, faults_of(path)))
        .collect()
}

fn medium(
    scenario: &Scenario,
    count: u64,
    path_faults: Option<FaultSpec>,
) -> Result<PathMedium, SpecError> {
    let spec = &scenario.medium;
    if let Some(llc) = &spec.llc
        && !spec.kind.get_ref().starts_with("ether")
    {
        let refusal = "llc is for ether10 and ether3; leave it out";
        return Err((llc.span(), refusal.to_owned()));
    }
    let faults = path_faults.unwrap_or_default();
    let ether = match spec.kind.get_ref().as_str() {
        "ether10" => EtherConfig::ten_megabit(),
        "ether3" => EtherConfig::three_megabit(),
        "direct" if count == 2 => return Ok((MediumConfig::Direct(link(spec, &faults)?), None)),
        "direct" => {
            let refusal = format!("a direct link joins 2 stations, not {count}; use a switch");
            return Err((spec.kind.span(), refusal));
        }
        "switch" => {
            let config = MediumConfig::Switch {
                link: link(spec, &faults)?,
                cut_through: spec.cut_through,
            };
            return Ok((config, None));
        }
        "atm" => return Ok((cells::medium(spec, link(spec, &faults)?), None)),
        "fddi" => {
            let ether_faults = path_faults.map(|_| fault_config(spec, &faults));
            return Ok((fddi(spec, count)?, ether_faults.transpose()?));
        }
        other => {
            let refusal =
                format!("no medium {other:?}; use ether10, ether3, fddi, direct, switch or atm");
            return Err((spec.kind.span(), refusal));
        }
    };
    let padding = spec.padding.unwrap_or(true);
    let config = MediumConfig::Ether {
        ether: EtherConfig {
            frame_min: if padding { ether.frame_min } else { 0 },
            ..ether
        },
        positions_ps: spec.positions.iter().map(|time| time.0).collect(),
        llc_octets: if has_llc(spec) { LLC_SNAP_OCTETS } else { 0 },
    };
    let ether_faults = path_faults.map(|_| fault_config(spec, &faults));
    Ok((config, ether_faults.transpose()?))
}

/// Octets of LLC and SNAP in a frame: service access points, control, organization, type (RFC 1042).
const LLC_SNAP_OCTETS: u32 = 8;

fn has_llc(spec: &MediumSpec) -> bool {
    spec.llc.as_ref().is_some_and(|llc| *llc.get_ref())
}

/// The ring of `count` stations.
fn fddi(spec: &MediumSpec, count: u64) -> Result<MediumConfig, SpecError> {
    let standard = FddiConfig::standard();
    let positions_ps: Vec<u64> = spec.positions.iter().map(|time| time.0).collect();
    if !positions_ps.is_sorted() {
        let refusal = "medium.positions of a ring ascend: they are in the order of the stations";
        return Err((spec.kind.span(), refusal.to_owned()));
    }
    let ring = FddiConfig {
        ttrt_ps: spec.ttrt.map_or(standard.ttrt_ps, |time| time.0),
        ..standard
    };
    let around_ps = positions_ps.last().copied().unwrap_or(0) + count * ring.latency_ps;
    if around_ps.saturating_add(spec.delay.0) >= ring.ttrt_ps {
        let refusal = "medium.ttrt is no longer than one rotation of the ring; use a longer one";
        return Err((spec.kind.span(), refusal.to_owned()));
    }
    Ok(MediumConfig::Fddi {
        ring,
        positions_ps,
        closing_ps: spec.delay.0,
    })
}

fn link(spec: &MediumSpec, faults: &FaultSpec) -> Result<LinkConfig, SpecError> {
    let config = fault_config(spec, faults)?;
    Ok(LinkConfig {
        rate_bps: spec.rate.map(|rate| rate.0.max(1)),
        delay_ps: spec.delay.0,
        queue_bytes: spec.queue.map_or(u64::MAX, |bytes| bytes.0),
        ..config
    })
}

/// The faults, as a link without rate and delay.
pub(crate) fn fault_config(spec: &MediumSpec, faults: &FaultSpec) -> Result<LinkConfig, SpecError> {
    let refusal = || {
        let text = "no loss bursts have this loss and loss_run; use a longer loss_run or less loss";
        (spec.kind.span(), text.to_owned())
    };
    let run = faults.loss_run.filter(|_| faults.loss.0 > 0);
    let bursts = run
        .map(|run| GilbertElliott::from_burst_len(faults.loss.0, run).ok_or_else(refusal))
        .transpose()?;
    Ok(LinkConfig {
        loss_ppm: if bursts.is_some() { 0 } else { faults.loss.0 },
        bursts,
        duplicate_ppm: faults.duplicate.0,
        reorder_ppm: faults.reorder.0,
        reorder_ps: faults.reorder_by.0,
        corrupt_ppm: faults.corrupt.0,
        ..LinkConfig::default()
    })
}

fn cost(chips: &ChipsSpec) -> HostCost {
    HostCost {
        copy: PerByte {
            ps: chips.copy_delay.0,
            bytes: chips.copy_bytes.map_or(1, |bytes| bytes.0.max(1)),
        },
        copy_fixed_ps: chips.copy_fixed.0,
        checksum: PerByte {
            ps: chips.checksum_byte.0,
            bytes: 1,
        },
        checksum_fixed_ps: chips.checksum_delay.0,
        packet_ps: chips.packet.0,
        interrupt_ps: chips.interrupt.0,
        timer_ps: chips.timer.0,
        separation_ps: chips.separation.0,
        clock_ppm: chips.clock_ppm.clamp(-CLOCK_MAX, CLOCK_MAX),
        cut_through: chips.cut_through,
        filters_groups: chips.filter_groups,
        queue: chips.queue,
        adapter: None,
    }
}

fn traffic(spec: &TrafficSpec, count: usize) -> Result<Traffic, SpecError> {
    let exists = |station: &usize| *station < count;
    let no_station = |station: usize| format!("no station {station}; there are 0 to {}", count - 1);
    let senders = &senders(spec, count)?;
    if let Some(&station) = senders.iter().find(|station| !exists(station)) {
        return Err((spec.from.span(), no_station(station)));
    }
    if senders.is_empty() {
        return Err((spec.from.span(), "no sender; name a station".to_owned()));
    }
    let receivers = match spec.to.get_ref() {
        StationsSpec::Word(word) if word == "all" => Receivers::All,
        StationsSpec::Word(word) => {
            let refusal = format!("{word:?} is no receiver; use \"all\" or a list of stations");
            return Err((spec.to.span(), refusal));
        }
        StationsSpec::Group { group } => {
            if let Some(&station) = group.iter().find(|station| !exists(station)) {
                return Err((spec.to.span(), no_station(station)));
            }
            Receivers::Group(group.clone())
        }
        StationsSpec::Members { members } => {
            let others: Vec<usize> = (0..count)
                .filter(|other| !senders.contains(other))
                .collect();
            if *members == 0 || *members > others.len() {
                let most = others.len();
                let refusal = format!("a group of {members} members; use 1 to {most}");
                return Err((spec.to.span(), refusal));
            }
            Receivers::Group(others[..*members].to_vec())
        }
        StationsSpec::Stations(stations) => {
            if let Some(&station) = stations.iter().find(|station| !exists(station)) {
                return Err((spec.to.span(), no_station(station)));
            }
            let alone = |sender: &usize| stations.iter().all(|station| station == sender);
            if senders.iter().any(alone) {
                let refusal = "a sender has no receiver but itself".to_owned();
                return Err((spec.to.span(), refusal));
            }
            if senders.len() * stations.len() > CIRCUITS_MAX {
                let refusal = format!("more than {CIRCUITS_MAX} circuits in one pattern");
                return Err((spec.to.span(), refusal));
            }
            Receivers::One(stations.clone())
        }
    };
    let mut interarrival_ps = interval(spec.interarrival);
    if let Distribution::Fixed(0) | Distribution::Exponential(0) = interarrival_ps
        && spec.messages.is_none()
    {
        // Messages without limit and without a pause would stop the clock.
        interarrival_ps = Distribution::Fixed(1);
    }
    let receiver_count = match &receivers {
        Receivers::One(stations) => stations.len(),
        Receivers::All | Receivers::Group(_) => 0,
    };
    Ok(Traffic {
        senders: senders.clone(),
        sender_weights: patterns::weights(spec.weights.from.as_ref(), "from", senders.len())?,
        receivers,
        receiver_weights: patterns::weights(spec.weights.to.as_ref(), "to", receiver_count)?,
        burst: patterns::burst(spec)?,
        length: length(spec.length),
        interarrival_ps,
        messages: spec.messages.unwrap_or(u64::MAX),
        start_ps: spec.start.0,
        outstanding: spec.outstanding.map(|most| most.max(1)),
        service: service(spec)?,
    })
}

/// The messages beside a pattern that no association carries.
fn unsent(
    spec: &TrafficSpec,
    traffic: &Traffic,
    count: usize,
) -> Result<Vec<UnsentMessages>, SpecError> {
    let Some(unsent) = &spec.unsent else {
        return Ok(Vec::new());
    };
    let UnsentSpec { from, share } = unsent.get_ref();
    if !(*share > 0.0 && *share <= 1000.0) {
        let refusal = format!("unsent.share is {share}; use a number above 0, at most 1000");
        return Err((unsent.span(), refusal));
    }
    if let Some(&station) = from.iter().find(|station| **station >= count) {
        let refusal = format!("no station {station}; there are 0 to {}", count - 1);
        return Err((unsent.span(), refusal));
    }
    let interarrival_ps = traffic.interarrival_ps.scaled(1.0 / share);
    let messages = from.iter().map(|&station| UnsentMessages {
        station,
        length: traffic.length,
        interarrival_ps,
    });
    Ok(messages.collect())
}

fn senders(spec: &TrafficSpec, count: usize) -> Result<Vec<usize>, SpecError> {
    let word = match spec.from.get_ref() {
        StationsSpec::Stations(stations) => return Ok(stations.clone()),
        StationsSpec::Group { .. } | StationsSpec::Members { .. } => {
            let refusal = "a group is no sender; use \"others\" or a list of stations";
            return Err((spec.from.span(), refusal.to_owned()));
        }
        StationsSpec::Word(word) => word,
    };
    match (word.as_str(), spec.to.get_ref()) {
        ("others", StationsSpec::Stations(to)) => {
            Ok((0..count).filter(|station| !to.contains(station)).collect())
        }
        ("others", StationsSpec::Group { group }) => Ok((0..count)
            .filter(|station| !group.contains(station))
            .collect()),
        ("others", StationsSpec::Word(_) | StationsSpec::Members { .. }) => {
            let refusal = "\"others\" are those not in to; give to numbers of stations";
            Err((spec.from.span(), refusal.to_owned()))
        }
        _ => {
            let refusal = format!("{word:?} is no sender; use \"others\" or a list of stations");
            Err((spec.from.span(), refusal))
        }
    }
}

/// The longest message: 1 GiB.
const MESSAGE_MAX: u64 = 1 << 30;

fn length(spec: LengthSpec) -> Distribution {
    let bytes = |bytes: crate::units::ByteCount| bytes.0.clamp(1, MESSAGE_MAX);
    match spec {
        LengthSpec::Fixed(value) => Distribution::Fixed(bytes(value)),
        LengthSpec::Uniform(min, max) => Distribution::Uniform {
            min: bytes(min),
            max: bytes(max).max(bytes(min)),
        },
        LengthSpec::Exponential(mean) => Distribution::Exponential(bytes(mean)),
    }
}

fn interval(spec: IntervalSpec) -> Distribution {
    match spec {
        IntervalSpec::Fixed(time) => Distribution::Fixed(time.0),
        IntervalSpec::Uniform(min, max) => Distribution::Uniform {
            min: min.0,
            max: max.0.max(min.0),
        },
        IntervalSpec::Exponential(mean) => Distribution::Exponential(mean.0),
    }
}
