//! What a group's receiver tells its sender: joins, answers in their slots, leaves.

use super::endpoint_state::{GroupEndpointState, control_octets};
use super::receiver::{Receiver, ReceiverPhase, ScheduledControl};
use crate::config::ErrorControl;
use crate::pdu::{Body, CommonControl, Options, RTN, SPAN_LEN, Spans};
use core::time::Duration;
use engine::Instant;

/// Answers that wait for their slot at most; of more, the oldest are left out.
const SCHEDULED_CONTROL_MAX: usize = 16;

/// Octets of an ECNTL without spans.
const ECNTL_LEN: usize = 56;

impl Receiver {
    /// The sender asks: an answer is due, in a slot of its own if there are slots.
    pub(super) fn schedule_control(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        echo: u32,
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
            // Without slots only the last question counts.
            self.scheduled_control.clear();
        } else if self.scheduled_control.len() == SCHEDULED_CONTROL_MAX {
            self.scheduled_control.pop_front();
        }
        self.scheduled_control
            .push_back(ScheduledControl { echo, at });
        self.rx.record_sync(echo);
    }

    /// Another receiver answered: the own answer to the same question is left out if it would say
    /// nothing that matters more.
    pub(super) fn damp(&mut self, ep: &GroupEndpointState, common: &CommonControl) {
        let covered = common.rseq <= self.rx.next_seq && common.alloc <= self.next_alloc(ep);
        if !ep.config.damping || self.counted || !covered {
            return;
        }
        let before = self.scheduled_control.len();
        self.scheduled_control
            .retain(|answer| answer.echo != common.echo);
        self.damped += (before - self.scheduled_control.len()) as u64;
    }

    /// The answer that is due at `now`, if any.
    pub(super) fn take_due_control(&mut self, now: Instant) -> Option<u32> {
        let due = self
            .scheduled_control
            .iter()
            .position(|answer| answer.at <= now);
        match due {
            Some(index) => self
                .scheduled_control
                .remove(index)
                .map(|answer| answer.echo),
            None if self.control_due => self.rx.highest_sync.or(Some(0)),
            None => None,
        }
    }

    /// A control packet that says what is here, as an answer to the request `echo`.
    pub(super) fn control_packet(&mut self, ep: &mut GroupEndpointState, echo: u32) -> Vec<u8> {
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
            let spans = self.rx.reassembly.spans(spans_max);
            let octets = |span: &crate::pdu::Span| {
                let (left, right) = (span.left.to_be_bytes(), span.right.to_be_bytes());
                left.into_iter().chain(right)
            };
            spans.iter().flat_map(octets).collect()
        } else {
            Vec::new()
        };
        let body = match Spans::new(&octets) {
            Some(spans) if !spans.is_empty() => Body::Ecntl(common, spans),
            _ => Body::Cntl(common),
        };
        control_octets(self.sender_key | RTN, options, &body, (echo, 0))
    }

    /// The user took `bytes`. A counted sender that may wait for room is told of it.
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

    /// The sender is told that this side takes no more.
    pub(super) fn send_leave(&mut self, ep: &mut GroupEndpointState, lost: bool) {
        let common = CommonControl {
            rseq: self.rx.next_seq,
            alloc: self.rx.advertised_alloc,
            echo: self.rx.highest_sync.unwrap_or(0),
        };
        self.bytes_unrecoverable |= lost;
        // A receiver that lost bytes closes in disorder: END without RCLOSE and with NOERR.
        let options = Options::MULTI | Options::END.with(Options::NOERR, lost);
        let body = Body::Cntl(common);
        let packet = control_octets(self.sender_key | RTN, options, &body, (common.echo, 0));
        ep.queue_control((self.id, self.sender), packet);
    }

    /// Asks to be let in.
    pub(super) fn send_join(&mut self, ep: &mut GroupEndpointState, now: Instant) {
        let common = CommonControl {
            rseq: self.requested_start,
            alloc: ep.config.window,
            echo: self.rx.highest_sync.unwrap_or(0),
        };
        let body = Body::Jcntl {
            common,
            reserved: 0,
            xkey: self.key,
            domain: 0,
            address: ep.address_segment(self.sender),
            traffic: ep.traffic(),
        };
        let packet = control_octets(
            self.sender_key | RTN,
            Options::MULTI,
            &body,
            (common.echo, 0),
        );
        ep.queue_control((self.id, self.sender), packet);
        self.joins_sent += 1;
        let wait = ep.config.wtimer_initial * (1 << self.joins_sent.min(5));
        self.join_at = Some(now + wait.min(ep.config.wtimer_max));
    }
}
