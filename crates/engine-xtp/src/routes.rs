//! Routes: what an endpoint and its neighbours call the paths between them, and what associations
//! on the same path share.
//!
//! A neighbour is the peer, or the intermediate system on the way to it. Each of the two has a value
//! of its own for a route, as each end of an association has a key.

use crate::api::RateLimit;
use crate::pdu::three::RTN3;
use crate::tx::{Bucket, RoundTrip};
use core::time::Duration;
use engine::{Address, Instant};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
struct Route {
    neighbour: Address,
    /// The neighbour's value.
    remote: Option<u32>,
    /// Where it leads, if it was made here.
    destination: Option<Address>,
    /// Associations on it.
    users: u32,
    rtt: RoundTrip,
    /// An intermediate system's limit, for all associations together.
    bucket: Option<Bucket>,
    /// When something is to be done about its having no users, and how often that was tried.
    due: Option<Instant>,
    tries: u32,
}

/// The routes of an endpoint. Values are indices, from 1.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    entries: Vec<Option<Box<Route>>>,
    free: Vec<u32>,
    /// By neighbour and destination, those made here.
    made: BTreeMap<(Address, Address), u32>,
    /// By neighbour and its value.
    known: BTreeMap<(Address, u32), u32>,
    due: BTreeSet<(Instant, u32)>,
}

/// Routes of an endpoint at most, some 200 octets each.
const ROUTES_MAX: usize = 4096;

/// A route that a neighbour made and nobody uses is forgotten after two minutes: its maker asked
/// twice in that time whether its peer is there.
const IDLE: Duration = Duration::from_secs(120);

/// What is to be done about a route without users.
pub(crate) enum Leave {
    /// Ask the neighbour to release it.
    Release(u32),
    /// It is forgotten.
    Gone,
}

impl Routes {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    fn get(&self, route: u32) -> Option<&Route> {
        let index = (route as usize).checked_sub(1)?;
        self.entries.get(index)?.as_deref()
    }

    fn get_mut(&mut self, route: u32) -> Option<&mut Route> {
        let index = (route as usize).checked_sub(1)?;
        self.entries.get_mut(index)?.as_deref_mut()
    }

    fn add(&mut self, neighbour: Address) -> Option<u32> {
        if self.len() >= ROUTES_MAX {
            return None;
        }
        let route = Box::new(Route {
            neighbour,
            remote: None,
            destination: None,
            users: 0,
            rtt: RoundTrip::default(),
            bucket: None,
            due: None,
            tries: 0,
        });
        let index = self.free.pop().unwrap_or(self.entries.len() as u32);
        if index as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[index as usize] = Some(route);
        Some(index + 1)
    }

    /// The route to `destination` by way of `neighbour`, made if there is none; 0 without room.
    pub(crate) fn make(&mut self, neighbour: Address, destination: Address) -> u32 {
        if let Some(&route) = self.made.get(&(neighbour, destination)) {
            return route;
        }
        let Some(route) = self.add(neighbour) else {
            return 0;
        };
        self.made.insert((neighbour, destination), route);
        if let Some(entry) = self.get_mut(route) {
            entry.destination = Some(destination);
        }
        route
    }

    /// The route a packet of `neighbour` came by, whose header says `value`; 0 if it is unknown.
    pub(crate) fn find(&self, neighbour: Address, value: u32) -> u32 {
        if value & RTN3 == 0 {
            return self.known.get(&(neighbour, value)).copied().unwrap_or(0);
        }
        let own = value & !RTN3;
        let known = self
            .get(own)
            .is_some_and(|route| route.neighbour == neighbour);
        if known { own } else { 0 }
    }

    /// A route that `neighbour` made and calls `value`; 0 without room.
    pub(crate) fn learn(&mut self, neighbour: Address, value: u32, now: Instant) -> u32 {
        let found = self.find(neighbour, value);
        if found != 0 || value == 0 || value & RTN3 != 0 {
            return found;
        }
        let Some(route) = self.add(neighbour) else {
            return 0;
        };
        self.assign(route, value);
        self.schedule(route, Some(now + IDLE));
        route
    }

    /// The neighbour calls `route` by `value`.
    pub(crate) fn assign(&mut self, route: u32, value: u32) {
        self.forget_value(route);
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        entry.remote = Some(value);
        let neighbour = entry.neighbour;
        self.known.insert((neighbour, value), route);
    }

    /// The neighbour may have forgotten its value.
    pub(crate) fn forget_value(&mut self, route: u32) {
        if let Some(entry) = self.get_mut(route)
            && let Some(value) = entry.remote.take()
        {
            let name = (entry.neighbour, value);
            if self.known.get(&name) == Some(&route) {
                self.known.remove(&name);
            }
        }
    }

    /// What stands in the header of packets on `route`.
    pub(crate) fn outgoing(&self, route: u32) -> u32 {
        let remote = self.get(route).and_then(|entry| entry.remote);
        remote.map_or(route, |value| value | RTN3)
    }

    /// The neighbour of a route.
    pub(crate) fn neighbour(&self, route: u32) -> Option<Address> {
        self.get(route).map(|entry| entry.neighbour)
    }

    /// Where a route made here leads.
    pub(crate) fn destination(&self, route: u32) -> Option<Address> {
        self.get(route)?.destination
    }

    /// An association uses the route from now on.
    pub(crate) fn join(&mut self, route: u32) {
        self.schedule(route, None);
        if let Some(entry) = self.get_mut(route) {
            entry.users += 1;
            entry.tries = 0;
        }
    }

    /// An association uses it no longer; one that was made here is released after `linger`.
    pub(crate) fn leave(&mut self, route: u32, now: Instant, linger: Duration) {
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        let span = if entry.destination.is_some() {
            linger
        } else {
            IDLE
        };
        if entry.users == 0 {
            self.schedule(route, Some(now + span));
        }
    }

    fn schedule(&mut self, route: u32, due: Option<Instant>) {
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        let before = std::mem::replace(&mut entry.due, due);
        if let Some(at) = before {
            self.due.remove(&(at, route));
        }
        if let Some(at) = due {
            self.due.insert((at, route));
        }
    }

    /// When a route without users is to be looked after.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.due.first().map(|&(at, _)| at)
    }

    /// Looks after the next route that is due: asks for its release, each time after `wait` twice
    /// as long, or forgets it after `tries_max`.
    pub(crate) fn take_due(
        &mut self,
        now: Instant,
        wait: Duration,
        tries_max: u32,
    ) -> Option<Leave> {
        let &(_, route) = self.due.first().filter(|(at, _)| *at <= now)?;
        let entry = self.get_mut(route)?;
        let asks = entry.destination.is_some() && entry.remote.is_some();
        if !asks || entry.tries >= tries_max {
            self.remove(route);
            return Some(Leave::Gone);
        }
        entry.tries += 1;
        let again = now + wait * (1 << entry.tries.min(16));
        self.schedule(route, Some(again));
        Some(Leave::Release(route))
    }

    /// The neighbour released the route: it is forgotten, or if in use has no value any longer.
    pub(crate) fn release(&mut self, route: u32) {
        match self.get(route).map(|entry| entry.users) {
            Some(0) => self.remove(route),
            Some(_) => self.forget_value(route),
            None => {}
        }
    }

    fn remove(&mut self, route: u32) {
        self.schedule(route, None);
        self.forget_value(route);
        let index = route as usize - 1;
        let Some(entry) = self.entries.get_mut(index).and_then(Option::take) else {
            return;
        };
        if let Some(destination) = entry.destination {
            self.made.remove(&(entry.neighbour, destination));
        }
        self.free.push(index as u32);
    }

    /// The round trip of all associations on the route.
    pub(crate) fn round_trip(&self, route: u32) -> Option<&RoundTrip> {
        self.get(route).map(|entry| &entry.rtt)
    }

    /// One of them measured it.
    pub(crate) fn sample(&mut self, route: u32, rtt: Duration) {
        if let Some(entry) = self.get_mut(route) {
            entry.rtt.sample(rtt);
        }
    }

    /// An intermediate system limits all of them together.
    pub(crate) fn impose(&mut self, route: u32, limit: Option<RateLimit>, now: Instant) {
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        match (limit, &mut entry.bucket) {
            (None, bucket) => *bucket = None,
            (Some(limit), Some(bucket)) => bucket.change(limit, now),
            (Some(limit), bucket) => *bucket = Some(Bucket::new(limit, now)),
        }
    }

    /// The limit imposed on a route.
    pub(crate) fn limit(&self, route: u32) -> Option<RateLimit> {
        self.get(route)?.bucket.as_ref().map(Bucket::limit)
    }

    /// When the route allows a packet again; None if it does now.
    pub(crate) fn blocked_until(&mut self, route: u32, now: Instant) -> Option<Instant> {
        let bucket = self.get_mut(route)?.bucket.as_mut()?;
        (!bucket.allows(now)).then(|| bucket.next_refill())
    }

    /// A packet of `octets` left by the route.
    pub(crate) fn spend(&mut self, route: u32, octets: usize) {
        if let Some(bucket) = self.get_mut(route).and_then(|entry| entry.bucket.as_mut()) {
            bucket.spend(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_exchanged_shared_and_forgotten() {
        let (now, second) = (Instant::ZERO, Duration::from_secs(1));
        let [hop, far] = [1, 2].map(Address::Station);
        let mut routes = Routes::default();
        let route = routes.make(hop, far);
        assert_eq!(
            (route, routes.make(hop, far), routes.outgoing(route)),
            (1, 1, 1)
        );
        routes.join(route);
        routes.join(route);
        routes.assign(route, 9);
        assert_eq!(routes.outgoing(route), 9 | RTN3);
        assert_eq!((routes.find(hop, 9), routes.find(far, 9)), (route, 0));
        assert_eq!(routes.find(hop, route | RTN3), route);
        routes.leave(route, now, second);
        assert_eq!(routes.deadline(), None);
        routes.leave(route, now, second);
        assert_eq!(routes.deadline(), Some(now + second));
        let mut asked = 0;
        while let Some(at) = routes.deadline() {
            if let Some(Leave::Release(_)) = routes.take_due(at, second, 3) {
                asked += 1;
            }
        }
        assert_eq!((asked, routes.len()), (3, 0));
        assert!(routes.known.is_empty() && routes.made.is_empty());
    }

    #[test]
    fn a_table_that_is_full_makes_no_more() {
        let mut routes = Routes::default();
        for value in 1..=ROUTES_MAX as u32 {
            assert_eq!(
                routes.learn(Address::Station(3), value, Instant::ZERO),
                value
            );
        }
        assert_eq!(routes.learn(Address::Station(4), 1, Instant::ZERO), 0);
        assert_eq!(routes.learn(Address::Station(3), 7, Instant::ZERO), 7);
    }
}
