//! One stream from a group's sender.

use super::config::Config;
use super::shared::Shared;
use crate::api::ErrorControl;
use crate::pdu::{Body, Common, Format, Header, Options, RTN, Reject};
use crate::rx::{Marks, Receiving};
use crate::types::SEQ_MAX;
use core::ops::Range;
use core::time::Duration;
use engine::{Address, Bytes, AssociationId, CloseReason, Delivery, Event, Framing, Instant};
use std::collections::VecDeque;

/// Runs of early bytes kept at most: one for every 64 bytes of the window.
const BYTES_PER_RUN: u64 = 64;

/// What becomes of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The sender has not answered the join.
    Joining,
    /// Bytes are taken.
    Active,
    /// Everything is here; requests are still answered.
    Complete,
    Ended,
}

/// An answer on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) echo: u32,
    pub(super) at: Instant,
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) id: AssociationId,
    /// This side's key, told when it joins.
    pub(super) key: u64,
    pub(super) sender: Address,
    pub(super) sender_key: u64,
    pub(super) phase: Phase,
    /// The sender counts it.
    pub(super) counted: bool,
    pub(super) rx: Receiving,
    pub(super) answers: VecDeque<Answer>,
    /// When to join, again if `tries` is not 0.
    pub(super) join_at: Option<Instant>,
    pub(super) tries: u32,
    /// Where it wants to begin.
    pub(super) asked: u64,
    pub(super) heard: Instant,
    /// The oldest byte the sender still has, as far as it said.
    kept: u64,
    /// An unasked answer is due.
    pub(super) tell: bool,
    /// Answers left out because another receiver gave them.
    pub(super) damped: u64,
    /// Everything came.
    complete: bool,
    /// Bytes it lacks are gone for good.
    pub(super) lost: bool,
}

impl Receiver {
    pub(super) fn new(id: AssociationId, key: u64, sender: Address, sender_key: u64) -> Receiver {
        Receiver {
            id,
            key,
            sender,
            sender_key,
            phase: Phase::Joining,
            counted: false,
            rx: Receiving::default(),
            answers: VecDeque::new(),
            join_at: None,
            tries: 0,
            asked: 0,
            heard: Instant::ZERO,
            kept: 0,
            tell: false,
            damped: 0,
            complete: false,
            lost: false,
        }
    }

    /// Takes in a packet of the sender.
    pub(super) fn handle(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        header: &Header,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let body = Body::parse(header, &packet[crate::pdu::HEADER_LEN..]).ok_or(Reject::Body)?;
        if self.phase == Phase::Ended {
            return Err(Reject::State);
        }
        self.heard = now;
        match body {
            Body::Tcntl { common, xkey, .. } if header.key & RTN != 0 => {
                self.handle_grant(sh, &common, xkey)?;
            }
            Body::Diag(_) => {
                self.end(sh, CloseReason::Refused);
                return Ok(());
            }
            Body::Data { data } => {
                let range = packet.len() - data.len()..packet.len();
                self.handle_data(sh, now, header, packet, range, deliveries)?;
            }
            Body::First { data, .. } => {
                let range = packet.len() - data.len()..packet.len();
                self.handle_data(sh, now, header, packet, range, deliveries)?;
            }
            Body::Cntl(common) => self.handle_control(sh, &common)?,
            _ => return Err(Reject::State),
        }
        self.note_close(sh, header)?;
        if header.options.has(Options::SREQ) {
            self.owe(sh, now, header.sync);
        }
        Ok(())
    }

    /// The sender let this side in: it begins at `rseq`.
    fn handle_grant(&mut self, sh: &mut Shared, common: &Common, xkey: u64) -> Result<(), Reject> {
        if self.phase != Phase::Joining {
            return Ok(());
        }
        if common.rseq > SEQ_MAX {
            return Err(Reject::Body);
        }
        self.counted = xkey != 0;
        self.begin(sh, common.rseq);
        Ok(())
    }

    /// Takes bytes from `start` on.
    pub(super) fn begin(&mut self, sh: &mut Shared, start: u64) {
        self.phase = Phase::Active;
        self.join_at = None;
        self.kept = self.kept.max(start);
        self.rx.next = start;
        self.rx.told = start + sh.config.window;
        self.rx.gap = start > 0;
        self.rx.torn = start > 0 && sh.config.framing == Framing::Messages;
        sh.events.push_back(Event::Accepted(self.id, self.sender));
    }

    /// What the sender says of itself: in its control packets `rseq` is the oldest byte it can send
    /// again. A receiver that lacks older ones will never have them and drops out.
    fn handle_control(&mut self, sh: &mut Shared, common: &Common) -> Result<(), Reject> {
        if common.rseq > SEQ_MAX {
            return Err(Reject::Body);
        }
        self.kept = self.kept.max(common.rseq);
        if self.phase == Phase::Active && self.rx.next < self.kept && !self.rx.noerr {
            let lost = self.kept - self.rx.next;
            sh.counters.bytes_lost = sh.counters.bytes_lost.saturating_add(lost);
            self.leave(sh, true);
            self.end(sh, CloseReason::Aborted);
        }
        Ok(())
    }

    fn handle_data(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        header: &Header,
        packet: &[u8],
        range: Range<usize>,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let seq = header.seq;
        let end = seq.saturating_add(range.len() as u64);
        self.rx.noerr = header.options.has(Options::NOERR);
        if range.is_empty() || self.phase != Phase::Active {
            return Ok(());
        }
        if end > SEQ_MAX || self.rx.last.is_some_and(|last| end > last) {
            return Err(Reject::State);
        }
        let eom = header.options.has(Options::EOM);
        if self.rx.noerr {
            self.skip_to(sh, seq);
        } else if end > self.rx.told {
            return Err(Reject::BeyondWindow);
        } else if seq > self.rx.next {
            return self.hold(sh, now, header, &packet[range], eom);
        }
        if end > self.rx.next {
            self.take(sh, seq, range, eom, deliveries);
        }
        Ok(())
    }

    /// Gives up what lies before `seq`.
    fn skip_to(&mut self, sh: &mut Shared, seq: u64) {
        if seq > self.rx.next {
            sh.counters.bytes_lost += seq - self.rx.next;
            self.rx.next = seq;
            self.rx.gap = true;
            self.rx.torn = sh.config.framing == Framing::Messages;
        }
    }

    fn take(
        &mut self,
        sh: &mut Shared,
        seq: u64,
        range: Range<usize>,
        eom: bool,
        deliveries: &mut Vec<Delivery>,
    ) {
        let known = (self.rx.next - seq) as usize;
        self.deliver(
            sh,
            Bytes::Packet(range.start + known..range.end),
            eom,
            deliveries,
        );
        while let Some(piece) = self.rx.held.take(self.rx.next) {
            self.deliver(sh, Bytes::Reassembled(piece.bytes), piece.marks.end, deliveries);
        }
    }

    fn deliver(
        &mut self,
        sh: &mut Shared,
        bytes: Bytes,
        end: bool,
        deliveries: &mut Vec<Delivery>,
    ) {
        let len = match &bytes {
            Bytes::Packet(range) => range.len(),
            Bytes::Reassembled(held) => held.len(),
        } as u64;
        self.rx.next += len;
        if self.rx.torn {
            // Where messages begin is known behind the next end of one.
            self.rx.torn = !end;
            return;
        }
        self.rx.unread += len;
        sh.counters.bytes_delivered += len;
        deliveries.push(Delivery {
            association: self.id,
            bytes,
            gap: std::mem::take(&mut self.rx.gap),
            tag: false,
            end_tag: false,
            end,
        });
    }

    /// Keeps bytes that came before their turn.
    fn hold(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        header: &Header,
        bytes: &[u8],
        eom: bool,
    ) -> Result<(), Reject> {
        if header.options.has(Options::FASTNAK) && header.seq > self.rx.held.end() {
            let pause = sh.config.status_delay;
            if self.rx.nak_at.is_none_or(|at| now >= at + pause) {
                self.rx.nak_at = Some(now);
                self.tell = true;
            }
        }
        if sh.config.error == ErrorControl::GoBackN {
            return Ok(());
        }
        let runs_max = (sh.config.window / BYTES_PER_RUN) as usize;
        let marks = Marks {
            end: eom,
            ..Marks::default()
        };
        let kept = self.rx.held.insert(header.seq, bytes, marks, runs_max);
        sh.counters.bytes_copied += kept.ok_or(Reject::BeyondWindow)? as u64;
        Ok(())
    }

    /// The close bits of a packet of the sender.
    fn note_close(&mut self, sh: &mut Shared, header: &Header) -> Result<(), Reject> {
        if self.phase == Phase::Ended {
            return Ok(());
        }
        if header.options.has(Options::WCLOSE) {
            let len = match header.format {
                Format::Data => u64::from(header.dlen),
                _ => 0,
            };
            let last = header.seq.saturating_add(len);
            if last > SEQ_MAX || self.rx.last.is_some_and(|known| known != last) {
                return Err(Reject::State);
            }
            self.rx.last = Some(last);
            if self.rx.noerr {
                self.skip_to(sh, last);
            }
        }
        let complete = self.rx.is_complete();
        if complete && self.phase == Phase::Active {
            self.phase = Phase::Complete;
            self.complete = true;
            sh.events.push_back(Event::Finished(self.id));
        }
        if header.options.has(Options::END) {
            let graceful = complete && self.phase == Phase::Complete;
            self.end(
                sh,
                match graceful {
                    true => CloseReason::Graceful,
                    false => CloseReason::Aborted,
                },
            );
        }
        Ok(())
    }

    /// What the sender hears when it asks after the end: that everything came, or that this side
    /// is gone.
    pub(super) fn last_answer(&self) -> (Options, u64) {
        let gone = Options::END.with(Options::NOERR, self.lost);
        let options = if self.complete { Options::RCLOSE } else { gone };
        (Options::MULTI | options, self.rx.next)
    }

    pub(super) fn end(&mut self, sh: &mut Shared, reason: CloseReason) {
        if self.phase == Phase::Joining {
            // Its user never heard of it.
            sh.refused_joins += 1;
        } else if self.phase != Phase::Ended {
            sh.events.push_back(Event::Closed(self.id, reason));
        }
        self.phase = Phase::Ended;
    }

    /// What a report sent now would allocate.
    pub(super) fn allocation(&self, sh: &Shared) -> u64 {
        (self.rx.taken() + sh.config.window).max(self.rx.told)
    }

    /// How long a sender may be silent. One that has been told that everything is here may never
    /// be heard again.
    fn patience(&self, config: &Config) -> Duration {
        match self.phase {
            Phase::Complete => 2 * config.wait_max + config.quarantine,
            _ => config.silence_max,
        }
    }

    /// When something is to be done.
    pub(super) fn deadline(&self, config: &Config) -> Option<Instant> {
        let silence = self.patience(config);
        let answers = self.answers.iter().map(|answer| answer.at);
        let all = answers.chain(self.join_at);
        all.chain([self.heard + silence]).min()
    }

    /// Acts on a deadline.
    pub(super) fn handle_timeout(&mut self, sh: &mut Shared, now: Instant) {
        let silence = self.patience(&sh.config);
        if now >= self.heard + silence {
            let reason = match self.phase {
                Phase::Complete => CloseReason::Graceful,
                _ => CloseReason::TimedOut,
            };
            self.end(sh, reason);
        } else if self.join_at.is_some_and(|at| at <= now) {
            self.join_at = None;
            self.join(sh, now);
        }
    }
}
