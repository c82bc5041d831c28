//! Outgoing packets, and the timers behind them.

use crate::packet::{ControlSegment, PacketFormat, Xtp3Header, options};
use crate::sender::{CREDIT_NS, NextPacket};
use crate::{Association, Xtp3};
use engine::{AssociationId, Batch, CloseReason, Event, Instant, Integrity, Store};

impl Xtp3 {
    /// The control packet that answers a status request.
    pub(super) fn transmit_control(&mut self, now: Instant, index: usize, batch: &mut Batch) {
        let Association::Receiver(receiving) = &mut self.associations[index] else {
            return;
        };
        if receiving.control_at.is_some_and(|at| at > now) {
            return;
        }
        receiving.control_at = None;
        let Some(echo) = receiving.control_due.take() else {
            return;
        };
        let in_group = receiving.in_group;
        let control = ControlSegment {
            rseq: receiving.rseq as u32,
            dseq: receiving.dseq as u32,
            alloc: (receiving.dseq + u64::from(self.config.alloc)) as u32,
            echo,
        };
        let (key, to) = (receiving.key, receiving.peer);
        // In a group all receivers get the control packet, for damping.
        let group = self.config.multicast.map(|multicast| multicast.group);
        let to = group.filter(|_| in_group).unwrap_or(to);
        let header = Xtp3Header {
            format: PacketFormat::Cntl,
            options: options::RTN | self.multi(in_group),
            key,
            seq: 0,
            dseq: control.dseq,
            sync: 0,
        };
        let octets = header.emit_control(&self.config, &control);
        self.counters.packets_built += 1;
        self.counters.bytes_summed += octets.as_slice().len() as u64;
        batch.set_path(to, Some(AssociationId(index as u32)));
        batch.push_own(octets.as_slice());
    }

    /// What a sender may send now.
    pub(super) fn transmit_data(&mut self, now: Instant, index: usize, batch: &mut Batch) {
        let config = self.config;
        let multi = self.multi(config.multicast.is_some());
        let Association::Sender(sending) = &mut self.associations[index] else {
            return;
        };
        let Some(outgoing) = sending.next() else {
            return;
        };
        let id = AssociationId(index as u32);
        batch.set_path(sending.peer, Some(id));
        let flags = |sreq: bool, eom: bool| {
            let sreq = if sreq { options::SREQ } else { 0 };
            multi | sreq | if eom { options::EOM } else { 0 }
        };
        let header = |format, seq: u64, options| Xtp3Header {
            format,
            options,
            key: sending.key,
            seq: seq as u32,
            dseq: 0,
            sync: sending.sync,
        };
        self.counters.packets_built += 1;
        match outgoing {
            NextPacket::Data {
                start,
                end,
                sreq,
                eom,
            } => {
                let header_len = header(PacketFormat::Data, start, flags(sreq, eom));
                let octets = header_len.emit_data(&config, (end - start) as usize);
                let store = Store::Association(id);
                batch.push(octets.as_slice(), store, start..end, Integrity::None);
                let again = end.min(sending.sent_end).saturating_sub(start);
                sending.sent_end = sending.sent_end.max(end);
                self.counters.retransmissions += u64::from(again > 0);
                self.counters.bytes_sent += end - start;
                self.counters.bytes_summed += octets.as_slice().len() as u64;
            }
            NextPacket::Request { eom } => {
                let header_len = header(PacketFormat::Cntl, sending.next_seq, flags(true, eom));
                let control = ControlSegment {
                    rseq: 0,
                    dseq: 0,
                    alloc: 0,
                    echo: 0,
                };
                let octets = header_len.emit_control(&config, &control);
                self.counters.bytes_summed += octets.as_slice().len() as u64;
                batch.push_own(octets.as_slice());
            }
        }
        if self.has_timers {
            self.set_timers(now, index);
        }
        self.ready.push_front(index);
    }

    fn set_timers(&mut self, now: Instant, index: usize) {
        let (wait, give_up) = (self.config.wtimer, self.config.ctimer);
        let Association::Sender(sending) = &mut self.associations[index] else {
            return;
        };
        let mut set = 0;
        if sending.awaited_sync.is_some() {
            sending.wait_at = wait.map(|wait| now + wait);
            sending.give_up_at = sending.give_up_at.or(give_up.map(|span| now + span));
            set += u64::from(wait.is_some());
            let bucket_delay = self.config.multicast.and_then(|group| group.bucket_delay);
            sending.bucket_act_at = bucket_delay.map(|bucket_delay| now + bucket_delay);
        }
        if sending.credit.is_some() && sending.credit_at.is_none() {
            let renewed = now.as_nanos() + CREDIT_NS;
            sending.credit_at = Some(Instant::from_nanos(renewed));
            set += 1;
        }
        self.counters.timers_set += set;
    }

    pub(super) fn handle_timers(&mut self, now: Instant, index: usize) {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        match &mut self.associations[index] {
            Association::Sender(_) => self.handle_sender_timers(now, index),
            Association::Receiver(receiving) if due(receiving.control_at) => {
                self.ready.push_back(index)
            }
            Association::Receiver(_) | Association::Closed => {}
        }
    }

    fn handle_sender_timers(&mut self, now: Instant, index: usize) {
        let credit = self.config.credit;
        let Association::Sender(sending) = &mut self.associations[index] else {
            return;
        };
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if due(sending.credit_at) {
            sending.credit_at = None;
            sending.credit = credit.map(i64::from);
        }
        if due(sending.give_up_at) {
            return self.terminate(index, CloseReason::TimedOut);
        }
        if due(sending.bucket_act_at) {
            sending.bucket_act_at = None;
            let before = sending.acknowledged;
            if sending.apply_newest_bucket() {
                let released = before..sending.acknowledged;
                let released = Event::Released(AssociationId(index as u32), released);
                self.events.push_back(released);
            }
        }
        if due(sending.wait_at) {
            sending.wait_at = None;
            sending.repeat_request();
        }
        self.ready.push_back(index);
    }
}
