//! Contexts by key, by peer and by association, and the quarantine of closed keys.

use crate::context::Context;
use crate::endpoint_state::EndpointState;
use crate::numbers::{Key, SLOTS_MAX, SyncNumber};
use crate::opening::ContextState;
use crate::pdu::RTN;
use crate::peer_index::PeerIndex;
use crate::procedure::association_setup;
use crate::route_values::RouteId;
use crate::slot_index::SlotIndex;
use engine::{Address, AssociationId, Instant};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) enum Slot {
    Free,
    Active(Box<Context>),
    /// Kept in the slot itself: quarantine ends in the order of closing, so memory is read
    /// sequentially.
    Inactive(InactiveContext),
}

/// A closed association in quarantine, kept to answer duplicates with END (0007, Close).
#[derive(Clone, Debug)]
pub(crate) struct InactiveContext {
    pub(crate) key: Key,
    pub(crate) peer: Address,
    pub(crate) remote: Option<Key>,
    pub(crate) seq_base: u32,
    pub(crate) route: Option<RouteId>,
    /// End of the received stream.
    pub(crate) received_seq: u64,
    pub(crate) sent_seq: u64,
    /// The last sync used, and the highest received.
    pub(crate) sync: SyncNumber,
    pub(crate) highest_sync: Option<SyncNumber>,
    pub(crate) graceful: bool,
    pub(crate) validated: bool,
    initiator: bool,
}

#[derive(Debug)]
pub(crate) struct ContextTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_association: SlotIndex,
    /// Result of the last lookup by association, or the last one that was added: commands come in bursts.
    last_by_association: u32,
    /// Contexts of responders by the initiator's key and address.
    by_peer: PeerIndex,
    /// Result of the last lookup by peer: packets come in bursts.
    last_by_peer: u32,
    quarantine: VecDeque<(Instant, u32)>,
    active: usize,
    /// Memory of contexts that were retired, used again.
    spare: SpareContexts,
    next_association: u32,
    /// Keys have 31 bits (XTP 3.x).
    short_keys: bool,
}

impl ContextTable {
    /// An empty table. The secret keeps peers from forcing hash collisions.
    pub(crate) fn new(secret: u64, short_keys: bool) -> ContextTable {
        ContextTable {
            slots: Vec::new(),
            free: Vec::new(),
            by_association: SlotIndex::default(),
            last_by_association: 0,
            by_peer: PeerIndex::new(secret),
            last_by_peer: 0,
            quarantine: VecDeque::new(),
            active: 0,
            spare: SpareContexts::default(),
            next_association: 0,
            short_keys,
        }
    }

    /// Number of contexts in use.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Number of keys in quarantine.
    pub(crate) fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    pub(crate) fn contexts(&self) -> impl Iterator<Item = &Context> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Active(context) => Some(&**context),
            _ => None,
        })
    }

    /// All contexts in use, to be changed.
    pub(crate) fn contexts_mut(&mut self) -> impl Iterator<Item = &mut Context> {
        self.slots.iter_mut().filter_map(|slot| match slot {
            Slot::Active(context) => Some(&mut **context),
            _ => None,
        })
    }

    /// Adds a context; None when the table is full.
    pub(crate) fn add(
        &mut self,
        peer: Address,
        now: Instant,
        ep: &mut EndpointState,
    ) -> Option<usize> {
        if self.free.is_empty() && self.slots.len() >= SLOTS_MAX {
            self.release_oldest();
        }
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < SLOTS_MAX => {
                self.slots.push(Slot::Free);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        let id = self.next_id();
        let make = if self.short_keys {
            Key::short_of_slot
        } else {
            Key::of_slot
        };
        let key = make(slot, ep.keys.next_u64());
        let context = self.spare.place((id, slot, key), peer, now, ep);
        self.slots[slot as usize] = Slot::Active(context);
        self.by_association.insert(association_hash(id), slot);
        self.last_by_association = slot;
        self.active += 1;
        Some(slot as usize)
    }

    /// Prefetches the index entry and the slot that an opening of `peer` with the initiator's key will take: with many keys
    /// in quarantine they lie in no near cache.
    #[inline]
    pub(crate) fn prefetch_opening(&self, peer: Address, key: u64) {
        self.by_peer.prefetch(key, peer);
        let next = self.free.last();
        if let Some(slot) = next.and_then(|slot| self.slots.get(*slot as usize)) {
            engine::prefetch(slot);
        }
    }

    /// A number for an association: they go round, past those in use. 0 names none.
    fn next_id(&mut self) -> AssociationId {
        loop {
            self.next_association = self.next_association.wrapping_add(1);
            let id = AssociationId(self.next_association);
            if id.0 != 0 && self.find_association(id).is_none() {
                return id;
            }
        }
    }

    /// Whether `id` still has the context at `slot`, with an address that is not validated.
    pub(crate) fn is_unvalidated(&self, slot: usize, id: AssociationId) -> bool {
        let Some(Slot::Active(context)) = self.slots.get(slot) else {
            return false;
        };
        context.id == id && !context.is_validated()
    }

    /// Indexes the context at `slot` by the peer's address and key.
    pub(crate) fn index_peer(&mut self, peer: Address, key: Key, slot: usize) {
        self.by_peer.insert(key.field(), peer, slot as u32);
    }

    pub(crate) fn slot(&mut self, slot: usize) -> Option<&mut Slot> {
        self.slots.get_mut(slot)
    }

    pub(crate) fn context(&mut self, slot: usize) -> Option<&mut Context> {
        match self.slots.get_mut(slot) {
            Some(Slot::Active(context)) => Some(context),
            _ => None,
        }
    }

    /// The context of an association.
    pub(crate) fn get(&self, id: AssociationId) -> Option<&Context> {
        match self.slots.get(self.find_association(id)?)? {
            Slot::Active(context) => Some(context),
            _ => None,
        }
    }

    pub(crate) fn find_association(&self, id: AssociationId) -> Option<usize> {
        match self.slots.get(self.last_by_association as usize) {
            Some(Slot::Active(context)) if context.id == id => {
                Some(self.last_by_association as usize)
            }
            _ => {
                let slot = self.by_association.find(association_hash(id), |_| true)?;
                Some(slot as usize)
            }
        }
    }

    /// The context of an association, to be changed.
    #[inline]
    pub(crate) fn get_mut(&mut self, id: AssociationId) -> Option<&mut Context> {
        let slot = self.find_association(id)?;
        self.last_by_association = slot as u32;
        self.context(slot)
    }

    /// The slot for a received key: a returned key of ours (RTN), or the initiator's key
    /// (0007, Keys). A short key is a name together with the `sync` of the packet only, if it has one
    /// of its sender (0008, Names).
    #[inline]
    pub(crate) fn find_key(
        &mut self,
        from: Address,
        field: u64,
        sync: Option<SyncNumber>,
    ) -> Option<usize> {
        let sync = sync.filter(|_| self.short_keys);
        let key = Key::in_field(field);
        if field & RTN != 0 {
            let slot = key.slot();
            let known = match self.slots.get(slot) {
                Some(Slot::Active(context)) => Some((context.key, context.rx.highest_sync)),
                Some(Slot::Inactive(inactive)) => Some((inactive.key, inactive.highest_sync)),
                Some(Slot::Free) | None => None,
            };
            return match known {
                Some((known, highest_sync)) if known == key => {
                    may_be_next(highest_sync, sync).then_some(slot)
                }
                _ => self.find_cookie(from, key),
            };
        }
        let matches_peer = |slot: &u32| self.matches_peer(*slot, key, from, sync);
        let slot = match Some(self.last_by_peer).filter(matches_peer) {
            Some(slot) => slot,
            None => self.by_peer.find(field, from, |slot| matches_peer(&slot))?,
        };
        self.last_by_peer = slot;
        Some(slot as usize)
    }

    /// Whether `slot` is a responder's context for the initiator's `key` and address.
    fn matches_peer(&self, slot: u32, key: Key, from: Address, sync: Option<SyncNumber>) -> bool {
        let (initiator, name, highest_sync) = match self.slots.get(slot as usize) {
            Some(Slot::Active(context)) => (
                context.initiator,
                (context.remote_key, context.peer),
                context.rx.highest_sync,
            ),
            Some(Slot::Inactive(inactive)) => (
                inactive.initiator,
                (inactive.remote, inactive.peer),
                inactive.highest_sync,
            ),
            Some(Slot::Free) | None => return false,
        };
        !initiator && name == (Some(key), from) && may_be_next(highest_sync, sync)
    }

    /// The slot whose own key is a cookie: such a key names no slot (0021).
    fn find_cookie(&self, from: Address, key: Key) -> Option<usize> {
        let matches = |slot: u32| {
            let name = match self.slots.get(slot as usize) {
                Some(Slot::Active(context)) => (context.key, context.peer),
                Some(Slot::Inactive(inactive)) => (inactive.key, inactive.peer),
                Some(Slot::Free) | None => return false,
            };
            name == (key, from)
        };
        self.by_peer
            .find(key.returned(), from, matches)
            .map(|slot| slot as usize)
    }

    /// Makes `cookie` the own key of the context at `slot`.
    pub(crate) fn set_cookie(&mut self, slot: usize, cookie: Key) {
        let Some(context) = self.context(slot) else {
            return;
        };
        context.key = cookie;
        let peer = context.peer;
        if cookie.slot() != slot {
            self.by_peer.insert(cookie.returned(), peer, slot as u32);
        }
    }

    /// Retires a closed context. If it asks for quarantine, its key stays known for as long as the configuration says.
    pub(crate) fn retire(&mut self, slot: usize, now: Instant, ep: &EndpointState) {
        let (span, max) = (ep.config.quarantine, ep.config.quarantine_max);
        let Some(Slot::Active(context)) = self.slots.get(slot) else {
            return;
        };
        let wanted = context.state == ContextState::Closed { quarantine: true };
        let keep = wanted && max > 0 && !span.is_zero();
        let inactive = InactiveContext {
            key: context.key,
            peer: context.peer,
            remote: context.remote_key,
            seq_base: context.seq_base,
            route: context.route,
            received_seq: context.rx.next_seq,
            sent_seq: context.tx.queue.next_seq,
            sync: context.tx.sync,
            highest_sync: context.rx.highest_sync,
            graceful: context.rx.is_complete(),
            validated: context.is_validated(),
            initiator: context.initiator,
        };
        self.by_association
            .remove(association_hash(context.id), slot as u32);
        self.active -= 1;
        let mut left = Slot::Free;
        if keep {
            while self.quarantine.len() >= max {
                self.release_oldest();
            }
            left = Slot::Inactive(inactive);
            self.quarantine.push_back((now + span, slot as u32));
        } else {
            self.forget_names(&inactive, slot as u32);
        }
        if let Slot::Active(context) = std::mem::replace(&mut self.slots[slot], left) {
            self.spare.keep(context, ep);
        }
    }

    /// When the next key leaves quarantine.
    pub(crate) fn next_release(&self) -> Option<Instant> {
        self.quarantine.front().map(|&(at, _)| at)
    }

    /// Releases keys whose quarantine is over.
    pub(crate) fn release_expired(&mut self, now: Instant) {
        while self.next_release().is_some_and(|at| at <= now) {
            self.release_oldest();
        }
    }

    fn release_oldest(&mut self) {
        let Some((_, slot)) = self.quarantine.pop_front() else {
            return;
        };
        if let Slot::Inactive(inactive) =
            std::mem::replace(&mut self.slots[slot as usize], Slot::Free)
        {
            self.forget_names(&inactive, slot);
        }
    }

    /// Removes the names of a slot that is free from now on.
    fn forget_names(&mut self, inactive: &InactiveContext, slot: u32) {
        if let (false, Some(key)) = (inactive.initiator, inactive.remote) {
            self.by_peer.remove(key.field(), inactive.peer, slot);
        }
        if inactive.key.slot() != slot as usize {
            self.by_peer
                .remove(inactive.key.returned(), inactive.peer, slot);
        }
        self.free.push(slot);
    }
}

/// Memory of contexts that are used again: an association that opens and closes allocates none.
#[expect(clippy::vec_box, reason = "it is the boxes that are used again")]
#[derive(Default)]
struct SpareContexts(Vec<Box<Context>>);

/// Spare contexts kept: of transactions that end and begin by turns.
const SPARE_MAX: usize = 16;

impl SpareContexts {
    /// A context that is prepared, where another was if there is one.
    fn place(
        &mut self,
        (id, slot, key): (AssociationId, u32, Key),
        peer: Address,
        now: Instant,
        ep: &EndpointState,
    ) -> Box<Context> {
        let Some(mut place) = self.0.pop() else {
            let mut context = Box::new(Context::new(id, slot, key, peer, now));
            association_setup::prepare(&mut context, ep);
            return context;
        };
        (place.id, place.slot, place.key) = (id, slot, key);
        (place.peer, place.last_received_at) = (peer, now);
        place
    }

    /// Keeps the memory of `context`, unless there is enough: as a new one, prepared, but for its names. Who opens an
    /// association waits for it, and mostly nobody for its end.
    fn keep(&mut self, mut context: Box<Context>, ep: &EndpointState) {
        if self.0.len() < SPARE_MAX {
            let (id, slot, key, peer) = (context.id, context.slot, context.key, context.peer);
            let mut requests = std::mem::take(&mut context.tx.outstanding_requests);
            requests.clear();
            *context = Context::new(id, slot, key, peer, context.last_received_at);
            context.tx.outstanding_requests = requests;
            association_setup::prepare(&mut context, ep);
            self.0.push(context);
        }
    }
}

/// What is spare says nothing of the table.
impl std::fmt::Debug for SpareContexts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SpareContexts")
    }
}

/// Whether a packet with `sync` may come from the peer whose highest sync is known. True if one of
/// them is not known.
fn may_be_next(highest_sync: Option<SyncNumber>, sync: Option<SyncNumber>) -> bool {
    highest_sync
        .zip(sync)
        .is_none_or(|(highest, sync)| highest.is_near(sync))
}

/// Spreads the counting association ids over 32 bits without collisions.
fn association_hash(id: AssociationId) -> u32 {
    // The golden ratio of 2^32, which is odd (Knuth, The Art of Computer Programming, 6.4).
    id.0.wrapping_mul(0x9e37_79b9)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Xtp};

    #[test]
    fn association_numbers_wrap_and_skip_those_in_use() {
        let mut table = ContextTable::new(1, false);
        let mut ep = Xtp::new(Config::default()).state;
        let (now, peer) = (Instant::from_nanos(0), Address::Station(1));
        let mut add = |table: &mut ContextTable| {
            let slot = table.add(peer, now, &mut ep).expect("room");
            table.context(slot).expect("it was added").id
        };
        let first = add(&mut table);
        table.next_association = u32::MAX - 10;
        let ids: Vec<u32> = (0..20).map(|_| add(&mut table).0).collect();
        assert_eq!(first, AssociationId(1), "it is still in use");
        let expected = (u32::MAX - 9..=u32::MAX).chain(2..=11);
        assert_eq!(ids, expected.collect::<Vec<u32>>());
        assert!(
            ids.iter()
                .all(|id| table.find_association(AssociationId(*id)).is_some())
        );
    }
}
