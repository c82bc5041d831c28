//! The legs of trails: each is the route to one neighbour, and knows the other leg of its trail.

use crate::api::RateLimit;
use crate::pdu::three::RTN3;
use core::time::Duration;
use engine::{Address, Instant};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Leg {
    neighbour: Address,
    /// The neighbour's value.
    remote: Option<u32>,
    /// The other leg, until that was released.
    other: Option<u32>,
    /// When it is forgotten, or asked about again when it is being released.
    due: Instant,
    /// When that is looked after; too early if something passed meanwhile.
    look: Instant,
    /// Releases that were asked for.
    tries: u32,
    /// What a system beyond the other leg imposes on those who send by this one.
    beyond: Option<RateLimit>,
    /// When the rate was last told.
    told: Option<Instant>,
}

/// Legs by their own values, from 1, and by those of neighbours.
#[derive(Debug, Default)]
pub(super) struct Legs {
    entries: Vec<Option<Leg>>,
    free: Vec<u32>,
    known: BTreeMap<(Address, u32), u32>,
    due: BTreeSet<(Instant, u32)>,
}

/// Releases asked for before a leg is forgotten all the same.
const TRIES_MAX: u32 = 8;

impl Legs {
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn all(&self) -> Vec<u32> {
        let used = |(index, leg): (usize, &Option<Leg>)| leg.as_ref().map(|_| index as u32 + 1);
        self.entries.iter().enumerate().filter_map(used).collect()
    }

    fn get_mut(&mut self, leg: u32) -> Option<&mut Leg> {
        let index = (leg as usize).checked_sub(1)?;
        self.entries.get_mut(index)?.as_mut()
    }

    fn get(&self, leg: u32) -> Option<&Leg> {
        let index = (leg as usize).checked_sub(1)?;
        self.entries.get(index)?.as_ref()
    }

    /// The leg of a packet from `neighbour` with `value` in its header.
    pub(super) fn find(&self, neighbour: Address, value: u32) -> Option<u32> {
        if value & RTN3 == 0 {
            return self.known.get(&(neighbour, value)).copied();
        }
        let own = value & !RTN3;
        self.get(own)
            .filter(|leg| leg.neighbour == neighbour)
            .map(|_| own)
    }

    /// A trail from `from`, which calls it `value`, to `to`: its first leg.
    pub(super) fn lay(&mut self, from: Address, value: u32, to: Address, due: Instant) -> u32 {
        let [first, second] = [(from, Some(value)), (to, None)].map(|(neighbour, remote)| {
            let leg = Leg {
                neighbour,
                remote,
                other: None,
                due,
                look: due,
                tries: 0,
                beyond: None,
                told: None,
            };
            let index = self.free.pop().unwrap_or(self.entries.len() as u32);
            if index as usize == self.entries.len() {
                self.entries.push(None);
            }
            self.entries[index as usize] = Some(leg);
            self.due.insert((due, index + 1));
            index + 1
        });
        self.known.insert((from, value), first);
        for (leg, other) in [(first, second), (second, first)] {
            if let Some(leg) = self.get_mut(leg) {
                leg.other = Some(other);
            }
        }
        first
    }

    /// The neighbour calls the leg by `value`.
    pub(super) fn assign(&mut self, leg: u32, value: u32) {
        let Some(entry) = self.get_mut(leg) else {
            return;
        };
        let (neighbour, before) = (entry.neighbour, entry.remote.replace(value));
        if let Some(before) = before
            && self.known.get(&(neighbour, before)) == Some(&leg)
        {
            self.known.remove(&(neighbour, before));
        }
        self.known.insert((neighbour, value), leg);
    }

    /// What stands in the header of packets to the leg's neighbour.
    pub(super) fn outgoing(&self, leg: u32) -> u32 {
        let remote = self.get(leg).and_then(|entry| entry.remote);
        remote.map_or(leg, |value| value | RTN3)
    }

    /// Something came by `leg`, and the trail is kept until `due` at least: where it goes, and with
    /// which route.
    pub(super) fn pass(&mut self, leg: u32, due: Instant) -> Option<(Address, u32)> {
        let entry = self.get_mut(leg)?;
        entry.due = due;
        let other = entry.other?;
        let entry = self.get_mut(other)?;
        entry.due = due;
        let neighbour = entry.neighbour;
        Some((neighbour, self.outgoing(other)))
    }

    /// What is imposed on those who send by `leg`.
    pub(super) fn beyond(&self, leg: u32) -> Option<RateLimit> {
        self.get(leg)?.beyond
    }

    /// The neighbour of `leg` imposes a limit: the leg whose neighbour must know.
    pub(super) fn limit_beyond(&mut self, leg: u32, limit: Option<RateLimit>) -> Option<u32> {
        let other = self.get(leg)?.other?;
        self.get_mut(other)?.beyond = limit;
        Some(other)
    }

    /// Whom to tell the rate, and by which route; None when it was told less than `every` ago.
    pub(super) fn tell(
        &mut self,
        leg: u32,
        now: Instant,
        every: Duration,
        at_once: bool,
    ) -> Option<(Address, u32)> {
        let entry = self.get_mut(leg)?;
        let due = at_once || entry.told.is_none_or(|at| now >= at + every);
        if !due {
            return None;
        }
        entry.told = Some(now);
        let neighbour = entry.neighbour;
        Some((neighbour, self.outgoing(leg)))
    }

    /// The neighbour released `leg`: the other one, which is now to be released too.
    pub(super) fn release(&mut self, leg: u32, now: Instant) -> Option<u32> {
        let other = self.get(leg)?.other;
        self.forget(leg);
        let other = other?;
        let entry = self.get_mut(other)?;
        entry.other = None;
        entry.due = now;
        let before = std::mem::replace(&mut entry.look, now);
        self.due.remove(&(before, other));
        self.due.insert((now, other));
        Some(other)
    }

    /// Forgets a leg. Its other one has nowhere to pass anything to any longer.
    pub(super) fn forget(&mut self, leg: u32) {
        let index = (leg as usize).wrapping_sub(1);
        let Some(entry) = self.entries.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.due.remove(&(entry.look, leg));
        if let Some(value) = entry.remote
            && self.known.get(&(entry.neighbour, value)) == Some(&leg)
        {
            self.known.remove(&(entry.neighbour, value));
        }
        self.free.push(index as u32);
        if let Some(other) = entry.other.and_then(|other| self.get_mut(other)) {
            other.other = None;
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Looks after the next leg that is due: forgets it with its trail, or has its neighbour asked to
    /// release it: the leg, the neighbour, and the route of the packet. None when none is due.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        wait: Duration,
    ) -> Option<Option<(u32, Address, u32)>> {
        let &(at, leg) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, leg));
        let entry = self.get_mut(leg)?;
        if entry.due > now {
            entry.look = entry.due;
            let look = entry.due;
            self.due.insert((look, leg));
            return Some(None);
        }
        // A leg with another one is idle; one without is being released.
        let asks = entry.other.is_none() && entry.remote.is_some() && entry.tries < TRIES_MAX;
        if !asks {
            let other = entry.other;
            self.forget(leg);
            if let Some(other) = other {
                self.forget(other);
            }
            return Some(None);
        }
        entry.tries += 1;
        entry.due = now + wait * (1 << entry.tries);
        entry.look = entry.due;
        let (look, neighbour) = (entry.look, entry.neighbour);
        self.due.insert((look, leg));
        Some(Some((leg, neighbour, self.outgoing(leg))))
    }
}
