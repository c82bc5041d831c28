//! AAL3/4, receiver: the payload of a cell as a SAR-PDU, its check and its length looked at.

use crate::counters::CellCounters;
use crate::pdu::cell::PAYLOAD_LEN;
use crate::pdu::crc10;
use crate::pdu::sar::{ABORT_LI, PIECE_LEN, Piece, SarFormat, SarHeader, SarPdu};

/// A SAR-PDU that is right as far as it says itself.
pub(crate) struct Segment<'a> {
    pub(crate) header: SarHeader,
    piece: &'a Piece,
    len: usize,
    /// It ends a packet that its sender gave up.
    pub(crate) aborts: bool,
}

impl Segment<'_> {
    /// Its valid octets.
    pub(crate) fn octets(&self) -> &[u8] {
        &self.piece[..self.len]
    }
}

/// What a payload is.
pub(crate) enum SarInput<'a> {
    Segment(Segment<'a>),
    /// The length does not suit the type: the packet with this identifier is damaged.
    IllegalLength(u16),
    /// The check is wrong: nothing in it is certain.
    Damaged,
}

/// Reads a payload, after correcting one wrong bit if `corrects`; what is right then is in `corrected`.
pub(crate) fn read<'a>(
    payload: &'a [u8; PAYLOAD_LEN],
    corrected: &'a mut [u8; PAYLOAD_LEN],
    (format, corrects): (SarFormat, bool),
    counters: &mut CellCounters,
) -> SarInput<'a> {
    let syndrome = SarPdu::new(payload).syndrome();
    if syndrome == 0 {
        return segment(payload, format, counters);
    }
    let Some(bit) = crc10::wrong_bit(syndrome).filter(|_| corrects) else {
        counters.crc_errors += 1;
        return SarInput::Damaged;
    };
    counters.crc_corrected += 1;
    *corrected = *payload;
    corrected[bit / 8] ^= 0x80 >> (bit % 8);
    segment(corrected, format, counters)
}

fn segment<'a>(
    payload: &'a [u8; PAYLOAD_LEN],
    format: SarFormat,
    counters: &mut CellCounters,
) -> SarInput<'a> {
    let pdu = SarPdu::new(payload);
    let header = SarHeader::from_bits(pdu.header_bits(), format);
    let li = pdu.li();
    if !format.is_legal_li(header.segment_type, li) {
        counters.length_errors += 1;
        return SarInput::IllegalLength(header.mid);
    }
    let [_, _, piece @ .., _, _] = payload;
    SarInput::Segment(Segment {
        header,
        piece,
        len: li.min(PIECE_LEN),
        aborts: li == ABORT_LI,
    })
}
