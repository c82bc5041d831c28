//! What one arrival brought, sorted by circuit.

use crate::inbox::Piece;
use engine::{Bytes, AssociationId, Delivery};
use std::ops::Range;

/// Pieces of one circuit that lie in one place: the arrival, or a copy the engine held.
pub(crate) struct Group {
    pub(crate) id: AssociationId,
    pub(crate) held: Option<Vec<u8>>,
    pub(crate) pieces: Vec<Piece>,
}

/// Packets of a segmented send of 64 KiB, and so pieces of a usual arrival.
const PIECES_USUAL: usize = 46;

/// Adds a delivery to the last group of its circuit, if that lies in the arrival too. `start` is
/// where its packet begins in the arrival, `more` how many packets may follow. Lists of pieces
/// come from `lists` as far as there are some.
pub(crate) fn sort_in(
    groups: &mut Vec<Group>,
    lists: &mut Vec<Vec<Piece>>,
    delivery: Delivery,
    start: usize,
    more: usize,
) {
    let Delivery {
        association: id,
        bytes,
        gap,
        tag,
        end_tag,
        end,
    } = delivery;
    let piece = |range: Range<usize>| Piece {
        range: range.start as u32..range.end as u32,
        gap,
        tag,
        end_tag,
        end,
    };
    match bytes {
        Bytes::Packet(range) => {
            let piece = piece(start + range.start..start + range.end);
            match groups.iter_mut().rev().find(|group| group.id == id) {
                Some(group) if group.held.is_none() => group.pieces.push(piece),
                _ => {
                    let mut pieces = lists.pop().unwrap_or_default();
                    pieces.reserve((more + 1).min(PIECES_USUAL));
                    pieces.push(piece);
                    groups.push(Group {
                        id,
                        held: None,
                        pieces,
                    });
                }
            }
        }
        Bytes::Reassembled(held) => {
            let pieces = vec![piece(0..held.len())];
            groups.push(Group {
                id,
                held: Some(held),
                pieces,
            });
        }
    }
}
