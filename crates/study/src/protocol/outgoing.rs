//! What leaves, and the timers that call for it.

use super::packet::{Control, Format, Header, options};
use super::sending::{CREDIT_NS, Outgoing};
use super::{Circuit, StudyXtp};
use engine::{Batch, AssociationId, CloseReason, Event, Instant};

impl StudyXtp {
    /// The answer a receiver owes.
    pub(super) fn transmit_answer(&mut self, now: Instant, index: usize, batch: &mut Batch) {
        let Circuit::In(receiving) = &mut self.circuits[index] else {
            return;
        };
        if receiving.due_at.is_some_and(|at| at > now) {
            return;
        }
        receiving.due_at = None;
        let Some(echo) = receiving.due.take() else {
            return;
        };
        let in_group = receiving.in_group;
        let control = Control {
            rseq: receiving.rseq as u32,
            dseq: receiving.dseq as u32,
            alloc: (receiving.dseq + u64::from(self.config.alloc)) as u32,
            echo,
        };
        let (key, to) = (receiving.key, receiving.peer);
        // In a group everybody hears the answer.
        let to = if in_group { sim::GROUP } else { to };
        let header = Header {
            format: Format::Cntl,
            options: options::RTN | self.multi(in_group),
            key,
            seq: 0,
            dseq: control.dseq,
            sync: 0,
        };
        let octets = header.emit_control(&self.config, &control);
        self.counters.packets_built += 1;
        self.counters.bytes_summed += octets.as_slice().len() as u64;
        batch.set_destination(AssociationId(index as u32), to);
        batch.push(octets.as_slice(), 0..0);
    }

    /// What a sender may send now.
    pub(super) fn transmit_data(&mut self, now: Instant, index: usize, batch: &mut Batch) {
        let config = self.config;
        let multi = self.multi(config.multicast.is_some());
        let Circuit::Out(sending) = &mut self.circuits[index] else {
            return;
        };
        let Some(outgoing) = sending.next() else {
            return;
        };
        batch.set_destination(AssociationId(index as u32), sending.peer);
        let flags = |sreq: bool, eom: bool| {
            let sreq = if sreq { options::SREQ } else { 0 };
            multi | sreq | if eom { options::EOM } else { 0 }
        };
        let header = |format, seq: u64, options| Header {
            format,
            options,
            key: sending.key,
            seq: seq as u32,
            dseq: 0,
            sync: sending.sync,
        };
        self.counters.packets_built += 1;
        match outgoing {
            Outgoing::Data {
                start,
                end,
                sreq,
                eom,
            } => {
                let head = header(Format::Data, start, flags(sreq, eom));
                let octets = head.emit_data(&config, (end - start) as usize);
                batch.push(octets.as_slice(), start..end);
                let again = end.min(sending.highest).saturating_sub(start);
                sending.highest = sending.highest.max(end);
                self.counters.retransmissions += u64::from(again > 0);
                self.counters.bytes_sent += end - start;
                self.counters.bytes_summed += octets.as_slice().len() as u64;
            }
            Outgoing::Request { eom } => {
                let head = header(Format::Cntl, sending.nxt, flags(true, eom));
                let control = Control {
                    rseq: 0,
                    dseq: 0,
                    alloc: 0,
                    echo: 0,
                };
                let octets = head.emit_control(&config, &control);
                self.counters.bytes_summed += octets.as_slice().len() as u64;
                batch.push(octets.as_slice(), 0..0);
            }
        }
        if self.timed {
            self.set_timers(now, index);
        }
        self.ready.push_front(index);
    }

    fn set_timers(&mut self, now: Instant, index: usize) {
        let (wait, give_up) = (self.config.wtimer, self.config.ctimer);
        let Circuit::Out(sending) = &mut self.circuits[index] else {
            return;
        };
        let mut set = 0;
        if sending.awaited.is_some() {
            sending.wait_at = wait.map(|wait| now + wait);
            sending.give_up_at = sending.give_up_at.or(give_up.map(|span| now + span));
            set += u64::from(wait.is_some());
            let hold = self.config.multicast.and_then(|group| group.hold);
            sending.act_at = hold.map(|hold| now + hold);
        }
        if sending.credit.is_some() && sending.credit_at.is_none() {
            let renewed = now.as_nanos() + CREDIT_NS;
            sending.credit_at = Some(Instant::from_nanos(renewed));
            set += 1;
        }
        self.counters.timers_set += set;
    }

    pub(super) fn ring(&mut self, now: Instant, index: usize) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match &mut self.circuits[index] {
            Circuit::Out(_) => self.ring_sending(now, index),
            Circuit::In(receiving) if due(receiving.due_at) => self.ready.push_back(index),
            Circuit::In(_) | Circuit::Gone => {}
        }
    }

    fn ring_sending(&mut self, now: Instant, index: usize) {
        let credit = self.config.credit;
        let Circuit::Out(sending) = &mut self.circuits[index] else {
            return;
        };
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(sending.credit_at) {
            sending.credit_at = None;
            sending.credit = credit.map(i64::from);
        }
        if due(sending.give_up_at) {
            return self.close(index, CloseReason::TimedOut);
        }
        if due(sending.act_at) {
            sending.act_at = None;
            if sending.act_on_newest() {
                let released = Event::Released(AssociationId(index as u32), sending.una);
                self.events.push_back(released);
            }
        }
        if due(sending.wait_at) {
            sending.wait_at = None;
            sending.ask_again();
        }
        self.ready.push_back(index);
    }
}
