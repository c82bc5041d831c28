//! What a model makes of frames, and the frames it keeps meanwhile.

use super::lane::{Lag, LaneReport, Outlets};
use super::store::Store;
use super::superframe::{VNET_HEADER, on_wire};
use crate::host::number_of;
use link::{Link, LinkConfig, Path};

/// Decides about frames and keeps them until they are due.
pub trait Carrier: Send {
    /// Takes a frame that host `from` sent at `now_ps`.
    fn offer(&mut self, now_ps: u64, from: usize, octets: &mut [u8], outlets: &mut Outlets);

    /// Writes what is due by `now_ps`.
    fn deliver(&mut self, now_ps: u64, outlets: &mut Outlets);

    /// When it next has something to do.
    fn due_ps(&self) -> Option<u64>;

    /// Begins a measurement.
    fn begin(&mut self, now_ps: u64, seed: u64);

    /// Ends it.
    fn end(&mut self);

    /// What the model did since the measurement began; times and writes are the lane's to add.
    fn report(&self) -> LaneReport;
}

/// One direction of a path.
#[derive(Debug)]
pub struct PathCarrier {
    path: Path,
    direction: usize,
    link: Link,
    /// When the measurement began; None between measurements.
    epoch_ps: Option<u64>,
    change_ps: Option<u64>,
    store: Store,
    lag: Lag,
    overflowed: u64,
    header: usize,
}

impl PathCarrier {
    /// Direction 0 or 1 of `path`; frames have a header in front when they are super-frames.
    pub(crate) fn new(path: Path, direction: usize, seed: u64, super_frames: bool) -> PathCarrier {
        let config = faultless(path.directions[direction]);
        PathCarrier {
            path,
            direction,
            link: Link::new(config, seed, direction as u32),
            epoch_ps: None,
            change_ps: None,
            store: Store::default(),
            lag: Lag::default(),
            overflowed: 0,
            header: if super_frames { VNET_HEADER } else { 0 },
        }
    }

    /// Follows the schedule up to `now_ps`.
    fn follow(&mut self, now_ps: u64) {
        let (Some(epoch_ps), Some(change_ps)) = (self.epoch_ps, self.change_ps) else {
            return;
        };
        if now_ps >= change_ps {
            let since = now_ps - epoch_ps;
            self.link.change(self.path.at(since)[self.direction]);
            let next = self.path.next_change_ps(since);
            self.change_ps = next.map(|at| epoch_ps + at);
        }
    }

    fn keep(&mut self, due_ps: u64, to: Option<usize>, octets: &[u8]) {
        if !self.store.push(due_ps, to, octets) {
            self.overflowed += 1;
        }
    }
}

impl Carrier for PathCarrier {
    fn offer(&mut self, now_ps: u64, _from: usize, octets: &mut [u8], outlets: &mut Outlets) {
        self.follow(now_ps);
        let len = if self.header == 0 {
            octets.len()
        } else {
            on_wire(octets).1
        };
        let verdict = self.link.offer(now_ps, len);
        let Some(arrival_ps) = verdict.arrival_ps else {
            return;
        };
        if let Some(bit) = verdict.corrupt_bit {
            // Faults befall single frames, which have no header in front.
            octets[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let to = number_of(octets.get(self.header..).unwrap_or_default());
        if let Some(copy_ps) = verdict.copy_ps {
            self.keep(copy_ps, to, octets);
        }
        if arrival_ps <= now_ps && self.store.is_empty() {
            outlets.write(to, octets);
        } else {
            self.keep(arrival_ps, to, octets);
        }
    }

    fn deliver(&mut self, now_ps: u64, outlets: &mut Outlets) {
        let lag = &mut self.lag;
        let mut write = |due_ps: u64, to: Option<usize>, octets: &[u8]| {
            lag.record(due_ps, now_ps);
            outlets.write(to, octets);
        };
        while self.store.pop(now_ps, &mut write) {}
    }

    fn due_ps(&self) -> Option<u64> {
        self.store.due_ps()
    }

    fn begin(&mut self, now_ps: u64, seed: u64) {
        let config = self.path.at(0)[self.direction];
        self.link = Link::new(config, seed, self.direction as u32);
        self.epoch_ps = Some(now_ps);
        self.change_ps = self.path.next_change_ps(0).map(|at| now_ps + at);
        self.lag = Lag::default();
        self.overflowed = 0;
    }

    fn end(&mut self) {
        self.epoch_ps = None;
        self.change_ps = None;
        self.link
            .change(faultless(self.path.directions[self.direction]));
    }

    fn report(&self) -> LaneReport {
        LaneReport {
            link: self.link.counters(),
            overflowed: self.overflowed,
            in_flight: self.store.len() as u64,
            lag: self.lag,
            ..LaneReport::default()
        }
    }
}

/// The link while nothing is measured: circuits are made over it, and none shall fail for a fault
/// that belongs to the measurement.
fn faultless(config: LinkConfig) -> LinkConfig {
    LinkConfig {
        loss_ppm: 0,
        bursts: None,
        duplicate_ppm: 0,
        reorder_ppm: 0,
        corrupt_ppm: 0,
        cut: false,
        ..config
    }
}
