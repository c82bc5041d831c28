//! What it takes this machine to cut packets into cells, on the four rungs on which a study of 1994 built and measured
//! its driver for an ATM adapter; each step adds what the next one costs.
//!
//! Cells are those of that study: SAR headers of 5 and 9 bits, no common part, 44 octets of a packet in each
//! ([`SarFormat::Study`](engine_aal34::pdu::sar::SarFormat::Study)). `rungs` has the work of each rung.

mod rungs;

use engine_aal34::pdu::cell::CELL_LEN;
use engine_aal34::pdu::sar::PIECE_LEN;
use random::SplitMix64;
use rungs::Work;
use serde::Serialize;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Octets of the shortest and of the longest packet: the header of VMTP and its check, which have room for 20 octets of
/// data, and with 1,024 more.
const PACKET_LENS: RangeInclusive<usize> = 68..=1092;

/// Whether VMTP makes packets of so many octets: data that do not fit the header take up multiples of eight.
pub fn is_packet_len(octets: usize) -> bool {
    let data = octets.wrapping_sub(*PACKET_LENS.start());
    PACKET_LENS.contains(&octets) && data.is_multiple_of(8) && (data == 0 || data > 20)
}

/// Packets between two looks at the clock.
const PACKETS_PER_LOOK: u64 = 64;

/// What is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rung {
    /// A word from a register fills as many octets as the cells have.
    FixedWords,
    /// Cells that are ready, from the cache.
    ReadyCells,
    /// One packet that is ready, from the cache, cut each time.
    SplitPackets,
    /// Packets that the engine of VMTP builds from messages in memory, with their check.
    RealPackets,
}

impl Rung {
    /// All of them, the lowest first.
    pub const ALL: [Rung; 4] = [
        Rung::FixedWords,
        Rung::ReadyCells,
        Rung::SplitPackets,
        Rung::RealPackets,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Rung::FixedWords => "fixed-words",
            Rung::ReadyCells => "ready-cells",
            Rung::SplitPackets => "split-packets",
            Rung::RealPackets => "real-packets",
        }
    }

    /// Whether packets are cut in it, with special cases or without.
    fn cuts(self) -> bool {
        matches!(self, Rung::SplitPackets | Rung::RealPackets)
    }
}

/// What is measured: each rung with each length, and where packets are cut, with special cases and without.
#[derive(Clone, Debug)]
pub struct SegmentationPlan {
    /// Octets of packets: [`is_packet_len`].
    pub lengths: Vec<usize>,
    /// Times that each is measured, in random order.
    pub blocks: u32,
    /// How long each time.
    pub turn: Duration,
    /// The order follows from it.
    pub seed: u64,
}

/// One turn.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SegmentationTurn {
    /// The rung.
    pub rung: Rung,
    /// Whether packets are cut with special cases: inner cells from where they lie, checks of many cells at once.
    pub special: bool,
    /// Octets of a packet.
    pub packet: usize,
    /// From 1.
    pub block: u32,
    /// Cells of a packet.
    pub cells: usize,
    /// Nanoseconds a packet.
    pub packet_ns: f64,
    /// Packets a second.
    pub packets_per_s: f64,
    /// Cells a second.
    pub cells_per_s: f64,
    /// Octets of packets, Mbit/s.
    pub mbit_per_s: f64,
}

/// Measures all of it; `each` gets a turn when it is over.
pub fn measure(plan: &SegmentationPlan, mut each: impl FnMut(&SegmentationTurn)) {
    let mut random = SplitMix64::new(plan.seed);
    let mut cases = cases(plan);
    for block in 1..=plan.blocks {
        shuffle(&mut cases, &mut random);
        for &(rung, special, packet) in &cases {
            let mut work = Work::new(rung, special, packet);
            // Caches and predictors.
            run(&mut work, plan.turn / 8);
            let packet_ns = run(&mut work, plan.turn);
            let cells = packet.div_ceil(PIECE_LEN);
            let packets_per_s = 1e9 / packet_ns;
            each(&SegmentationTurn {
                rung,
                special,
                packet,
                block,
                cells,
                packet_ns,
                packets_per_s,
                cells_per_s: packets_per_s * cells as f64,
                mbit_per_s: packets_per_s * packet as f64 * 8e-6,
            });
        }
    }
}

/// Rungs, special cases and lengths.
fn cases(plan: &SegmentationPlan) -> Vec<(Rung, bool, usize)> {
    let with = |rung: Rung| {
        let ways: &[bool] = if rung.cuts() { &[true, false] } else { &[true] };
        ways.iter().map(move |special| (rung, *special))
    };
    let all = Rung::ALL.into_iter().flat_map(with);
    all.flat_map(|(rung, special)| plan.lengths.iter().map(move |len| (rung, special, *len)))
        .collect()
}

pub(crate) fn shuffle<T>(list: &mut [T], random: &mut SplitMix64) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last as u64 + 1) as usize);
    }
}

/// Works for `time`; nanoseconds a packet.
fn run(work: &mut Work, time: Duration) -> f64 {
    let (began, mut packets) = (Instant::now(), 0);
    loop {
        for _ in 0..PACKETS_PER_LOOK {
            work.next();
        }
        packets += PACKETS_PER_LOOK;
        let elapsed = began.elapsed();
        if elapsed >= time {
            return elapsed.as_nanos() as f64 / packets as f64;
        }
    }
}

/// Octets of the cells of a packet.
fn cells_len(packet: usize) -> usize {
    packet.div_ceil(PIECE_LEN) * CELL_LEN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rung_is_measured_at_every_length_in_every_block() {
        let plan = SegmentationPlan {
            lengths: vec![68, 132],
            blocks: 2,
            turn: Duration::from_micros(50),
            seed: 1,
        };
        let mut turns = Vec::new();
        measure(&plan, |turn| turns.push(*turn));
        // Two rungs cut, in two ways each.
        assert_eq!(turns.len(), 2 * 2 * (2 + 2 * 2));
        for rung in Rung::ALL {
            let own = turns.iter().filter(|turn| turn.rung == rung);
            assert_eq!(
                own.filter(|turn| turn.packet == 132 && turn.block == 2 && turn.special)
                    .count(),
                1
            );
        }
        for turn in turns {
            assert_eq!(turn.cells, turn.packet.div_ceil(44));
            let octets = turn.packets_per_s * turn.packet as f64;
            assert!((turn.mbit_per_s * 125_000.0 / octets - 1.0).abs() < 1e-9);
        }
    }
}
