//! Dispatch of packets to contexts by key.

use super::admission::is_accepted_sender;
use super::config::LateJoin;
use super::endpoint_state::{Numbers, is_group_service};
use super::quarantine::{ReceivedStream, SentStream};
use super::receiver::{Receiver, ReceiverPhase};
use super::sender::{GroupTracking, Sender};
use super::{GroupContext, GroupEndpoint};
use crate::codec::Arrival;
use crate::numbers::{Key, SEQ_MAX};
use crate::pdu::{Body, CommonControl, Format, Header, Options, RTN, Reject};
use core::time::Duration;
use engine::{Address, AssociationId, Batch, Delivery, Instant};

impl GroupEndpoint {
    pub(super) fn dispatch(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let arrival = self.ep.codec.parse(packet)?.of_group()?;
        let header = &arrival.header;
        self.ep.counters.bytes_summed += self.ep.codec.summed_len(header.options, packet);
        if !header.options.has(Options::MULTI) {
            return Err(Reject::Multicast);
        }
        let key = Key::in_field(header.key);
        let found = if header.key & RTN == 0 {
            self.find_receiver((from, key))
        } else {
            let sent = self.ep.sender_keys.get(&key).copied();
            sent.or_else(|| self.receivers_by_key.get(&(from, key)).copied())
        };
        let id = match found {
            Some(id) => id,
            None if header.key & RTN != 0 => return self.handle_unknown_key(from, &arrival),
            None => self.clone_context(now, from, &arrival)?,
        };
        let done = self.handle_in_context(now, id, from, &arrival, deliveries);
        self.update_timers_and_queue(now, id);
        done
    }

    /// The context of the stream with a sender's address and key.
    fn find_receiver(&mut self, name: (Address, Key)) -> Option<AssociationId> {
        match self.last_lookup {
            Some((recent, id)) if recent == name => Some(id),
            _ => {
                let id = *self.receivers_by_sender.get(&name)?;
                self.last_lookup = Some((name, id));
                Some(id)
            }
        }
    }

    fn handle_in_context(
        &mut self,
        now: Instant,
        id: AssociationId,
        from: Address,
        arrival: &Arrival<'_>,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        match self.contexts.get_mut(&id) {
            Some(GroupContext::Sender(sender)) => {
                let before = sender.queue.acknowledged;
                let done = sender.handle(&mut self.ep, now, from, arrival);
                if sender.queue.acknowledged > before {
                    self.replicator.release(id, sender.queue.acknowledged);
                }
                done
            }
            Some(GroupContext::Receiver(receiver)) if receiver.sender == from => {
                receiver.handle(&mut self.ep, now, arrival, deliveries)
            }
            Some(GroupContext::Receiver(_)) => Err(Reject::ForeignSource),
            None => Err(Reject::UnknownKey),
        }
    }

    /// Handles a returned key (RTN) without a context: another receiver's control packet to the
    /// group, or a receiver of a stream that ended.
    fn handle_unknown_key(&mut self, from: Address, arrival: &Arrival<'_>) -> Result<(), Reject> {
        let header = &arrival.header;
        let key = Key::in_field(header.key);
        let ended = self.quarantine.find_sent(key);
        // 0009, Closing: a receiver that missed the end gets END again.
        if let Some(sender_key) = ended.filter(|_| !header.options.has(Options::END)) {
            let body = Body::Cntl(CommonControl::default());
            let options = Options::MULTI | Options::END;
            let numbers = Numbers::of_sender(header.sync, 0);
            let end = self
                .ep
                .control_octets(sender_key.field(), options, &body, numbers);
            self.ep.queue_reply(from, end, arrival.octets.len());
            return Ok(());
        }
        // 0009, Slotting: only damping reads other receivers' control packets.
        let is_report = header.format == Format::Cntl && !header.options.has(Options::END);
        if !is_report || !self.ep.config.damping {
            return Err(Reject::UnknownKey);
        }
        let mut known = false;
        for context in self.contexts.values_mut() {
            if let GroupContext::Receiver(receiver) = context
                && receiver.sender_key == key
            {
                receiver.damp(&self.ep, arrival);
                known = true;
            }
        }
        if known {
            Ok(())
        } else {
            Err(Reject::UnknownKey)
        }
    }

    /// Makes a context for a sender that has none (0009, Cloning).
    fn clone_context(
        &mut self,
        now: Instant,
        from: Address,
        arrival: &Arrival<'_>,
    ) -> Result<AssociationId, Reject> {
        let header = &arrival.header;
        let key = Key::stated(header.key).ok_or(Reject::UnknownKey)?;
        if self.answer_quarantined(now, (from, key), header, arrival.octets.len()) {
            return Err(Reject::UnknownKey);
        }
        let is_accepted = is_accepted_sender(&self.ep.config, from);
        if !self.ep.listening || !is_accepted || header.options.has(Options::END) {
            return Err(Reject::Refused);
        }
        let beginning = self.beginning(arrival)?;
        let id = self.make_room(from)?;
        let own_key = match self.ep.config.join_secret {
            Some(secret) => secret.key_for(key),
            None => self.ep.random_key(),
        };
        let mut receiver = Receiver::new(id, own_key, from, key);
        receiver.last_received_at = now;
        match beginning {
            Beginning::At(start) => {
                receiver.rx.error_control_off = header.options.has(Options::NOERR);
                receiver.start_at(&mut self.ep, start);
            }
            Beginning::AsGranted(requested) => {
                receiver.requested_start = requested;
                let slot = self.ep.config.slot.as_nanos() as u64;
                let wait = Duration::from_nanos(self.ep.rng.below(slot));
                receiver.join_at = Some(now + wait);
            }
        }
        self.shares.insert(from, id);
        self.receivers_by_sender.insert((from, key), id);
        self.receivers_by_key.insert((from, own_key), id);
        let context = GroupContext::Receiver(Box::new(receiver));
        self.contexts.insert(id, context);
        Ok(id)
    }

    /// Where this end begins to receive a stream that it hears for the first time.
    fn beginning(&self, arrival: &Arrival<'_>) -> Result<Beginning, Reject> {
        let header = &arrival.header;
        let first = header.format == Format::First;
        let known = matches!(header.format, Format::First | Format::Data | Format::Cntl);
        let late_join = self.ep.config.late_join;
        if !known || !first && late_join == LateJoin::Never {
            return Err(Reject::UnknownKey);
        }
        if first {
            check_first(arrival)?;
        }
        // A stream without error control begins at this number, and windows are added to it.
        if header.seq > SEQ_MAX {
            return Err(Reject::Body);
        }
        let has_sreq = header.options.has(Options::SREQ);
        // 0009, Joining: without error control, or without SREQ in FIRST, no join is needed.
        if header.options.has(Options::NOERR) {
            return Ok(Beginning::At(header.seq));
        }
        if !self.ep.codec.has_joins() {
            return beginning_without_join(arrival, late_join);
        }
        Ok(match (first, late_join) {
            (true, _) if !has_sreq => Beginning::At(0),
            (false, LateJoin::Next) => Beginning::AsGranted(u64::MAX),
            _ => Beginning::AsGranted(0),
        })
    }

    /// Whether a packet belongs to a stream that ended at this receiver. A status request is
    /// answered with the final control packet (0009, Closing).
    fn answer_quarantined(
        &mut self,
        now: Instant,
        name: (Address, Key),
        header: &Header,
        received_len: usize,
    ) -> bool {
        let until = now + self.ep.config.silence_max;
        let Some(reply) = self.quarantine.prolong(name, until) else {
            return false;
        };
        if header.options.has(Options::SREQ) && !header.options.has(Options::END) {
            let body = Body::Cntl(CommonControl {
                rseq: reply.rseq,
                alloc: reply.rseq,
                echo: header.sync,
            });
            let key = reply.key.returned();
            let numbers = Numbers::of_receiver(header.sync, reply.rseq);
            let packet = self.ep.control_octets(key, reply.options, &body, numbers);
            self.ep.queue_reply(name.0, packet, received_len);
        }
        true
    }

    /// Leaves the group of received stream `id`: sends END and closes the context.
    pub(super) fn leave(&mut self, now: Instant, id: AssociationId) {
        if let Some(GroupContext::Receiver(receiver)) = self.contexts.get_mut(&id) {
            if matches!(
                receiver.phase,
                ReceiverPhase::Active | ReceiverPhase::Joining
            ) {
                receiver.send_leave(&mut self.ep, false);
                receiver.terminate(&mut self.ep, engine::CloseReason::Aborted);
            }
            self.update_timers_and_queue(now, id);
        }
    }

    /// Enters context `id` into the ready queue, sends what a receiver owes, and sets the timer; or retires it. Called
    /// after every change of a context.
    pub(super) fn update_timers_and_queue(&mut self, now: Instant, id: AssociationId) {
        let deadline = match self.contexts.get_mut(&id) {
            Some(GroupContext::Sender(sender)) => {
                if !self.ready.contains(&id) {
                    self.ready.push_back(id);
                }
                sender.deadline(&self.ep.config)
            }
            Some(GroupContext::Receiver(receiver)) => {
                receiver.send_due(&mut self.ep, now);
                if receiver.phase == ReceiverPhase::Ended {
                    return self.retire(now, id);
                }
                receiver.deadline(&self.ep.config)
            }
            None => None,
        };
        self.ep.counters.timers_set += u64::from(deadline.is_some());
        self.set_timer(id, deadline);
    }

    /// Fills `batch` with packets of stream `id`.
    pub(super) fn transmit_context(&mut self, now: Instant, id: AssociationId, batch: &mut Batch) {
        let Some(GroupContext::Sender(sender)) = self.contexts.get_mut(&id) else {
            return;
        };
        let before = sender.queue.acknowledged;
        sender.transmit(&mut self.ep, now, batch);
        let is_over = sender.close_reason.is_some();
        let (released, deadline) = (sender.queue.acknowledged, sender.deadline(&self.ep.config));
        if released > before {
            self.replicator.release(id, released);
        }
        if batch.is_empty() {
            // A deadline that has passed was looked at with the rest: the next look is later.
            let later = now + Duration::from_nanos(1);
            return self.set_timer(id, deadline.map(|at| at.max(later)));
        }
        self.replicate(batch);
        match is_over {
            true => self.retire(now, id),
            false => self.update_timers_and_queue(now, id),
        }
    }

    /// Plans the copies of what is sent, where there is no multicast.
    fn replicate(&mut self, batch: &mut Batch) {
        let to = &self.ep.config.replicate;
        if !to.is_empty() {
            self.replicator.replicate(batch, to);
            let copies = self.replicator.copies_left() as u64 * batch.packets().len() as u64;
            self.ep.counters.packets_built += copies;
        }
    }

    fn set_timer(&mut self, id: AssociationId, deadline: Option<Instant>) {
        match deadline {
            Some(at) => self.timers.set(id, at),
            None => self.timers.cancel(id),
        }
    }

    /// Drops the context of a stream that ended and keeps its key in quarantine.
    fn retire(&mut self, now: Instant, id: AssociationId) {
        match self.remove_context(id) {
            Some(GroupContext::Sender(sender)) => {
                self.save_final_report(id, &sender);
                let stream = SentStream {
                    key: sender.key,
                    granted_keys: sender.granted_keys().collect(),
                };
                let until = now + self.ep.config.quarantine;
                self.quarantine.keep_sent(stream, until);
            }
            // A stream that nobody was told of leaves nothing: it may be forged.
            Some(GroupContext::Receiver(receiver)) if receiver.is_answered => {
                let stream = ReceivedStream {
                    sender: receiver.sender,
                    sender_key: receiver.sender_key,
                    is_validated: receiver.sender_address.is_validated(),
                    final_control: receiver.final_control(),
                };
                let until = now + self.ep.config.silence_max;
                self.quarantine.keep_received(stream, until);
            }
            _ => {}
        }
    }
}

/// Member reports kept after their streams ended.
const FINAL_REPORTS_MAX: usize = 16;

impl GroupEndpoint {
    fn save_final_report(&mut self, id: AssociationId, sender: &Sender) {
        if let GroupTracking::Counted(members) = &sender.tracking {
            if self.final_reports.len() == FINAL_REPORTS_MAX {
                self.final_reports.pop_front();
            }
            self.final_reports.push_back((id, members.report()));
        }
    }
}

fn check_first(arrival: &Arrival<'_>) -> Result<(), Reject> {
    match arrival.body(0) {
        Some(Body::First { traffic, .. }) if is_group_service(traffic.service()) => Ok(()),
        Some(_) => Err(Reject::Refused),
        None => Err(Reject::Body),
    }
}

/// Where a receiver begins.
enum Beginning {
    /// At this byte.
    At(u64),
    /// Where its sender says that it does; this byte is asked for.
    AsGranted(u64),
}

/// 3.x has no packet by which receivers join: they begin with FIRST, or with a status request at the oldest byte that the
/// sender keeps, which its answer then holds back (0122, Joining).
fn beginning_without_join(arrival: &Arrival<'_>, late_join: LateJoin) -> Result<Beginning, Reject> {
    let seq = arrival.header.seq;
    let oldest = match (arrival.header.format, late_join) {
        (Format::First, _) => return Ok(Beginning::At(seq)),
        (_, LateJoin::Next) => seq,
        (Format::Cntl, _) => match arrival.body(seq).ok_or(Reject::Body)? {
            Body::Cntl(common) => common.rseq,
            _ => return Err(Reject::Body),
        },
        _ => return Err(Reject::UnknownKey),
    };
    let start = match oldest as u32 {
        0 => 0,
        // Numbers below it have a place too.
        later => (1 << 32) + u64::from(later),
    };
    Ok(Beginning::At(start))
}
