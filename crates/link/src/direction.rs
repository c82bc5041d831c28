//! One direction of a path: the outcome of each frame.

use crate::config::{LinkConfig, PS_PER_S};
use engine::SplitMix64;

/// Outcome of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameOutcome {
    /// Arrival time, ps; None when it is lost.
    pub arrival_ps: Option<u64>,
    /// Arrival time of a duplicate, ps.
    pub copy_ps: Option<u64>,
    /// The bit that is flipped, counted from the frame's first.
    pub corrupt_bit: Option<u64>,
}

/// Counts of a link. Each frame offered is delivered, lost, dropped or cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames offered.
    pub offered: u64,
    /// Octets of frames offered.
    pub offered_bytes: u64,
    /// Frames delivered, duplicates not counted.
    pub delivered: u64,
    /// Octets of frames delivered.
    pub delivered_bytes: u64,
    /// Frames lost by the loss models.
    pub lost: u64,
    /// Frames dropped because the queue was full.
    pub dropped: u64,
    /// Frames offered while the link was down.
    pub cut: u64,
    /// Duplicates made.
    pub duplicated: u64,
    /// Frames delayed for reordering.
    pub reordered: u64,
    /// Frames corrupted.
    pub corrupted: u64,
}

impl std::ops::Sub for LinkCounters {
    type Output = LinkCounters;

    /// The counts since `earlier`.
    fn sub(self, earlier: LinkCounters) -> LinkCounters {
        LinkCounters {
            offered: self.offered - earlier.offered,
            offered_bytes: self.offered_bytes - earlier.offered_bytes,
            delivered: self.delivered - earlier.delivered,
            delivered_bytes: self.delivered_bytes - earlier.delivered_bytes,
            lost: self.lost - earlier.lost,
            dropped: self.dropped - earlier.dropped,
            cut: self.cut - earlier.cut,
            duplicated: self.duplicated - earlier.duplicated,
            reordered: self.reordered - earlier.reordered,
            corrupted: self.corrupted - earlier.corrupted,
        }
    }
}

/// One direction of a path.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    seed: u64,
    free_at_ps: u64,
    /// No frame arrives before this, except reordered ones.
    in_order_ps: u64,
    is_bad: bool,
    counters: LinkCounters,
}

/// Purpose of a random draw; each has its own stream.
#[derive(Clone, Copy)]
enum Draw {
    Loss,
    Duplicate,
    Reorder,
    Corrupt,
    Bit,
    Jitter,
    State,
    BurstLoss,
}

impl Link {
    /// A link whose random draws are a function of `seed` and `direction`.
    pub fn new(config: LinkConfig, seed: u64, direction: u32) -> Link {
        Link {
            config,
            seed: SplitMix64::at(seed, u64::from(direction)),
            free_at_ps: 0,
            in_order_ps: 0,
            is_bad: false,
            counters: LinkCounters::default(),
        }
    }

    /// The outcome of a frame of `len` octets offered at `now_ps`, which never goes back.
    pub fn offer(&mut self, now_ps: u64, len: usize) -> FrameOutcome {
        let index = self.counters.offered;
        self.counters.offered += 1;
        self.counters.offered_bytes += len as u64;
        let in_burst = self.is_lost_in_burst(index);
        if self.config.cut {
            self.counters.cut += 1;
            return FrameOutcome::default();
        }
        let Some(sent_ps) = self.enqueue(now_ps, len) else {
            self.counters.dropped += 1;
            return FrameOutcome::default();
        };
        if in_burst || self.occurs(Draw::Loss, index, self.config.loss_ppm) {
            self.counters.lost += 1;
            return FrameOutcome::default();
        }
        self.counters.delivered += 1;
        self.counters.delivered_bytes += len as u64;
        self.deliver(index, sent_ps, len)
    }

    /// The counts so far.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// How long what was offered keeps the link busy, ps.
    pub fn backlog_ps(&self, now_ps: u64) -> u64 {
        self.free_at_ps.saturating_sub(now_ps)
    }

    /// Octets that wait or are being sent.
    pub fn waiting_octets(&self, now_ps: u64) -> u64 {
        let rate_bps = self.config.rate_bps.unwrap_or(0);
        bits_in(self.backlog_ps(now_ps), rate_bps) / 8
    }

    /// Transmission time of `len` octets, ps; 0 without a rate.
    pub fn time_ps(&self, len: usize) -> u64 {
        self.config
            .rate_bps
            .map_or(0, |rate_bps| time_of(len, rate_bps))
    }

    /// The current configuration.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Sets the configuration for the next frames. Frames in flight arrive as computed.
    pub fn change(&mut self, config: LinkConfig) {
        self.config = config;
    }

    /// When the last bit has been sent, or None when the queue is full.
    fn enqueue(&mut self, now_ps: u64, len: usize) -> Option<u64> {
        let Some(rate_bps) = self.config.rate_bps else {
            return Some(now_ps);
        };
        let start_ps = self.free_at_ps.max(now_ps);
        if self.config.queue_bytes != u64::MAX && start_ps > now_ps {
            let waiting_bits = bits_in(start_ps - now_ps, rate_bps);
            if waiting_bits / 8 + len as u64 > self.config.queue_bytes {
                return None;
            }
        }
        self.free_at_ps = start_ps + time_of(len, rate_bps);
        Some(self.free_at_ps)
    }

    fn deliver(&mut self, index: u64, sent_ps: u64, len: usize) -> FrameOutcome {
        let arrival_ps = (sent_ps + self.delay_ps(index)).max(self.in_order_ps);
        let mut verdict = FrameOutcome {
            arrival_ps: Some(arrival_ps),
            ..FrameOutcome::default()
        };
        if self.occurs(Draw::Duplicate, index, self.config.duplicate_ppm) {
            self.counters.duplicated += 1;
            verdict.copy_ps = Some(arrival_ps);
        }
        if self.occurs(Draw::Reorder, index, self.config.reorder_ppm) {
            self.counters.reordered += 1;
            verdict.arrival_ps = Some(arrival_ps + self.config.reorder_ps);
        } else {
            self.in_order_ps = arrival_ps;
        }
        if len > 0 && self.occurs(Draw::Corrupt, index, self.config.corrupt_ppm) {
            self.counters.corrupted += 1;
            verdict.corrupt_bit = Some(self.draw(Draw::Bit, index) % (len as u64 * 8));
        }
        verdict
    }

    /// The delay of frame `index`: uniform within the jitter.
    fn delay_ps(&self, index: u64) -> u64 {
        let LinkConfig {
            delay_ps,
            jitter_ps,
            ..
        } = self.config;
        if jitter_ps == 0 {
            return delay_ps;
        }
        let width = u128::from(jitter_ps) * 2 + 1;
        let part = (u128::from(self.draw(Draw::Jitter, index)) * width) >> 64;
        (delay_ps + part as u64).saturating_sub(jitter_ps)
    }

    /// Advances the burst chain by one frame; whether frame `index` is lost.
    fn is_lost_in_burst(&mut self, index: u64) -> bool {
        let Some(bursts) = self.config.bursts else {
            return false;
        };
        let leaves = if self.is_bad {
            bursts.to_good_ppm
        } else {
            bursts.to_bad_ppm
        };
        self.is_bad ^= self.occurs(Draw::State, index, leaves);
        let loss_ppm = if self.is_bad {
            bursts.loss_bad_ppm
        } else {
            bursts.loss_good_ppm
        };
        self.occurs(Draw::BurstLoss, index, loss_ppm)
    }

    fn occurs(&self, draw: Draw, index: u64, ppm: u32) -> bool {
        ppm > 0 && self.draw(draw, index) % 1_000_000 < u64::from(ppm)
    }

    fn draw(&self, draw: Draw, index: u64) -> u64 {
        SplitMix64::at(SplitMix64::at(self.seed, draw as u64), index)
    }
}

/// Transmission time of `len` octets at `rate_bps`, ps, rounded to nearest.
fn time_of(len: usize, rate_bps: u64) -> u64 {
    let bits = len as u128 * 8;
    let rate = u128::from(rate_bps.max(1));
    ((bits * u128::from(PS_PER_S) + rate / 2) / rate) as u64
}

/// Bits sent in `span_ps` at `rate_bps`.
fn bits_in(span_ps: u64, rate_bps: u64) -> u64 {
    (u128::from(span_ps) * u128::from(rate_bps) / u128::from(PS_PER_S)) as u64
}
