//! Whole messages of one stream, one behind the other: nearly all that a busy sender of short ones sends. What
//! changes from chunk to chunk is kept at hand, and put back behind the last one.

use super::SendState;
use super::messages::Messages;
use super::outstanding::{ChunkStatus, OutChunk};
use crate::numbers::{Ssn, StreamId};
use crate::pdu::data::{FLAG_BEGIN, FLAG_END, FLAG_UNORDERED};
use crate::pdu::{DATA_HEADER_LEN, DataHeader};
use crate::procedure::AckRequest;
use core::ops::Range;

/// How far a run goes, and what it has sent.
#[derive(Debug)]
pub(crate) struct Run {
    /// Octets that the packet has room for.
    pub(crate) left: u64,
    /// Octets that congestion control allows in flight.
    pub(crate) window: u64,
    pub(crate) request: AckRequest,
    /// The path, by its index.
    pub(crate) path: u8,
    /// Octets in flight there.
    pub(crate) flight: u64,
    /// Octets of chunks that were sent.
    pub(crate) octets: u64,
    /// User bytes of them.
    pub(crate) bytes: u64,
}

impl SendState {
    /// Sends messages as [`Messages::cut_whole`] would cut them one by one, if they are alike in all but their length.
    /// `add` gets the header of each chunk, the first octet the highest, its bytes, and the octets of its padding.
    pub(crate) fn send_run(&mut self, run: &mut Run, mut add: impl FnMut(u128, Range<u64>, usize)) {
        let Messages::InOrder(queue) = &mut self.messages else {
            return;
        };
        let flags = match queue.numbering.rules.unordered {
            true => FLAG_BEGIN | FLAG_END | FLAG_UNORDERED,
            false => FLAG_BEGIN | FLAG_END,
        };
        let (mut rwnd, mut unasked) = (self.rwnd, self.unasked);
        let outstanding = &mut self.outstanding;
        queue.cut_alike(|range, number, has_more| {
            let len = range.end - range.start;
            let octets = (DATA_HEADER_LEN as u64 + len).next_multiple_of(4);
            if octets > run.left.min(rwnd) || run.flight >= run.window {
                return false;
            }
            run.left -= octets;
            run.flight += octets;
            run.octets += octets;
            run.bytes += len;
            rwnd -= octets;
            unasked += octets;
            let header = DataHeader {
                flags: flags | run.request.flag((run.flight, rwnd), &mut unasked, has_more),
                tsn: outstanding.next().tsn(),
                stream: StreamId(0),
                ssn: Ssn(number),
                ppid: 0,
            };
            outstanding.push(OutChunk {
                start: range.start,
                len: len as u32,
                ppid: 0,
                number: u32::from(number),
                stream: StreamId(0),
                retransmissions: 0,
                flags,
                status: ChunkStatus::InFlight,
                misses: 0,
                sent_before: outstanding.next().plus(1),
                path: run.path,
                was_moved: false,
                header_len: DATA_HEADER_LEN as u8,
            });
            let padding = octets - DATA_HEADER_LEN as u64 - len;
            add(header.bits(len as usize), range, padding as usize);
            true
        });
        self.probes_window &= run.octets == 0;
        (self.rwnd, self.unasked) = (rwnd, unasked);
    }
}

#[cfg(test)]
mod tests;
