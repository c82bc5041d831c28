//! Whole messages of one stream that arrive in order, one behind the other in a packet: nearly all of a busy sender's
//! short ones.

use super::{ReceiveState, octets_of};
use crate::numbers::{Ssn, StreamId, Tsn};
use crate::pdu::data::{FLAG_BEGIN, FLAG_END};
use crate::pdu::{Chunks, DataHeader};
use core::ops::Range;

impl ReceiveState {
    /// The header of the next message of stream 0, whole, without another flag or a payload protocol identifier, which
    /// [`ReceiveState::take`] would deliver at once; None if nothing is.
    #[inline]
    pub(crate) fn expected(&mut self) -> Option<DataHeader> {
        let has_room = !self.is_full && self.unread_octets < self.buffer;
        if !has_room || self.has_gap() || !self.streams.has_stream(0) {
            return None;
        }
        let next = self.streams.next_of_first()?;
        Some(DataHeader {
            flags: FLAG_BEGIN | FLAG_END,
            tsn: self.cumulative.plus(1).tsn(),
            stream: StreamId(0),
            ssn: Ssn(*next as u16),
            ppid: 0,
        })
    }

    /// Takes the chunk of [`ReceiveState::expected`], with so many user bytes, as [`ReceiveState::take`] does.
    #[inline]
    pub(crate) fn take_expected(&mut self, bytes: u64) {
        self.cumulative = self.cumulative.plus(1);
        if let Some(next) = self.streams.next_of_first() {
            *next = u32::from(Ssn(*next as u16).next().0);
        }
        self.count_delivered(bytes);
    }

    /// Takes the next chunks as [`ReceiveState::take`] does those that it has delivered, as long as each is the next
    /// message of stream 0, whole, without another flag or a payload protocol identifier, and there is room. Where in the
    /// packet their user bytes lie goes to `ranges`; how many those are.
    #[inline(never)]
    pub(crate) fn take_run(
        &mut self,
        chunks: &mut Chunks<'_>,
        ranges: &mut Vec<Range<u32>>,
    ) -> u64 {
        let Some(mut expected) = self.expected() else {
            return 0;
        };
        let (before, unread) = (ranges.len(), self.unread);
        while self.unread_octets < self.buffer
            && let Some(range) = chunks.next_data(&expected)
        {
            let len = u64::from(range.end - range.start);
            self.unread += len;
            self.unread_octets += octets_of(len);
            expected.tsn = Tsn(expected.tsn.0.wrapping_add(1));
            expected.ssn = expected.ssn.next();
            ranges.push(range);
        }
        if let Some(next) = self.streams.next_of_first() {
            *next = u32::from(expected.ssn.0);
        }
        self.cumulative = self.cumulative.plus((ranges.len() - before) as u64);
        self.unread - unread
    }
}
