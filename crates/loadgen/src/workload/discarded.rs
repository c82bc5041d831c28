//! What a sender into a wire that discards reports beside its messages.

use control::CircuitReport;
use towpath::Discarded;

/// Time that copies of packets took, ns.
pub const COPY_NS: &str = "copy_ns";

/// Packets that were copied and forgotten.
pub const DISCARDED_PACKETS: &str = "discarded_packets";

/// Octets of them.
pub const DISCARDED_OCTETS: &str = "discarded_octets";

/// Adds what the wire of a circuit discarded to its report.
pub(crate) fn note_into(report: &mut CircuitReport, discarded: Discarded) {
    let counted = [
        (COPY_NS, discarded.copy_ns),
        (DISCARDED_PACKETS, discarded.packets),
        (DISCARDED_OCTETS, discarded.octets),
    ];
    let measures = counted.map(|(name, count)| (name.to_owned(), count as f64));
    report.measures.extend(measures);
}
