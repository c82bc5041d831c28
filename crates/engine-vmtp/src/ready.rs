//! What has packets to send, in the order of its priority (RFC 1045 section 2.12).

use crate::client::Current;
use crate::endpoint::{Key, Vmtp};
use crate::server::State;
use engine::{Batch, CallNote};
use std::collections::VecDeque;

/// Queues of what has packets to send: urgent, important, normal, background.
#[derive(Debug, Default)]
pub(crate) struct Ready {
    queues: [VecDeque<Key>; 4],
    /// How many keys they have together.
    len: usize,
}

impl Ready {
    /// Puts it behind what has the same priority.
    pub(crate) fn push(&mut self, asked: &CallNote, key: Key) {
        self.len += 1;
        self.queues[usize::from(asked.rank() >> 2)].push_back(key);
    }

    /// Whether there is none.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The one that [`pop`](Ready::pop) takes next.
    #[inline]
    pub(crate) fn first(&self) -> Option<Key> {
        match self.is_empty() {
            true => None,
            false => self.first_of_some(),
        }
    }

    fn first_of_some(&self) -> Option<Key> {
        let first = |queue: &VecDeque<Key>| queue.front().copied();
        self.queues.iter().find_map(first)
    }

    /// The first of the most urgent.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Key> {
        if self.is_empty() {
            return None;
        }
        self.len -= 1;
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }
}

impl Vmtp {
    /// Whether what is next in line goes on in `batch`: packets as long as those in it, to the same place.
    pub(crate) fn next_joins(&self, batch: &Batch) -> bool {
        let next = match self.ready.first() {
            Some(Key::Client(id)) => match self.clients.get(&id).map(|client| &client.current) {
                Some(Current::Call(call)) => Some((call.called.path, &call.request)),
                _ => None,
            },
            Some(Key::Server(id)) => self
                .records
                .get(&id)
                .and_then(|record| match &record.state {
                    State::Responding(response) => Some((record.path, &response.outgoing)),
                    _ => None,
                }),
            _ => None,
        };
        next.is_some_and(|(path, outgoing)| {
            batch.path() == Some(path) && outgoing.joins(batch, &self.sh.config)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::VmtpConfig;
    use engine::{Address, EntityId, Instant, Note, OutgoingMessage, Path, Protocol, Transactions};

    #[test]
    fn requests_of_equal_packets_to_one_place_leave_together() {
        let mut vmtp = Vmtp::new(VmtpConfig::default());
        let [from, near, far] = [1, 2, 3].map(|number| EntityId(number << 32));
        vmtp.create_entity(from).expect("there is room");
        vmtp.locate(near, Address::Station(2));
        vmtp.locate(far, Address::Station(3));
        let now = Instant::from_nanos(1);
        for (message, to, len) in [
            (1, near, 16_384),
            (2, near, 16_384),
            (3, near, 16_384),
            (4, near, 20),
            (5, far, 16_384),
        ] {
            let request = (OutgoingMessage(message), len);
            let called = vmtp.call(now, from, to, request, &Note::default());
            called.expect("it begins");
        }
        let mut batch = Batch::limited(64, 65_507);
        let mut batches = Vec::new();
        loop {
            vmtp.poll_transmit(now, &mut batch);
            if batch.is_empty() {
                break;
            }
            let lens = batch.packets().iter().map(engine::Packet::len);
            assert!(lens.clone().all(|len| len == batch.packet_len()));
            batches.push((batch.path(), lens.count(), batch.packet_len()));
            batch.clear();
        }
        let [two, three] = [2, 3].map(|number| Some(Path::to(Address::Station(number))));
        let short = (two, 1, 68);
        let full = |path, packets| (path, packets, 1092);
        assert_eq!(batches, [full(two, 48), short, full(three, 16)]);
    }

    #[test]
    fn more_urgent_keys_come_first_and_equal_ones_in_turn() {
        let mut ready = Ready::default();
        for (priority, slot) in [(4, 0), (0, 1), (8, 2), (12, 3), (3, 4), (0, 5)] {
            let asked = CallNote {
                priority,
                ..CallNote::default()
            };
            ready.push(&asked, Key::Probe(slot));
        }
        assert!(!ready.is_empty() && ready.first() == Some(Key::Probe(3)));
        let order: Vec<Key> = std::iter::from_fn(|| ready.pop()).collect();
        assert_eq!(order, [3, 2, 1, 4, 5, 0].map(Key::Probe));
        assert!(ready.is_empty() && ready.first().is_none());
    }
}
