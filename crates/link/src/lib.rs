//! Models of a medium: when, whether and how often a frame arrives.
//!
//! A [`Link`] is one direction of a path: a rate with a byte-limited drop-tail queue in front, a
//! propagation delay, and faults. It is asked about each frame in turn and answers with arrival
//! times; it moves no bytes and reads no clock, so the simulator and an emulator paced by a real
//! clock use the same code.
//!
//! Times are picoseconds. Fault decisions for frame i are a function of (seed, direction, i)
//! alone, so the same frame is lost whatever else changes.
#![forbid(unsafe_code)]

use engine::SplitMix64;

/// Picoseconds in a second.
pub const PS_PER_S: u64 = 1_000_000_000_000;

/// One direction of a path. Probabilities are in parts of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfig {
    /// Bits a second; None for a medium that takes no time.
    pub rate_bps: Option<u64>,
    /// Propagation delay, ps.
    pub delay_ps: u64,
    /// Extra delay of a reordered frame, ps.
    pub reorder_ps: u64,
    /// Octets that may wait for the medium.
    pub queue_bytes: u64,
    /// Frames lost.
    pub loss_ppm: u32,
    /// Frames that arrive twice.
    pub duplicate_ppm: u32,
    /// Frames held back, so that later ones overtake them.
    pub reorder_ppm: u32,
    /// Frames with one bit turned over.
    pub corrupt_ppm: u32,
}

impl Default for LinkConfig {
    fn default() -> Self {
        LinkConfig {
            rate_bps: None,
            delay_ps: 0,
            reorder_ps: 0,
            queue_bytes: u64::MAX,
            loss_ppm: 0,
            duplicate_ppm: 0,
            reorder_ppm: 0,
            corrupt_ppm: 0,
        }
    }
}

/// What becomes of one frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// When it arrives, ps; None when it is lost.
    pub arrival_ps: Option<u64>,
    /// When a second copy arrives, ps.
    pub copy_ps: Option<u64>,
    /// Which bit of it is turned over, counted from the frame's first.
    pub corrupt_bit: Option<u64>,
}

/// What a link has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Frames offered.
    pub offered: u64,
    /// Frames that arrive, copies not counted.
    pub delivered: u64,
    /// Frames lost by the loss model.
    pub lost: u64,
    /// Frames dropped because the queue was full.
    pub dropped: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Frames held back.
    pub reordered: u64,
    /// Frames damaged.
    pub corrupted: u64,
}

/// One direction of a path.
#[derive(Clone, Debug)]
pub struct Link {
    config: LinkConfig,
    seed: u64,
    free_at_ps: u64,
    counters: LinkCounters,
}

/// Which decision a random draw is for; each has its own stream.
#[derive(Clone, Copy)]
enum Draw {
    Loss,
    Duplicate,
    Reorder,
    Corrupt,
    Bit,
}

impl Link {
    /// A link whose decisions are a function of `seed` and `direction`.
    pub fn new(config: LinkConfig, seed: u64, direction: u32) -> Link {
        Link {
            config,
            seed: SplitMix64::at(seed, u64::from(direction)),
            free_at_ps: 0,
            counters: LinkCounters::default(),
        }
    }

    /// What becomes of a frame of `len` octets offered at `now_ps`. `now_ps` never goes back.
    pub fn offer(&mut self, now_ps: u64, len: usize) -> Verdict {
        let index = self.counters.offered;
        self.counters.offered += 1;
        let Some(sent_ps) = self.enqueue(now_ps, len) else {
            self.counters.dropped += 1;
            return Verdict::default();
        };
        if self.decides(Draw::Loss, index, self.config.loss_ppm) {
            self.counters.lost += 1;
            return Verdict::default();
        }
        self.counters.delivered += 1;
        self.deliver(index, sent_ps + self.config.delay_ps, len)
    }

    /// What it has done so far.
    pub fn counters(&self) -> LinkCounters {
        self.counters
    }

    /// When the last bit leaves the sender, or None when the queue has no room.
    fn enqueue(&mut self, now_ps: u64, len: usize) -> Option<u64> {
        let Some(rate_bps) = self.config.rate_bps else {
            return Some(now_ps);
        };
        let start_ps = self.free_at_ps.max(now_ps);
        let waiting_bits = bits_in(start_ps - now_ps, rate_bps);
        if waiting_bits / 8 + len as u64 > self.config.queue_bytes {
            return None;
        }
        self.free_at_ps = start_ps + time_of(len, rate_bps);
        Some(self.free_at_ps)
    }

    fn deliver(&mut self, index: u64, arrival_ps: u64, len: usize) -> Verdict {
        let mut verdict = Verdict {
            arrival_ps: Some(arrival_ps),
            ..Verdict::default()
        };
        if self.decides(Draw::Duplicate, index, self.config.duplicate_ppm) {
            self.counters.duplicated += 1;
            verdict.copy_ps = Some(arrival_ps);
        }
        if self.decides(Draw::Reorder, index, self.config.reorder_ppm) {
            self.counters.reordered += 1;
            verdict.arrival_ps = Some(arrival_ps + self.config.reorder_ps);
        }
        if len > 0 && self.decides(Draw::Corrupt, index, self.config.corrupt_ppm) {
            self.counters.corrupted += 1;
            verdict.corrupt_bit = Some(self.draw(Draw::Bit, index) % (len as u64 * 8));
        }
        verdict
    }

    fn decides(&self, draw: Draw, index: u64, ppm: u32) -> bool {
        ppm > 0 && self.draw(draw, index) % 1_000_000 < u64::from(ppm)
    }

    fn draw(&self, draw: Draw, index: u64) -> u64 {
        SplitMix64::at(SplitMix64::at(self.seed, draw as u64), index)
    }
}

/// Time `len` octets take at `rate_bps`, ps, rounded to nearest once.
fn time_of(len: usize, rate_bps: u64) -> u64 {
    let bits = len as u128 * 8;
    let rate = u128::from(rate_bps.max(1));
    ((bits * u128::from(PS_PER_S) + rate / 2) / rate) as u64
}

/// Bits sent in `span_ps` at `rate_bps`.
fn bits_in(span_ps: u64, rate_bps: u64) -> u64 {
    (u128::from(span_ps) * u128::from(rate_bps) / u128::from(PS_PER_S)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_takes_its_bits_at_the_rate_plus_the_delay() {
        let config = LinkConfig {
            rate_bps: Some(10_000_000),
            delay_ps: 5_000,
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 1, 0);
        // 1250 octets are 10,000 bits: 1 ms at 10 Mbit/s.
        assert_eq!(link.offer(0, 1250).arrival_ps, Some(1_000_005_000));
        // The second waits for the first.
        assert_eq!(link.offer(0, 1250).arrival_ps, Some(2_000_005_000));
    }

    #[test]
    fn the_queue_drops_what_it_cannot_hold() {
        let config = LinkConfig {
            rate_bps: Some(8_000_000),
            queue_bytes: 2000,
            ..LinkConfig::default()
        };
        let mut link = Link::new(config, 1, 0);
        let arrived = (0..5).filter(|_| link.offer(0, 1000).arrival_ps.is_some());
        assert_eq!(arrived.count(), 2);
        assert_eq!(link.counters().dropped, 3);
    }

    #[test]
    fn loss_is_near_its_rate_and_the_same_for_the_same_seed() {
        let config = LinkConfig {
            loss_ppm: 100_000,
            ..LinkConfig::default()
        };
        let run = |seed| {
            let mut link = Link::new(config, seed, 0);
            (0..10_000)
                .map(|_| link.offer(0, 100).arrival_ps.is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(run(3), run(3));
        assert_ne!(run(3), run(4));
        let lost = run(3).iter().filter(|arrived| !**arrived).count();
        // 10,000 draws at 10 %: standard deviation 30, so 150 is five of them.
        assert!((850..=1150).contains(&lost), "lost {lost}");
    }
}
