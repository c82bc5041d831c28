//! Messages that are calls: each is settled by its reply, in any order.

use super::Flow;
use crate::frames::MessageTag;
use crate::store::BytePattern;
use engine::RangeSet;
use std::collections::BTreeMap;

/// A call that is neither settled nor given up.
#[derive(Clone, Copy, Debug)]
struct OpenCall {
    end: u64,
    offered_ps: u64,
    dequeued_ps: Option<u64>,
    /// The called user got the request.
    was_executed: bool,
}

/// The calls of a flow.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// By where their requests begin.
    open: BTreeMap<u64, OpenCall>,
    /// Requests that the called user got since its station started.
    executed: RangeSet,
    /// Bytes of requests that the protocol has not released.
    buffered: u64,
}

impl Calls {
    pub(super) fn clear(&mut self) {
        self.open.clear();
        self.buffered = 0;
    }

    /// The controller started a frame with the bytes of a request up to `end`.
    pub(super) fn note_dequeued(&mut self, now_ps: u64, end: u64) {
        let call = self.open.range_mut(..end).next_back();
        if let Some((_, call)) = call.filter(|(_, call)| call.end == end) {
            call.dequeued_ps.get_or_insert(now_ps);
        }
    }

    /// The called station restarts: it does not remember what it executed.
    pub(crate) fn forget_executed(&mut self) {
        self.executed = RangeSet::new();
    }
}

impl Flow {
    /// The message produced as number `index`, of `len` bytes, is about to be sent as a call.
    pub(crate) fn begin_call(&mut self, index: u64, number: usize, len: u64) -> MessageTag {
        let start = self.store.end;
        self.store.end += len;
        let offered_ps = self.offered_ps.get(index as usize).copied().unwrap_or(0);
        if let Some(calls) = &mut self.calls {
            let call = OpenCall {
                end: start + len,
                offered_ps,
                dequeued_ps: None,
                was_executed: false,
            };
            calls.open.insert(start, call);
            calls.buffered += len;
            self.report.buffered_max = self.report.buffered_max.max(calls.buffered);
        }
        MessageTag {
            flow: number,
            start,
            len,
            is_reply: false,
        }
    }

    /// The protocol released a request.
    pub(crate) fn note_request_released(&mut self, len: u64) {
        if let Some(calls) = &mut self.calls {
            calls.buffered = calls.buffered.saturating_sub(len);
        }
    }

    /// The called user is told of the request `tag`, which came as `octets`.
    pub(crate) fn check_request(&mut self, tag: MessageTag, octets: &[u8], pattern: &BytePattern) {
        self.count_wrong(tag, octets, pattern);
        let Some(calls) = &mut self.calls else {
            return;
        };
        let range = tag.start..tag.start + tag.len;
        self.report.receivers[0].repeated_bytes += tag.len - calls.executed.insert(range);
        if let Some(call) = calls.open.get_mut(&tag.start) {
            call.was_executed = true;
        }
    }

    /// The called user is told again of a request that it has.
    pub(crate) fn note_repeated(&mut self, bytes: u64) {
        self.report.receivers[0].repeated_bytes += bytes;
    }

    /// A request or reply came that is none of these: all of its bytes are wrong.
    pub(crate) fn note_wrong(&mut self, bytes: u64) {
        self.report.receivers[0].wrong_bytes += bytes;
    }

    fn count_wrong(&mut self, tag: MessageTag, octets: &[u8], pattern: &BytePattern) {
        let report = &mut self.report.receivers[0];
        report.wrong_bytes += tag.len.abs_diff(octets.len() as u64);
        for (number, part) in octets.chunks(1 << 15).enumerate() {
            let expected = pattern.at(tag.position() + ((number as u64) << 15), part.len());
            let pairs = part.iter().zip(expected);
            report.wrong_bytes += pairs.filter(|(a, b)| a != b).count() as u64;
        }
    }

    /// The called user has read the request `tag`.
    pub(crate) fn note_request_read(&mut self, now_ps: u64, tag: MessageTag) {
        let call = self
            .calls
            .as_ref()
            .and_then(|calls| calls.open.get(&tag.start));
        let offered_ps = call.map(|call| call.offered_ps);
        let report = &mut self.report.receivers[0];
        report.bytes += tag.len;
        report.series.add(now_ps, tag.len);
        report.messages += 1;
        report.last_ps = now_ps;
        if let Some(offered_ps) = offered_ps {
            report.delay.record(now_ps - offered_ps);
        }
    }

    /// The reply to `request` came, as `octets`, and should be `reply`; false if the call was settled
    /// before.
    pub(crate) fn note_replied(
        &mut self,
        now_ps: u64,
        (request, reply): (MessageTag, MessageTag),
        octets: &[u8],
        pattern: &BytePattern,
    ) -> bool {
        self.count_wrong(reply, octets, pattern);
        let calls = self.calls.as_mut();
        let Some(call) = calls.and_then(|calls| calls.open.remove(&request.start)) else {
            self.note_repeated(reply.len.max(1));
            return false;
        };
        if !call.was_executed {
            self.report.lost_bytes += request.len;
        }
        self.report.settled += 1;
        self.report.last_settled_ps = now_ps;
        self.report.settling.record(now_ps - call.offered_ps);
        if let Some(dequeued_ps) = call.dequeued_ps {
            let exchange_ps = now_ps.saturating_sub(dequeued_ps);
            self.report.exchange.record(exchange_ps);
        }
        true
    }

    /// The call of `request` ended without a reply; false if it was settled before.
    pub(crate) fn give_up_call(&mut self, request: MessageTag) -> bool {
        let calls = self.calls.as_mut();
        let was_open = calls.is_some_and(|calls| calls.open.remove(&request.start).is_some());
        self.report.given_up += u64::from(was_open);
        was_open
    }
}
