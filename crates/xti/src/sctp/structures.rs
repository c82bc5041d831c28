//! Options of SCTP whose values are structures of the study's driver, in words of four octets: T_SCTP_HB, T_SCTP_RTO
//! and T_SCTP_STATUS.

use super::{SctpOptions, Situation, name, row_of};
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

    /// Numbers of options that the words behind the address are.
    fn fields(self) -> &'static [u32] {
        match self {
            Structure::Heartbeats | Structure::Status => &[],
            Structure::Timeouts => &[
                name::RTO_INITIAL,
                name::RTO_MIN,
                name::RTO_MAX,
                name::PATH_MAX_RETRANS,
            ],
        }
    }

    fn words(self, options: &SctpOptions, situation: &Situation<'_>) -> Vec<u32> {
        match self {
            Structure::Heartbeats => {
                vec![0, u32::from(options.heartbeat_ms > 0), options.heartbeat_ms]
            }
            Structure::Timeouts => {
                let fields = self.fields().iter().filter_map(|name| row_of(*name));
                [0].into_iter()
                    .chain(fields.map(|row| (row.get)(options)))
                    .collect()
            }
            Structure::Status => status_words(situation.status),
        }
    }

    /// Puts what a structure says into `user`; None when it is none, or of one path alone, as all of an engine are
    /// alike.
    fn set(self, user: &mut SctpOptions, words: &[u32]) -> Option<()> {
        let (0, words) = words.split_first().map(|(first, rest)| (*first, rest))? else {
            return None;
        };
        match (self, words) {
            (Structure::Heartbeats, [on @ 0..=1, silence_ms]) => {
                let wanted = if *on == 1 { *silence_ms } else { 0 };
                let row = row_of(name::HEARTBEAT_ITVL)?;
                let is_silence = *on == 0 || wanted > 0;
                (is_silence && row.values.contains(&wanted)).then(|| (row.set)(user, wanted))
            }
            (Structure::Timeouts, [_, _, _, _]) => {
                for (name, word) in self.fields().iter().zip(words) {
                    let row = row_of(*name).filter(|row| row.values.contains(word))?;
                    (row.set)(user, *word);
                }
                Some(())
            }
            _ => None,
        }
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

/// The answer to a request of a structure; what is wanted is put into `user`, also when it is only checked.
pub(super) fn manage(
    structure: Structure,
    situation: &Situation<'_>,
    (user, request): (&mut SctpOptions, &TransportOption),
    action: OptionsAction,
) -> TransportOption {
    let permitted = match structure {
        Structure::Status => OptionStatus::ReadOnly,
        _ if situation.engine.is_some() => OptionStatus::ReadOnly,
        _ => OptionStatus::Success,
    };
    let value_in = |options: &SctpOptions| octets_of(&structure.words(options, situation));
    let (status, value) = match action {
        OptionsAction::Default => (permitted, value_in(situation.default)),
        OptionsAction::Check if request.value.is_empty() => (permitted, Vec::new()),
        _ if action == OptionsAction::Current || permitted == OptionStatus::ReadOnly => {
            (permitted, value_in(&situation.current(user)))
        }
        _ => {
            let wanted = match request.value.is_empty() {
                true => Some(structure.words(situation.default, situation)),
                false => words_in(&request.value),
            };
            let mut changed = *user;
            match wanted.and_then(|words| structure.set(&mut changed, &words)) {
                Some(()) => {
                    *user = changed;
                    (permitted, value_in(&changed))
                }
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

fn octets_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words_in(octets: &[u8]) -> Option<Vec<u32>> {
    let (words, rest) = octets.as_chunks();
    let words = words.iter().map(|word| u32::from_ne_bytes(*word));
    rest.is_empty().then(|| words.collect())
}
