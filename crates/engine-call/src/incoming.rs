//! Messages on their way in.

use engine::{Block, IncomingMessage, RangeSet};
use std::ops::Range;

/// A message of which blocks have come.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) message: IncomingMessage,
    len: u64,
    blocks: RangeSet,
    received: u64,
}

/// Blocks of a message that do not touch each other, at most: a peer that sends single octets apart
/// from each other costs no more than this.
const GAPS_MAX: usize = 1024;

impl Incoming {
    pub(crate) fn new(message: IncomingMessage, len: u32) -> Incoming {
        Incoming {
            message,
            len: u64::from(len),
            blocks: RangeSet::new(),
            received: 0,
        }
    }

    /// Takes the block at `offset` that lies in the packet at `range`; None if the message has
    /// another length, has all of the block, or has too many gaps.
    pub(crate) fn take(&mut self, len: u32, offset: u32, range: Range<usize>) -> Option<Block> {
        let start = u64::from(offset);
        let block = start..start + range.len() as u64;
        if u64::from(len) != self.len || self.blocks.len() >= GAPS_MAX {
            return None;
        }
        let fresh = self.blocks.insert(block);
        self.received += fresh;
        (fresh > 0).then_some(Block {
            message: self.message,
            message_len: self.len,
            offset: start,
            range,
        })
    }

    /// Whether all of it has come.
    pub(crate) fn is_whole(&self) -> bool {
        self.received == self.len
    }
}
