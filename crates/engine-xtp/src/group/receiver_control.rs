//! Control packets of a receiver: JCNTL, CNTL and ECNTL with slotting and damping, leave.

use super::endpoint_state::{GroupEndpointState, Numbers};
use super::receiver::{Receiver, ReceiverPhase, ScheduledControl};
use crate::codec::Arrival;
use crate::config::ErrorControl;
use crate::numbers::SyncNumber;
use crate::pdu::{Body, CommonControl, Options, SPAN_LEN, Spans, span_octets};
use core::time::Duration;
use engine::{Address, Instant};

/// Control packets scheduled at most; beyond it the oldest are dropped.
const SCHEDULED_CONTROL_MAX: usize = 16;

/// Octets of an ECNTL without spans: header 32, control segment 20, number of spans 4.
const ECNTL_LEN: usize = 56;

impl Receiver {
    /// Schedules the answer to status request `echo`, in a random slot (0009, Slotting).
    pub(super) fn schedule_control(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        echo: SyncNumber,
    ) {
        let known = self
            .scheduled_control
            .iter()
            .any(|answer| answer.echo == echo);
        if known || !matches!(self.phase, ReceiverPhase::Active | ReceiverPhase::Complete) {
            return;
        }
        let slot = ep.config.slot.as_nanos() as u64;
        let at = now + Duration::from_nanos(ep.rng.below(slot));
        if ep.config.slot.is_zero() {
            // Without slotting the answer leaves at once, and only the last request counts.
            self.scheduled_control.clear();
        } else if self.scheduled_control.len() == SCHEDULED_CONTROL_MAX {
            self.scheduled_control.pop_front();
        }
        self.scheduled_control
            .push_back(ScheduledControl { echo, at });
        self.rx.record_sync(echo);
    }

    /// Suppresses the scheduled answer to the same request as another receiver's, if that carried
    /// no greater `rseq` and `alloc` (0009, Slotting).
    pub(super) fn damp(&mut self, ep: &GroupEndpointState, arrival: &Arrival<'_>) {
        let near = self.rx.next_seq;
        let Some(Body::Cntl(common)) = arrival.body(near) else {
            return;
        };
        let consumed = arrival.dseq(near).is_none_or(|dseq| dseq <= self.rx.dseq());
        let covered = common.rseq <= near && common.alloc <= self.next_alloc(ep) && consumed;
        if !ep.config.damping || self.counted || !covered {
            return;
        }
        let before = self.scheduled_control.len();
        self.scheduled_control
            .retain(|answer| answer.echo != common.echo);
        self.damped += (before - self.scheduled_control.len()) as u64;
    }

    /// Removes the control packet due at `now`: the sync it echoes.
    fn take_due_control(&mut self, now: Instant) -> Option<SyncNumber> {
        let due = self
            .scheduled_control
            .iter()
            .position(|answer| answer.at <= now);
        match due {
            Some(index) => self
                .scheduled_control
                .remove(index)
                .map(|answer| answer.echo),
            None if self.control_due => self.rx.highest_sync.or(Some(SyncNumber::NONE)),
            None => None,
        }
    }

    /// Builds the CNTL or ECNTL that answers request `echo`.
    pub(super) fn control_packet(
        &mut self,
        ep: &mut GroupEndpointState,
        echo: SyncNumber,
    ) -> Vec<u8> {
        self.control_due = false;
        let alloc = self.next_alloc(ep).max(self.rx.advertised_alloc);
        self.rx.advertised_alloc = alloc;
        let common = CommonControl {
            rseq: self.rx.next_seq,
            alloc,
            echo,
        };
        let options = Options::MULTI.with(Options::RCLOSE, self.phase == ReceiverPhase::Complete);
        let selective = self.counted && ep.config.error == ErrorControl::Selective;
        let spans_max = (ep.config.packet_len - ECNTL_LEN) / SPAN_LEN;
        let octets: Vec<u8> = if selective && !self.rx.reassembly.is_empty() {
            span_octets(&self.rx.reassembly.spans(spans_max))
        } else {
            Vec::new()
        };
        let body = match Spans::new(&octets) {
            Some(spans) if !spans.is_empty() => Body::Ecntl(common, spans),
            _ => Body::Cntl(common),
        };
        let numbers = Numbers::of_receiver(echo, self.rx.dseq());
        ep.control_octets(self.answer_key.returned(), options, &body, numbers)
    }

    /// The user consumed `bytes`. Schedules a window update if a counted sender may be blocked.
    pub(super) fn consume(&mut self, ep: &GroupEndpointState, bytes: u64) {
        self.rx.unread_bytes -= bytes.min(self.rx.unread_bytes);
        let opened = self.next_alloc(ep).saturating_sub(self.rx.advertised_alloc);
        let near = self.rx.advertised_alloc.saturating_sub(self.rx.next_seq) < ep.config.window / 2;
        if self.counted
            && near
            && opened >= ep.config.window / 4
            && self.phase == ReceiverPhase::Active
        {
            self.control_due = true;
        }
    }

    /// Sends END: this receiver leaves, or drops out if it `lost` bytes.
    pub(super) fn send_leave(&mut self, ep: &mut GroupEndpointState, lost: bool) {
        let common = CommonControl {
            rseq: self.rx.next_seq,
            alloc: self.rx.advertised_alloc,
            echo: self.rx.highest_sync.unwrap_or_default(),
        };
        self.bytes_unrecoverable |= lost;
        // 0009, The sender's own control packets: END with NOERR says that bytes were lost.
        let options = Options::MULTI | Options::END.with(Options::NOERR, lost);
        let body = Body::Cntl(common);
        let numbers = Numbers::of_receiver(common.echo, self.rx.dseq());
        let packet = ep.control_octets(self.answer_key.returned(), options, &body, numbers);
        self.send(ep, self.sender, packet);
    }

    /// Sends a packet to the sender, or to the group on its behalf, if the credit of the sender's
    /// address covers it (0018, Amplification).
    pub(super) fn send(
        &mut self,
        ep: &mut GroupEndpointState,
        to: Address,
        packet: Vec<u8>,
    ) -> bool {
        let is_covered = self.sender_address.spend(packet.len());
        if is_covered {
            ep.queue_control((self.id, to), packet);
        }
        is_covered
    }

    /// Sends what is due: the join, and answers to status requests.
    pub(super) fn send_due(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        self.send_due_join(ep, now);
        while let Some(echo) = self.take_due_control(now) {
            let packet = self.control_packet(ep, echo);
            let to = ep.config.answer_to.unwrap_or(self.sender);
            ep.control_sent += u64::from(self.send(ep, to, packet));
        }
    }

    /// Sends JCNTL when it is due and the credit of the sender's address covers it; arms the timer
    /// that repeats it, with doubled WTIMER.
    fn send_due_join(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        if self.join_at.take_if(|at| *at <= now).is_some() {
            self.join_due = true;
        }
        if !self.join_due {
            return;
        }
        let common = CommonControl {
            rseq: self.requested_start,
            alloc: ep.config.window,
            echo: self.rx.highest_sync.unwrap_or_default(),
        };
        let body = Body::Jcntl {
            common,
            reserved: 0,
            xkey: self.key.field(),
            domain: 0,
            address: ep.address_segment(self.sender),
            traffic: ep.traffic(),
        };
        let numbers = Numbers::of_receiver(common.echo, 0);
        let packet = ep.control_octets(self.sender_key.returned(), Options::MULTI, &body, numbers);
        if !self.send(ep, self.sender, packet) {
            return;
        }
        self.join_due = false;
        self.joins_sent += 1;
        let wait = ep.config.wtimer_initial * (1 << self.joins_sent.min(5));
        self.join_at = Some(now + wait.min(ep.config.wtimer_max));
    }
}
