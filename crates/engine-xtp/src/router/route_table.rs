//! The route table: each entry is a route to a neighbour, linked to the opposite one of its path.

use crate::config::RateLimit;
use crate::management;
use crate::pdu::v3::RTN_V3;
use crate::unvalidated::UnvalidatedQueue;
use core::time::Duration;
use engine::{Address, AssociationId, Instant, TimerTable};
use std::collections::BTreeMap;

#[derive(Debug)]
struct PathEntry {
    neighbour: Address,
    /// The neighbour's value for this route.
    remote_route: Option<u32>,
    /// The opposite route of the path, until it is released.
    opposite: Option<u32>,
    /// When it is removed, or its release is sent again. Its timer may fire early: forwarding a packet
    /// does not move it (lazy re-arm).
    expires_at: Instant,
    /// Releases sent.
    release_tries: u32,
    /// The limit that a router beyond the opposite route imposes on senders by this one.
    imposed_rate: Option<RateLimit>,
    /// When RCNTL was last sent.
    rate_sent_at: Option<Instant>,
    /// The neighbour installed the path and has not returned this side's value yet: the number of
    /// the installation.
    unconfirmed: Option<AssociationId>,
}

/// Routes by the router's values, from 1, and by those of the neighbours.
#[derive(Debug, Default)]
pub(super) struct RouteTable {
    entries: Vec<Option<PathEntry>>,
    free: Vec<u32>,
    by_remote: BTreeMap<(Address, u32), u32>,
    timers: TimerTable<u32>,
    /// Paths whose opener may be forged, the oldest first.
    unconfirmed: UnvalidatedQueue,
    installed: u32,
}

/// Releases sent before an unanswered route is removed.
const RELEASE_TRIES_MAX: u32 = 8;

impl RouteTable {
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(super) fn all(&self) -> Vec<u32> {
        let used =
            |(index, entry): (usize, &Option<PathEntry>)| entry.as_ref().map(|_| index as u32 + 1);
        self.entries.iter().enumerate().filter_map(used).collect()
    }

    /// Each route as a record of a manager's answer.
    pub(super) fn records(&self) -> impl Iterator<Item = String> {
        let used = self.entries.iter().enumerate();
        used.filter_map(|(index, entry)| Some((index + 1, entry.as_ref()?)))
            .map(|(route, entry)| {
                let rate = entry.imposed_rate.map(|limit| limit.rate_bytes_per_s);
                management::record(&[
                    ("route", Some(route.to_string())),
                    ("neighbour", Some(management::address_text(entry.neighbour))),
                    (
                        "opposite",
                        entry.opposite.map(|opposite| opposite.to_string()),
                    ),
                    ("confirmed", Some(entry.unconfirmed.is_none().to_string())),
                    ("rate_bytes_per_s", rate.map(|rate| rate.to_string())),
                ])
            })
    }

    fn get_mut(&mut self, local_route: u32) -> Option<&mut PathEntry> {
        let index = (local_route as usize).checked_sub(1)?;
        self.entries.get_mut(index)?.as_mut()
    }

    fn get(&self, local_route: u32) -> Option<&PathEntry> {
        let index = (local_route as usize).checked_sub(1)?;
        self.entries.get(index)?.as_ref()
    }

    /// The route of a packet from `neighbour` with `value` in its header.
    pub(super) fn find(&self, neighbour: Address, value: u32) -> Option<u32> {
        if value & RTN_V3 == 0 {
            return self.by_remote.get(&(neighbour, value)).copied();
        }
        let own = value & !RTN_V3;
        self.get(own)
            .filter(|entry| entry.neighbour == neighbour)
            .map(|_| own)
    }

    /// Installs a path from `from`, whose value is `value`, to `to`; returns the route to `from`.
    pub(super) fn install(&mut self, from: Address, value: u32, to: Address, due: Instant) -> u32 {
        let [first, second] = [(from, Some(value)), (to, None)].map(|(neighbour, remote)| {
            let entry = PathEntry {
                neighbour,
                remote_route: remote,
                opposite: None,
                expires_at: due,
                release_tries: 0,
                imposed_rate: None,
                rate_sent_at: None,
                unconfirmed: None,
            };
            let index = self.free.pop().unwrap_or(self.entries.len() as u32);
            if index as usize == self.entries.len() {
                self.entries.push(None);
            }
            self.entries[index as usize] = Some(entry);
            self.timers.set(index + 1, due);
            index + 1
        });
        self.by_remote.insert((from, value), first);
        self.installed = self.installed.wrapping_add(1);
        let number = AssociationId(self.installed);
        if let Some(entry) = self.get_mut(first) {
            entry.unconfirmed = Some(number);
        }
        let entries = &self.entries;
        let is_live = |route: usize, number| is_unconfirmed(entries, route, number);
        self.unconfirmed.push(first as usize, number, from, is_live);
        for (local_route, opposite) in [(first, second), (second, first)] {
            if let Some(entry) = self.get_mut(local_route) {
                entry.opposite = Some(opposite);
            }
        }
        first
    }

    /// The neighbour of `local_route` returned this side's value: it hears what is sent to it.
    pub(super) fn confirm(&mut self, local_route: u32) {
        let entry = self.get_mut(local_route);
        if entry.is_some_and(|entry| entry.unconfirmed.take().is_some()) {
            self.unconfirmed.forget_one();
        }
    }

    /// Removes the path that gives way to one from `from`, in a table for `room` paths (0021): of the
    /// unconfirmed ones that of the same source if that has its share, else the oldest.
    pub(super) fn give_way(&mut self, from: Address, room: usize) -> bool {
        let entries = &self.entries;
        let is_live = |route: usize, number| is_unconfirmed(entries, route, number);
        let Some(route) = self.unconfirmed.pop_for(from, room, is_live) else {
            return false;
        };
        let opposite = self.get(route as u32).and_then(|entry| entry.opposite);
        self.remove(route as u32);
        if let Some(opposite) = opposite {
            self.remove(opposite);
        }
        true
    }

    /// Sets the neighbour's value of a route.
    pub(super) fn assign(&mut self, local_route: u32, value: u32) {
        let Some(entry) = self.get_mut(local_route) else {
            return;
        };
        let (neighbour, before) = (entry.neighbour, entry.remote_route.replace(value));
        if let Some(before) = before
            && self.by_remote.get(&(neighbour, before)) == Some(&local_route)
        {
            self.by_remote.remove(&(neighbour, before));
        }
        self.by_remote.insert((neighbour, value), local_route);
    }

    /// The route value in packets to the neighbour: its own with RTN, or else the router's.
    pub(super) fn outgoing_route(&self, local_route: u32) -> u32 {
        let remote = self.get(local_route).and_then(|entry| entry.remote_route);
        remote.map_or(local_route, |value| value | RTN_V3)
    }

    /// The next hop and route value of a packet that arrived by `local_route`; keeps the path until
    /// `due`.
    pub(super) fn next_hop(&mut self, local_route: u32, due: Instant) -> Option<(Address, u32)> {
        let entry = self.get_mut(local_route)?;
        entry.expires_at = due;
        let opposite = entry.opposite?;
        let entry = self.get_mut(opposite)?;
        entry.expires_at = due;
        let neighbour = entry.neighbour;
        Some((neighbour, self.outgoing_route(opposite)))
    }

    /// The limit imposed on senders by `local_route`.
    pub(super) fn imposed_rate(&self, local_route: u32) -> Option<RateLimit> {
        self.get(local_route)?.imposed_rate
    }

    /// The neighbour of `local_route` imposes a limit: sets it for the opposite route, which is
    /// returned.
    pub(super) fn set_imposed_rate(
        &mut self,
        local_route: u32,
        limit: Option<RateLimit>,
    ) -> Option<u32> {
        let opposite = self.get(local_route)?.opposite?;
        self.get_mut(opposite)?.imposed_rate = limit;
        Some(opposite)
    }

    /// The neighbour and route value for an RCNTL; None if one was sent less than `every` ago.
    pub(super) fn mark_rate_sent(
        &mut self,
        local_route: u32,
        now: Instant,
        every: Duration,
        at_once: bool,
    ) -> Option<(Address, u32)> {
        let entry = self.get_mut(local_route)?;
        let due = at_once || entry.rate_sent_at.is_none_or(|at| now >= at + every);
        if !due {
            return None;
        }
        entry.rate_sent_at = Some(now);
        let neighbour = entry.neighbour;
        Some((neighbour, self.outgoing_route(local_route)))
    }

    /// The neighbour released `local_route`: removes it and returns the opposite route, now due for
    /// release.
    pub(super) fn release(&mut self, local_route: u32, now: Instant) -> Option<u32> {
        let opposite = self.get(local_route)?.opposite;
        self.remove(local_route);
        let opposite = opposite?;
        let entry = self.get_mut(opposite)?;
        entry.opposite = None;
        entry.expires_at = now;
        self.timers.set(opposite, now);
        Some(opposite)
    }

    /// Removes a route. The opposite one no longer forwards packets.
    pub(super) fn remove(&mut self, local_route: u32) {
        let index = (local_route as usize).wrapping_sub(1);
        let Some(entry) = self.entries.get_mut(index).and_then(Option::take) else {
            return;
        };
        self.timers.cancel(local_route);
        if entry.unconfirmed.is_some() {
            self.unconfirmed.forget_one();
        }
        if let Some(value) = entry.remote_route
            && self.by_remote.get(&(entry.neighbour, value)) == Some(&local_route)
        {
            self.by_remote.remove(&(entry.neighbour, value));
        }
        self.free.push(index as u32);
        if let Some(opposite) = entry.opposite.and_then(|route| self.get_mut(route)) {
            opposite.opposite = None;
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// Handles the next due route: removes its path, or returns the release to send (route,
    /// neighbour, route value of the packet). None if no route is due.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        wait: Duration,
    ) -> Option<Option<(u32, Address, u32)>> {
        let local_route = self.timers.pop_due(now)?;
        let entry = self.get_mut(local_route)?;
        if entry.expires_at > now {
            let at = entry.expires_at;
            self.timers.set(local_route, at);
            return Some(None);
        }
        // A route with an opposite one is idle; one without is being released.
        let releasing = entry.opposite.is_none() && entry.remote_route.is_some();
        if !releasing || entry.release_tries >= RELEASE_TRIES_MAX {
            let opposite = entry.opposite;
            self.remove(local_route);
            if let Some(opposite) = opposite {
                self.remove(opposite);
            }
            return Some(None);
        }
        entry.release_tries += 1;
        entry.expires_at = now + wait * (1 << entry.release_tries);
        let (at, neighbour) = (entry.expires_at, entry.neighbour);
        self.timers.set(local_route, at);
        Some(Some((
            local_route,
            neighbour,
            self.outgoing_route(local_route),
        )))
    }
}

/// Whether installation `number` still has `route`, and its opener has not shown that it hears.
fn is_unconfirmed(entries: &[Option<PathEntry>], route: usize, number: AssociationId) -> bool {
    let entry = route.checked_sub(1).and_then(|index| entries.get(index));
    entry.is_some_and(|entry| {
        entry
            .as_ref()
            .is_some_and(|entry| entry.unconfirmed == Some(number))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forged_paths_give_way_and_confirmed_ones_stay() {
        let (mut table, due) = (RouteTable::default(), Instant::from_nanos(9));
        let room = 64;
        let add = |table: &mut RouteTable, station: u32| {
            let from = Address::Station(station);
            if table.len() / 2 >= room && !table.give_way(from, room) {
                return None;
            }
            Some(table.install(from, 1, Address::Station(1), due))
        };
        let honest = add(&mut table, 2).expect("room");
        table.confirm(honest);
        for station in 100..10_000 {
            assert!(add(&mut table, station).is_some(), "the oldest gives way");
            assert!(table.len() <= 2 * room);
        }
        assert_eq!(table.find(Address::Station(2), 1), Some(honest));
        assert_eq!(table.find(Address::Station(100), 1), None);
        let late = add(&mut table, 3).expect("an unconfirmed one gives way");
        table.confirm(late);
        assert_eq!(table.unconfirmed.len(), room - 2);
        for route in table.all() {
            table.confirm(route);
        }
        assert_eq!(add(&mut table, 4), None, "all are in use");
        for route in table.all() {
            table.remove(route);
        }
        assert_eq!((table.len(), table.unconfirmed.len()), (0, 0));
    }
}
