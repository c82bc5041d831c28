//! Packets that are discarded instead of sent, and the time that copying them takes.
//!
//! An adapter takes a packet by copying it from the host's memory to its own. A wire that discards does that and no more: it
//! copies the packets of a call one behind the other, and forgets them. The time of that is known, and what is left of a
//! sender's time is what its protocol takes.

use std::hint::black_box;
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Pairs of clock reads, of which the shortest says what one read costs.
const CLOCK_READS: usize = 64;

/// What wires copied that discard their packets; handles of it share their counts.
#[derive(Clone, Debug)]
pub struct DiscardMeter(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// What a clock read takes, ns: it is in each time between two of them.
    clock_read_ns: u64,
    calls: AtomicU64,
    packets: AtomicU64,
    octets: AtomicU64,
    /// Time of all copies, with the clock reads.
    timed_ns: AtomicU64,
}

/// What was discarded so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Discarded {
    /// Calls of the wire.
    pub calls: u64,
    /// Packets.
    pub packets: u64,
    /// Octets of them.
    pub octets: u64,
    /// Time that their copies took, without the clock reads, ns.
    pub copy_ns: u64,
}

impl Default for DiscardMeter {
    fn default() -> DiscardMeter {
        DiscardMeter::new()
    }
}

impl PartialEq for DiscardMeter {
    fn eq(&self, other: &DiscardMeter) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DiscardMeter {}

impl DiscardMeter {
    /// A meter at 0.
    pub fn new() -> DiscardMeter {
        let read = (0..CLOCK_READS).map(|_| Instant::now().elapsed()).min();
        DiscardMeter(Arc::new(Shared {
            clock_read_ns: nanos(read.unwrap_or_default()),
            calls: AtomicU64::new(0),
            packets: AtomicU64::new(0),
            octets: AtomicU64::new(0),
            timed_ns: AtomicU64::new(0),
        }))
    }

    /// What was discarded so far.
    pub fn discarded(&self) -> Discarded {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let calls = read(&self.0.calls);
        // Off all of them together: a copy that is shorter than the clock's steps is too short or too long by as much.
        let reads_ns = calls.saturating_mul(self.0.clock_read_ns);
        Discarded {
            calls,
            packets: read(&self.0.packets),
            octets: read(&self.0.octets),
            copy_ns: read(&self.0.timed_ns).saturating_sub(reads_ns),
        }
    }

    fn add(&self, octets: usize, segment_size: usize, took: Duration) {
        let add = |count: &AtomicU64, more: u64| count.fetch_add(more, Ordering::Relaxed);
        add(&self.0.calls, 1);
        add(&self.0.packets, octets.div_ceil(segment_size.max(1)) as u64);
        add(&self.0.octets, octets as u64);
        add(&self.0.timed_ns, nanos(took));
    }
}

/// What takes the packets of a wire in place of its medium.
#[derive(Debug)]
pub(crate) struct Discarding {
    meter: DiscardMeter,
    /// Where the octets of a call are copied to.
    memory: Vec<u8>,
}

impl Discarding {
    pub(crate) fn new(meter: DiscardMeter) -> Discarding {
        let memory = Vec::new();
        Discarding { meter, memory }
    }

    /// Copies the packets of a call, all but the last of `segment_size` octets, and forgets them.
    pub(crate) fn take(&mut self, slices: &[IoSlice<'_>], segment_size: usize) {
        let octets = slices.iter().map(|part| part.len()).sum();
        self.memory.clear();
        self.memory.reserve(octets);
        let begun = Instant::now();
        for part in slices {
            self.memory.extend_from_slice(black_box(part));
        }
        black_box(self.memory.as_mut_slice());
        self.meter.add(octets, segment_size, begun.elapsed());
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_octets_of_a_call_are_copied_and_counted_by_packets() {
        let meter = DiscardMeter::new();
        let mut discarding = Discarding::new(meter.clone());
        let parts = [IoSlice::new(b"head"), IoSlice::new(b"and body")];
        discarding.take(&parts, 5);
        assert_eq!(discarding.memory, b"headand body");
        discarding.take(&parts[..1], 1472);
        assert_eq!(discarding.memory, b"head");
        let seen = meter.discarded();
        assert_eq!((seen.calls, seen.packets, seen.octets), (2, 4, 16));
    }

    #[test]
    fn a_longer_copy_takes_longer() {
        let copy_ns = |len: usize| {
            let octets = vec![7; len];
            let meter = DiscardMeter::new();
            let mut discarding = Discarding::new(meter.clone());
            for _ in 0..100 {
                discarding.take(&[IoSlice::new(&octets)], len);
            }
            meter.discarded().copy_ns
        };
        // A thousand times as many octets: no machine is so disturbed that they take no longer.
        assert!(copy_ns(1 << 20) > copy_ns(1 << 10));
    }

    #[test]
    fn meters_are_the_same_if_they_share_counts() {
        let meter = DiscardMeter::new();
        assert_eq!(meter, meter.clone());
        assert_ne!(meter, DiscardMeter::new());
    }
}
