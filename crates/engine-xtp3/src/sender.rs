//! The sender of an association.

use crate::config::{Multicast, Xtp3Config};
use crate::packet::{ControlSegment, unwrap};
use engine::{Address, Instant};
use std::collections::VecDeque;

/// Interval of the credit, ns: 1/60 s.
pub(super) const CREDIT_NS: u64 = 16_666_667;

/// The control packets that answer one status request (bucket algorithm).
#[derive(Clone, Copy, Debug)]
struct Bucket {
    sync: u32,
    alloc: u64,
    rseq: u64,
    responses: u32,
}

/// The next packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextPacket {
    /// A data packet with the bytes `start..end`.
    Data {
        start: u64,
        end: u64,
        sreq: bool,
        eom: bool,
    },
    /// A control packet with SREQ, and with EOM if a message ends at what was sent.
    Request { eom: bool },
}

/// State of an association this side opened.
#[derive(Clone, Debug)]
pub(super) struct SenderState {
    pub(super) peer: Address,
    pub(super) key: u32,
    multicast: Option<Multicast>,
    payload: u64,
    /// The store holds bytes below this.
    pub(super) end: u64,
    /// Message ends above `acknowledged`.
    ends: VecDeque<u64>,
    /// Where the message at `next_seq` begins.
    message_start: u64,
    pub(super) acknowledged: u64,
    pub(super) next_seq: u64,
    /// Bytes below were sent at least once.
    pub(super) sent_end: u64,
    alloc: u64,
    pub(super) sync: u32,
    /// The sync whose control packet is awaited; until then nothing is sent.
    pub(super) awaited_sync: Option<u32>,
    request_due: bool,
    buckets: VecDeque<Bucket>,
    pub(super) credit: Option<i64>,
    pub(super) credit_at: Option<Instant>,
    pub(super) wait_at: Option<Instant>,
    pub(super) give_up_at: Option<Instant>,
    /// When to act on the newest bucket.
    pub(super) bucket_act_at: Option<Instant>,
    pub(super) finishing: bool,
}

impl SenderState {
    pub(super) fn new(config: &Xtp3Config, peer: Address, key: u32) -> SenderState {
        SenderState {
            peer,
            key,
            multicast: config.multicast,
            payload: config.payload() as u64,
            end: 0,
            ends: VecDeque::new(),
            message_start: 0,
            acknowledged: 0,
            next_seq: 0,
            sent_end: 0,
            alloc: u64::from(config.alloc),
            sync: 0,
            awaited_sync: None,
            request_due: false,
            buckets: VecDeque::new(),
            credit: config.credit.map(i64::from),
            credit_at: None,
            wait_at: None,
            give_up_at: None,
            bucket_act_at: None,
            finishing: false,
        }
    }

    pub(super) fn end_message(&mut self, end: u64) {
        self.ends.push_back(end);
    }

    /// The next packet, if one may be sent.
    ///
    /// The last packet of a message requests a status, and so do the first packet of a longer
    /// message and one that fills the receiver's buffer; nothing is sent until the control packet
    /// is here. In a group the request is a control packet behind the data.
    pub(super) fn next(&mut self) -> Option<NextPacket> {
        if self.awaited_sync.is_some() {
            return None;
        }
        if self.request_due {
            self.request_due = false;
            let eom = self.next_seq > 0 && self.message_start == self.next_seq;
            self.sync = self.sync.wrapping_add(1);
            self.open_bucket();
            return Some(NextPacket::Request { eom });
        }
        if self.credit.is_some_and(|credit| credit <= 0) {
            return None;
        }
        self.next_data()
    }

    fn next_data(&mut self) -> Option<NextPacket> {
        let start = self.next_seq;
        let whole = self.ends.iter().find(|end| **end > start).copied();
        let end = whole.unwrap_or(self.end).min(start + self.payload);
        let part_filled = whole != Some(end) && end - start < self.payload;
        if end == start || part_filled || end > self.alloc {
            return None;
        }
        let eom = whole == Some(end);
        let first_of_many = start == self.message_start && !eom;
        // The next packet would exceed the receiver's buffer, so only a status can open it.
        let next_end = whole.unwrap_or(self.end).min(end + self.payload);
        let request = eom || first_of_many || next_end > self.alloc;
        self.next_seq = end;
        if eom {
            self.message_start = end;
        }
        self.sync = self.sync.wrapping_add(1);
        if let Some(credit) = &mut self.credit {
            *credit -= (end - start) as i64;
        }
        let in_group = self.multicast.is_some();
        if in_group {
            self.request_due = request;
        } else if request {
            self.awaited_sync = Some(self.sync);
        }
        Some(NextPacket::Data {
            start,
            end,
            sreq: request && !in_group,
            eom: eom && !in_group,
        })
    }

    fn open_bucket(&mut self) {
        self.awaited_sync = Some(self.sync);
        let Some(multicast) = self.multicast else {
            return;
        };
        if self.buckets.len() == multicast.buckets() {
            self.buckets.pop_front();
        }
        self.buckets.push_back(Bucket {
            sync: self.sync,
            alloc: u64::MAX,
            rseq: u64::MAX,
            responses: 0,
        });
    }

    /// Handles a control packet. True when bytes were released.
    pub(super) fn handle_status(&mut self, control: &ControlSegment) -> bool {
        let rseq = unwrap(control.rseq, self.acknowledged);
        let alloc = unwrap(control.alloc, self.alloc);
        if rseq > self.sent_end {
            return false;
        }
        let Some(multicast) = self.multicast else {
            return self.apply_status(rseq, alloc, control.echo);
        };
        let is_answered = |bucket: &&mut Bucket| bucket.sync == control.echo;
        let Some(bucket) = self.buckets.iter_mut().find(is_answered) else {
            return false;
        };
        bucket.rseq = bucket.rseq.min(rseq);
        bucket.alloc = bucket.alloc.min(alloc);
        bucket.responses += 1;
        if multicast.bucket_delay.is_some() || bucket.responses < multicast.responders {
            return false;
        }
        self.apply_newest_bucket()
    }

    /// Acts on the newest bucket, if any receiver answered. True when bytes were released.
    pub(super) fn apply_newest_bucket(&mut self) -> bool {
        let newest = self.buckets.back().copied();
        let Some(bucket) = newest.filter(|bucket| bucket.responses > 0) else {
            return false;
        };
        self.buckets.clear();
        self.apply_status(bucket.rseq, bucket.alloc, bucket.sync)
    }

    fn apply_status(&mut self, rseq: u64, alloc: u64, echo: u32) -> bool {
        self.alloc = self.alloc.max(alloc);
        if self.awaited_sync == Some(echo) {
            self.awaited_sync = None;
            self.wait_at = None;
            self.give_up_at = None;
            self.bucket_act_at = None;
            if rseq < self.next_seq {
                self.go_back(rseq);
            }
        }
        let released = rseq > self.acknowledged;
        self.acknowledged = self.acknowledged.max(rseq);
        while self
            .ends
            .front()
            .is_some_and(|end| *end < self.acknowledged)
        {
            self.ends.pop_front();
        }
        released
    }

    /// Go-back-n: everything from `rseq` on is sent again.
    fn go_back(&mut self, rseq: u64) {
        self.next_seq = rseq;
        let before = self.ends.iter().rev().find(|end| **end <= rseq);
        self.message_start = before.copied().unwrap_or(0);
        self.request_due = false;
    }

    /// No control packet came: repeats the request.
    pub(super) fn repeat_request(&mut self) {
        self.awaited_sync = None;
        self.request_due = true;
    }

    /// Whether everything was sent and acknowledged.
    pub(super) fn is_done(&self) -> bool {
        self.acknowledged == self.end && self.awaited_sync.is_none() && !self.request_due
    }
}
