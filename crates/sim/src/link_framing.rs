//! Octets of link time that a packet takes.

/// Octets around a packet in a frame: addresses 12, type 2, check sequence 4.
pub const FRAME_OCTETS: u32 = 18;

/// Octets around a packet in a frame of FDDI: frame control 1, addresses 12, check sequence 4.
pub(crate) const FDDI_FRAME_OCTETS: u32 = 17;

/// Octets of link time beside the frame: preamble 8, gap 12.
const PREAMBLE_AND_GAP_OCTETS: u32 = 20;

/// The shortest Ethernet frame on a link.
const FRAME_MIN: u32 = 64;

/// What is around a packet on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkFraming {
    /// A frame of Ethernet.
    Ethernet,
    /// Nothing: packets are cells.
    Cells {
        /// Octets in an output queue of the switch above which cells of low priority are discarded.
        low_priority_max: Option<u64>,
    },
}

impl LinkFraming {
    /// Octets of link time of a packet.
    pub(crate) fn octets(self, packet_len: u32) -> usize {
        match self {
            LinkFraming::Ethernet => {
                ((packet_len + FRAME_OCTETS).max(FRAME_MIN) + PREAMBLE_AND_GAP_OCTETS) as usize
            }
            LinkFraming::Cells { .. } => packet_len as usize,
        }
    }

    /// Whether the switch discards a packet behind `waiting` octets.
    pub(crate) fn discards(self, low_priority: bool, waiting: impl FnOnce() -> u64) -> bool {
        match self {
            LinkFraming::Cells {
                low_priority_max: Some(most),
            } => low_priority && waiting() > most,
            _ => false,
        }
    }
}
