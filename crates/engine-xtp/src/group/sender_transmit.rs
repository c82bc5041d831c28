//! Packets that a sender builds: FIRST, DATA, status requests, END.

use super::config::Reliability;
use super::endpoint_state::{GroupEndpointState, Numbers};
use super::sender::{GroupTracking, Sender, SenderTimer};
use crate::endpoint_state::plain_header;
use crate::numbers::SyncNumber;
use crate::pdu::{Body, CommonControl, Format, Header, Options};
use crate::tx::{RateLimits, wtimer};
use congestion::RateCredit;
use core::ops::Range;
use engine::{Batch, CloseReason, Framing, Instant, Store};

/// Shortest backlog, in payload slots, for which a short packet is sent so that those behind it are
/// aligned to slots; as for unicast.
const ALIGN_MIN_SLOTS: u64 = 16;

/// Range and flags of the next DATA packet.
struct PacketPlan {
    bytes: Range<u64>,
    is_retransmission: bool,
    eom: bool,
}

impl Sender {
    /// Fills `batch` with the packets that may be sent now.
    pub(super) fn transmit(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        batch: &mut Batch,
    ) {
        if ep.config.reliability == Reliability::None {
            // Bytes and all copies of the last call have been sent.
            self.release(ep, self.next_seq);
        }
        batch.set_path(self.group, Some(self.id));
        if let Some(reason) = self.close_reason {
            return self.transmit_end(ep, batch, reason);
        }
        if self.first_due || self.first_follow_up_due {
            return self.transmit_first(ep, now, batch);
        }
        if self.request_due {
            return self.transmit_request(ep, now, batch);
        }
        if !self.connected {
            return;
        }
        self.transmit_data(ep, now, batch);
        self.update_coalesce_timer(ep, now);
        self.arm_request_timer(ep, now);
        if batch.is_empty() && self.is_unreliable_and_sent(ep) {
            self.terminate(ep, CloseReason::Graceful);
            self.transmit_end(ep, batch, CloseReason::Graceful);
        }
    }

    /// Whether a finished stream without acknowledgements has been sent.
    fn is_unreliable_and_sent(&self, ep: &GroupEndpointState) -> bool {
        let all = self.finishing && self.next_seq == self.submitted;
        all && ep.config.reliability == Reliability::None
    }

    /// Options of all packets of the stream.
    fn options(&self, ep: &GroupEndpointState) -> Options {
        Options::MULTI
            .with(Options::NOERR, ep.config.reliability == Reliability::None)
            .with(Options::NOFLOW, ep.config.reliability == Reliability::None)
            .with(Options::FASTNAK, ep.config.fastnak)
    }

    /// Sends FIRST. Where it asks receivers to join, a CNTL follows: an answer is never longer than
    /// what it answers, and JCNTL is longer than FIRST (0018, Amplification).
    fn transmit_first(&mut self, ep: &mut GroupEndpointState, now: Instant, batch: &mut Batch) {
        if self.first_due {
            self.first_due = false;
            let counted = matches!(self.tracking, GroupTracking::Counted(_));
            if counted && !self.connected {
                let at = now + ep.config.wtimer_initial + ep.slot_max();
                self.timers.arm(SenderTimer::First, at);
            }
            self.first_follow_up_due = counted;
            let options = self.options(ep).with(Options::SREQ, counted);
            let body = Body::First {
                domain: 0,
                address: ep.address_segment(self.group),
                traffic: ep.traffic(),
                data: &[],
            };
            self.sync = self.sync.next();
            self.push_control(ep, batch, options, &body, 0);
        }
        if self.first_follow_up_due && batch.room() > 0 {
            self.first_follow_up_due = false;
            let body = Body::Cntl(self.common_control());
            self.push_control(ep, batch, self.options(ep), &body, self.next_seq);
        }
    }

    /// Sends a status request to the group in a CNTL of its own.
    fn transmit_request(&mut self, ep: &mut GroupEndpointState, now: Instant, batch: &mut Batch) {
        self.request_due = false;
        self.sync = self.sync.next();
        let (sync, sent) = (self.sync, self.sent_below());
        let mut summary = None;
        if let GroupTracking::Buckets(ring) = &mut self.tracking {
            summary = ring.open(now, sync, sent);
        }
        self.record_request(ep, now);
        if let Some(summary) = summary {
            self.update_from_buckets(ep, summary);
            if let Some(reason) = self.close_reason {
                return self.transmit_end(ep, batch, reason);
            }
        }
        self.schedule_bucket(ep, now);
        let wclose = self.finishing && self.next_seq == self.submitted;
        let options = self.options(ep) | Options::SREQ.with(Options::WCLOSE, wclose);
        let body = Body::Cntl(self.common_control());
        self.push_control(ep, batch, options, &body, self.next_seq);
    }

    /// Schedules the next bucket and sets the rate until then (0009, Buckets).
    fn schedule_bucket(&mut self, ep: &GroupEndpointState, now: Instant) {
        let GroupTracking::Buckets(ring) = &self.tracking else {
            return;
        };
        let default_wtimer = wtimer(&self.rtt, &ep.wtimer_config, 0);
        let wtimer = ring
            .wtimer()
            .unwrap_or(default_wtimer)
            .min(ep.wtimer_config.wtimer_max)
            + ep.slot_max();
        let at = now + ring.config.request_interval(wtimer);
        self.timers.arm(SenderTimer::Request, at);
        let packet_len = ep.config.packet_len as u64;
        let own = ring.rate(wtimer, ep.config.initial_window, packet_len);
        let limits = RateLimits {
            own: self.rate_limits.effective(),
            peer: Some(own),
        };
        if let Some(limit) = limits.effective() {
            let credit = self
                .rate_credit
                .get_or_insert_with(|| RateCredit::new(limit, now));
            credit.set_limit(limit, now);
        }
    }

    /// Sends END to the group.
    fn transmit_end(
        &mut self,
        ep: &mut GroupEndpointState,
        batch: &mut Batch,
        reason: CloseReason,
    ) {
        let wclose = reason == CloseReason::Graceful;
        let options = self.options(ep) | Options::END.with(Options::WCLOSE, wclose);
        let body = Body::Cntl(self.common_control());
        self.push_control(ep, batch, options, &body, self.next_seq);
    }

    /// The control segment of the sender's own packets, whose `rseq` is the oldest byte it can
    /// retransmit (0009, The sender's own control packets).
    fn common_control(&self) -> CommonControl {
        CommonControl {
            rseq: self.una,
            alloc: 0,
            echo: SyncNumber::NONE,
        }
    }

    fn push_control(
        &self,
        ep: &mut GroupEndpointState,
        batch: &mut Batch,
        options: Options,
        body: &Body<'_>,
        seq: u64,
    ) {
        let numbers = Numbers::of_sender(self.sync, seq);
        let octets = ep.control_octets(self.key.field(), options, body, numbers);
        batch.push_own(&octets);
        ep.counters.packets_built += 1;
        ep.counters.bytes_summed += octets.len() as u64;
    }

    fn transmit_data(&mut self, ep: &mut GroupEndpointState, now: Instant, batch: &mut Batch) {
        while batch.room() > 0
            && let Some(plan) = self.next_packet(ep)
        {
            let version = ep.config.version;
            let len = version.packet_len(plan.bytes.end - plan.bytes.start);
            let short = !batch.is_empty() && len < batch.packet_len();
            let long = !batch.is_empty() && len > batch.packet_len();
            if long || !self.spend_rate(now, len) {
                break;
            }
            self.mark_sent(ep, &plan);
            self.push_data(ep, now, batch, &plan);
            if short {
                break;
            }
        }
    }

    /// Whether the rate allows a packet of `len` octets, which is then accounted.
    fn spend_rate(&mut self, now: Instant, len: usize) -> bool {
        let Some(credit) = &mut self.rate_credit else {
            return true;
        };
        if credit.allows(now) {
            credit.spend(len);
            return true;
        }
        self.timers.arm(SenderTimer::Rate, credit.next_refill());
        false
    }

    /// Plans the next DATA packet: retransmissions first, then new data.
    fn next_packet(&mut self, ep: &GroupEndpointState) -> Option<PacketPlan> {
        if let Some(lost) = self.retransmission_queue.first() {
            return Some(self.plan_packet(ep, lost.start, lost.end, true));
        }
        let unreliable = ep.config.reliability == Reliability::None;
        let limit = self
            .submitted
            .min(if unreliable { u64::MAX } else { self.alloc });
        if limit <= self.next_seq {
            return None;
        }
        let (next, end) = (self.next_seq, self.submitted);
        let plan = self.plan_packet(ep, next, end, false);
        let idle = next == self.una;
        if plan.bytes.end > limit {
            let bytes = plan.bytes.start..limit;
            return idle.then_some(PacketPlan {
                bytes,
                eom: false,
                ..plan
            });
        }
        let full = plan.bytes.end < end || plan.bytes.end - plan.bytes.start == ep.payload_max();
        (full || plan.eom || self.pushed >= plan.bytes.end || self.finishing || idle)
            .then_some(plan)
    }

    /// Plans a packet from `start`: it ends at EOM or `end`, and in a long byte stream at a slot
    /// boundary, so that payloads lie in one slot.
    fn plan_packet(
        &mut self,
        ep: &GroupEndpointState,
        start: u64,
        end: u64,
        is_retransmission: bool,
    ) -> PacketPlan {
        let payload = ep.payload_max();
        let mut stop = end.min(start + payload);
        if ep.config.framing == Framing::Stream {
            if start >= self.slot_boundary || start + payload < self.slot_boundary {
                self.slot_boundary = (start / payload + 1) * payload;
            }
            if end - start >= ALIGN_MIN_SLOTS * payload {
                stop = stop.min(self.slot_boundary);
            }
        }
        let message_end = self
            .message_ends
            .next_after(start)
            .filter(|&ends| ends <= stop);
        PacketPlan {
            bytes: start..message_end.unwrap_or(stop),
            is_retransmission,
            eom: message_end.is_some(),
        }
    }

    fn mark_sent(&mut self, ep: &mut GroupEndpointState, plan: &PacketPlan) {
        self.sync = self.sync.next();
        if plan.is_retransmission {
            self.retransmission_queue.advance(plan.bytes.end);
            self.retransmission_log
                .record(plan.bytes.clone(), self.sync);
            ep.counters.retransmissions += 1;
        } else {
            self.next_seq = plan.bytes.end;
        }
    }

    fn push_data(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        batch: &mut Batch,
        plan: &PacketPlan,
    ) {
        let len = plan.bytes.end - plan.bytes.start;
        self.bytes_since_request += len;
        let counted = matches!(self.tracking, GroupTracking::Counted(_));
        let has_sreq = counted && self.needs_status_request(ep, plan);
        let wclose = self.finishing && plan.bytes.end == self.submitted;
        let options = self
            .options(ep)
            .with(Options::NOCHECK, !ep.config.checksum)
            .with(Options::SREQ, has_sreq)
            .with(Options::EOM, plan.eom)
            .with(Options::WCLOSE, wclose);
        let header = Header {
            options,
            dlen: len as u32,
            sync: self.sync,
            seq: plan.bytes.start,
            ..plain_header(self.key.field(), Format::Data)
        };
        if has_sreq {
            self.record_request(ep, now);
        }
        let (store, bytes) = (Store::Association(self.id), plan.bytes.clone());
        let context = || ep.header_context(self.sync, 0);
        ep.codec.push_data(batch, &header, context, (store, bytes));
        let header_len = ep.config.version.header_len() as u64;
        ep.counters.packets_built += 1;
        ep.counters.bytes_sent += len;
        ep.counters.bytes_summed += header_len + if ep.config.checksum { len } else { 0 };
    }

    /// Whether a DATA packet carries SREQ: every `status_interval_bytes` or quarter of the window,
    /// with the last retransmission, with the end, when the window closes, and where the user waits
    /// for the acknowledgement (0009, Counted groups).
    fn needs_status_request(&self, ep: &GroupEndpointState, plan: &PacketPlan) -> bool {
        let quarter = self.alloc.saturating_sub(self.una) / 4;
        let every = ep
            .config
            .status_interval_bytes
            .min(quarter.max(ep.payload_max()));
        let end = self.finishing && plan.bytes.end == self.submitted;
        let is_awaited = plan.bytes.start < self.request_at && self.request_at <= plan.bytes.end;
        self.bytes_since_request >= every
            || self.request_with_next_data
            || is_awaited
            || end
            || self.retransmission_queue.is_empty()
                && (plan.is_retransmission || self.is_send_blocked())
    }

    /// Arms the coalescing timer while data wait for a full packet.
    fn update_coalesce_timer(&mut self, ep: &GroupEndpointState, now: Instant) {
        if self.next_seq.max(self.pushed) >= self.submitted {
            self.timers.disarm(SenderTimer::Coalesce);
        } else if !self.timers.is_armed(SenderTimer::Coalesce) {
            self.timers
                .arm(SenderTimer::Coalesce, now + ep.config.coalesce_delay);
        }
    }
}
