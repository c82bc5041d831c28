//! What a group's receiver tells its sender: joins, answers in their slots, leaves.

use super::receiver::{Answer, Phase, Receiver};
use super::shared::{Shared, control};
use crate::api::ErrorControl;
use crate::pdu::{Body, Common, Options, RTN, SPAN_LEN, Spans};
use core::time::Duration;
use engine::Instant;

/// Answers that wait for their slot at most; of more, the oldest are left out.
const ANSWERS_MAX: usize = 16;

/// Octets of an ECNTL without spans.
const ECNTL_LEN: usize = 56;

impl Receiver {
    /// The sender asks: an answer is due, in a slot of its own if there are slots.
    pub(super) fn owe(&mut self, sh: &mut Shared, now: Instant, echo: u32) {
        let known = self.answers.iter().any(|answer| answer.echo == echo);
        if known || !matches!(self.phase, Phase::Active | Phase::Complete) {
            return;
        }
        let slot = sh.config.slot.as_nanos() as u64;
        let at = now + Duration::from_nanos(sh.random.below(slot));
        if sh.config.slot.is_zero() {
            // Without slots only the last question counts.
            self.answers.clear();
        } else if self.answers.len() == ANSWERS_MAX {
            self.answers.pop_front();
        }
        self.answers.push_back(Answer { echo, at });
        self.rx.see_sync(echo);
    }

    /// Another receiver answered: the own answer to the same question is left out if it would say
    /// nothing that matters more.
    pub(super) fn overhear(&mut self, sh: &Shared, common: &Common) {
        let covered = common.rseq <= self.rx.next && common.alloc <= self.allocation(sh);
        if !sh.config.damping || self.counted || !covered {
            return;
        }
        let before = self.answers.len();
        self.answers.retain(|answer| answer.echo != common.echo);
        self.damped += (before - self.answers.len()) as u64;
    }

    /// The answer that is due at `now`, if any.
    pub(super) fn take_answer(&mut self, now: Instant) -> Option<u32> {
        let due = self.answers.iter().position(|answer| answer.at <= now);
        match due {
            Some(index) => self.answers.remove(index).map(|answer| answer.echo),
            None if self.tell => self.rx.sync.or(Some(0)),
            None => None,
        }
    }

    /// A control packet that says what is here, as an answer to the request `echo`.
    pub(super) fn report(&mut self, sh: &mut Shared, echo: u32) -> Vec<u8> {
        self.tell = false;
        let alloc = self.allocation(sh).max(self.rx.told);
        self.rx.told = alloc;
        let common = Common {
            rseq: self.rx.next,
            alloc,
            echo,
        };
        let options = Options::MULTI.with(Options::RCLOSE, self.phase == Phase::Complete);
        let selective = self.counted && sh.config.error == ErrorControl::Selective;
        let spans_max = (sh.config.packet_len - ECNTL_LEN) / SPAN_LEN;
        let octets: Vec<u8> = if selective && !self.rx.held.is_empty() {
            let spans = self.rx.held.spans(spans_max);
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
        control(self.sender_key | RTN, options, &body, (echo, 0))
    }

    /// The user took `bytes`. A counted sender that may wait for room is told of it.
    pub(super) fn consume(&mut self, sh: &Shared, bytes: u64) {
        self.rx.unread -= bytes.min(self.rx.unread);
        let opened = self.allocation(sh).saturating_sub(self.rx.told);
        let near = self.rx.told.saturating_sub(self.rx.next) < sh.config.window / 2;
        if self.counted && near && opened >= sh.config.window / 4 && self.phase == Phase::Active {
            self.tell = true;
        }
    }

    /// The sender is told that this side takes no more.
    pub(super) fn leave(&mut self, sh: &mut Shared, lost: bool) {
        let common = Common {
            rseq: self.rx.next,
            alloc: self.rx.told,
            echo: self.rx.sync.unwrap_or(0),
        };
        self.lost |= lost;
        // A receiver that lost bytes closes in disorder: END without RCLOSE and with NOERR.
        let options = Options::MULTI | Options::END.with(Options::NOERR, lost);
        let body = Body::Cntl(common);
        let packet = control(self.sender_key | RTN, options, &body, (common.echo, 0));
        sh.answer((self.id, self.sender), packet);
    }

    /// Asks to be let in.
    pub(super) fn join(&mut self, sh: &mut Shared, now: Instant) {
        let common = Common {
            rseq: self.asked,
            alloc: sh.config.window,
            echo: self.rx.sync.unwrap_or(0),
        };
        let body = Body::Jcntl {
            common,
            reserved: 0,
            xkey: self.key,
            domain: 0,
            address: sh.address_segment(self.sender),
            traffic: sh.traffic(),
        };
        let packet = control(
            self.sender_key | RTN,
            Options::MULTI,
            &body,
            (common.echo, 0),
        );
        sh.answer((self.id, self.sender), packet);
        self.tries += 1;
        let wait = sh.config.wait_initial * (1 << self.tries.min(5));
        self.join_at = Some(now + wait.min(sh.config.wait_max));
    }
}
