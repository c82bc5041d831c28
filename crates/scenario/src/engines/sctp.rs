//! SCTP in scenarios.

use super::{ASSOCIATIONS_MAX, EngineSpec, SpecError, duration, packet_len};
use congestion::RtoBounds;
use core::time::Duration;
use engine::Reliability;
use engine_sctp::{
    AddressSchedule, Authentication, CongestionChoice, LocalAddresses, Scheduler, SctpConfig,
};
use sim::MessageNotes;

/// The longest delay of an acknowledgement that RFC 9260 section 6.2 allows.
const SACK_DELAY_MAX: Duration = Duration::from_millis(500);

/// The least receive buffer (RFC 9260 section 3.3.2) and a window of 32 bits.
const WINDOWS: std::ops::RangeInclusive<u64> = 1500..=u32::MAX as u64;

/// The least packet: the handshake does not fit a smaller one.
const PACKET_MIN: usize = 512;

/// The configuration of SCTP with the options of `spec`, at a station with an address on each of
/// `paths` media. Errors: the first value out of range, in one line.
pub(super) fn config(spec: &EngineSpec, seed: u64, paths: usize) -> Result<SctpConfig, SpecError> {
    let at = |message: String| (spec.protocol.span(), message);
    let default = SctpConfig::default();
    let packet_len = packet_len(spec.packet.map_or(1500, |octets| octets.0)).map_err(at)?;
    if packet_len < PACKET_MIN {
        return Err(at(format!(
            "a packet of {packet_len} octets is too short for sctp; use {PACKET_MIN} or more"
        )));
    }
    let window = spec.window.map_or(default.receive_buffer, |bytes| bytes.0);
    if !WINDOWS.contains(&window) {
        let (least, most) = (WINDOWS.start(), WINDOWS.end());
        return Err(at(format!(
            "a window of {window} B is out of range; use {least} B to {most} B"
        )));
    }
    let sack_delay = spec.sack_delay.map_or(default.sack_delay, duration);
    if sack_delay > SACK_DELAY_MAX {
        return Err(at("sack_delay is above 500 ms; lower it".to_owned()));
    }
    let congestion = match &spec.congestion {
        None => default.congestion,
        Some(word) => CongestionChoice::from_name(word.get_ref()).ok_or_else(|| {
            let names = CongestionChoice::names();
            let refusal = format!("no congestion control {:?}; use {names}", word.get_ref());
            (word.span(), refusal)
        })?,
    };
    let scheduler = match &spec.scheduler {
        None => default.scheduler,
        Some(word) => Scheduler::from_name(word.get_ref()).ok_or_else(|| {
            let names = Scheduler::names();
            let refusal = format!("no scheduler {:?}; use {names}", word.get_ref());
            (word.span(), refusal)
        })?,
    };
    let probes_path_mtu = match &spec.path_mtu {
        None => false,
        Some(word) => match word.get_ref().as_str() {
            "probe" => true,
            "fixed" => false,
            other => {
                let refusal = format!("no path_mtu {other:?}; use probe or fixed");
                return Err((word.span(), refusal));
            }
        },
    };
    let streams = spec.streams.unwrap_or(1);
    if streams == 0 {
        return Err(at("messages need a stream; use 1 to 65535".to_owned()));
    }
    let address_changes = spec.address_changes.map(|interval| AddressSchedule {
        interval: duration(interval).max(Duration::from_micros(1)),
        gains: u16::from(paths > 1),
    });
    let gains = address_changes.map_or(0, |changes| changes.gains);
    let everything = spec
        .auth
        .unwrap_or(false)
        .then(Authentication::of_everything);
    let least = address_changes.map(|_| Authentication::default());
    Ok(SctpConfig {
        outbound_streams: default.outbound_streams.max(streams),
        inbound_streams: u16::MAX,
        authentication: everything.or(least),
        dynamic_addresses: address_changes.is_some(),
        address_changes,
        reset_interval: spec.reset.map_or(Duration::ZERO, duration),
        interleave: spec.interleave.unwrap_or(false),
        scheduler,
        local_addresses: LocalAddresses::Stations(paths as u16 - gains),
        packet_len,
        probes_path_mtu,
        receive_buffer: window,
        sack_delay,
        congestion,
        rto: RtoBounds {
            initial: timer(spec.wait_initial, default.rto.initial),
            min: timer(spec.wait_min, default.rto.min),
            max: timer(spec.wait_max, default.rto.max),
        },
        path_retries: spec.retries.unwrap_or(default.path_retries),
        association_retries: spec.retries.unwrap_or(default.association_retries),
        init_retries: spec.retries.unwrap_or(default.init_retries),
        heartbeat_interval: spec.keep_alive.map_or(default.heartbeat_interval, duration),
        checksum: spec.checksum.unwrap_or(true),
        bundle: spec.bundle.unwrap_or(true),
        associations_max: ASSOCIATIONS_MAX,
        seed,
        secret: engine::Secret::from_seed(seed),
        ..default
    })
}

/// What travels with the messages of a station with the options of `spec`; None where all of them arrive
/// in the order in which they were sent. Datagrams of UDP may get lost, and what is lost is not said.
pub(crate) fn message_notes(spec: &EngineSpec) -> Option<MessageNotes> {
    if spec.protocol.get_ref() == "udp" {
        return Some(MessageNotes {
            streams: 1,
            unordered: true,
            reliability: Reliability::Full,
        });
    }
    let is_sctp = spec.protocol.get_ref() == "sctp";
    let notes = MessageNotes {
        streams: spec.streams.unwrap_or(1),
        unordered: spec.unordered.unwrap_or(false),
        reliability: match spec.life {
            Some(life) => Reliability::Lifetime(duration(life)),
            None => Reliability::Full,
        },
    };
    let differs = notes.streams > 1 || notes.unordered || notes.reliability != Reliability::Full;
    (is_sctp && differs).then_some(notes)
}

/// A timer of nothing would send everything at once.
fn timer(time: Option<crate::units::SimTime>, default: Duration) -> Duration {
    time.map_or(default, duration).max(Duration::from_micros(1))
}
