//! Routes of XTP 3.x by the values that both sides of a link use for them (0008, Routes).
//!
//! A neighbour is the peer, or the router on the way to it. Each of the two has its own value for a
//! route, as each end of an association has its own key.

use crate::pdu::v3::RTN_V3;
use core::num::NonZeroU32;
use engine::{Address, Instant, TimerTable};
use std::collections::BTreeMap;

/// This side's value of a route: an index, from 1, into its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RouteId(NonZeroU32);

impl RouteId {
    /// The route of `value`; None for 0, which is no route, and for a value with RTN.
    pub(crate) fn new(value: u32) -> Option<RouteId> {
        NonZeroU32::new(value)
            .filter(|_| value & RTN_V3 == 0)
            .map(RouteId)
    }

    fn of_index(index: usize) -> RouteId {
        RouteId(NonZeroU32::MIN.saturating_add(index as u32))
    }

    fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// The value as a number, in headers and in ROUTE packets.
    pub(crate) fn value(self) -> u32 {
        self.0.get()
    }
}

/// The number of a route in a header, 0 for none.
pub(crate) fn value_or_none(route: Option<RouteId>) -> u32 {
    route.map_or(0, RouteId::value)
}

/// Route field of an answer to a packet with `field`, whose neighbour's value may be unknown.
pub(crate) fn returned_field(field: u32) -> u32 {
    match field {
        0 => 0,
        field => field ^ RTN_V3,
    }
}

/// A route to a neighbour, with what its side keeps of it.
#[derive(Debug)]
pub(crate) struct Route<T> {
    pub(crate) neighbour: Address,
    /// The neighbour's value.
    remote: Option<u32>,
    pub(crate) state: T,
}

impl<T> Route<T> {
    /// Whether the neighbour's value is known.
    pub(crate) fn has_remote(&self) -> bool {
        self.remote.is_some()
    }
}

/// The routes of an endpoint or a router.
#[derive(Debug)]
pub(crate) struct RouteValues<T> {
    entries: Vec<Option<Box<Route<T>>>>,
    free: Vec<RouteId>,
    /// By neighbour and its value.
    by_remote: BTreeMap<(Address, u32), RouteId>,
    timers: TimerTable<RouteId>,
}

impl<T> Default for RouteValues<T> {
    fn default() -> RouteValues<T> {
        RouteValues {
            entries: Vec::new(),
            free: Vec::new(),
            by_remote: BTreeMap::new(),
            timers: TimerTable::default(),
        }
    }
}

impl<T> RouteValues<T> {
    /// Number of routes.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Each route with its value.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (RouteId, &Route<T>)> {
        let all = self.entries.iter().enumerate();
        all.filter_map(|(index, entry)| Some((RouteId::of_index(index), entry.as_deref()?)))
    }

    pub(crate) fn get(&self, route: RouteId) -> Option<&Route<T>> {
        self.entries.get(route.index())?.as_deref()
    }

    pub(crate) fn get_mut(&mut self, route: RouteId) -> Option<&mut Route<T>> {
        self.entries.get_mut(route.index())?.as_deref_mut()
    }

    /// Adds a route, whose neighbour's value is not known.
    pub(crate) fn add(&mut self, neighbour: Address, state: T) -> RouteId {
        let entry = Some(Box::new(Route {
            neighbour,
            remote: None,
            state,
        }));
        if let Some(route) = self.free.pop() {
            self.entries[route.index()] = entry;
            return route;
        }
        self.entries.push(entry);
        RouteId::of_index(self.entries.len() - 1)
    }

    /// The route of a packet from `neighbour` with `field` in its header.
    pub(crate) fn find(&self, neighbour: Address, field: u32) -> Option<RouteId> {
        if field & RTN_V3 == 0 {
            return self.by_remote.get(&(neighbour, field)).copied();
        }
        let own = RouteId::new(field & !RTN_V3)?;
        let is_its = self.get(own)?.neighbour == neighbour;
        is_its.then_some(own)
    }

    /// Sets the neighbour's value of `route`.
    pub(crate) fn set_remote(&mut self, route: RouteId, value: u32) {
        self.forget_remote(route);
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        entry.remote = Some(value);
        let name = (entry.neighbour, value);
        self.by_remote.insert(name, route);
    }

    /// Forgets the neighbour's value, which may no longer be valid.
    pub(crate) fn forget_remote(&mut self, route: RouteId) {
        if let Some(entry) = self.get_mut(route)
            && let Some(value) = entry.remote.take()
        {
            let name = (entry.neighbour, value);
            if self.by_remote.get(&name) == Some(&route) {
                self.by_remote.remove(&name);
            }
        }
    }

    /// The route field in the header of packets to the neighbour: its own value with RTN, else this side's.
    pub(crate) fn header_field(&self, route: RouteId) -> u32 {
        let remote = self.get(route).and_then(|entry| entry.remote);
        remote.map_or(route.value(), |value| value | RTN_V3)
    }

    /// Removes a route, its timer and its values.
    pub(crate) fn remove(&mut self, route: RouteId) -> Option<Route<T>> {
        self.timers.cancel(route);
        self.forget_remote(route);
        let entry = self.entries.get_mut(route.index())?.take()?;
        self.free.push(route);
        Some(*entry)
    }

    /// Arms the timer of `route`.
    pub(crate) fn arm(&mut self, route: RouteId, at: Instant) {
        self.timers.set(route, at);
    }

    /// Disarms the timer of `route`.
    pub(crate) fn disarm(&mut self, route: RouteId) {
        self.timers.cancel(route);
    }

    /// When the next timer fires.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.timers.deadline()
    }

    /// The next route whose timer fires at `now` or before.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<RouteId> {
        self.timers.pop_due(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_both_sides_name_a_route_until_it_is_removed() {
        let [one, other] = [1, 2].map(Address::Station);
        let mut routes = RouteValues::default();
        let route = routes.add(one, ());
        assert_eq!((route.value(), routes.header_field(route)), (1, 1));
        assert_eq!(routes.find(one, 1 | RTN_V3), Some(route));
        assert_eq!(routes.find(other, 1 | RTN_V3), None);
        routes.set_remote(route, 9);
        routes.set_remote(route, 8);
        assert_eq!(routes.header_field(route), 8 | RTN_V3);
        assert_eq!(
            [8, 9].map(|field| routes.find(one, field)),
            [Some(route), None]
        );
        routes.arm(route, Instant::ZERO);
        assert!(routes.remove(route).is_some() && routes.remove(route).is_none());
        assert_eq!((routes.len(), routes.deadline()), (0, None));
        assert_eq!(
            (routes.find(one, 8), routes.find(one, 1 | RTN_V3)),
            (None, None)
        );
        assert_eq!(routes.add(other, ()), route);
    }

    #[test]
    fn a_value_that_moved_to_another_route_stays_with_it() {
        let neighbour = Address::Station(1);
        let mut routes = RouteValues::default();
        let [first, second] = [(), ()].map(|()| routes.add(neighbour, ()));
        routes.set_remote(first, 5);
        routes.set_remote(second, 5);
        routes.remove(first);
        assert_eq!(routes.find(neighbour, 5), Some(second));
    }
}
