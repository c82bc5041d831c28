//! Messages that are calls: each is settled by its reply, in any order.

use super::Flow;
use crate::frames::MessageTag;
use crate::store::BytePattern;
use crate::traffic::Calling;
use engine::RangeSet;
use std::collections::{BTreeMap, BTreeSet};

/// A call that is neither settled nor given up.
#[derive(Clone, Debug)]
struct OpenCall {
    end: u64,
    offered_ps: u64,
    dequeued_ps: Option<u64>,
    /// Receivers whose users got the request.
    executed_by: BTreeSet<usize>,
    /// Receivers whose replies came.
    replied_by: BTreeSet<usize>,
}

/// What a called user got since its station started.
#[derive(Clone, Debug, Default)]
struct Executed {
    requests: RangeSet,
    /// Where the latest of them begins in the flow.
    latest: u64,
}

/// What a reply is to its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReplyOutcome {
    /// It settles the call.
    Settled,
    /// Others are waited for.
    Collected,
    /// The call has it, or is over.
    Repeated,
}

/// The calls of a flow.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    calling: Calling,
    /// Calls that have begun.
    begun: u64,
    /// By where their requests begin.
    open: BTreeMap<u64, OpenCall>,
    /// Datagrams that have left: when they were produced.
    departed: BTreeMap<u64, u64>,
    /// Of each receiver.
    executed: Vec<Executed>,
    /// Bytes of requests that the protocol has not released.
    buffered: u64,
}

impl Calls {
    /// Calls to so many receivers.
    pub(crate) fn new(calling: Calling, receivers: usize) -> Calls {
        Calls {
            calling,
            executed: vec![Executed::default(); receivers],
            ..Calls::default()
        }
    }

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

    /// The station of a receiver restarts: it does not remember what it executed.
    pub(crate) fn forget_executed(&mut self, receiver: usize) {
        self.executed[receiver] = Executed::default();
    }

    /// Whether the call that began last is the last one of its run.
    pub(crate) fn ends_run(&self) -> bool {
        match self.calling {
            Calling::Stream(run) => self.begun.is_multiple_of(run.max(1)),
            _ => false,
        }
    }

    /// Whether so many replies settle a call.
    fn is_enough(&self, replies: usize) -> bool {
        match self.calling {
            Calling::Collected { replies: most, .. } => {
                most.is_some_and(|most| replies as u64 >= most)
            }
            _ => true,
        }
    }

    /// Replies without which a call that was collected for is given up.
    fn least_replies(&self) -> u64 {
        match self.calling {
            Calling::Collected { replies, .. } => replies.unwrap_or(1),
            _ => 1,
        }
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
                executed_by: BTreeSet::new(),
                replied_by: BTreeSet::new(),
            };
            calls.open.insert(start, call);
            calls.begun += 1;
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

    /// The called user of `receiver` is given the request `tag`, which came as `octets`.
    pub(crate) fn check_request(
        &mut self,
        receiver: usize,
        tag: MessageTag,
        octets: &[u8],
        pattern: &BytePattern,
    ) {
        self.count_wrong(receiver, tag, octets, pattern);
        let Some(calls) = &mut self.calls else {
            return;
        };
        let report = &mut self.report.receivers[receiver];
        let executed = &mut calls.executed[receiver];
        let fresh = executed.requests.insert(tag.start..tag.start + tag.len);
        report.repeated_bytes += tag.len - fresh;
        let is_stream = matches!(calls.calling, Calling::Stream(_));
        if is_stream && fresh > 0 && tag.start < executed.latest {
            // A later call of the stream was served before it.
            report.skipped_bytes += fresh;
        }
        executed.latest = executed.latest.max(tag.start);
        if let Some(call) = calls.open.get_mut(&tag.start) {
            call.executed_by.insert(receiver);
        }
    }

    /// The called user is given a request again that it has.
    pub(crate) fn note_repeated(&mut self, receiver: usize, bytes: u64) {
        self.report.receivers[receiver].repeated_bytes += bytes;
    }

    /// A request or reply came that is none of these: all of its bytes are wrong.
    pub(crate) fn note_wrong(&mut self, bytes: u64) {
        self.report.receivers[0].wrong_bytes += bytes;
    }

    fn count_wrong(
        &mut self,
        receiver: usize,
        tag: MessageTag,
        octets: &[u8],
        pattern: &BytePattern,
    ) {
        let report = &mut self.report.receivers[receiver];
        report.wrong_bytes += tag.len.abs_diff(octets.len() as u64);
        for (number, part) in octets.chunks(1 << 15).enumerate() {
            let expected = pattern.at(tag.position() + ((number as u64) << 15), part.len());
            let pairs = part.iter().zip(expected);
            report.wrong_bytes += pairs.filter(|(a, b)| a != b).count() as u64;
        }
    }

    /// The called user of `receiver` has read the request `tag`.
    pub(crate) fn note_request_read(&mut self, now_ps: u64, receiver: usize, tag: MessageTag) {
        let offered_ps = self.calls.as_ref().and_then(|calls| {
            let open = calls.open.get(&tag.start).map(|call| call.offered_ps);
            open.or_else(|| calls.departed.get(&tag.start).copied())
        });
        let report = &mut self.report.receivers[receiver];
        report.bytes += tag.len;
        report.series.add(now_ps, tag.len);
        report.messages += 1;
        report.last_ps = now_ps;
        if let Some(offered_ps) = offered_ps {
            report.delay.record(now_ps - offered_ps);
        }
    }

    /// The reply of `receiver` to `request` came, as `octets`, and should be `reply`.
    pub(crate) fn note_replied(
        &mut self,
        now_ps: u64,
        receiver: usize,
        (request, reply): (MessageTag, MessageTag),
        octets: &[u8],
        pattern: &BytePattern,
    ) -> ReplyOutcome {
        self.count_wrong(receiver, reply, octets, pattern);
        let call = self
            .calls
            .as_mut()
            .and_then(|calls| calls.open.get_mut(&request.start));
        let Some(call) = call.filter(|call| !call.replied_by.contains(&receiver)) else {
            self.note_repeated(receiver, reply.len.max(1));
            return ReplyOutcome::Repeated;
        };
        call.replied_by.insert(receiver);
        let replies = call.replied_by.len();
        if !call.executed_by.contains(&receiver) {
            self.report.lost_bytes += request.len;
        }
        self.report.replies += 1;
        let is_enough = self
            .calls
            .as_ref()
            .is_none_or(|calls| calls.is_enough(replies));
        match is_enough && self.settle_call(now_ps, request) {
            true => ReplyOutcome::Settled,
            false => ReplyOutcome::Collected,
        }
    }

    /// The call of `request` is settled; false if it was over.
    fn settle_call(&mut self, now_ps: u64, request: MessageTag) -> bool {
        let calls = self.calls.as_mut();
        let Some(call) = calls.and_then(|calls| calls.open.remove(&request.start)) else {
            return false;
        };
        self.report.settled += 1;
        self.report.last_settled_ps = now_ps;
        self.report.settling.record(now_ps - call.offered_ps);
        if let Some(dequeued_ps) = call.dequeued_ps {
            let exchange_ps = now_ps.saturating_sub(dequeued_ps);
            self.report.exchange.record(exchange_ps);
        }
        true
    }

    /// The time is over in which replies to `request` were collected; true if it is settled by those
    /// that have come, false if it is to be given up, or was over.
    pub(crate) fn end_collecting(&mut self, now_ps: u64, request: MessageTag) -> bool {
        let Some(calls) = &self.calls else {
            return false;
        };
        let call = calls.open.get(&request.start);
        let replies = call.map_or(0, |call| call.replied_by.len() as u64);
        replies >= calls.least_replies() && self.settle_call(now_ps, request)
    }

    /// All copies of a datagram have left, which settles it; false if it was over.
    pub(crate) fn note_departed(&mut self, now_ps: u64, request: MessageTag) -> bool {
        if let Some(calls) = &mut self.calls
            && let Some(call) = calls.open.get(&request.start)
        {
            calls.departed.insert(request.start, call.offered_ps);
        }
        self.settle_call(now_ps, request)
    }

    /// The call of `request` ended without a reply; false if it was settled before.
    pub(crate) fn give_up_call(&mut self, request: MessageTag) -> bool {
        let calls = self.calls.as_mut();
        let was_open = calls.is_some_and(|calls| calls.open.remove(&request.start).is_some());
        self.report.given_up += u64::from(was_open);
        was_open
    }
}
