//! Plans of stations: configuration, data, faults.

use super::dishonest::Lie;
use core::time::Duration;
use engine_xtp::group::Config;
use link::LinkConfig;

/// A millisecond in picoseconds.
pub const MS: u64 = 1_000_000_000;

/// The plan of a station.
#[derive(Clone, Debug)]
pub struct Station {
    pub config: Config,
    /// Bytes its user sends to the group; None for a receiver.
    pub sends: Option<u64>,
    /// Its user waits for the acknowledgement of what it wrote.
    pub asks: bool,
    /// When it starts, ps.
    pub start_ps: u64,
    /// When it crashes, ps.
    pub crash_ps: Option<u64>,
    /// When it restarts without its state, ps.
    pub restart_ps: Option<u64>,
    /// How its control packets lie.
    pub lie: Option<Lie>,
    /// Its user consumes data this much later.
    pub pause: Duration,
    /// Its incoming link.
    pub link: LinkConfig,
    /// Its outgoing link, whose faults all receivers share.
    pub out: LinkConfig,
    /// When it is cut off, ps.
    pub cut_ps: std::ops::Range<u64>,
}

impl Station {
    pub fn receiver(config: &Config) -> Station {
        Station {
            config: config.clone(),
            sends: None,
            asks: false,
            start_ps: 0,
            crash_ps: None,
            restart_ps: None,
            lie: None,
            pause: Duration::ZERO,
            link: LinkConfig::default(),
            out: clean(),
            cut_ps: 0..0,
        }
    }

    pub fn sender(config: &Config, bytes: u64) -> Station {
        Station {
            sends: Some(bytes),
            ..Station::receiver(config)
        }
    }
}

/// 100 Mbit/s with a delay of 200 us.
pub fn clean() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(100_000_000),
        delay_ps: MS / 5,
        ..LinkConfig::default()
    }
}
