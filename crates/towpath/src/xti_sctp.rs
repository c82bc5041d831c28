//! Options of SCTP that a user of XTI sets: what they are in the engine's configuration, and of an association.

use crate::sctp::EndpointConfig;
use driver::Part;
use engine::{Address, AssociationId, Instant, Note, Reliability};
use engine_sctp::{PathParameters, RtoBounds, Sctp, SctpConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use xti::sctp::{MessageOptions, SctpOptions, SctpPath, SctpPathOptions, SctpStatus};

/// Octets of SCTP's common header and of the header of a DATA chunk (RFC 9260 sections 3 and 3.3.1).
const HEADERS: usize = 12 + 16;

/// Octets of the packets that probes begin with.
const FIRST_PACKET: usize = 1200;

fn to_ms(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

fn of_ms(ms: u32) -> Duration {
    Duration::from_millis(ms.into())
}

fn segment_max(packet: usize) -> u32 {
    packet.saturating_sub(HEADERS) as u32
}

/// The options that a configuration stands for.
pub(crate) fn of_config(config: &SctpConfig) -> SctpOptions {
    let packet = match config.probes_path_mtu {
        true => config.packet_len.min(FIRST_PACKET),
        false => config.packet_len,
    };
    SctpOptions {
        // What the configuration says of all messages is not said with each.
        message: MessageOptions::default(),
        reports_options: false,
        no_delay: config.coalesce_delay.is_zero(),
        cookie_life_ms: to_ms(config.cookie_life),
        sack_delay_ms: to_ms(config.sack_delay),
        path_retries: config.path_retries,
        association_retries: config.association_retries,
        init_retries: config.init_retries,
        heartbeat_ms: to_ms(config.heartbeat_interval),
        rto_initial_ms: to_ms(config.rto.initial),
        rto_min_ms: to_ms(config.rto.min),
        rto_max_ms: to_ms(config.rto.max),
        outbound_streams: config.outbound_streams,
        inbound_streams: config.inbound_streams,
        adaptation: config.adaptation,
        partial_reliability: config.partial_reliability,
        max_burst: config.max_burst,
        segment_max: segment_max(packet),
    }
}

/// The settings with what a user has set. What messages say goes with them.
pub(crate) fn configured(settings: &EndpointConfig, user: &SctpOptions) -> EndpointConfig {
    let mut settings = settings.clone();
    let config = &mut settings.config;
    if user.no_delay != config.coalesce_delay.is_zero() {
        config.coalesce_delay = match user.no_delay {
            true => Duration::ZERO,
            false => SctpConfig::default().coalesce_delay,
        };
    }
    config.cookie_life = of_ms(user.cookie_life_ms);
    config.sack_delay = of_ms(user.sack_delay_ms);
    config.path_retries = user.path_retries;
    config.association_retries = user.association_retries;
    config.init_retries = user.init_retries;
    config.heartbeat_interval = of_ms(user.heartbeat_ms);
    config.rto.initial = of_ms(user.rto_initial_ms);
    config.rto.min = of_ms(user.rto_min_ms);
    config.rto.max = of_ms(user.rto_max_ms);
    config.outbound_streams = user.outbound_streams;
    config.inbound_streams = user.inbound_streams;
    config.adaptation = user.adaptation;
    config.partial_reliability = user.partial_reliability;
    config.max_burst = user.max_burst;
    settings
}

/// The options of an association of an engine that was made with `made_with`.
pub(crate) fn of_association(
    engine: &Sctp,
    id: AssociationId,
    made_with: &SctpOptions,
) -> SctpOptions {
    let paths = engine.paths(id);
    let path = paths.iter().find(|path| path.carries_data);
    SctpOptions {
        outbound_streams: engine
            .outbound_streams(id)
            .unwrap_or(made_with.outbound_streams),
        inbound_streams: engine
            .inbound_streams(id)
            .unwrap_or(made_with.inbound_streams),
        segment_max: path.map_or(made_with.segment_max, |path| segment_max(path.path_mtu)),
        ..*made_with
    }
}

/// The address of a path where the structures have room for it.
fn address_of(path: &engine_sctp::PathSummary) -> Option<Ipv4Addr> {
    match path.path.remote {
        Address::Socket(SocketAddr::V4(address)) => Some(*address.ip()),
        _ => None,
    }
}

/// Decides what a user may of a path: of all between both ends' addresses that lead to its address.
pub(crate) fn set_path(engine: &mut Sctp, now: Instant, id: AssociationId, wanted: &SctpPath) {
    let options = &wanted.options;
    let parameters = PathParameters {
        heartbeat_interval: of_ms(options.heartbeat_ms),
        rto: RtoBounds {
            initial: of_ms(options.rto_initial_ms),
            min: of_ms(options.rto_min_ms),
            max: of_ms(options.rto_max_ms),
        },
        retries: options.retries,
    };
    for known in engine.paths(id) {
        if wanted.address.is_some() && address_of(&known) == wanted.address {
            // Bounds were looked at; a path that just went needs none.
            let _ = engine.set_path_parameters(now, id, known.path, parameters);
        }
    }
}

/// How an association stands.
pub(crate) fn status_of(engine: &Sctp, id: AssociationId) -> SctpStatus {
    let number = |octets: u64| u32::try_from(octets).unwrap_or(u32::MAX);
    let path = |path: engine_sctp::PathSummary| SctpPath {
        address: address_of(&path),
        congestion_window: number(path.congestion_window),
        flight: number(path.flight),
        srtt_ms: to_ms(path.srtt),
        rttvar_ms: to_ms(path.rttvar),
        rto_ms: to_ms(path.rto),
        options: SctpPathOptions {
            heartbeat_ms: to_ms(path.parameters.heartbeat_interval),
            rto_initial_ms: to_ms(path.parameters.rto.initial),
            rto_min_ms: to_ms(path.parameters.rto.min),
            rto_max_ms: to_ms(path.parameters.rto.max),
            retries: path.parameters.retries,
        },
    };
    let (receive_window, buffer) = engine.receive_window(id).unwrap_or_default();
    SctpStatus {
        receive_window,
        receive_buffer: number(buffer),
        paths: engine.paths(id).into_iter().map(path).collect(),
    }
}

/// The note of a message.
pub(crate) fn note_of(options: &MessageOptions) -> Note {
    Note {
        stream: options.stream,
        tag: (options.ppid != 0).then_some(u64::from(options.ppid)),
        unordered: options.unordered,
        reliability: match options.lifetime_ms {
            0 => Reliability::Full,
            life => Reliability::Lifetime(of_ms(life)),
        },
        ..Note::default()
    }
}

/// What came with a message.
pub(crate) fn of_part(part: &Part) -> MessageOptions {
    MessageOptions {
        stream: part.note.stream,
        ppid: part.note.tag.unwrap_or(0) as u32,
        unordered: part.note.unordered,
        lifetime_ms: 0,
    }
}
