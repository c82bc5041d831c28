//! The control cell by which missing cells are asked for (0027, Repair): an SSM with the identifier of
//! the packet, which no packet of one cell has.

use super::sar::{PIECE_LEN, Piece};

/// Octets of it: kind, first sequence number, mask, two zeros.
pub const CONTROL_LEN: usize = 8;

/// Kind 1: which cells of a packet are held.
const KIND_HELD: u8 = 1;

/// Which cells of a packet its receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Bit `i` is set when the cell with sequence number `i` is held.
    pub mask: u32,
}

impl Held {
    /// As the payload of a SAR-PDU with [`CONTROL_LEN`] octets.
    pub fn piece(&self) -> Piece {
        let [a, b, c, d] = self.mask.to_be_bytes();
        let mut piece = [0; PIECE_LEN];
        // Sequence numbers of a packet begin at 0.
        piece[..CONTROL_LEN].copy_from_slice(&[KIND_HELD, 0, a, b, c, d, 0, 0]);
        piece
    }

    /// From the valid octets of a SAR-PDU; None for another kind.
    pub fn parse(octets: &[u8]) -> Option<Held> {
        match *octets {
            [KIND_HELD, 0, a, b, c, d, 0, 0] => {
                let mask = u32::from_be_bytes([a, b, c, d]);
                Some(Held { mask })
            }
            _ => None,
        }
    }
}

/// The mask of all of `count` cells, at most 32.
pub fn mask_of_all(count: usize) -> u32 {
    match count {
        32.. => u32::MAX,
        _ => (1 << count) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn held_is_read_as_it_is_written_and_nothing_else_is() {
        for mask in [0, 1, 0x8000_0001, u32::MAX] {
            let piece = Held { mask }.piece();
            assert_eq!(Held::parse(&piece[..CONTROL_LEN]), Some(Held { mask }));
            assert_eq!(Held::parse(&piece[..CONTROL_LEN - 1]), None);
        }
        assert_eq!(Held::parse(&[2, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(
            (mask_of_all(0), mask_of_all(3), mask_of_all(32)),
            (0, 7, u32::MAX)
        );
    }
}
