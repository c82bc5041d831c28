//! Engines by name. A protocol that is to run in scenarios gets an entry in [`make_engine`].

mod group;
mod sctp;
mod spec;
mod udp;

pub(crate) use sctp::message_notes;
pub use spec::EngineSpec;

use crate::file::MediumSpec;
use crate::units::{BitRate, ByteCount, SimTime};
use core::time::Duration;
use engine::{Address, Framing};
use engine_xtp::pdu::{Service, Version};
use engine_xtp::{Congestion, ErrorControl, FlowControl, RateLimit, RouterConfig, XtpRouter};
use engine_xtp3::{Multicast, Revision, Xtp3, Xtp3Config};
use sim::Node;
use std::sync::Arc;

/// Octets of a full packet. An Ethernet frame carries 1500; 128 is the least the engines accept.
const PACKET_OCTETS: std::ops::RangeInclusive<u64> = 128..=65_535;

/// The same for `bare`, whose header has 24.
const BARE_PACKET_OCTETS: std::ops::RangeInclusive<u64> = 64..=65_535;

/// The least packet of VMTP: a header, a block and the check.
const VMTP_PACKET_MIN: u64 = 580;

/// An address of 240.0.0.0/4, which no host has.
const VMTP_HOST: u32 = 0xf000_0000;

/// Associations of a station: a sender to, or a receiver from, every station there can be.
const ASSOCIATIONS_MAX: usize = 1 << 16;

/// An invalid value: its place in the file, and what is wrong.
pub type SpecError = (std::ops::Range<usize>, String);

/// The configuration that stations of one `[[station]]` share, made with the first of them.
#[derive(Debug, Default)]
pub struct SharedConfig(Option<Arc<engine_xtp::Config>>);

impl SharedConfig {
    /// The engine of XTP for a station whose random choices follow from `seed`.
    fn make_xtp(&mut self, spec: &EngineSpec, seed: u64) -> Result<engine_xtp::Xtp, SpecError> {
        let config = match &self.0 {
            Some(config) => config,
            None => self.0.insert(Arc::new(xtp_config(spec, seed)?)),
        };
        let secret = engine::Secret::from_seed(seed);
        let config = Arc::clone(config);
        Ok(engine_xtp::Xtp::with_shared_config(config, &secret, seed))
    }
}

/// The engine of `spec` for a station on `medium`; its random choices follow from `seed`. `shared` is the same for
/// stations of equal `spec`.
///
/// # Errors
///
/// The first value out of range, in one line.
pub fn make_engine(
    spec: &EngineSpec,
    seed: u64,
    medium: &MediumSpec,
    shared: &mut SharedConfig,
) -> Result<Node, SpecError> {
    let at = |message: String| (spec.protocol.span(), message);
    let protocol = spec.protocol.get_ref().as_str();
    let engine: Node = match protocol {
        "bare" => Node::associations(engine_bare::Bare::new(bare_config(spec, seed).map_err(at)?)),
        "call" => Node::transactions(engine_call::Call::new(call_config(spec, seed).map_err(at)?)),
        "sctp" => Node::associations(engine_sctp::Sctp::new(sctp::config(
            spec,
            seed,
            medium.paths(),
        )?)),
        "udp" => Node::associations(engine_udp::Udp::new(udp::config(spec, medium).map_err(at)?)),
        "vmtp" => Node::transactions(engine_vmtp::Vmtp::new(vmtp_config(spec, seed).map_err(at)?)),
        "xtp" => Node::associations(shared.make_xtp(spec, seed)?),
        "xtp-forwarder" => Node::router(XtpRouter::new(router_config(spec))),
        "xtp-group" => Node::associations(engine_xtp::group::GroupEndpoint::new(group::config(
            spec, seed,
        )?)),
        "xtp3" => Node::associations(Xtp3::new(study_config(spec, seed)?)),
        other => {
            let known = "bare, call, sctp, udp, vmtp, xtp, xtp-forwarder, xtp-group or xtp3";
            return Err(at(format!("no protocol {other:?}; use {known}")));
        }
    };
    if let Some(name) = spec.unsupported_option() {
        return Err(at(format!("{protocol} has no option {name}; leave it out")));
    }
    Ok(engine)
}

fn bare_config(spec: &EngineSpec, seed: u64) -> Result<engine_bare::BareConfig, String> {
    let default = engine_bare::BareConfig::default();
    let packet = spec.packet.map_or(1500, |octets| octets.0);
    Ok(engine_bare::BareConfig {
        packet_len: packet_len_in(BARE_PACKET_OCTETS, packet)?,
        window: spec.window.map_or(default.window, |bytes| bytes.0.max(1)),
        associations_max: ASSOCIATIONS_MAX,
        seed,
        secret: engine::Secret::from_seed(seed),
        ..default
    })
}

fn call_config(spec: &EngineSpec, seed: u64) -> Result<engine_call::CallConfig, String> {
    let default = engine_call::CallConfig::default();
    Ok(engine_call::CallConfig {
        packet_len: packet_len(spec.packet.map_or(1500, |octets| octets.0))?,
        // A wait of nothing would send everything at once.
        retry: spec
            .wait_initial
            .map_or(default.retry, duration)
            .max(Duration::from_micros(1)),
        retries_max: spec.retries.unwrap_or(default.retries_max),
        transactions_max: ASSOCIATIONS_MAX,
        seed,
        ..default
    })
}

/// The configuration of VMTP with the options of `spec`.
///
/// # Errors
///
/// A packet out of range, in one line.
pub fn vmtp_config(spec: &EngineSpec, seed: u64) -> Result<engine_vmtp::VmtpConfig, String> {
    let default = engine_vmtp::VmtpConfig::default();
    let octets = spec.packet.map_or(1500, |octets| octets.0);
    // Every implementation of VMTP takes a packet with one block (RFC 1045 section 2.9).
    let range = VMTP_PACKET_MIN..=*PACKET_OCTETS.end();
    if !range.contains(&octets) {
        return Err(format!(
            "a packet of {octets} octets is out of range; vmtp needs {VMTP_PACKET_MIN} to {}",
            range.end()
        ));
    }
    Ok(engine_vmtp::VmtpConfig {
        packet_len: octets as usize,
        rtt_initial: spec
            .wait_initial
            .map_or(default.rtt_initial, duration)
            .max(Duration::from_micros(1)),
        retries_max: spec.retries.unwrap_or(default.retries_max),
        // Stations number their entities from 0 on, and have no Internet addresses.
        entity_base: 1 << 32 | u64::from(VMTP_HOST),
        host: VMTP_HOST,
        entities_max: ASSOCIATIONS_MAX,
        seed,
        secret: engine::Secret::from_seed(seed),
        ..default
    })
}

/// The configuration of XTP with the options of `spec`.
///
/// # Errors
///
/// The first value out of range, in one line.
pub fn xtp_config(spec: &EngineSpec, seed: u64) -> Result<engine_xtp::Config, SpecError> {
    let at = |message: String| (spec.protocol.span(), message);
    let default = engine_xtp::Config::default();
    let packet_len = packet_len(spec.packet.map_or(1500, |octets| octets.0)).map_err(at)?;
    let span =
        |time: Option<SimTime>, default_value: Duration| time.map_or(default_value, duration);
    let error = choice(&spec.error, default.error, "error control", &ERRORS)?;
    let flow = choice(&spec.flow, default.flow, "flow control", &FLOWS)?;
    let congestion = congestion(&spec.congestion, default.congestion)?;
    let burst = spec.burst.map_or(8 * packet_len as u64, |bytes| bytes.0);
    let dialect = choice(&spec.dialect, default.version, "dialect", &VERSIONS)?;
    let service = choice(&spec.service, default.service, "service", &SERVICES)?;
    let gateway = gateway(spec, dialect).map_err(at)?;
    Ok(engine_xtp::Config {
        packet_len,
        window: spec.window.map_or(default.window, |bytes| bytes.0.max(1)),
        checksum: spec.checksum.unwrap_or(default.checksum),
        framing: Framing::Messages,
        error,
        fastnak: spec.fastnak.unwrap_or(default.fastnak),
        flow,
        explicit: spec.explicit.unwrap_or(default.explicit),
        rate: spec.rate.map(|rate| rate_limit(rate, burst)),
        congestion,
        status_interval_bytes: spec
            .status_every
            .map_or(default.status_interval_bytes, |b| b.0.max(1)),
        status_delay: span(spec.status_delay, default.status_delay),
        wtimer_initial: span(spec.wait_initial, default.wtimer_initial),
        wtimer_min: span(spec.wait_min, default.wtimer_min),
        wtimer_max: span(spec.wait_max, default.wtimer_max),
        retries_max: spec.retries.unwrap_or(default.retries_max),
        keepalive: span(spec.keep_alive, default.keepalive),
        associations_max: ASSOCIATIONS_MAX,
        version: dialect,
        service,
        routes: spec.routes.unwrap_or(gateway.is_some()),
        gateway,
        fixed_pairs: spec.fixed_pairs.unwrap_or(default.fixed_pairs),
        sort: spec.sort,
        seed,
        secret: engine::Secret::from_seed(seed),
        ..default
    })
}

/// The router that all circuits go through.
fn gateway(spec: &EngineSpec, dialect: Version) -> Result<Option<Address>, String> {
    let Some(station) = spec.gateway else {
        return Ok(None);
    };
    if dialect != Version::V36 || spec.routes == Some(false) {
        return Err("a gateway needs dialect = \"3.6\" and routes".to_owned());
    }
    let station = u32::try_from(station).map_err(|_| format!("no station {station}"))?;
    Ok(Some(Address::Station(station)))
}

fn router_config(spec: &EngineSpec) -> RouterConfig {
    let burst = spec.burst.map_or(8 * 1500, |bytes| bytes.0);
    let default = RouterConfig::default();
    RouterConfig {
        rate: spec.rate.map(|rate| rate_limit(rate, burst)),
        queue_max: spec
            .queue
            .map_or(default.queue_max, |bytes| bytes.0 as usize),
        ..default
    }
}

const VERSIONS: [(&str, Version); 4] = [
    ("4.0", Version::V40),
    ("3.6", Version::V36),
    ("3.5", Version::V35),
    ("3.3", Version::V33),
];

const SERVICES: [(&str, Service); 3] = [
    ("stream", Service::Stream),
    ("isochronous", Service::Isochronous),
    ("bulk", Service::Bulk),
];

const ERRORS: [(&str, ErrorControl); 3] = [
    ("selective", ErrorControl::Selective),
    ("go-back-n", ErrorControl::GoBackN),
    ("none", ErrorControl::None),
];

const FLOWS: [(&str, FlowControl); 2] = [
    ("allocation", FlowControl::Allocation),
    ("off", FlowControl::Off),
];

/// The value of a word in the file.
fn choice<T: Copy>(
    word: &Option<toml::Spanned<String>>,
    default: T,
    what: &str,
    choices: &[(&str, T)],
) -> Result<T, SpecError> {
    let Some(word) = word else {
        return Ok(default);
    };
    let found = choices.iter().find(|(name, _)| name == word.get_ref());
    let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
    let refusal = format!("no {what} {:?}; use {}", word.get_ref(), names.join(", "));
    found
        .map(|(_, choice)| *choice)
        .ok_or((word.span(), refusal))
}

/// The congestion control that the file names.
fn congestion(
    word: &Option<toml::Spanned<String>>,
    default: Congestion,
) -> Result<Congestion, SpecError> {
    let Some(word) = word else {
        return Ok(default);
    };
    Congestion::from_name(word.get_ref()).ok_or_else(|| {
        let names = Congestion::names();
        let refusal = format!("no congestion control {:?}; use {names}", word.get_ref());
        (word.span(), refusal)
    })
}

fn rate_limit(rate: BitRate, burst: u64) -> RateLimit {
    RateLimit {
        rate_bytes_per_s: u32::try_from(rate.0 / 8).unwrap_or(u32::MAX).max(1),
        burst_bytes: u32::try_from(burst).unwrap_or(u32::MAX).max(1),
    }
}

fn duration(time: SimTime) -> Duration {
    Duration::from_nanos(time.0 / 1000)
}

fn packet_len(octets: u64) -> Result<usize, String> {
    packet_len_in(PACKET_OCTETS, octets)
}

fn packet_len_in(range: std::ops::RangeInclusive<u64>, octets: u64) -> Result<usize, String> {
    if range.contains(&octets) {
        return Ok(octets as usize);
    }
    Err(format!(
        "a packet of {octets} octets is out of range; use {} to {}",
        range.start(),
        range.end()
    ))
}

fn study_config(spec: &EngineSpec, seed: u64) -> Result<Xtp3Config, SpecError> {
    let small = |name: &str, bytes: ByteCount| {
        let fits = (1500..1 << 30).contains(&bytes.0);
        let refusal = format!(
            "{name} of {} B is out of range; use 1500 B to 1 GiB",
            bytes.0
        );
        fits.then_some(bytes.0 as u32)
            .ok_or((spec.protocol.span(), refusal))
    };
    let default = Xtp3Config::default();
    let revision = match &spec.revision {
        None => default.revision,
        Some(revision) => match revision.get_ref().as_str() {
            "3.3" => Revision::V33,
            "3.5" => Revision::V35,
            other => {
                let refusal = format!("no revision {other:?}; use \"3.3\" or \"3.5\"");
                return Err((revision.span(), refusal));
            }
        },
    };
    Ok(Xtp3Config {
        revision,
        resend_pairs: spec.resend_pairs.unwrap_or(false),
        multicast: spec.multicast.unwrap_or(false).then(|| Multicast {
            responders: spec.answerers.unwrap_or(1).clamp(1, 65_536) as u32,
            bucket_delay: spec.hold.map(duration),
            slot: spec.slot.filter(|time| time.0 > 0).map(duration),
            damping: spec.damping.unwrap_or(false),
            ..Multicast::new(sim::GROUP, spec.answers.unwrap_or(false))
        }),
        alloc: spec
            .alloc
            .map_or(Ok(default.alloc), |bytes| small("alloc", bytes))?,
        credit: spec
            .credit
            .map(|bytes| small("credit", bytes))
            .transpose()?,
        wtimer: spec.wtimer.map(duration),
        ctimer: spec.ctimer.map(duration),
        seed,
    })
}
