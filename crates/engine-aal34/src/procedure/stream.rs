//! AAL3/4 in streaming mode, sender: a packet whose cells leave before all of it is known.

use super::segment::Segmenter;
use crate::pdu::cpcs::{self, CpcsHeader};
use crate::pdu::sar::{ABORT_LI, PIECE_LEN, Piece, SegmentType};

/// A packet under way. Its cells may alternate with those of others that have another identifier.
#[derive(Debug)]
pub struct StreamedPacket {
    mid: u16,
    tag: u8,
    /// Octets of the packet so far, and the most that were announced.
    len: u16,
    ba_size: u16,
    /// Octets that have not left: a cell is held until something follows it, since the last one says so.
    piece: Piece,
    filled: usize,
    has_begun: bool,
}

/// More octets than were announced; none of them was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl StreamedPacket {
    /// Begins a packet with the identifier `mid`, of at most `ba_size` octets.
    pub fn begin(segmenter: &mut Segmenter, mid: u16, ba_size: u16) -> StreamedPacket {
        let tag = segmenter.next_tag();
        let mut piece = [0; PIECE_LEN];
        let header = CpcsHeader { tag, ba_size }.octets();
        piece[..cpcs::ENVELOPE_LEN].copy_from_slice(&header);
        StreamedPacket {
            mid,
            tag,
            len: 0,
            ba_size,
            piece,
            filled: cpcs::ENVELOPE_LEN,
            has_begun: false,
        }
    }

    /// Adds `octets`; appends the cells that are full.
    ///
    /// # Errors
    ///
    /// [`TooLong`] when the packet has more than was announced.
    pub fn push(
        &mut self,
        segmenter: &mut Segmenter,
        octets: &[u8],
        cells: &mut Vec<u8>,
    ) -> Result<(), TooLong> {
        let more = u16::try_from(octets.len()).map_err(|_| TooLong)?;
        let len = self
            .len
            .checked_add(more)
            .filter(|len| *len <= self.ba_size);
        self.len = len.ok_or(TooLong)?;
        self.append(segmenter, octets, cells);
        Ok(())
    }

    /// Ends the packet: padding, the trailer, the last cell.
    pub fn finish(mut self, segmenter: &mut Segmenter, cells: &mut Vec<u8>) {
        let padding = usize::from(self.len).next_multiple_of(4) - usize::from(self.len);
        self.append(segmenter, &[0; 3][..padding], cells);
        let trailer = cpcs::trailer(self.tag, self.len);
        self.append(segmenter, &trailer, cells);
        let last = match self.has_begun {
            true => (SegmentType::Eom, self.mid),
            false => (SegmentType::Ssm, 0),
        };
        self.piece[self.filled..].fill(0);
        segmenter.push_cell(last, (&self.piece, self.filled), cells);
    }

    /// Gives the packet up: the receiver discards what it has.
    pub fn abort(self, segmenter: &mut Segmenter, cells: &mut Vec<u8>) {
        if self.has_begun {
            let nothing = (&[0; PIECE_LEN], ABORT_LI);
            segmenter.push_cell((SegmentType::Eom, self.mid), nothing, cells);
        }
    }

    fn append(&mut self, segmenter: &mut Segmenter, mut octets: &[u8], cells: &mut Vec<u8>) {
        while !octets.is_empty() {
            if self.filled == PIECE_LEN {
                let segment_type = match self.has_begun {
                    true => SegmentType::Com,
                    false => SegmentType::Bom,
                };
                let piece = (&self.piece, PIECE_LEN);
                segmenter.push_cell((segment_type, self.mid), piece, cells);
                (self.has_begun, self.filled) = (true, 0);
            }
            let taken = octets.len().min(PIECE_LEN - self.filled);
            let (now, later) = octets.split_at(taken);
            self.piece[self.filled..self.filled + taken].copy_from_slice(now);
            self.filled += taken;
            octets = later;
        }
    }
}
