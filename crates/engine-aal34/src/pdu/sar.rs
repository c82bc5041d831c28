//! SAR-PDUs of AAL3/4: header, 44 octets, trailer, in the payload of a cell (ITU-T I.363.3).

use super::cell::{CELL_LEN, HEADER_LEN, PAYLOAD_LEN};
use super::crc10;

/// Octets of the payload of a SAR-PDU.
pub const PIECE_LEN: usize = 44;

/// The field LI of the EOM that aborts a PDU.
pub const ABORT_LI: usize = 63;

/// A part of a PDU of the common part.
pub type Piece = [u8; PIECE_LEN];

/// Which part of a PDU a SAR-PDU has (the field ST).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentType {
    /// The first (10).
    Bom,
    /// One between (00).
    Com,
    /// The last (01).
    Eom,
    /// All of it (11).
    Ssm,
}

impl SegmentType {
    fn from_bits(bits: u16) -> SegmentType {
        match bits & 3 {
            0 => SegmentType::Com,
            1 => SegmentType::Eom,
            2 => SegmentType::Bom,
            _ => SegmentType::Ssm,
        }
    }

    fn bits(self) -> u16 {
        match self {
            SegmentType::Com => 0,
            SegmentType::Eom => 1,
            SegmentType::Bom => 2,
            SegmentType::Ssm => 3,
        }
    }

    /// That of part `index` of `count`.
    pub fn of(index: usize, count: usize) -> SegmentType {
        match (index == 0, index + 1 == count) {
            (true, true) => SegmentType::Ssm,
            (true, false) => SegmentType::Bom,
            (false, true) => SegmentType::Eom,
            (false, false) => SegmentType::Com,
        }
    }
}

/// How the sixteen bits of a SAR header are shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SarFormat {
    /// ITU-T I.363.3: sequence number of 4 bits, MID of 10, and a common part (CPCS) above.
    #[default]
    Standard,
    /// The study of 1994: sequence number of 5 bits, MID of 9, and no common part.
    Study,
}

impl SarFormat {
    /// Bits of the sequence number.
    pub fn sn_bits(self) -> u32 {
        match self {
            SarFormat::Standard => 4,
            SarFormat::Study => 5,
        }
    }

    /// Bits of the multiplexing identifier.
    pub fn mid_bits(self) -> u32 {
        14 - self.sn_bits()
    }

    /// Multiplexing identifiers there are.
    pub fn mids(self) -> u16 {
        1 << self.mid_bits()
    }

    /// Sequence numbers there are.
    pub fn sns(self) -> u8 {
        1 << self.sn_bits()
    }

    /// The sequence number after `sn`.
    pub fn next_sn(self, sn: u8) -> u8 {
        sn.wrapping_add(1) & (self.sns() - 1)
    }

    /// Whether a segment of `segment_type` may have `li` octets.
    pub fn is_legal_li(self, segment_type: SegmentType, li: usize) -> bool {
        let least = match (self, segment_type) {
            (_, SegmentType::Bom | SegmentType::Com) => return li == PIECE_LEN,
            (SarFormat::Study, _) => 1,
            (SarFormat::Standard, SegmentType::Eom) => 4,
            (SarFormat::Standard, SegmentType::Ssm) => 8,
        };
        let aborts = segment_type == SegmentType::Eom && li == ABORT_LI;
        (least..=PIECE_LEN).contains(&li) || aborts
    }
}

/// The header of a SAR-PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SarHeader {
    /// Which part of its PDU follows.
    pub segment_type: SegmentType,
    /// Sequence number.
    pub sn: u8,
    /// Multiplexing identifier: which of the PDUs under way it belongs to.
    pub mid: u16,
}

impl SarHeader {
    /// From the first sixteen bits of a payload.
    pub fn from_bits(bits: u16, format: SarFormat) -> SarHeader {
        SarHeader {
            segment_type: SegmentType::from_bits(bits >> 14),
            sn: (bits >> format.mid_bits()) as u8 & (format.sns() - 1),
            mid: bits & (format.mids() - 1),
        }
    }

    /// The first sixteen bits of a payload; of numbers that are too large, the low bits.
    pub fn bits(&self, format: SarFormat) -> u16 {
        let sn = u16::from(self.sn & (format.sns() - 1));
        self.segment_type.bits() << 14 | sn << format.mid_bits() | self.mid & (format.mids() - 1)
    }
}

/// Writes a cell: `cell_header`, the SAR header `bits`, `piece`, of which `li` octets are valid, and the
/// check.
#[inline]
pub fn write_cell(
    cell: &mut [u8; CELL_LEN],
    cell_header: [u8; HEADER_LEN],
    bits: u16,
    piece: &Piece,
    li: usize,
) {
    write_unsealed(cell, cell_header, bits, piece, li);
    crc10::seal(std::slice::from_mut(cell));
}

/// The same without the check: ten zeros are in its place, for [`crc10::seal`].
#[inline(always)]
pub(crate) fn write_unsealed(
    cell: &mut [u8; CELL_LEN],
    cell_header: [u8; HEADER_LEN],
    bits: u16,
    piece: &Piece,
    li: usize,
) {
    write_headers(cell, headers(cell_header, bits), li);
    *piece_of(cell) = *piece;
}

/// Writes all of a cell but its piece, of which the first octet is overwritten, and its check.
#[inline(always)]
pub(crate) fn write_headers(cell: &mut [u8; CELL_LEN], headers: u64, li: usize) {
    if let Some(first) = cell.first_chunk_mut() {
        // Eight octets at once.
        *first = headers.to_be_bytes();
    }
    let [.., high, low] = cell;
    [*high, *low] = ((li as u16) << 10).to_be_bytes();
}

/// The place of a cell's piece.
#[inline(always)]
pub(crate) fn piece_of(cell: &mut [u8; CELL_LEN]) -> &mut Piece {
    let [_, _, _, _, _, _, _, piece @ .., _, _] = cell;
    piece
}

/// The seven octets of both headers of a cell, the first the highest of eight.
#[inline(always)]
pub(crate) fn headers([a, b, c, d, e]: [u8; HEADER_LEN], bits: u16) -> u64 {
    let [f, g] = bits.to_be_bytes();
    u64::from_be_bytes([a, b, c, d, e, f, g, 0])
}

/// The same of `cell`.
#[inline(always)]
pub(crate) fn headers_of(cell: &[u8; CELL_LEN]) -> u64 {
    cell.first_chunk()
        .map_or(0, |first| u64::from_be_bytes(*first) & !0xff)
}

/// A SAR-PDU as it arrived, its check still to be looked at.
#[derive(Clone, Copy, Debug)]
pub struct SarPdu<'a> {
    payload: &'a [u8; PAYLOAD_LEN],
}

impl<'a> SarPdu<'a> {
    /// That of a payload.
    #[inline]
    pub fn new(payload: &'a [u8; PAYLOAD_LEN]) -> SarPdu<'a> {
        SarPdu { payload }
    }

    /// Zero, or the syndrome of what the line did to it.
    #[inline]
    pub fn syndrome(&self) -> u16 {
        crc10::remainder_of(self.payload)
    }

    /// The sixteen bits of its header.
    #[inline]
    pub fn header_bits(&self) -> u16 {
        let [first, second, ..] = self.payload;
        u16::from_be_bytes([*first, *second])
    }

    /// Its length indicator.
    #[inline]
    pub fn li(&self) -> usize {
        let [.., high, _] = self.payload;
        usize::from(high >> 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_bits_are_read_as_they_are_written() {
        for format in [SarFormat::Standard, SarFormat::Study] {
            for bits in 0..=u16::MAX {
                assert_eq!(SarHeader::from_bits(bits, format).bits(format), bits);
            }
        }
        let header = SarHeader {
            segment_type: SegmentType::Com,
            sn: 1,
            mid: 0xaa,
        };
        assert_eq!(header.bits(SarFormat::Study), 0x02aa);
        assert_eq!(header.bits(SarFormat::Standard), 0x04aa);
    }

    #[test]
    fn cell_has_header_piece_length_and_a_check_that_leaves_nothing() {
        let piece: Piece = std::array::from_fn(|at| at as u8);
        let mut cell = [0xee; CELL_LEN];
        write_cell(&mut cell, [1, 2, 3, 4, 5], 0x8155, &piece, 44);
        assert_eq!(cell[..7], [1, 2, 3, 4, 5, 0x81, 0x55]);
        assert_eq!(cell[7..51], piece);
        let payload = cell.last_chunk::<PAYLOAD_LEN>().expect("a payload");
        let pdu = SarPdu::new(payload);
        assert_eq!(
            (pdu.syndrome(), pdu.li(), pdu.header_bits()),
            (0, 44, 0x8155)
        );
    }
}
