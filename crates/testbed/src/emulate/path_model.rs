//! The fate and delay of frames.

use super::delay_queue::DelayQueue;
use super::link_report::{Lag, LinkReport};
use super::link_thread::OutputPorts;
use super::superframe::{VNET_HEADER_LEN, wire_frames};
use crate::host::host_number;
use link::{Link, LinkConfig, Path};

/// A model that decides the fate of frames and delays them.
pub trait FrameModel: Send {
    /// Offset of the Ethernet header in what is read from a port.
    fn ether_header_at(&self) -> usize;

    /// Takes a frame sent by host `from` at `now_ps`.
    fn offer(&mut self, now_ps: u64, from: usize, octets: &mut [u8], outputs: &mut OutputPorts);

    /// Writes frames due by `now_ps`.
    fn deliver(&mut self, now_ps: u64, outputs: &mut OutputPorts);

    /// The time of its next event.
    fn due_ps(&self) -> Option<u64>;

    /// Octets that wait to be sent or are being sent: on a path, of its one direction first; on a shared
    /// Ethernet, at the first host and at the second. None where nothing waits, as without a rate.
    fn queued_octets(&self, now_ps: u64) -> [Option<u64>; 2];

    /// Begins a measurement.
    fn begin(&mut self, now_ps: u64, seed: u64);

    /// Ends a measurement.
    fn end(&mut self);

    /// The model's part of the report; the thread adds times and writes.
    fn report(&self) -> LinkReport;
}

/// The model of one direction of a path.
#[derive(Debug)]
pub struct PathModel {
    path: Path,
    direction: usize,
    link: Link,
    /// Begin of the measurement; None outside measurements.
    began_ps: Option<u64>,
    change_ps: Option<u64>,
    queue: DelayQueue,
    lag: Lag,
    overflowed: u64,
    vnet_header_len: usize,
}

impl PathModel {
    /// Direction 0 or 1 of `path`; super-frames have a virtio header.
    pub(crate) fn new(path: Path, direction: usize, seed: u64, super_frames: bool) -> PathModel {
        let config = without_faults(path.directions[direction]);
        PathModel {
            path,
            direction,
            link: Link::new(config, seed, direction as u32),
            began_ps: None,
            change_ps: None,
            queue: DelayQueue::default(),
            lag: Lag::default(),
            overflowed: 0,
            vnet_header_len: if super_frames { VNET_HEADER_LEN } else { 0 },
        }
    }

    /// Applies schedule changes up to `now_ps`.
    fn apply_schedule(&mut self, now_ps: u64) {
        let (Some(epoch_ps), Some(change_ps)) = (self.began_ps, self.change_ps) else {
            return;
        };
        if now_ps >= change_ps {
            let since = now_ps - epoch_ps;
            self.link.change(self.path.at(since)[self.direction]);
            let next = self.path.next_change_ps(since);
            self.change_ps = next.map(|at| epoch_ps + at);
        }
    }

    fn enqueue(&mut self, due_ps: u64, to: Option<usize>, octets: &[u8]) {
        if !self.queue.push(due_ps, to, octets) {
            self.overflowed += 1;
        }
    }
}

impl FrameModel for PathModel {
    fn ether_header_at(&self) -> usize {
        self.vnet_header_len
    }

    fn offer(&mut self, now_ps: u64, _from: usize, octets: &mut [u8], outputs: &mut OutputPorts) {
        self.apply_schedule(now_ps);
        let len = if self.vnet_header_len == 0 {
            octets.len()
        } else {
            wire_frames(octets).1
        };
        let verdict = self.link.offer(now_ps, len);
        let Some(arrival_ps) = verdict.arrival_ps else {
            return;
        };
        if let Some(bit) = verdict.corrupt_bit {
            // Faults affect single frames only, which have no virtio header.
            octets[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        let to = host_number(octets.get(self.vnet_header_len..).unwrap_or_default());
        if let Some(copy_ps) = verdict.copy_ps {
            self.enqueue(copy_ps, to, octets);
        }
        if arrival_ps <= now_ps && self.queue.is_empty() {
            outputs.write(to, octets);
        } else {
            self.enqueue(arrival_ps, to, octets);
        }
    }

    fn deliver(&mut self, now_ps: u64, outputs: &mut OutputPorts) {
        let lag = &mut self.lag;
        let mut write = |due_ps: u64, to: Option<usize>, octets: &[u8]| {
            lag.record(due_ps, now_ps);
            outputs.write(to, octets);
        };
        while self.queue.pop(now_ps, &mut write) {}
    }

    fn due_ps(&self) -> Option<u64> {
        self.queue.due_ps()
    }

    fn queued_octets(&self, now_ps: u64) -> [Option<u64>; 2] {
        let rate_bps = self.link.config().rate_bps;
        [rate_bps.map(|_| self.link.waiting_octets(now_ps)), None]
    }

    fn begin(&mut self, now_ps: u64, seed: u64) {
        let config = self.path.at(0)[self.direction];
        self.link = Link::new(config, seed, self.direction as u32);
        self.began_ps = Some(now_ps);
        self.change_ps = self.path.next_change_ps(0).map(|at| now_ps + at);
        self.lag = Lag::default();
        self.overflowed = 0;
    }

    fn end(&mut self) {
        self.began_ps = None;
        self.change_ps = None;
        self.link
            .change(without_faults(self.path.directions[self.direction]));
    }

    fn report(&self) -> LinkReport {
        LinkReport {
            link: self.link.counters(),
            overflowed: self.overflowed,
            in_flight: self.queue.len() as u64,
            lag: self.lag,
            ..LinkReport::default()
        }
    }
}

/// The configuration outside measurements: establishing circuits must not fail by faults meant for
/// the measurement.
fn without_faults(config: LinkConfig) -> LinkConfig {
    LinkConfig {
        rate_bps: config.rate_bps,
        delay_ps: config.delay_ps,
        jitter_ps: config.jitter_ps,
        queue_bytes: config.queue_bytes,
        ..LinkConfig::default()
    }
}
