//! Probes of clients: whether a Request is its client's current one, and whether anybody is at an
//! address (RFC 1045 section 2.3 and III.4).

use crate::client::Current;
use crate::config::CLIENT_NUMBERS;
use crate::endpoint::{Key, Vmtp};
use crate::pdu::{ProbeAnswer, ProbeEntity, ResponseCode, VmtpHeader};
use crate::records::RecordId;
use crate::server::State;
use engine::{EntityId, Instant, Path, TransactionEnd};

/// Probes at a time: each is sent from a client of its own. Clients of a server that has just started wait for
/// one, or are told that it is busy; ten thousand are probed in three turns.
const PROBES_MAX: u16 = CLIENT_NUMBERS;

/// A probe that is not answered.
#[derive(Debug)]
pub(crate) struct Probe {
    path: Path,
    entity: EntityId,
    /// Its number, which nobody can guess who did not get it.
    transaction: u32,
    record: RecordId,
    retries: u32,
    sent_at: Instant,
    pub(crate) timeout: Instant,
}

/// Probes that are not answered, by the clients that they are sent from.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    slots: Vec<Option<Probe>>,
    free: Vec<u16>,
}

impl Probes {
    pub(crate) fn get(&self, slot: u16) -> Option<&Probe> {
        self.slots.get(usize::from(slot))?.as_ref()
    }

    fn get_mut(&mut self, slot: u16) -> Option<&mut Probe> {
        self.slots.get_mut(usize::from(slot))?.as_mut()
    }

    /// A slot without a probe; None when there are as many as there may be.
    fn free_slot(&self) -> Option<u16> {
        let next = self.slots.len() as u16;
        self.free
            .last()
            .copied()
            .or((next < PROBES_MAX).then_some(next))
    }

    /// Keeps a probe in the slot that [`free_slot`](Probes::free_slot) gave.
    fn insert(&mut self, slot: u16, probe: Probe) {
        match self.free.pop() {
            Some(_) => self.slots[usize::from(slot)] = Some(probe),
            None => self.slots.push(Some(probe)),
        }
    }

    fn remove(&mut self, slot: u16) -> Option<Probe> {
        let probe = self.slots.get_mut(usize::from(slot))?.take()?;
        self.free.push(slot);
        Some(probe)
    }
}

impl Vmtp {
    /// Probes the client of a record, unless that is being done; false when all probes are in use.
    pub(crate) fn start_probe(&mut self, now: Instant, record: RecordId) -> bool {
        let Some(probed) = self.records.get_mut(&record) else {
            return false;
        };
        if probed.is_probed {
            return true;
        }
        let Some(slot) = self.probes.free_slot() else {
            return false;
        };
        probed.is_probed = true;
        let probe = Probe {
            path: probed.path,
            entity: probed.client,
            transaction: self.sh.random.next_u64() as u32,
            record,
            retries: 0,
            sent_at: now,
            timeout: now,
        };
        self.probes.insert(slot, probe);
        self.send_probe(now, slot);
        true
    }

    fn send_probe(&mut self, now: Instant, slot: u16) {
        let prober = self.sh.config.prober(slot);
        let Some(probe) = self.probes.get_mut(slot) else {
            return;
        };
        let wait = self.sh.peers.get(probe.path);
        probe.timeout = now + wait.retry_wait(&self.sh.config, probe.retries);
        probe.sent_at = now;
        let request = ProbeEntity {
            co_resident: probe.entity,
            entity: probe.entity,
            authentication_domain: 0,
        };
        let mut header = request.header(prober, self.sh.config.domain, probe.transaction);
        header.control = header.control.with_retransmit_count(probe.retries);
        let path = probe.path;
        self.sh.send(path, &header);
        self.arm(Key::Probe(slot));
    }

    pub(crate) fn expire_probe(&mut self, now: Instant, slot: u16) {
        let Some(probe) = self.probes.get_mut(slot) else {
            return;
        };
        let is_wanted = self
            .records
            .get(&probe.record)
            .is_some_and(|record| !matches!(record.state, State::Receiving(_) | State::Over(..)));
        if is_wanted && probe.retries < self.sh.config.retries_max {
            probe.retries += 1;
            return self.send_probe(now, slot);
        }
        let record = probe.record;
        self.end_probe(slot);
        match self.records.get(&record).map(|record| &record.state) {
            Some(State::AwaitingProbe(_)) => self.forget_record(now, record),
            // It was executed, which is remembered.
            Some(State::Responding(_)) => self.close_record(
                now,
                record,
                TransactionEnd::TimedOut,
                ResponseCode::RESPONSE_DISCARDED,
            ),
            _ => {}
        }
    }

    fn end_probe(&mut self, slot: u16) {
        let probe = self.probes.remove(slot);
        if let Some(record) = probe.and_then(|probe| self.records.get_mut(&probe.record)) {
            record.is_probed = false;
        }
        self.timers.cancel(Key::Probe(slot));
    }

    /// The answer to the probe of `slot`.
    pub(crate) fn handle_probe_answer(
        &mut self,
        now: Instant,
        path: Path,
        slot: u16,
        header: &VmtpHeader,
    ) -> Option<()> {
        let probe = self.probes.get(slot)?;
        if (probe.path, probe.transaction) != (path, header.transaction) {
            return None;
        }
        let peer = self.sh.peers.get(path);
        peer.is_valid = true;
        if u32::from(header.control.retransmit_count()) == probe.retries & 7 {
            peer.sample_rtt(now.since(probe.sent_at));
        }
        let id = probe.record;
        self.end_probe(slot);
        let answer = ProbeAnswer::parse(header);
        let record = self.records.get(&id)?;
        // A client of a run may be further by as much as it has in flight.
        let ahead = answer.transaction.wrapping_sub(record.first);
        let in_run = record.run.is_open && ahead < 256 * 2 * super::stream::RUN_MAX as u32;
        let is_current = record.group(answer.transaction).is_some() || in_run;
        match &record.state {
            State::AwaitingProbe(_) if answer.code == ResponseCode::OK && is_current => {
                self.tell_request(now, id);
            }
            // The client is further, or gone.
            State::AwaitingProbe(_) => self.forget_record(now, id),
            // The address is real; who asks again gets the Response.
            State::Responding(_) => self.note_ready(Key::Server(id)),
            _ => {}
        }
        Some(())
    }

    /// A peer asks for an entity of this host.
    pub(crate) fn answer_probe(&mut self, path: Path, header: &VmtpHeader, probe: &ProbeEntity) {
        let client = self.clients.get(&probe.entity);
        let current = client.map(|client| match &client.current {
            Current::Call(call) => call.last(),
            Current::Over(_) | Current::Fresh => client.next.wrapping_sub(1),
        });
        let is_entity = || {
            let own = self.sh.config.entity(probe.entity);
            self.entities.contains_key(&own) && self.sh.config.identifier(own) == probe.entity
        };
        let in_stream = self.stream_transaction(probe.entity);
        let current = in_stream.or(current);
        let answer = match current.or_else(|| is_entity().then_some(0)) {
            Some(transaction) => ProbeAnswer {
                code: ResponseCode::OK,
                transaction,
            },
            // Another endpoint of the address, or another host, may have it.
            None if self.sh.config.shared_address || header.multicast => return,
            None => ProbeAnswer {
                code: ResponseCode::NONEXISTENT_ENTITY,
                transaction: 0,
            },
        };
        let answer = answer.header(self.sh.config.manager(), header);
        self.sh.send(path, &answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Address, SplitMix64};

    #[test]
    fn slots_are_used_again_and_bounded() {
        let mut records = crate::records::Records::default();
        let path = Path::to(Address::Station(1));
        let closed = State::Over(ResponseCode::OK, crate::server::Idempotent(false));
        let header = VmtpHeader::default();
        let record = crate::server::Record::new(path, &header, EntityId(1), closed);
        let record = records.insert(1, record);
        let now = Instant::from_nanos(0);
        let probe = || Probe {
            path,
            entity: EntityId(1),
            transaction: 0,
            record,
            retries: 0,
            sent_at: now,
            timeout: now,
        };
        let (mut probes, mut used) = (Probes::default(), Vec::new());
        let mut random = SplitMix64::new(2);
        while let Some(slot) = probes.free_slot() {
            assert!(slot < PROBES_MAX && probes.get(slot).is_none() && !used.contains(&slot));
            probes.insert(slot, probe());
            used.push(slot);
            if random.below(4) == 0 {
                let ended = used.swap_remove(random.below(used.len() as u64) as usize);
                assert!(probes.remove(ended).is_some() && probes.remove(ended).is_none());
            }
        }
        assert_eq!(used.len(), usize::from(PROBES_MAX));
    }
}
