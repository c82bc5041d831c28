//! Configuration, and what of it does not fit together.

use crate::pdu::aal5;
use crate::pdu::cell::{CELL_LEN, Channel};
use crate::pdu::cpcs::{self, CpcsMode};
use crate::pdu::sar::SarFormat;
use core::time::Duration;

/// Cells of a frame, at most: the longest UDP datagram, 65,507 octets, has room for 1,236.
pub const FRAME_CELLS_MAX: usize = 65_507 / CELL_LEN;

/// Packets whose cells may alternate, at most: the receiver has as many under way.
pub const INTERLEAVE_MAX: usize = 16;

/// What is between packets and cells, and how both travel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CellsConfig {
    /// The adaptation layer.
    pub adaptation: Adaptation,
    /// Octets of the longest packet: packets that announce more are discarded.
    pub packet_max: usize,
    /// Cells of a full frame. 27 of 53 octets are 1,431, which fit a UDP datagram in an Ethernet frame
    /// (1,472 over IPv4, 1,452 over IPv6).
    pub frame_cells: usize,
    /// The channel that both ends use.
    pub channel: Channel,
    /// Whether the cells have low priority (CLP 1).
    pub low_priority: bool,
    /// How long a packet may take to arrive (the MRI timer). SMDS has 200 ms for slow lines and 100 ms
    /// for fast ones.
    pub mri_timeout: Duration,
    /// Where tags, identifiers and sequence numbers begin. A host draws it at random: after a restart,
    /// cells of before must not complete packets of now.
    pub seed: u64,
}

/// An adaptation layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adaptation {
    /// AAL3/4: 44 octets a cell, each with an identifier, a sequence number and a CRC-10.
    Aal34(Aal34Config),
    /// AAL5: 48 octets a cell, a CRC-32 a packet.
    Aal5,
}

/// How AAL3/4 is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aal34Config {
    /// The format of SAR headers.
    pub sar: SarFormat,
    /// What BASize announces.
    pub mode: CpcsMode,
    /// What happens when a cell is missing.
    pub repair: Repair,
    /// One wrong bit of a SAR-PDU is corrected. Of three wrong bits three quarters look like one.
    pub correct_bits: bool,
    /// Multiplexing identifiers in use; 1 for the identifier 0 alone.
    pub mids: u16,
    /// Packets whose cells alternate on the line.
    pub interleave: usize,
}

/// What happens when a cell is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Repair {
    /// Its packet is discarded; the protocol above sends packets again.
    #[default]
    Discard,
    /// The receiver asks for the cells that it lacks.
    Cells,
}

impl Default for Aal34Config {
    fn default() -> Self {
        Aal34Config {
            sar: SarFormat::Standard,
            mode: CpcsMode::Message,
            repair: Repair::Discard,
            correct_bits: false,
            mids: SarFormat::Standard.mids(),
            interleave: 1,
        }
    }
}

impl Default for CellsConfig {
    fn default() -> Self {
        CellsConfig {
            adaptation: Adaptation::Aal34(Aal34Config::default()),
            packet_max: 9180,
            frame_cells: 27,
            channel: Channel { vpi: 0, vci: 32 },
            low_priority: false,
            mri_timeout: Duration::from_millis(100),
            seed: 1,
        }
    }
}

impl Aal34Config {
    /// Octets of the longest packet that the formats allow. Without a common part, and where cells are
    /// asked for again, the sequence number tells all cells of a packet apart.
    pub fn packet_limit(&self) -> usize {
        match (self.sar, self.repair) {
            (SarFormat::Standard, Repair::Discard) => cpcs::SDU_MAX,
            (format, _) => cpcs::sdu_max(format, usize::from(format.sns())),
        }
    }

    /// Packets that may be under way while cells are asked for again: half of the identifiers but 0, so
    /// that an old packet is not taken for a new one.
    pub fn window(&self) -> usize {
        usize::from(self.mids.saturating_sub(1) / 2)
    }

    /// Checks that a protocol above may have `packets` under way at once: as many as fit the window, and as
    /// many that wait for it.
    ///
    /// # Errors
    ///
    /// [`ConfigFault::WindowTooSmall`] where cells are asked for again, and identifiers are too few.
    pub fn check_window(&self, packets: usize) -> Result<(), ConfigFault> {
        let window = self.window();
        match self.repair {
            Repair::Cells if 2 * window < packets => {
                Err(ConfigFault::WindowTooSmall { window, packets })
            }
            _ => Ok(()),
        }
    }
}

impl CellsConfig {
    /// Octets of the longest packet that the adaptation layer's formats allow.
    pub fn packet_limit(&self) -> usize {
        match &self.adaptation {
            Adaptation::Aal34(aal34) => aal34.packet_limit(),
            Adaptation::Aal5 => aal5::SDU_MAX,
        }
    }

    /// Checks that all of it fits together.
    ///
    /// # Errors
    ///
    /// The first fault.
    pub fn check(&self) -> Result<(), ConfigFault> {
        if !(1..=FRAME_CELLS_MAX).contains(&self.frame_cells) {
            return Err(ConfigFault::FrameCells(self.frame_cells));
        }
        let limit = self.packet_limit();
        if !(1..=limit).contains(&self.packet_max) {
            let packet_max = self.packet_max;
            return Err(ConfigFault::PacketLen { packet_max, limit });
        }
        if self.mri_timeout.is_zero() {
            return Err(ConfigFault::NoMriTimeout);
        }
        match &self.adaptation {
            Adaptation::Aal34(aal34) => check_mids(aal34),
            Adaptation::Aal5 => Ok(()),
        }
    }
}

fn check_mids(aal34: &Aal34Config) -> Result<(), ConfigFault> {
    let (mids, most) = (aal34.mids, aal34.sar.mids());
    if !(1..=most).contains(&mids) {
        return Err(ConfigFault::Mids { mids, most });
    }
    let interleave = aal34.interleave;
    if !(1..=INTERLEAVE_MAX).contains(&interleave) {
        return Err(ConfigFault::Interleave(interleave));
    }
    // Identifier 0 is that of packets of one cell.
    if interleave > 1 && usize::from(mids) <= interleave {
        return Err(ConfigFault::TooFewMids { mids, interleave });
    }
    if interleave > 1 && aal34.repair == Repair::Cells {
        return Err(ConfigFault::InterleavedRepair);
    }
    aal34.check_window(1)
}

/// What does not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigFault {
    /// A frame of no cells, or of too many.
    FrameCells(usize),
    /// Packets longer than the formats allow, or of no octets.
    PacketLen {
        /// Octets of the longest packet.
        packet_max: usize,
        /// Octets of the longest that the formats allow.
        limit: usize,
    },
    /// Packets that never arrive would be kept for ever.
    NoMriTimeout,
    /// Too many identifiers, or none.
    Mids {
        /// Identifiers wanted.
        mids: u16,
        /// Identifiers there are.
        most: u16,
    },
    /// Packets that alternate are out of range.
    Interleave(usize),
    /// Packets that alternate have no identifier each.
    TooFewMids {
        /// Identifiers in use.
        mids: u16,
        /// Packets that alternate.
        interleave: usize,
    },
    /// Cells alternate and are asked for again.
    InterleavedRepair,
    /// More packets are under way than the identifiers tell apart.
    WindowTooSmall {
        /// Packets that the identifiers tell apart.
        window: usize,
        /// Packets that may be under way.
        packets: usize,
    },
}

impl core::fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            ConfigFault::FrameCells(cells) => write!(
                f,
                "a frame of {cells} cells is not possible; give 1 to {FRAME_CELLS_MAX}"
            ),
            ConfigFault::PacketLen { packet_max, limit } => write!(
                f,
                "packets of {packet_max} octets do not fit these cells, which carry 1 to {limit}; \
                 give packet={limit} or less"
            ),
            ConfigFault::NoMriTimeout => {
                write!(
                    f,
                    "an MRI timer of 0 discards every packet; give 1ms or more"
                )
            }
            ConfigFault::Mids { mids, most } => {
                write!(
                    f,
                    "{mids} identifiers (MID) are not possible; give 1 to {most}"
                )
            }
            ConfigFault::Interleave(packets) => write!(
                f,
                "cells of {packets} packets cannot alternate; give 1 to {INTERLEAVE_MAX}"
            ),
            ConfigFault::TooFewMids { mids, interleave } => write!(
                f,
                "the MID window is too small: {mids} identifiers for {interleave} packets that \
                 alternate; give mids={} or more",
                interleave + 1
            ),
            ConfigFault::InterleavedRepair => write!(
                f,
                "cells that are asked for again do not alternate; give interleave=1, or repair=discard"
            ),
            ConfigFault::WindowTooSmall { window, packets } => write!(
                f,
                "the MID window is too small: cells of {window} packets can be asked for again, as many \
                 packets can wait, and {packets} may be under way; give more identifiers (mids), longer \
                 packets, a smaller window, or repair=discard"
            ),
        }
    }
}

impl std::error::Error for ConfigFault {}

#[cfg(test)]
mod tests {
    use super::*;

    fn aal34(aal34: Aal34Config) -> CellsConfig {
        CellsConfig {
            adaptation: Adaptation::Aal34(aal34),
            packet_max: 600,
            ..CellsConfig::default()
        }
    }

    #[test]
    fn defaults_fit_together() {
        assert_eq!(CellsConfig::default().check(), Ok(()));
    }

    #[test]
    fn longest_packets_are_those_of_the_formats() {
        let limit = |sar, repair| {
            let usual = Aal34Config::default();
            Aal34Config {
                sar,
                repair,
                ..usual
            }
            .packet_limit()
        };
        assert_eq!(limit(SarFormat::Standard, Repair::Discard), 65_535);
        assert_eq!(limit(SarFormat::Standard, Repair::Cells), 696);
        assert_eq!(limit(SarFormat::Study, Repair::Discard), 1408);
        assert_eq!(limit(SarFormat::Study, Repair::Cells), 1408);
    }

    #[test]
    fn too_small_a_mid_window_is_refused_with_its_size_and_a_remedy() {
        let usual = Aal34Config::default();
        let few = aal34(Aal34Config {
            mids: 8,
            interleave: 8,
            ..usual
        });
        let fault = few.check().expect_err("too few");
        let text = fault.to_string();
        assert!(
            text.contains("MID window") && text.contains("mids=9"),
            "{text}"
        );
        let study = Aal34Config {
            sar: SarFormat::Study,
            mids: 512,
            repair: Repair::Cells,
            ..usual
        };
        assert_eq!(study.check_window(510), Ok(()));
        let text = study.check_window(511).expect_err("too many").to_string();
        assert!(text.contains("255") && text.contains("511"), "{text}");
        let discard = Aal34Config {
            repair: Repair::Discard,
            ..study
        };
        assert_eq!(discard.check_window(511), Ok(()));
    }

    #[test]
    fn each_number_out_of_range_is_refused() {
        let usual = Aal34Config::default();
        let faults = [
            aal34(Aal34Config { mids: 0, ..usual }),
            aal34(Aal34Config {
                mids: 1025,
                ..usual
            }),
            aal34(Aal34Config {
                interleave: 0,
                ..usual
            }),
            aal34(Aal34Config {
                interleave: 17,
                ..usual
            }),
            aal34(Aal34Config {
                mids: 2,
                repair: Repair::Cells,
                ..usual
            }),
            aal34(Aal34Config {
                interleave: 2,
                repair: Repair::Cells,
                ..usual
            }),
            CellsConfig {
                frame_cells: 0,
                ..aal34(usual)
            },
            CellsConfig {
                frame_cells: 1237,
                ..aal34(usual)
            },
            CellsConfig {
                packet_max: 65_536,
                ..aal34(usual)
            },
            CellsConfig {
                packet_max: 0,
                ..aal34(usual)
            },
            CellsConfig {
                mri_timeout: Duration::ZERO,
                ..aal34(usual)
            },
        ];
        for config in faults {
            assert!(config.check().is_err(), "{config:?}");
        }
    }
}
