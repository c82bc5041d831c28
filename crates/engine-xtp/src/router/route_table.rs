//! The route table: each entry is a route to a neighbour, linked to the opposite one of its path.

use crate::config::RateLimit;
use crate::management;
use crate::route_values::{Route, RouteId, RouteValues};
use crate::unvalidated::UnvalidatedQueue;
use core::time::Duration;
use engine::{Address, AssociationId, Instant};

/// Half of a path: what the router keeps of a route to a neighbour.
#[derive(Debug)]
struct PathHalf {
    /// The opposite route of the path, until it is released.
    opposite: Option<RouteId>,
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

/// The routes of a router, two for each path.
#[derive(Debug, Default)]
pub(super) struct RouteTable {
    values: RouteValues<PathHalf>,
    /// Paths whose opener may be forged, the oldest first.
    unconfirmed: UnvalidatedQueue,
    installed: u32,
}

/// Releases sent before an unanswered route is removed.
const RELEASE_TRIES_MAX: u32 = 8;

/// A release to be sent.
pub(super) struct RouteRelease {
    pub(super) route: RouteId,
    pub(super) neighbour: Address,
    /// Route field of the packet.
    pub(super) field: u32,
}

impl RouteTable {
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn all(&self) -> Vec<RouteId> {
        self.values.iter().map(|(route, _)| route).collect()
    }

    /// Each route as a record of a manager's answer.
    pub(super) fn records(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|(route, entry)| {
            let half = &entry.state;
            let opposite = half.opposite.map(|opposite| opposite.value().to_string());
            let rate = half.imposed_rate.map(|limit| limit.rate_bytes_per_s);
            management::record(&[
                ("route", Some(route.value().to_string())),
                ("neighbour", Some(management::address_text(entry.neighbour))),
                ("opposite", opposite),
                ("confirmed", Some(half.unconfirmed.is_none().to_string())),
                ("rate_bytes_per_s", rate.map(|rate| rate.to_string())),
            ])
        })
    }

    fn half(&self, route: RouteId) -> Option<&PathHalf> {
        self.values.get(route).map(|entry| &entry.state)
    }

    fn half_mut(&mut self, route: RouteId) -> Option<&mut PathHalf> {
        self.values.get_mut(route).map(|entry| &mut entry.state)
    }

    /// The route of a packet from `neighbour` with `field` in its header.
    pub(super) fn find(&self, neighbour: Address, field: u32) -> Option<RouteId> {
        self.values.find(neighbour, field)
    }

    /// Installs a path from `from`, whose value is `value`, to `to`; returns the route to `from`.
    pub(super) fn install(
        &mut self,
        from: Address,
        value: u32,
        to: Address,
        due: Instant,
    ) -> RouteId {
        self.installed = self.installed.wrapping_add(1);
        let number = AssociationId(self.installed);
        let [first, second] = [(from, Some(number)), (to, None)].map(|(neighbour, unconfirmed)| {
            let half = PathHalf {
                opposite: None,
                expires_at: due,
                release_tries: 0,
                imposed_rate: None,
                rate_sent_at: None,
                unconfirmed,
            };
            let route = self.values.add(neighbour, half);
            self.values.arm(route, due);
            route
        });
        self.values.set_remote(first, value);
        for (route, opposite) in [(first, second), (second, first)] {
            if let Some(half) = self.half_mut(route) {
                half.opposite = Some(opposite);
            }
        }
        let values = &self.values;
        let is_live = |route: usize, number| is_unconfirmed(values, route, number);
        self.unconfirmed
            .push(first.value() as usize, number, from, is_live);
        first
    }

    /// The neighbour of `route` returned this side's value: it hears what is sent to it.
    pub(super) fn confirm(&mut self, route: RouteId) {
        let half = self.half_mut(route);
        if half.is_some_and(|half| half.unconfirmed.take().is_some()) {
            self.unconfirmed.forget_one();
        }
    }

    /// Removes the path that gives way to one from `from`, in a table for `room` paths (0021): of the
    /// unconfirmed ones that of the same source if that has its share, else the oldest.
    pub(super) fn give_way(&mut self, from: Address, room: usize) -> bool {
        let values = &self.values;
        let is_live = |route: usize, number| is_unconfirmed(values, route, number);
        let popped = self.unconfirmed.pop_for(from, room, is_live);
        let Some(route) = popped.and_then(|route| RouteId::new(route as u32)) else {
            return false;
        };
        self.remove_path(route);
        true
    }

    /// Removes a route and the opposite one.
    fn remove_path(&mut self, route: RouteId) {
        let opposite = self.half(route).and_then(|half| half.opposite);
        self.remove(route);
        if let Some(opposite) = opposite {
            self.remove(opposite);
        }
    }

    /// Sets the neighbour's value of a route.
    pub(super) fn assign(&mut self, route: RouteId, value: u32) {
        self.values.set_remote(route, value);
    }

    /// The route field in packets to the neighbour: its own value with RTN, or else the router's.
    pub(super) fn header_field(&self, route: RouteId) -> u32 {
        self.values.header_field(route)
    }

    /// The next hop and route field of a packet that arrived by `route`; keeps the path until `due`.
    pub(super) fn next_hop(&mut self, route: RouteId, due: Instant) -> Option<(Address, u32)> {
        let half = self.half_mut(route)?;
        half.expires_at = due;
        let opposite = half.opposite?;
        let entry = self.values.get_mut(opposite)?;
        entry.state.expires_at = due;
        let neighbour = entry.neighbour;
        Some((neighbour, self.header_field(opposite)))
    }

    /// The limit imposed on senders by `route`.
    pub(super) fn imposed_rate(&self, route: RouteId) -> Option<RateLimit> {
        self.half(route)?.imposed_rate
    }

    /// The neighbour of `route` imposes a limit: sets it for the opposite route, which is returned.
    pub(super) fn set_imposed_rate(
        &mut self,
        route: RouteId,
        limit: Option<RateLimit>,
    ) -> Option<RouteId> {
        let opposite = self.half(route)?.opposite?;
        self.half_mut(opposite)?.imposed_rate = limit;
        Some(opposite)
    }

    /// The neighbour and route field for an RCNTL; None if one was sent less than `every` ago.
    pub(super) fn mark_rate_sent(
        &mut self,
        route: RouteId,
        now: Instant,
        every: Duration,
    ) -> Option<(Address, u32)> {
        let entry = self.values.get_mut(route)?;
        let sent_at = entry.state.rate_sent_at;
        if sent_at.is_some_and(|at| now < at + every) {
            return None;
        }
        entry.state.rate_sent_at = Some(now);
        let neighbour = entry.neighbour;
        Some((neighbour, self.header_field(route)))
    }

    /// The neighbour released `route`: removes it and returns the opposite route, now due for
    /// release.
    pub(super) fn release(&mut self, route: RouteId, now: Instant) -> Option<RouteId> {
        let opposite = self.half(route)?.opposite;
        self.remove(route);
        let opposite = opposite?;
        let half = self.half_mut(opposite)?;
        half.opposite = None;
        half.expires_at = now;
        self.values.arm(opposite, now);
        Some(opposite)
    }

    /// Removes a route. The opposite one no longer forwards packets.
    pub(super) fn remove(&mut self, route: RouteId) {
        let Some(entry) = self.values.remove(route) else {
            return;
        };
        if entry.state.unconfirmed.is_some() {
            self.unconfirmed.forget_one();
        }
        let opposite = entry.state.opposite;
        if let Some(half) = opposite.and_then(|route| self.half_mut(route)) {
            half.opposite = None;
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.values.deadline()
    }

    /// Handles the next due route: removes its path, or returns the release to send. None if no route
    /// is due.
    pub(super) fn take_due(
        &mut self,
        now: Instant,
        wait: Duration,
    ) -> Option<Option<RouteRelease>> {
        let route = self.values.pop_due(now)?;
        let entry = self.values.get_mut(route)?;
        if entry.state.expires_at > now {
            let at = entry.state.expires_at;
            self.values.arm(route, at);
            return Some(None);
        }
        // A route with an opposite one is idle; one without is being released.
        let is_released = entry.state.opposite.is_none() && entry.has_remote();
        if !is_released || entry.state.release_tries >= RELEASE_TRIES_MAX {
            self.remove_path(route);
            return Some(None);
        }
        Some(Some(self.next_release(route, now, wait)?))
    }

    /// Counts a release of `route`, and arms its timer for the next.
    fn next_release(
        &mut self,
        route: RouteId,
        now: Instant,
        wait: Duration,
    ) -> Option<RouteRelease> {
        let Route {
            neighbour, state, ..
        } = self.values.get_mut(route)?;
        state.release_tries += 1;
        state.expires_at = now + wait * (1 << state.release_tries);
        let (at, neighbour) = (state.expires_at, *neighbour);
        self.values.arm(route, at);
        let field = self.header_field(route);
        Some(RouteRelease {
            route,
            neighbour,
            field,
        })
    }
}

/// Whether installation `number` still has `route`, and its opener has not shown that it hears.
fn is_unconfirmed(values: &RouteValues<PathHalf>, route: usize, number: AssociationId) -> bool {
    let entry = RouteId::new(route as u32).and_then(|route| values.get(route));
    entry.is_some_and(|entry| entry.state.unconfirmed == Some(number))
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
