//! The PDU of the common part of AAL3/4: 4 octets of header, the SDU, padding, 4 octets of trailer.

use super::sar::{PIECE_LEN, Piece, SarFormat};

/// Octets of the header, and of the trailer.
pub const ENVELOPE_LEN: usize = 4;

/// Octets of the longest SDU: its length has 16 bits.
pub const SDU_MAX: usize = 65_535;

/// What the field BASize says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CpcsMode {
    /// The SDU is known when its first cell leaves: BASize is its length.
    #[default]
    Message,
    /// It is not: BASize is the most that it can have.
    Streaming,
}

/// The header: CPI 0, Btag, BASize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpcsHeader {
    /// The tag that the trailer repeats.
    pub tag: u8,
    /// Octets that the receiver should have room for.
    pub ba_size: u16,
}

impl CpcsHeader {
    /// Its octets.
    pub fn octets(&self) -> [u8; ENVELOPE_LEN] {
        let [high, low] = self.ba_size.to_be_bytes();
        [0, self.tag, high, low]
    }

    /// From its octets; None when CPI is not 0.
    pub fn parse([cpi, tag, high, low]: [u8; ENVELOPE_LEN]) -> Option<CpcsHeader> {
        let ba_size = u16::from_be_bytes([high, low]);
        (cpi == 0).then_some(CpcsHeader { tag, ba_size })
    }

    /// Octets behind the header that its PDU has at most.
    pub fn room(&self) -> usize {
        usize::from(self.ba_size).next_multiple_of(4) + ENVELOPE_LEN
    }
}

/// The trailer's octets: AL 0, Etag, length.
pub fn trailer(tag: u8, length: u16) -> [u8; ENVELOPE_LEN] {
    let [high, low] = length.to_be_bytes();
    [0, tag, high, low]
}

/// Why a PDU is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpcsFault {
    /// Etag is not Btag: parts of two PDUs were joined.
    Tag,
    /// BASize is not the length, or in streaming mode less.
    BaSize,
    /// The length does not agree with the cells that came, or AL is not 0.
    Length,
}

/// Octets of the SDU at the beginning of `octets`, which is all behind the header.
///
/// # Errors
///
/// What is wrong with the PDU.
pub fn sdu_len(header: CpcsHeader, octets: &[u8], mode: CpcsMode) -> Result<usize, CpcsFault> {
    let Some((body, &[al, tag, high, low])) = octets.split_last_chunk::<ENVELOPE_LEN>() else {
        return Err(CpcsFault::Length);
    };
    let length = u16::from_be_bytes([high, low]);
    let len = usize::from(length);
    if al != 0 || body.len() != len.next_multiple_of(4) {
        return Err(CpcsFault::Length);
    }
    if tag != header.tag {
        return Err(CpcsFault::Tag);
    }
    let fits = match mode {
        CpcsMode::Message => header.ba_size == length,
        CpcsMode::Streaming => header.ba_size >= length,
    };
    if fits {
        Ok(len)
    } else {
        Err(CpcsFault::BaSize)
    }
}

/// What SAR cuts in pieces: an SDU between header and trailer, or, without a common part, alone.
#[derive(Debug)]
pub struct CpcsPdu<'a> {
    header: [u8; ENVELOPE_LEN],
    header_len: usize,
    sdu: &'a [u8],
    /// Padding and trailer.
    tail: [u8; 3 + ENVELOPE_LEN],
    tail_len: usize,
}

impl<'a> CpcsPdu<'a> {
    /// The PDU of `sdu`, of at most [`SDU_MAX`] octets.
    pub fn new(header: CpcsHeader, sdu: &'a [u8]) -> CpcsPdu<'a> {
        let padding = sdu.len().next_multiple_of(4) - sdu.len();
        let mut tail = [0; 3 + ENVELOPE_LEN];
        let trailer = trailer(header.tag, sdu.len() as u16);
        tail[padding..padding + ENVELOPE_LEN].copy_from_slice(&trailer);
        CpcsPdu {
            header: header.octets(),
            header_len: ENVELOPE_LEN,
            sdu,
            tail,
            tail_len: padding + ENVELOPE_LEN,
        }
    }

    /// The SDU alone.
    pub fn bare(sdu: &'a [u8]) -> CpcsPdu<'a> {
        CpcsPdu {
            header: [0; ENVELOPE_LEN],
            header_len: 0,
            sdu,
            tail: [0; 3 + ENVELOPE_LEN],
            tail_len: 0,
        }
    }

    /// Octets of the PDU.
    pub fn octets(&self) -> usize {
        self.header_len + self.sdu.len() + self.tail_len
    }

    /// Cells it takes, at least one.
    pub fn cells(&self) -> usize {
        self.octets().div_ceil(PIECE_LEN).max(1)
    }

    /// The pieces that consist of octets of the SDU alone, from number 1 on: they need no copy.
    pub fn inner_pieces(&self) -> &[Piece] {
        let before = PIECE_LEN - self.header_len;
        let inner = self.sdu.get(before..).unwrap_or_default();
        // The last cell is not one of them, although it may be full.
        let count = self.cells().saturating_sub(2);
        let (pieces, _) = inner.as_chunks::<PIECE_LEN>();
        &pieces[..pieces.len().min(count)]
    }

    /// Octets of piece number `index` that are valid.
    pub fn valid(&self, index: usize) -> usize {
        let rest = self.octets().saturating_sub(index * PIECE_LEN);
        rest.min(PIECE_LEN)
    }

    /// Writes the valid octets of piece number `index` to `place`; the others stay as they are.
    pub fn write_piece(&self, index: usize, place: &mut Piece) {
        match self.sdu.first_chunk::<FIRST_LEN>() {
            Some(sdu) if index == 0 && self.header_len == ENVELOPE_LEN => {
                let [a, b, c, d, rest @ ..] = place;
                [*a, *b, *c, *d] = self.header;
                *rest = *sdu;
            }
            _ => self.write_parts(index * PIECE_LEN, place),
        }
    }

    /// The same for the piece from octet `start` on, whatever it holds.
    fn write_parts(&self, start: usize, place: &mut Piece) {
        let header = &self.header[..self.header_len];
        let parts = [header, self.sdu, &self.tail[..self.tail_len]];
        let mut at = 0;
        for part in parts {
            // Where `part` and the piece overlap, in octets of the PDU.
            let from = start.max(at);
            let to = (start + PIECE_LEN).min(at + part.len());
            if from < to {
                place[from - start..to - start].copy_from_slice(&part[from - at..to - at]);
            }
            at += part.len();
        }
    }
}

/// Octets of an SDU in its first piece, behind the header.
const FIRST_LEN: usize = PIECE_LEN - ENVELOPE_LEN;

/// Octets of the longest SDU that fits `cells` cells.
pub fn sdu_max(format: SarFormat, cells: usize) -> usize {
    let octets = cells * PIECE_LEN;
    match format {
        SarFormat::Standard => octets.saturating_sub(2 * ENVELOPE_LEN).min(SDU_MAX),
        SarFormat::Study => octets,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_are_the_pdu_cut_every_44_octets() {
        let piece = |pdu: &CpcsPdu<'_>, index| {
            let mut piece = [0; PIECE_LEN];
            pdu.write_piece(index, &mut piece);
            (piece, pdu.valid(index))
        };
        for len in 0..300 {
            let sdu: Vec<u8> = (0..len).map(|at| (at % 255) as u8 + 1).collect();
            let header = CpcsHeader {
                tag: 7,
                ba_size: len as u16,
            };
            let mut whole = header.octets().to_vec();
            whole.extend(&sdu);
            whole.resize(whole.len().next_multiple_of(4), 0);
            whole.extend(trailer(7, len as u16));
            for (pdu, whole) in [
                (CpcsPdu::new(header, &sdu), &whole),
                (CpcsPdu::bare(&sdu), &sdu),
            ] {
                assert_eq!(pdu.octets(), whole.len());
                let mut joined: Vec<u8> = Vec::new();
                for index in 0..pdu.cells() {
                    let (piece, valid) = piece(&pdu, index);
                    joined.extend(&piece[..valid]);
                    assert!(piece[valid..].iter().all(|octet| *octet == 0));
                }
                assert_eq!(&joined, whole, "{len}");
                for (index, inner) in pdu.inner_pieces().iter().enumerate() {
                    assert_eq!(piece(&pdu, index + 1), (*inner, PIECE_LEN));
                    assert!(index + 2 < pdu.cells(), "the last is no inner one");
                }
            }
        }
    }

    #[test]
    fn cpcs_pdu_of_100_octets_is_the_known_one() {
        let sdu: Vec<u8> = (0..100).collect();
        let header = CpcsHeader {
            tag: 0x5a,
            ba_size: 100,
        };
        let pdu = CpcsPdu::new(header, &sdu);
        assert_eq!((pdu.octets(), pdu.cells()), (108, 3));
        let mut piece = [0; PIECE_LEN];
        pdu.write_piece(0, &mut piece);
        assert_eq!(piece[..6], [0, 0x5a, 0, 0x64, 0, 1]);
        pdu.write_piece(2, &mut piece);
        assert_eq!(piece[16..20], [0, 0x5a, 0, 0x64]);
    }

    #[test]
    fn each_fault_of_the_envelope_has_its_name() {
        let header = CpcsHeader { tag: 9, ba_size: 5 };
        let body = |tail: [u8; 4]| [&[1, 2, 3, 4, 5, 0, 0, 0][..], &tail].concat();
        let check = |tail, mode| sdu_len(header, &body(tail), mode);
        let message = CpcsMode::Message;
        assert_eq!(check([0, 9, 0, 5], message), Ok(5));
        assert_eq!(check([0, 8, 0, 5], message), Err(CpcsFault::Tag));
        assert_eq!(check([1, 9, 0, 5], message), Err(CpcsFault::Length));
        assert_eq!(check([0, 9, 0, 4], message), Err(CpcsFault::Length));
        assert_eq!(check([0, 9, 0, 6], message), Err(CpcsFault::BaSize));
        let long = CpcsHeader {
            tag: 9,
            ba_size: 99,
        };
        let tail = body([0, 9, 0, 5]);
        assert_eq!(sdu_len(long, &tail, message), Err(CpcsFault::BaSize));
        assert_eq!(sdu_len(long, &tail, CpcsMode::Streaming), Ok(5));
        assert_eq!(sdu_len(header, &[0, 9, 0], message), Err(CpcsFault::Length));
        assert_eq!(CpcsHeader::parse([1, 9, 0, 5]), None);
    }
}
