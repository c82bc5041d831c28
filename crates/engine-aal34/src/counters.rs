//! Counts of cells and of what was wrong with them.

use crate::pdu::cpcs::CpcsFault;

/// What a layer of cells did since it was made. Those of SMDS have the names of its MIB (RFC 1694).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellCounters {
    /// Cells sent.
    pub cells_sent: u64,
    /// Cells in the frames that arrived.
    pub cells_received: u64,
    /// Packets cut into cells.
    pub packets_sent: u64,
    /// Packets put together.
    pub packets_received: u64,
    /// Packets that were too long to send, or empty in AAL5.
    pub unsendable: u64,
    /// Frames whose length is no multiple of a cell's.
    pub malformed_frames: u64,
    /// Headers with one wrong bit, corrected.
    pub headers_corrected: u64,
    /// Cells discarded for their header check.
    pub headers_discarded: u64,
    /// Cells without user data: idle ones, maintenance.
    pub other_cells: u64,
    /// Cells of another channel.
    pub unknown_channels: u64,
    /// SAR-PDUs with a wrong CRC-10, or AAL5 PDUs with a wrong CRC-32.
    pub crc_errors: u64,
    /// SAR-PDUs with one wrong bit, corrected.
    pub crc_corrected: u64,
    /// SAR-PDUs whose length does not suit their type.
    pub length_errors: u64,
    /// Sequence errors: a cell is missing or came twice.
    pub sequence_errors: u64,
    /// Unexpected MIDs: COM and EOM without a BOM.
    pub unexpected_mids: u64,
    /// MID currently active: a BOM while its identifier is in use.
    pub mids_active: u64,
    /// CPCS headers of another kind, or that announce more than a packet may have.
    pub bad_headers: u64,
    /// Etag is not Btag.
    pub tag_mismatches: u64,
    /// BASize is not equal to the length.
    pub ba_size_errors: u64,
    /// The length does not agree with the cells that came.
    pub incorrect_lengths: u64,
    /// MRI time-outs: packets that took too long.
    pub mri_timeouts: u64,
    /// Packets that their sender gave up.
    pub aborted: u64,
    /// Packets that gave way because too many were under way.
    pub evicted: u64,
    /// Requests for missing cells, sent.
    pub repairs_requested: u64,
    /// Cells sent again.
    pub cells_repeated: u64,
    /// Control cells that make no sense.
    pub bad_controls: u64,
}

impl CellCounters {
    /// The counter of a fault of the common part.
    pub(crate) fn of_cpcs(&mut self, fault: CpcsFault) -> &mut u64 {
        match fault {
            CpcsFault::Tag => &mut self.tag_mismatches,
            CpcsFault::BaSize => &mut self.ba_size_errors,
            CpcsFault::Length => &mut self.incorrect_lengths,
        }
    }

    /// All of them, each under its name in results.
    pub(crate) fn named(&self) -> [(&'static str, u64); 26] {
        [
            ("cells_sent", self.cells_sent),
            ("cells_received", self.cells_received),
            ("cells_packets_sent", self.packets_sent),
            ("cells_packets_received", self.packets_received),
            ("cells_unsendable", self.unsendable),
            ("cells_malformed_frames", self.malformed_frames),
            ("cells_headers_corrected", self.headers_corrected),
            ("cells_headers_discarded", self.headers_discarded),
            ("cells_other", self.other_cells),
            ("cells_unknown_channels", self.unknown_channels),
            ("cells_crc_errors", self.crc_errors),
            ("cells_crc_corrected", self.crc_corrected),
            ("cells_length_errors", self.length_errors),
            ("cells_sequence_errors", self.sequence_errors),
            ("cells_unexpected_mids", self.unexpected_mids),
            ("cells_mids_active", self.mids_active),
            ("cells_bad_headers", self.bad_headers),
            ("cells_tag_mismatches", self.tag_mismatches),
            ("cells_ba_size_errors", self.ba_size_errors),
            ("cells_incorrect_lengths", self.incorrect_lengths),
            ("cells_mri_timeouts", self.mri_timeouts),
            ("cells_aborted", self.aborted),
            ("cells_evicted", self.evicted),
            ("cells_repairs_requested", self.repairs_requested),
            ("cells_repeated", self.cells_repeated),
            ("cells_bad_controls", self.bad_controls),
        ]
    }

    /// Frames, cells and packets that were malformed or unexpected, and dropped.
    pub fn discarded(&self) -> u64 {
        let cells = self.headers_discarded
            + self.other_cells
            + self.unknown_channels
            + self.length_errors
            + self.unexpected_mids
            + self.bad_controls;
        let packets = self.crc_errors
            + self.sequence_errors
            + self.mids_active
            + self.bad_headers
            + self.tag_mismatches
            + self.ba_size_errors
            + self.incorrect_lengths
            + self.mri_timeouts
            + self.aborted
            + self.evicted
            + self.unsendable;
        self.malformed_frames + cells + packets
    }
}
