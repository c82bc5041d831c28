//! The constants of a shared ether, each with its source.

use engine::SplitMix64;

/// Picoseconds of one microsecond.
const US: u64 = 1_000_000;

/// Backoff after a collision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Truncated binary exponential: after collision n, uniform in 0..2^min(n, limit) slots;
    /// a deferring station transmits at the end of the gap (IEEE 802.3, 4.2.3.2.5).
    Binary {
        /// Collisions after which the range grows no further.
        limit: u32,
    },
    /// In every slot while the medium is idle, transmit with probability 1 in `stations`. No real
    /// station knows the number; it is the assumption of Metcalfe and Boggs' efficiency formula.
    Oracle {
        /// Stations that compete.
        stations: u64,
    },
}

impl Backoff {
    /// Slots to wait after the `collisions`-th collision of a frame.
    pub(super) fn slots(self, collisions: u32, random: &mut SplitMix64) -> u64 {
        match self {
            Backoff::Binary { limit } => random.below(1 << collisions.min(limit).min(32)),
            Backoff::Oracle { .. } => 0,
        }
    }

    /// Whether a station transmits in this slot.
    pub(super) fn transmits_now(self, random: &mut SplitMix64) -> bool {
        match self {
            Backoff::Binary { .. } => true,
            Backoff::Oracle { stations } => random.below(stations) == 0,
        }
    }
}

/// A shared medium and the controllers on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherConfig {
    /// Time of one bit, ps.
    pub bit_ps: u64,
    /// Unit of the backoff, ps.
    pub slot_ps: u64,
    /// Inter-frame gap, ps.
    pub gap_ps: u64,
    /// The first part of the gap, ps: a carrier in it restarts the gap, a later one is ignored, so
    /// that no station waits longer than the others (IEEE 802.3, 4.2.3.2.1).
    pub gap_first_ps: u64,
    /// Preamble bits, sent to the end even during a collision.
    pub preamble_bits: u64,
    /// Bits of the jam after a collision.
    pub jam_bits: u64,
    /// Octets of the shortest frame, from destination address to check sequence; shorter ones are
    /// padded.
    pub frame_min: u32,
    /// Transmissions of a frame before it is dropped.
    pub attempts_max: u32,
    /// Backoff after a collision.
    pub backoff: Backoff,
    /// Gap of the interface between two frames to one destination, ps.
    pub destination_gap_ps: u64,
    /// Propagation, ps per metre.
    pub propagation_ps_per_m: u64,
}

impl EtherConfig {
    /// 10 Mbit/s, IEEE 802.3 type 10BASE5.
    ///
    /// Slot 512 bits, gap 96 bits in two parts of 2/3 and 1/3, jam 32 bits, 16 attempts, backoff
    /// limit 10, preamble and start delimiter 64 bits, frames of 64 octets and more (4.4.2).
    /// Signals travel at 0.77 of light speed (8.4.1.3): 4,332 ps a metre.
    pub const fn ten_megabit() -> EtherConfig {
        EtherConfig {
            bit_ps: 100_000,
            slot_ps: 512 * 100_000,
            gap_ps: 96 * 100_000,
            gap_first_ps: 64 * 100_000,
            preamble_bits: 64,
            jam_bits: 32,
            frame_min: 64,
            attempts_max: 16,
            backoff: Backoff::Binary { limit: 10 },
            destination_gap_ps: 0,
            propagation_ps_per_m: 4_332,
        }
    }

    /// The experimental Ethernet at 3 Mbit/s.
    ///
    /// Rate and slot of 16 us: the worked example of Metcalfe and Boggs (1976). One synchronising
    /// bit, no shortest frame, no prescribed gap: the same. Its addresses have one octet each (ARP
    /// hardware type 2), so a frame has 6 octets around its data: addresses 2, type 2, check
    /// sequence 2. About 1 ms between frames to one host: Cabrera and others (1984), of the
    /// interfaces of their VAXes. Jam, attempts and the limit of the backoff are not given in
    /// either source and are taken from the 10 Mbit/s Ethernet; so is the speed of the signal.
    pub const fn three_megabit() -> EtherConfig {
        EtherConfig {
            bit_ps: 333_333,
            slot_ps: 16 * US,
            gap_ps: 0,
            gap_first_ps: 0,
            preamble_bits: 1,
            jam_bits: 32,
            frame_min: 0,
            attempts_max: 16,
            backoff: Backoff::Binary { limit: 10 },
            destination_gap_ps: 1_000 * US,
            propagation_ps_per_m: 4_332,
        }
    }

    /// Transmission time of a frame of `octets`, preamble and padding included, ps.
    pub fn frame_ps(&self, octets: u32) -> u64 {
        let octets = u64::from(octets.max(self.frame_min));
        (self.preamble_bits + octets * 8) * self.bit_ps
    }

    /// Position of a station `metres` along the cable, as propagation time from its start, ps.
    pub fn position_ps(&self, metres: u64) -> u64 {
        metres * self.propagation_ps_per_m
    }
}
