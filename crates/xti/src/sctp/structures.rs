//! Options of SCTP whose values are structures of the study's driver, in words of four octets: T_SCTP_HB, T_SCTP_RTO
//! and T_SCTP_STATUS.

use super::{SctpOptions, Situation, Wanted, name, row_of};
use crate::options::key;
use crate::tpi::{OptionStatus, OptionsAction, TransportOption, level};
use std::net::Ipv4Addr;

/// What a provider does not know (T_UNSPEC).
const UNSPECIFIED: u32 = !0 - 2;

/// Paths that T_SCTP_STATUS tells of: with them its value has 208 octets.
const PATHS_MAX: usize = 7;

/// The state of an association (T_SCTP_STATUS).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SctpStatus {
    /// Octets that the own window allows the peer now.
    pub receive_window: u32,
    /// Octets of the longest such window.
    pub receive_buffer: u32,
    /// Its paths.
    pub paths: Vec<SctpPath>,
}

/// A path of an association. Times are in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SctpPath {
    /// The peer's address; None where it is none of IPv4, which is all that the structure has room for.
    pub address: Option<Ipv4Addr>,
    /// Octets of chunks that may be in flight.
    pub congestion_window: u32,
    /// Octets of chunks in flight.
    pub flight: u32,
    /// Smoothed round-trip time; 0 before the first sample.
    pub srtt_ms: u32,
    /// Its variation.
    pub rttvar_ms: u32,
    /// The retransmission timeout.
    pub rto_ms: u32,
    /// What is decided of it.
    pub options: SctpPathOptions,
}

/// What a user decides of one path. Times are in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SctpPathOptions {
    /// Silence before it is probed; 0 for never.
    pub heartbeat_ms: u32,
    /// The retransmission timeout before a round trip was measured.
    pub rto_initial_ms: u32,
    /// The shortest one.
    pub rto_min_ms: u32,
    /// The longest one.
    pub rto_max_ms: u32,
    /// Timeouts in a row that it survives.
    pub retries: u32,
}

impl SctpPathOptions {
    /// What an endpoint's paths begin with.
    fn of(options: &SctpOptions) -> SctpPathOptions {
        SctpPathOptions {
            heartbeat_ms: options.heartbeat_ms,
            rto_initial_ms: options.rto_initial_ms,
            rto_min_ms: options.rto_min_ms,
            rto_max_ms: options.rto_max_ms,
            retries: options.path_retries,
        }
    }

    /// Lets an endpoint's paths begin with it.
    fn change(&self, options: &mut SctpOptions) {
        options.heartbeat_ms = self.heartbeat_ms;
        options.rto_initial_ms = self.rto_initial_ms;
        options.rto_min_ms = self.rto_min_ms;
        options.rto_max_ms = self.rto_max_ms;
        options.path_retries = self.retries;
    }

    /// Whether the bounds of the timeout are in order.
    pub(super) fn is_in_order(&self) -> bool {
        self.rto_min_ms <= self.rto_max_ms && self.rto_initial_ms <= self.rto_max_ms
    }
}

/// An option with a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Structure {
    /// The address of a path, 0 for all; 1 for heartbeats; the silence before one.
    Heartbeats,
    /// The address of a path, 0 for all; the first, the shortest, the longest timeout; timeouts that a path survives.
    Timeouts,
    /// [`SctpStatus`].
    Status,
}

impl Structure {
    pub(super) fn of(option: &TransportOption) -> Option<Structure> {
        Some(match key(option) {
            (level::INET_SCTP, name::HB) => Structure::Heartbeats,
            (level::INET_SCTP, name::RTO) => Structure::Timeouts,
            (level::INET_SCTP, name::STATUS) => Structure::Status,
            _ => return None,
        })
    }

    /// The words behind the address.
    fn words(self, of: &SctpPathOptions) -> Vec<u32> {
        match self {
            Structure::Heartbeats => vec![u32::from(of.heartbeat_ms > 0), of.heartbeat_ms],
            Structure::Timeouts => {
                vec![of.rto_initial_ms, of.rto_min_ms, of.rto_max_ms, of.retries]
            }
            Structure::Status => Vec::new(),
        }
    }

    /// Puts what the words behind the address say into `of`; None when they are none for it.
    fn set(self, of: &mut SctpPathOptions, words: &[u32]) -> Option<()> {
        let is_allowed = |name, value| row_of(name).is_some_and(|row| row.values.contains(&value));
        match (self, words) {
            (Structure::Heartbeats, [0, _]) => of.heartbeat_ms = 0,
            (Structure::Heartbeats, [1, silence_ms])
                if *silence_ms > 0 && is_allowed(name::HEARTBEAT_ITVL, *silence_ms) =>
            {
                of.heartbeat_ms = *silence_ms;
            }
            (Structure::Timeouts, [initial, min, max, retries])
                if is_allowed(name::RTO_INITIAL, *initial)
                    && is_allowed(name::RTO_MIN, *min)
                    && is_allowed(name::RTO_MAX, *max)
                    && is_allowed(name::PATH_MAX_RETRANS, *retries) =>
            {
                (of.rto_initial_ms, of.rto_min_ms) = (*initial, *min);
                (of.rto_max_ms, of.retries) = (*max, *retries);
            }
            _ => return None,
        }
        Some(())
    }
}

fn status_words(status: Option<&SctpStatus>) -> Vec<u32> {
    let none = SctpStatus::default();
    let status = status.unwrap_or(&none);
    let paths = &status.paths[..status.paths.len().min(PATHS_MAX)];
    let mut words = vec![
        status.receive_window,
        status.receive_buffer,
        paths.len() as u32,
    ];
    for path in paths {
        let address = path.address.unwrap_or(Ipv4Addr::UNSPECIFIED);
        words.extend([
            u32::from_ne_bytes(address.octets()),
            path.congestion_window,
            path.flight,
            path.srtt_ms,
            path.rttvar_ms,
            path.rto_ms,
            UNSPECIFIED,
        ]);
    }
    words
}

/// What a structure is of.
#[derive(Clone, Copy)]
enum Of {
    /// All paths that there will be.
    Endpoint,
    /// The path with this index.
    Path(usize),
}

/// The answer to a request of a structure; what is wanted is put into `wanted`, also when it is only checked.
pub(super) fn manage(
    structure: Structure,
    situation: &Situation<'_>,
    (wanted, request): (&mut Wanted, &TransportOption),
    action: OptionsAction,
) -> TransportOption {
    let (status, value) = match (structure, dest_of(request)) {
        (Structure::Status, _) => {
            let value = match action {
                OptionsAction::Check if request.value.is_empty() => Vec::new(),
                _ => octets_of(&status_words(situation.status)),
            };
            (OptionStatus::ReadOnly, value)
        }
        (_, 0) => negotiate(
            (structure, Of::Endpoint),
            situation,
            (wanted, request),
            action,
        ),
        (_, dest) => {
            let address = Ipv4Addr::from(dest.to_ne_bytes());
            let mut paths = wanted.paths.iter();
            match paths.position(|path| path.address == Some(address)) {
                Some(path) => negotiate(
                    (structure, Of::Path(path)),
                    situation,
                    (wanted, request),
                    action,
                ),
                None => (OptionStatus::Failure, request.value.clone()),
            }
        }
    };
    TransportOption {
        status: Some(status),
        value,
        ..request.clone()
    }
}

/// Status and value of the answer.
fn negotiate(
    (structure, of): (Structure, Of),
    situation: &Situation<'_>,
    (wanted, request): (&mut Wanted, &TransportOption),
    action: OptionsAction,
) -> (OptionStatus, Vec<u8>) {
    let engine = situation.engine.unwrap_or(situation.default);
    let (permitted, default, current) = match of {
        Of::Endpoint if situation.engine.is_some() => (
            OptionStatus::ReadOnly,
            SctpPathOptions::of(situation.default),
            SctpPathOptions::of(engine),
        ),
        Of::Endpoint => (
            OptionStatus::Success,
            SctpPathOptions::of(situation.default),
            SctpPathOptions::of(&wanted.options),
        ),
        Of::Path(path) => (
            OptionStatus::Success,
            SctpPathOptions::of(engine),
            wanted.paths[path].options,
        ),
    };
    let value_in = |of: &SctpPathOptions| {
        let words = [vec![dest_of(request)], structure.words(of)].concat();
        octets_of(&words)
    };
    match action {
        OptionsAction::Default => (permitted, value_in(&default)),
        OptionsAction::Check if request.value.is_empty() => (permitted, Vec::new()),
        _ if action == OptionsAction::Current || permitted == OptionStatus::ReadOnly => {
            (permitted, value_in(&current))
        }
        _ => {
            let words = match request.value.is_empty() {
                true => Some(structure.words(&default)),
                false => words_in(&request.value).map(|words| words[1..].to_vec()),
            };
            let mut changed = current;
            if words
                .and_then(|words| structure.set(&mut changed, &words))
                .is_none()
            {
                return (OptionStatus::Failure, request.value.clone());
            }
            match of {
                Of::Endpoint => changed.change(&mut wanted.options),
                Of::Path(path) => wanted.paths[path].options = changed,
            }
            (permitted, value_in(&changed))
        }
    }
}

/// The address in front of a structure; 0 without one.
fn dest_of(request: &TransportOption) -> u32 {
    let first = request.value.first_chunk();
    first.map_or(0, |octets| u32::from_ne_bytes(*octets))
}

fn octets_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words_in(octets: &[u8]) -> Option<Vec<u32>> {
    let (words, rest) = octets.as_chunks();
    let words = words.iter().map(|word| u32::from_ne_bytes(*word));
    (rest.is_empty() && words.len() > 0).then(|| words.collect())
}
