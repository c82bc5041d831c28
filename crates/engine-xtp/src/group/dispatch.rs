//! Which stream a packet is for, and what is left of those that ended.

use super::config::Late;
use super::receiver::{Phase, Receiver};
use super::sender::{Knowledge, Sender};
use super::shared::{control, is_group_service};
use super::{Context, Ended, Group, QUARANTINE_MAX};
use crate::pdu::{Body, Common, Format, HEADER_LEN, Header, Options, RTN, Reject};
use core::time::Duration;
use engine::{Address, Batch, AssociationId, Delivery, Instant};

impl Group {
    pub(super) fn next_id(&mut self) -> Option<AssociationId> {
        if self.contexts.len() >= self.sh.config.circuits_max {
            return None;
        }
        self.last_id = self.last_id.checked_add(1)?;
        Some(AssociationId(self.last_id))
    }

    /// A key that nobody guesses: 63 random bits, never zero.
    pub(super) fn new_key(&mut self) -> u64 {
        loop {
            let key = self.sh.random.next_u64() >> 1;
            if key != 0 && !self.sent.contains_key(&key) && !self.joined.contains_key(&key) {
                return key;
            }
        }
    }

    pub(super) fn dispatch(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let header = Header::parse(packet)?;
        let alone = header.options.has(Options::NOCHECK);
        let summed = if alone { HEADER_LEN } else { packet.len() };
        self.sh.counters.bytes_summed += summed as u64;
        if !header.options.has(Options::MULTI) {
            return Err(Reject::Multicast);
        }
        let own = header.key & !RTN;
        let found = if header.key & RTN == 0 {
            self.stream_of((from, own))
        } else {
            let sent = self.sent.get(&own).copied();
            sent.or_else(|| self.joined.get(&own).copied())
        };
        let id = match found {
            Some(id) => id,
            None if header.key & RTN != 0 => return self.handle_stray(from, &header, packet),
            None => self.clone_for(now, from, &header, packet)?,
        };
        let done = self.handle_by(now, id, from, &header, packet, deliveries);
        self.look_after(now, id);
        done
    }

    /// The stream received from a sender, by its address and key.
    fn stream_of(&mut self, name: (Address, u64)) -> Option<AssociationId> {
        match self.recent {
            Some((recent, id)) if recent == name => Some(id),
            _ => {
                let id = *self.received.get(&name)?;
                self.recent = Some((name, id));
                Some(id)
            }
        }
    }

    fn handle_by(
        &mut self,
        now: Instant,
        id: AssociationId,
        from: Address,
        header: &Header,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        match self.contexts.get_mut(&id) {
            Some(Context::Sends(sender)) => {
                let body = Body::parse(header, &packet[HEADER_LEN..]).ok_or(Reject::Body)?;
                let before = sender.una;
                let done = sender.handle(&mut self.sh, now, from, header, &body);
                if sender.una > before {
                    self.replica.release(id, sender.una);
                }
                done
            }
            Some(Context::Receives(receiver)) if receiver.sender == from => {
                receiver.handle(&mut self.sh, now, header, packet, deliveries)
            }
            Some(Context::Receives(_)) => Err(Reject::ForeignSource),
            None => Err(Reject::UnknownKey),
        }
    }

    /// A packet with the key of somebody else's stream, or of one that ended: an answer of another
    /// receiver, or the question of one that has not heard of the end.
    fn handle_stray(
        &mut self,
        from: Address,
        header: &Header,
        packet: &[u8],
    ) -> Result<(), Reject> {
        let own = header.key & !RTN;
        let over = self
            .ended
            .iter()
            .any(|ended| ended.key == own && ended.sender.is_none());
        if over && !header.options.has(Options::END) {
            let common = Common {
                rseq: 0,
                alloc: 0,
                echo: 0,
            };
            let options = Options::MULTI | Options::END;
            let packet = control(own, options, &Body::Cntl(common), (header.sync, 0));
            self.sh.answer((AssociationId(0), from), packet);
            return Ok(());
        }
        let Some(Body::Cntl(common)) = Body::parse(header, &packet[HEADER_LEN..]) else {
            return Err(Reject::UnknownKey);
        };
        if header.options.has(Options::END) || !self.sh.config.damping {
            return Err(Reject::UnknownKey);
        }
        let mut known = false;
        for context in self.contexts.values_mut() {
            if let Context::Receives(receiver) = context
                && receiver.sender_key == own
            {
                receiver.overhear(&self.sh, &common);
                known = true;
            }
        }
        if known {
            Ok(())
        } else {
            Err(Reject::UnknownKey)
        }
    }

    /// A context for a sender that was not heard before.
    fn clone_for(
        &mut self,
        now: Instant,
        from: Address,
        header: &Header,
        packet: &[u8],
    ) -> Result<AssociationId, Reject> {
        let key = header.key;
        if key == 0 || self.answer_late(now, from, header) {
            return Err(Reject::UnknownKey);
        }
        if !self.sh.listening || header.options.has(Options::END) {
            return Err(Reject::Refused);
        }
        let first = header.format == Format::First;
        let known = matches!(header.format, Format::First | Format::Data | Format::Cntl);
        if !known || !first && self.sh.config.late == Late::Never {
            return Err(Reject::UnknownKey);
        }
        if first {
            check_first(header, packet)?;
        }
        let id = self.next_id().ok_or(Reject::NoRoom)?;
        let own = self.new_key();
        let mut receiver = Receiver::new(id, own, from, key);
        receiver.heard = now;
        let asks = header.options.has(Options::SREQ);
        if header.options.has(Options::NOERR) {
            receiver.rx.noerr = true;
            receiver.begin(&mut self.sh, header.seq);
        } else if first && !asks {
            receiver.begin(&mut self.sh, 0);
        } else {
            if !first && self.sh.config.late == Late::Next {
                receiver.asked = u64::MAX;
            }
            let slot = self.sh.config.slot.as_nanos() as u64;
            let wait = Duration::from_nanos(self.sh.random.below(slot));
            receiver.join_at = Some(now + wait);
        }
        self.received.insert((from, key), id);
        self.joined.insert(own, id);
        let context = Context::Receives(Box::new(receiver));
        self.contexts.insert(id, context);
        Ok(id)
    }

    /// Whether a packet belongs to a stream that ended here. Its sender, if it asks, hears again how
    /// it ended.
    fn answer_late(&mut self, now: Instant, from: Address, header: &Header) -> bool {
        let is_it = |ended: &&mut Ended| ended.key == header.key && ended.sender == Some(from);
        let Some(ended) = self.ended.iter_mut().find(is_it) else {
            return false;
        };
        ended.until = now + self.sh.config.silence_max;
        let (options, rseq) = ended.answer;
        if header.options.has(Options::SREQ) && !header.options.has(Options::END) {
            let common = Common {
                rseq,
                alloc: rseq,
                echo: header.sync,
            };
            let key = header.key | RTN;
            let packet = control(key, options, &Body::Cntl(common), (header.sync, 0));
            self.sh.answer((AssociationId(0), from), packet);
        }
        true
    }

    /// A receiver leaves its group.
    pub(super) fn leave(&mut self, now: Instant, id: AssociationId) {
        if let Some(Context::Receives(receiver)) = self.contexts.get_mut(&id) {
            if matches!(receiver.phase, Phase::Active | Phase::Joining) {
                receiver.leave(&mut self.sh, false);
                receiver.end(&mut self.sh, engine::CloseReason::Aborted);
            }
            self.look_after(now, id);
        }
    }

    /// After anything happened to stream `id`: its timer, its turn to send, its end.
    pub(super) fn look_after(&mut self, now: Instant, id: AssociationId) {
        let deadline = match self.contexts.get_mut(&id) {
            Some(Context::Sends(sender)) => {
                if !self.ready.contains(&id) {
                    self.ready.push_back(id);
                }
                sender.deadline(&self.sh.config)
            }
            Some(Context::Receives(receiver)) => {
                if receiver.join_at.is_some_and(|at| at <= now) {
                    receiver.join_at = None;
                    receiver.join(&mut self.sh, now);
                }
                while let Some(echo) = receiver.take_answer(now) {
                    let packet = receiver.report(&mut self.sh, echo);
                    let to = self.sh.config.answer_to.unwrap_or(receiver.sender);
                    self.sh.answered += 1;
                    self.sh.answer((id, to), packet);
                }
                let ended = receiver.phase == Phase::Ended;
                if ended {
                    return self.retire(now, id);
                }
                receiver.deadline(&self.sh.config)
            }
            None => None,
        };
        match deadline {
            Some(at) => {
                self.sh.counters.timers_set += 1;
                self.timers.set(id, at);
            }
            None => self.timers.cancel(id),
        }
    }

    /// Lets stream `id` fill `batch`.
    pub(super) fn transmit_of(&mut self, now: Instant, id: AssociationId, batch: &mut Batch) {
        let Some(Context::Sends(sender)) = self.contexts.get_mut(&id) else {
            return;
        };
        let before = sender.una;
        sender.transmit(&mut self.sh, now, batch);
        let over = sender.ended.is_some() && !batch.is_empty();
        let una = sender.una;
        if una > before {
            self.replica.release(id, una);
        }
        if !batch.is_empty() {
            let to = &self.sh.config.replicate;
            if !to.is_empty() {
                self.replica.spread(batch, to);
                let copies = self.replica.left() as u64 * batch.segments().len() as u64;
                self.sh.counters.packets_built += copies;
            }
        }
        if over {
            self.retire(now, id);
        } else if batch.is_empty() {
            let Some(Context::Sends(sender)) = self.contexts.get(&id) else {
                return;
            };
            match sender.deadline(&self.sh.config) {
                Some(at) => self.timers.set(id, at.max(now + Duration::from_nanos(1))),
                None => self.timers.cancel(id),
            }
        } else {
            self.look_after(now, id);
        }
    }

    /// Forgets a stream, but for its key.
    fn retire(&mut self, now: Instant, id: AssociationId) {
        self.timers.cancel(id);
        let (key, sender, answer, span) = match self.contexts.remove(&id) {
            Some(Context::Sends(sender)) => {
                self.sent.remove(&sender.key);
                self.keep_report(id, &sender);
                let answer = (Options::MULTI | Options::END, 0);
                (sender.key, None, answer, self.sh.config.quarantine)
            }
            Some(Context::Receives(receiver)) => {
                let key = receiver.sender_key;
                self.received.remove(&(receiver.sender, key));
                self.recent = None;
                self.joined.remove(&receiver.key);
                self.damped += receiver.damped;
                let span = self.sh.config.silence_max;
                (key, Some(receiver.sender), receiver.last_answer(), span)
            }
            None => return,
        };
        if self.ended.len() == QUARANTINE_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back(Ended {
            key,
            sender,
            answer,
            until: now + span,
        });
    }
}

/// Reports of streams that ended, kept for their users.
const REPORTS_MAX: usize = 16;

impl Group {
    fn keep_report(&mut self, id: AssociationId, sender: &Sender) {
        if let Knowledge::Counted(members) = &sender.knowledge {
            if self.reports.len() == REPORTS_MAX {
                self.reports.pop_front();
            }
            self.reports.push_back((id, members.report()));
        }
    }
}

fn check_first(header: &Header, packet: &[u8]) -> Result<(), Reject> {
    match Body::parse(header, &packet[HEADER_LEN..]) {
        Some(Body::First { traffic, .. }) if is_group_service(traffic.service()) => Ok(()),
        Some(_) => Err(Reject::Refused),
        None => Err(Reject::Body),
    }
}
