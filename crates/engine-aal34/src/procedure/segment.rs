//! AAL3/4, sender: a packet to cells.

use crate::pdu::cell::{CELL_LEN, HEADER_LEN};
use crate::pdu::cpcs::{CpcsHeader, CpcsMode, CpcsPdu};
use crate::pdu::crc10;
use crate::pdu::sar::{
    PIECE_LEN, Piece, SarFormat, SarHeader, SegmentType, headers, piece_of, write_cell,
    write_headers, write_unsealed,
};

/// Cuts packets into cells.
#[derive(Clone, Debug)]
pub struct Segmenter {
    format: SarFormat,
    /// BASize in streaming mode; None in message mode.
    announced: Option<u16>,
    cell_header: [u8; HEADER_LEN],
    /// Sequence number of the next SAR-PDU.
    sn: u8,
    /// Tag of the next PDU.
    tag: u8,
}

impl Segmenter {
    /// A sender of cells with `cell_header`, for packets of at most `packet_max` octets; tags and
    /// sequence numbers start from `seed`.
    pub fn new(
        format: SarFormat,
        mode: CpcsMode,
        packet_max: usize,
        cell_header: [u8; HEADER_LEN],
        seed: u64,
    ) -> Segmenter {
        let announced = u16::try_from(packet_max).unwrap_or(u16::MAX);
        Segmenter {
            format,
            announced: (mode == CpcsMode::Streaming).then_some(announced),
            cell_header,
            sn: seed as u8 & (format.sns() - 1),
            tag: (seed >> 8) as u8,
        }
    }

    /// The format of its SAR headers.
    pub fn format(&self) -> SarFormat {
        self.format
    }

    /// Appends the cells of `packet`, which has at most 65,535 octets (of the study's format 1,408), to
    /// `cells`. A packet of one cell has the identifier 0, a longer one `mid()`.
    pub fn segment(&mut self, packet: &[u8], mid: impl FnOnce() -> u16, cells: &mut Vec<u8>) {
        let pdu = self.pdu(packet);
        let count = pdu.cells();
        let mid = if count == 1 { 0 } else { mid() };
        let start = cells.len();
        cells.resize(start + count * CELL_LEN, 0);
        let (places, _) = cells[start..].as_chunks_mut::<CELL_LEN>();
        let inner = pdu.inner_pieces();
        let (before, rest) = places.split_at_mut(count.min(1));
        let (middle, after) = rest.split_at_mut(inner.len());
        self.write_ends(before, (&pdu, 0), mid);
        for (place, piece) in middle.iter_mut().zip(inner) {
            let header = self.next_header(SegmentType::Com, mid);
            write_unsealed(place, self.cell_header, header, piece, PIECE_LEN);
        }
        self.write_ends(after, (&pdu, 1 + inner.len()), mid);
        // All at once: a cell that was just written cannot be read yet without waiting.
        crc10::seal(places);
    }

    /// Writes the cells of a PDU from number `first` on: those that do not lie in the packet as they
    /// are. Their checks are zeros. The places hold zeros.
    fn write_ends(
        &mut self,
        places: &mut [[u8; CELL_LEN]],
        (pdu, first): (&CpcsPdu<'_>, usize),
        mid: u16,
    ) {
        for (place, index) in places.iter_mut().zip(first..) {
            let segment_type = SegmentType::of(index, pdu.cells());
            let bits = self.next_header(segment_type, mid);
            write_headers(place, headers(self.cell_header, bits), pdu.valid(index));
            pdu.write_piece(index, piece_of(place));
        }
    }

    /// Appends one cell.
    pub(crate) fn push_cell(
        &mut self,
        (segment_type, mid): (SegmentType, u16),
        (piece, li): (&Piece, usize),
        cells: &mut Vec<u8>,
    ) {
        let mut cell = [0; CELL_LEN];
        let header = self.next_header(segment_type, mid);
        write_cell(&mut cell, self.cell_header, header, piece, li);
        cells.extend_from_slice(&cell);
    }

    /// The tag of the next PDU.
    pub(crate) fn next_tag(&mut self) -> u8 {
        self.tag = self.tag.wrapping_add(1);
        self.tag
    }

    /// Begins the sequence numbers again, as the study's packets do.
    pub(crate) fn restart_numbers(&mut self) {
        self.sn = 0;
    }

    fn pdu<'a>(&mut self, packet: &'a [u8]) -> CpcsPdu<'a> {
        match self.format {
            SarFormat::Standard => {
                let tag = self.next_tag();
                let ba_size = self.announced.unwrap_or(packet.len() as u16);
                CpcsPdu::new(CpcsHeader { tag, ba_size }, packet)
            }
            SarFormat::Study => {
                self.restart_numbers();
                CpcsPdu::bare(packet)
            }
        }
    }

    #[inline]
    fn next_header(&mut self, segment_type: SegmentType, mid: u16) -> u16 {
        let sn = self.sn;
        self.sn = self.format.next_sn(sn);
        let header = SarHeader {
            segment_type,
            sn,
            mid,
        };
        header.bits(self.format)
    }
}
