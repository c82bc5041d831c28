//! Packets that a sender builds: FIRST, DATA, status requests, END.

use super::config::Reliability;
use super::endpoint_state::{GroupEndpointState, Numbers};
use super::sender::{GroupTracking, Sender, SenderTimer};
use crate::endpoint_state::plain_header;
use crate::numbers::SyncNumber;
use crate::pdu::{Body, CommonControl, Format, Header, Options};
use crate::tx::{CutRules, PacketPlan, RateLimits, wtimer};
use congestion::RateCredit;
use engine::{Batch, CloseReason, Instant, Store};

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
            self.release(ep, self.queue.next_seq);
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
        let all = self.finishing && self.queue.has_sent_all();
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
            self.push_control(ep, batch, self.options(ep), &body, self.queue.next_seq);
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
        let wclose = self.finishing && self.queue.has_sent_all();
        let options = self.options(ep) | Options::SREQ.with(Options::WCLOSE, wclose);
        let body = Body::Cntl(self.common_control());
        self.push_control(ep, batch, options, &body, self.queue.next_seq);
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
        self.push_control(ep, batch, options, &body, self.queue.next_seq);
    }

    /// The control segment of the sender's own packets, whose `rseq` is the oldest byte it can
    /// retransmit (0009, The sender's own control packets).
    fn common_control(&self) -> CommonControl {
        CommonControl {
            rseq: self.queue.acknowledged,
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
        let payload = ep.payload_max();
        let rules = CutRules {
            framing: ep.config.framing,
            slot: payload,
            payload_max: payload,
            low_water: 0,
            sends_full: true,
        };
        if let Some(plan) = self.queue.next_lost(&rules) {
            return Some(plan);
        }
        let limit = match ep.config.reliability {
            Reliability::None => self.queue.submitted,
            _ => self.queue.submitted.min(self.queue.alloc),
        };
        self.queue.next_new(limit, &rules)
    }

    fn mark_sent(&mut self, ep: &mut GroupEndpointState, plan: &PacketPlan) {
        self.sync = self.sync.next();
        self.queue.mark_sent(plan);
        if plan.is_retransmission {
            self.retransmission_log
                .record(plan.bytes.clone(), self.sync);
            ep.counters.retransmissions += 1;
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
        self.queue.bytes_since_request += len;
        let counted = matches!(self.tracking, GroupTracking::Counted(_));
        let has_sreq = counted && self.needs_status_request(ep, plan);
        let wclose = self.finishing && plan.bytes.end == self.queue.submitted;
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
        let most = ep.config.status_interval_bytes;
        let every = self.queue.request_interval(most, ep.payload_max());
        let end = self.finishing && plan.bytes.end == self.queue.submitted;
        self.queue.is_request_due(&plan.bytes, every)
            || end
            || self.queue.retransmission_queue.is_empty()
                && (plan.is_retransmission || self.is_send_blocked())
    }

    /// Arms the coalescing timer while data wait for a full packet.
    fn update_coalesce_timer(&mut self, ep: &GroupEndpointState, now: Instant) {
        if !self.queue.is_coalescing() {
            self.timers.disarm(SenderTimer::Coalesce);
        } else if !self.timers.is_armed(SenderTimer::Coalesce) {
            self.timers
                .arm(SenderTimer::Coalesce, now + ep.config.coalesce_delay);
        }
    }
}
