//! The cost of a simulated host's work: a table, never a clock.

use crate::adapter::AdapterConfig;
use engine::Counters;

/// A cost in proportion to bytes, as a fraction so that figures given for a length are met exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerByte {
    /// This much, ps ...
    pub ps: u64,
    /// ... for this many bytes.
    pub bytes: u64,
}

impl PerByte {
    /// No cost.
    pub const FREE: PerByte = PerByte { ps: 0, bytes: 1 };

    pub(crate) fn cost_ps(self, bytes: u64) -> u64 {
        let divisor = self.bytes.max(1);
        match self.ps.checked_mul(bytes) {
            // A division of 128 bits costs several times as much.
            Some(product) => product / divisor,
            None => (u128::from(self.ps) * u128::from(bytes) / u128::from(divisor)) as u64,
        }
    }
}

/// Cost of each kind of work. A service takes as long as the table says for the change of the
/// engine's counters during it; all zero is a host that takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostCost {
    /// Copying between user and protocol, and inside the protocol.
    pub copy: PerByte,
    /// Each copy of a user, ps.
    pub copy_fixed_ps: u64,
    /// Checksums, by the bytes they cover.
    pub checksum: PerByte,
    /// Each packet's checksum, ps.
    pub checksum_fixed_ps: u64,
    /// Each packet built or parsed, ps.
    pub packet_ps: u64,
    /// Each arrival of a packet, ps.
    pub interrupt_ps: u64,
    /// Each timer that expires, on the timer chip, ps.
    pub timer_ps: u64,
    /// Between two packets on their way to the network controller, by the rate controller, ps.
    pub separation_ps: u64,
    /// Parts per million by which the station's own clock, and with it every timer, runs fast; slow
    /// if negative.
    pub clock_ppm: i32,
    /// Octets of a frame that must have arrived over a switch's link before the host forwards it,
    /// if its engine needs no more ([`engine::Router::supports_cut_through`]); None for all of it.
    pub cut_through: Option<u32>,
    /// Its network controller knows which groups its users are members of, and passes packets for others
    /// by; else the processor gets them all.
    pub filters_groups: bool,
    /// Packets that may wait for the receiver; None for any number.
    pub queue: Option<u64>,
    /// The queues of cells between processor and line; None for a controller that takes all frames.
    pub adapter: Option<AdapterConfig>,
}

impl HostCost {
    /// A host that takes no time.
    pub const FREE: HostCost = HostCost {
        copy: PerByte::FREE,
        copy_fixed_ps: 0,
        checksum: PerByte::FREE,
        checksum_fixed_ps: 0,
        packet_ps: 0,
        interrupt_ps: 0,
        timer_ps: 0,
        separation_ps: 0,
        clock_ppm: 0,
        cut_through: None,
        filters_groups: false,
        queue: None,
        adapter: None,
    };

    /// A user's copy of `bytes`, ps.
    pub fn copy_ps(&self, bytes: u64) -> u64 {
        self.copy_fixed_ps + self.copy.cost_ps(bytes)
    }

    /// Whether the engine's work has a cost.
    pub fn charges_work(&self) -> bool {
        self.packet_ps > 0 || self.checksum_fixed_ps > 0 || self.copy.ps > 0 || self.checksum.ps > 0
    }

    /// Cost of an engine's work between two states of its counters, ps.
    pub fn work_ps(&self, before: &Counters, after: &Counters) -> u64 {
        let packets = (after.packets_built - before.packets_built)
            + (after.packets_parsed - before.packets_parsed);
        packets * (self.packet_ps + self.checksum_fixed_ps)
            + self.copy.cost_ps(after.bytes_copied - before.bytes_copied)
            + self
                .checksum
                .cost_ps(after.bytes_summed - before.bytes_summed)
    }
}

impl Default for HostCost {
    fn default() -> Self {
        HostCost::FREE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ps_equals_costs_times_counters() {
        let cost = HostCost {
            copy: PerByte { ps: 7, bytes: 2 },
            checksum: PerByte { ps: 3, bytes: 1 },
            checksum_fixed_ps: 10,
            packet_ps: 100,
            ..HostCost::FREE
        };
        let before = Counters::default();
        let after = Counters {
            packets_built: 2,
            packets_parsed: 1,
            bytes_copied: 10,
            bytes_summed: 4,
            ..before
        };
        assert_eq!(cost.work_ps(&before, &after), 3 * 110 + 35 + 12);
        assert_eq!(cost.copy_ps(5), 17);
    }
}
