//! Contexts by key, by peer and by circuit, and the keys in quarantine.

use crate::index::Index;
use crate::pdu::RTN;
use crate::peers::Peers;
use crate::state::{Context, Phase};
use crate::types::{SLOTS_MAX, key_of, short_key_of, slot_of};
use core::time::Duration;
use engine::{Address, AssociationId, Instant, SplitMix64};
use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) enum Slot {
    Free,
    Active(Box<Context>),
    /// In place, as slots go through quarantine in their order: memory is read as it lies.
    Inactive(Inactive),
}

/// What is left of a closed association, to answer duplicates.
#[derive(Clone, Debug)]
pub(crate) struct Inactive {
    pub(crate) key: u64,
    pub(crate) peer: Address,
    pub(crate) remote: Option<u64>,
    pub(crate) base: u32,
    pub(crate) route: u32,
    /// Everything was received, up to here.
    pub(crate) received: u64,
    pub(crate) sent: u64,
    pub(crate) graceful: bool,
    pub(crate) proven: bool,
    initiator: bool,
}

#[derive(Debug)]
pub(crate) struct Table {
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_circuit: Index,
    /// The slot last asked for by circuit: commands come in trains too.
    recent: u32,
    /// Contexts of responders by the initiator's key and address.
    by_peer: Peers,
    /// The last answer of `by_peer`: packets come in trains.
    last: Option<((u64, Address), u32)>,
    quarantine: VecDeque<(Instant, u32)>,
    active: usize,
    next_circuit: u32,
    /// Keys have 31 bits.
    short: bool,
}

impl Table {
    /// An empty table; the secret keeps peers from choosing where they lie in it.
    pub(crate) fn new(secret: u64, short: bool) -> Table {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            by_circuit: Index::default(),
            recent: 0,
            by_peer: Peers::new(secret),
            last: None,
            quarantine: VecDeque::new(),
            active: 0,
            next_circuit: 0,
            short,
        }
    }

    /// Contexts in use.
    pub(crate) fn active(&self) -> usize {
        self.active
    }

    /// Keys in quarantine.
    pub(crate) fn quarantined(&self) -> usize {
        self.quarantine.len()
    }

    pub(crate) fn contexts(&self) -> impl Iterator<Item = &Context> {
        self.slots.iter().filter_map(|slot| match slot {
            Slot::Active(context) => Some(&**context),
            _ => None,
        })
    }

    /// Makes a context; None when there is no room.
    pub(crate) fn add(
        &mut self,
        peer: Address,
        now: Instant,
        random: &mut SplitMix64,
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
        self.next_circuit = self.next_circuit.checked_add(1)?;
        let id = AssociationId(self.next_circuit);
        let make = if self.short { short_key_of } else { key_of };
        let key = make(slot, random.next_u64());
        let context = Context::new(id, slot, key, peer, now);
        self.slots[slot as usize] = Slot::Active(Box::new(context));
        self.by_circuit.insert(scattered(id), slot);
        self.active += 1;
        Some(slot as usize)
    }

    /// Lets packets of `peer` with its own key find the context at `slot`.
    pub(crate) fn name(&mut self, peer: Address, key: u64, slot: usize) {
        self.by_peer.insert(key, peer, slot as u32);
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

    /// The context of a circuit, to look at.
    pub(crate) fn peek(&self, id: AssociationId) -> Option<&Context> {
        match self.slots.get(self.circuit(id)?)? {
            Slot::Active(context) => Some(context),
            _ => None,
        }
    }

    pub(crate) fn circuit(&self, id: AssociationId) -> Option<usize> {
        match self.slots.get(self.recent as usize) {
            Some(Slot::Active(context)) if context.id == id => Some(self.recent as usize),
            _ => {
                let slot = self.by_circuit.find(scattered(id), |_| true)?;
                Some(slot as usize)
            }
        }
    }

    /// The context of a circuit, to work on.
    #[inline]
    pub(crate) fn by_circuit(&mut self, id: AssociationId) -> Option<&mut Context> {
        let slot = self.circuit(id)?;
        self.recent = slot as u32;
        self.context(slot)
    }

    /// The slot of a packet's key: a key of ours that comes back, or one of the peer's.
    #[inline]
    pub(crate) fn find(&mut self, from: Address, key: u64) -> Option<usize> {
        if key & RTN != 0 {
            let key = key & !RTN;
            let slot = slot_of(key);
            let known = match self.slots.get(slot)? {
                Slot::Free => return None,
                Slot::Active(context) => context.key,
                Slot::Inactive(inactive) => inactive.key,
            };
            return (known == key).then_some(slot);
        }
        match self.last {
            Some((last, slot)) if last == (key, from) => Some(slot as usize),
            _ => {
                let is_named = |slot| self.is_named(slot, key, from);
                let slot = self.by_peer.find(key, from, is_named)?;
                self.last = Some(((key, from), slot));
                Some(slot as usize)
            }
        }
    }

    /// Whether `slot` is what a responder has for the initiator's `key` and address.
    fn is_named(&self, slot: u32, key: u64, from: Address) -> bool {
        let name = match self.slots.get(slot as usize) {
            Some(Slot::Active(context)) => (context.remote, context.peer),
            Some(Slot::Inactive(inactive)) => (inactive.remote, inactive.peer),
            Some(Slot::Free) | None => return false,
        };
        name == (Some(key), from)
    }

    /// Takes an ended context out of use; its key stays known for `span` if it asks for that.
    pub(crate) fn retire(&mut self, slot: usize, now: Instant, span: Duration, max: usize) {
        let Some(Slot::Active(context)) = self.slots.get(slot) else {
            return;
        };
        let wanted = context.phase == Phase::Ended { quarantine: true };
        let keep = wanted && max > 0 && !span.is_zero();
        let inactive = Inactive {
            key: context.key,
            peer: context.peer,
            remote: context.remote,
            base: context.base,
            route: context.route,
            received: context.rx.next,
            sent: context.tx.next,
            graceful: context.rx.is_complete(),
            proven: context.budget.is_none(),
            initiator: context.initiator,
        };
        self.by_circuit.remove(scattered(context.id), slot as u32);
        self.active -= 1;
        if keep {
            while self.quarantine.len() >= max {
                self.release_oldest();
            }
            self.slots[slot] = Slot::Inactive(inactive);
            self.quarantine.push_back((now + span, slot as u32));
        } else {
            self.forget(&inactive, slot as u32);
        }
    }

    /// When the next key leaves quarantine.
    pub(crate) fn quarantine_end(&self) -> Option<Instant> {
        self.quarantine.front().map(|&(at, _)| at)
    }

    /// Lets go of keys whose quarantine is over.
    pub(crate) fn release_due(&mut self, now: Instant) {
        while self.quarantine_end().is_some_and(|at| at <= now) {
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
            self.forget(&inactive, slot);
        }
    }

    fn forget(&mut self, inactive: &Inactive, slot: u32) {
        if let (false, Some(key)) = (inactive.initiator, inactive.remote) {
            self.by_peer.remove(key, inactive.peer, slot);
            self.last = None;
        }
        self.slots[slot as usize] = Slot::Free;
        self.free.push(slot);
    }
}

/// Circuit numbers, which count up, spread over 32 bits: no two to one.
fn scattered(id: AssociationId) -> u32 {
    // The golden ratio of 2^32, which is odd (Knuth, The Art of Computer Programming, 6.4).
    id.0.wrapping_mul(0x9e37_79b9)
}
