//! The records of an endpoint, by their names and by their clients.

use crate::server::Record;
use engine::{EntityId, Instant, Path};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Names a record: by the endpoint's number of it, which none has again, and by its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordId {
    number: u64,
    slot: u32,
}

/// Records in slots that are used again: each packet of a group looks its record up several times.
#[derive(Debug, Default)]
pub(crate) struct Records {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

/// A slot, with the number of the record that is or was in it.
#[derive(Debug)]
struct Slot {
    number: u64,
    record: Option<Record>,
}

impl Records {
    /// Keeps a record under a number that no other has.
    pub(crate) fn insert(&mut self, number: u64, record: Record) -> RecordId {
        let kept = Slot {
            number,
            record: Some(record),
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = kept;
                slot
            }
            None => {
                self.slots.push(kept);
                self.slots.len() as u32 - 1
            }
        };
        RecordId { number, slot }
    }

    #[inline]
    pub(crate) fn get(&self, id: &RecordId) -> Option<&Record> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.record.as_ref().filter(|_| slot.number == id.number)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, id: &RecordId) -> Option<&mut Record> {
        let slot = self.slots.get_mut(id.slot as usize)?;
        slot.record.as_mut().filter(|_| slot.number == id.number)
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, id: &RecordId) -> Option<Record> {
        self.get(id)?;
        self.free.push(id.slot);
        self.slots[id.slot as usize].record.take()
    }

    /// All of them, by their slots.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Record> {
        self.slots.iter().filter_map(|slot| slot.record.as_ref())
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Records that may be forgotten, with the time since when, in this order.
///
/// Where calls follow each other, the record that was added last is the next to be taken out: it lies outside of the
/// tree.
#[derive(Default)]
pub(crate) struct OverRecords {
    others: BTreeSet<(Instant, RecordId)>,
    last: Option<(Instant, RecordId)>,
}

impl fmt::Debug for OverRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: BTreeSet<_> = self.others.iter().chain(&self.last).collect();
        all.fmt(f)
    }
}

impl OverRecords {
    #[inline]
    pub(crate) fn insert(&mut self, since: Instant, id: RecordId) {
        if let Some(last) = self.last.replace((since, id)) {
            self.others.insert(last);
        }
    }

    #[inline]
    pub(crate) fn remove(&mut self, since: Instant, id: RecordId) {
        match self.last == Some((since, id)) {
            true => self.last = None,
            false => drop(self.others.remove(&(since, id))),
        }
    }

    /// The one that is to be forgotten first.
    pub(crate) fn oldest(&self) -> Option<RecordId> {
        let first = self.others.first().copied();
        let oldest = first.into_iter().chain(self.last).min();
        oldest.map(|(_, id)| id)
    }
}

/// A client's identifier, and where it is.
type ClientKey = (EntityId, Path);

/// The newest record of each client.
#[derive(Debug, Default)]
pub(crate) struct ClientRecords {
    newest: BTreeMap<ClientKey, RecordId>,
    /// The one asked for last: packets of a group come together.
    pub(crate) last: Cell<Option<(ClientKey, RecordId)>>,
}

impl ClientRecords {
    pub(crate) fn get(&self, key: &ClientKey) -> Option<RecordId> {
        if let Some((last, id)) = self.last.get()
            && last == *key
        {
            return Some(id);
        }
        let id = self.newest.get(key).copied()?;
        self.last.set(Some((*key, id)));
        Some(id)
    }

    pub(crate) fn insert(&mut self, key: ClientKey, id: RecordId) {
        self.newest.insert(key, id);
        self.last.set(Some((key, id)));
    }

    pub(crate) fn remove(&mut self, key: &ClientKey) {
        self.newest.remove(key);
        self.last.set(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pdu::{ResponseCode, VmtpHeader};
    use crate::server::{Idempotent, State};
    use engine::Address;

    fn record(path: Path) -> Record {
        let over = State::Over(ResponseCode::OK, Idempotent(false));
        Record::new(path, &VmtpHeader::default(), EntityId(1), over)
    }

    #[test]
    fn name_of_a_record_that_was_removed_names_no_other() {
        let path = Path::to(Address::Station(1));
        let mut records = Records::default();
        let first = records.insert(8, record(path));
        assert!(records.get(&first).is_some() && records.remove(&first).is_some());
        let second = records.insert(9, record(path));
        assert_eq!(first.slot, second.slot);
        assert!(records.get_mut(&first).is_none() && records.remove(&first).is_none());
        assert!(records.get(&second).is_some() && first < second);
        assert_eq!(records.len(), 1);
    }

    #[test]
    fn oldest_record_that_is_over_is_found_in_any_order() {
        let path = Path::to(Address::Station(1));
        let mut records = Records::default();
        let ids = [1, 2, 3].map(|number| records.insert(number, record(path)));
        let at = Instant::from_nanos;
        let mut over = OverRecords::default();
        assert_eq!(over.oldest(), None);
        for (since, id) in [(20, ids[0]), (10, ids[1]), (30, ids[2])] {
            over.insert(at(since), id);
        }
        over.remove(at(11), ids[1]);
        assert_eq!(over.oldest(), Some(ids[1]));
        over.remove(at(10), ids[1]);
        assert_eq!(over.oldest(), Some(ids[0]));
        over.remove(at(20), ids[0]);
        assert_eq!(over.oldest(), Some(ids[2]));
        over.insert(at(30), ids[0]);
        assert_eq!(over.oldest(), Some(ids[0]), "of two by their numbers");
        over.remove(at(30), ids[0]);
        over.remove(at(30), ids[2]);
        assert_eq!(over.oldest(), None);
    }

    #[test]
    fn newest_record_of_a_client_is_the_one_inserted_last() {
        let mut records = Records::default();
        let mut clients = ClientRecords::default();
        let key = |station| (EntityId(7), Path::to(Address::Station(station)));
        let [first, second, other] =
            [1, 2, 3].map(|number| records.insert(number, record(key(1).1)));
        clients.insert(key(1), first);
        clients.insert(key(2), other);
        assert_eq!(clients.get(&key(1)), Some(first));
        clients.insert(key(1), second);
        assert_eq!(clients.get(&key(1)), Some(second));
        clients.remove(&key(1));
        assert_eq!(
            (clients.get(&key(1)), clients.get(&key(2))),
            (None, Some(other))
        );
    }
}
