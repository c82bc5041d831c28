//! Routes of XTP 3.x: the values that an endpoint and its neighbours use for the paths between
//! them, and the RTT and rate limit that associations on one path share (0008, Routes).
//!
//! A neighbour is the peer, or the router on the way to it. Each of the two has its own value for a
//! route, as each end of an association has its own key.

use crate::config::RateLimit;
use crate::management;
use crate::pdu::v3::RTN_V3;
use congestion::{RateCredit, RttEstimator};
use core::time::Duration;
use engine::{Address, Instant, TimerTable};
use std::collections::BTreeMap;

#[derive(Debug)]
struct Route {
    neighbour: Address,
    /// The neighbour's value.
    neighbour_value: Option<u32>,
    /// Destination, if the route was created here.
    destination: Option<Address>,
    /// Associations on the route.
    users: u32,
    rtt: RttEstimator,
    /// Rate limit of a router, for all associations together.
    rate_credit: Option<RateCredit>,
    /// Requests of its release.
    tries: u32,
}

/// The routes of an endpoint. Values are indices, from 1; 0 is no route.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    entries: Vec<Option<Box<Route>>>,
    free: Vec<u32>,
    /// Routes created here, by neighbour and destination.
    by_destination: BTreeMap<(Address, Address), u32>,
    /// By neighbour and its value.
    by_value: BTreeMap<(Address, u32), u32>,
    /// When unused routes are to be released or forgotten.
    expiries: TimerTable<u32>,
}

/// Limit of routes, some 200 octets each (0008, Release).
const ROUTES_MAX: usize = 4096;

/// An unused route that a neighbour created is forgotten after two minutes (0008, Release): two
/// keepalive intervals of its creator.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// What to do about an expired route without users.
pub(crate) enum RouteExpiry {
    /// Request its release from the neighbour.
    RequestRelease(u32),
    /// Nothing: it was forgotten.
    Forgotten,
}

impl Routes {
    /// Number of routes.
    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Each route as a record of a manager's answer.
    pub(crate) fn records(&self) -> impl Iterator<Item = String> {
        let all = self.entries.iter().enumerate();
        all.filter_map(|(index, entry)| Some((index, entry.as_deref()?)))
            .map(|(index, entry)| {
                let limit = entry
                    .rate_credit
                    .as_ref()
                    .map(|credit| credit.limit().rate_bytes_per_s);
                management::record(&[
                    ("route", Some((index + 1).to_string())),
                    ("neighbour", Some(management::address_text(entry.neighbour))),
                    ("users", Some(entry.users.to_string())),
                    ("rate_bytes_per_s", limit.map(|rate| rate.to_string())),
                ])
            })
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
            neighbour_value: None,
            destination: None,
            users: 0,
            rtt: RttEstimator::default(),
            rate_credit: None,
            tries: 0,
        });
        let index = self.free.pop().unwrap_or(self.entries.len() as u32);
        if index as usize == self.entries.len() {
            self.entries.push(None);
        }
        self.entries[index as usize] = Some(route);
        Some(index + 1)
    }

    /// The route to `destination` via `neighbour`, created if missing; 0 if the table is full.
    pub(crate) fn find_or_create(&mut self, neighbour: Address, destination: Address) -> u32 {
        if let Some(&route) = self.by_destination.get(&(neighbour, destination)) {
            return route;
        }
        let Some(route) = self.add(neighbour) else {
            return 0;
        };
        self.by_destination.insert((neighbour, destination), route);
        if let Some(entry) = self.get_mut(route) {
            entry.destination = Some(destination);
        }
        route
    }

    /// The route of a packet from `neighbour` with `value` in its header; 0 if unknown.
    pub(crate) fn find(&self, neighbour: Address, value: u32) -> u32 {
        if value & RTN_V3 == 0 {
            return self.by_value.get(&(neighbour, value)).copied().unwrap_or(0);
        }
        let own = value & !RTN_V3;
        let known = self
            .get(own)
            .is_some_and(|route| route.neighbour == neighbour);
        if known { own } else { 0 }
    }

    /// The route that `neighbour` calls `value`, created if missing; 0 if the table is full.
    pub(crate) fn learn(&mut self, neighbour: Address, value: u32, now: Instant) -> u32 {
        let found = self.find(neighbour, value);
        if found != 0 || value == 0 || value & RTN_V3 != 0 {
            return found;
        }
        let Some(route) = self.add(neighbour) else {
            return 0;
        };
        self.set_value(route, value);
        self.expiries.set(route, now + IDLE_TIMEOUT);
        route
    }

    /// Sets the neighbour's value of `route`.
    pub(crate) fn set_value(&mut self, route: u32, value: u32) {
        self.forget_value(route);
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        entry.neighbour_value = Some(value);
        let neighbour = entry.neighbour;
        self.by_value.insert((neighbour, value), route);
    }

    /// Forgets the neighbour's value, which may no longer be valid.
    pub(crate) fn forget_value(&mut self, route: u32) {
        if let Some(entry) = self.get_mut(route)
            && let Some(value) = entry.neighbour_value.take()
        {
            let name = (entry.neighbour, value);
            if self.by_value.get(&name) == Some(&route) {
                self.by_value.remove(&name);
            }
        }
    }

    /// The route field in the header of packets on `route`.
    pub(crate) fn header_value(&self, route: u32) -> u32 {
        let remote = self.get(route).and_then(|entry| entry.neighbour_value);
        remote.map_or(route, |value| value | RTN_V3)
    }

    /// The neighbour of a route.
    pub(crate) fn neighbour(&self, route: u32) -> Option<Address> {
        self.get(route).map(|entry| entry.neighbour)
    }

    /// Destination of a route that was created here.
    pub(crate) fn destination(&self, route: u32) -> Option<Address> {
        self.get(route)?.destination
    }

    /// An association begins to use the route.
    pub(crate) fn add_user(&mut self, route: u32) {
        if let Some(entry) = self.get_mut(route) {
            entry.users += 1;
            entry.tries = 0;
            self.expiries.cancel(route);
        }
    }

    /// An association stops using the route. Without users, a route created here is released after
    /// `idle_time`.
    pub(crate) fn remove_user(&mut self, route: u32, now: Instant, idle_time: Duration) {
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        entry.users = entry.users.saturating_sub(1);
        let span = if entry.destination.is_some() {
            idle_time
        } else {
            IDLE_TIMEOUT
        };
        if entry.users == 0 {
            self.expiries.set(route, now + span);
        }
    }

    /// When the next unused route expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.expiries.deadline()
    }

    /// Handles the next expired route: requests its release, with `wait` doubled each time, or
    /// forgets it after `tries_max` requests (0008, Release).
    pub(crate) fn take_expired(
        &mut self,
        now: Instant,
        wait: Duration,
        tries_max: u32,
    ) -> Option<RouteExpiry> {
        let route = self.expiries.pop_due(now)?;
        let entry = self.get_mut(route)?;
        let request_release = entry.destination.is_some() && entry.neighbour_value.is_some();
        if !request_release || entry.tries >= tries_max {
            self.remove(route);
            return Some(RouteExpiry::Forgotten);
        }
        entry.tries += 1;
        let again = now + wait * (1 << entry.tries.min(16));
        self.expiries.set(route, again);
        Some(RouteExpiry::RequestRelease(route))
    }

    /// The neighbour released the route: forgotten if unused, else its value is dropped.
    pub(crate) fn release(&mut self, route: u32) {
        match self.get(route).map(|entry| entry.users) {
            Some(0) => self.remove(route),
            Some(_) => self.forget_value(route),
            None => {}
        }
    }

    fn remove(&mut self, route: u32) {
        self.expiries.cancel(route);
        self.forget_value(route);
        let index = route as usize - 1;
        let Some(entry) = self.entries.get_mut(index).and_then(Option::take) else {
            return;
        };
        if let Some(destination) = entry.destination {
            self.by_destination.remove(&(entry.neighbour, destination));
        }
        self.free.push(index as u32);
    }

    /// RTT estimate shared by all associations on the route (0008, Sharing).
    pub(crate) fn rtt(&self, route: u32) -> Option<&RttEstimator> {
        self.get(route).map(|entry| &entry.rtt)
    }

    /// Adds an RTT sample of one of them.
    pub(crate) fn sample_rtt(&mut self, route: u32, rtt: Duration) {
        if let Some(entry) = self.get_mut(route) {
            entry.rtt.sample(rtt);
        }
    }

    /// Sets or lifts a router's limit for all of them together (0008, RCNTL).
    pub(crate) fn set_rate_limit(&mut self, route: u32, limit: Option<RateLimit>, now: Instant) {
        let Some(entry) = self.get_mut(route) else {
            return;
        };
        match (limit, &mut entry.rate_credit) {
            (None, credit) => *credit = None,
            (Some(limit), Some(credit)) => credit.set_limit(limit, now),
            (Some(limit), credit) => *credit = Some(RateCredit::new(limit, now)),
        }
    }

    /// The rate limit of a route.
    pub(crate) fn rate_limit(&self, route: u32) -> Option<RateLimit> {
        self.get(route)?.rate_credit.as_ref().map(RateCredit::limit)
    }

    /// When the route has credit again; None if it has now.
    pub(crate) fn blocked_until(&mut self, route: u32, now: Instant) -> Option<Instant> {
        let credit = self.get_mut(route)?.rate_credit.as_mut()?;
        (!credit.allows(now)).then(|| credit.next_refill())
    }

    /// Charges a packet of `octets` sent on the route.
    pub(crate) fn spend_credit(&mut self, route: u32, octets: usize) {
        if let Some(credit) = self
            .get_mut(route)
            .and_then(|entry| entry.rate_credit.as_mut())
        {
            credit.spend(octets);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_values_exchanged_shared_and_released() {
        let (now, second) = (Instant::ZERO, Duration::from_secs(1));
        let [gateway, destination] = [1, 2].map(Address::Station);
        let mut routes = Routes::default();
        let route = routes.find_or_create(gateway, destination);
        assert_eq!(
            (
                route,
                routes.find_or_create(gateway, destination),
                routes.header_value(route)
            ),
            (1, 1, 1)
        );
        routes.add_user(route);
        routes.add_user(route);
        routes.set_value(route, 9);
        assert_eq!(routes.header_value(route), 9 | RTN_V3);
        assert_eq!(
            (routes.find(gateway, 9), routes.find(destination, 9)),
            (route, 0)
        );
        assert_eq!(routes.find(gateway, route | RTN_V3), route);
        routes.remove_user(route, now, second);
        assert_eq!(routes.next_expiry(), None);
        routes.remove_user(route, now, second);
        assert_eq!(routes.next_expiry(), Some(now + second));
        let mut requests = 0;
        while let Some(at) = routes.next_expiry() {
            if let Some(RouteExpiry::RequestRelease(_)) = routes.take_expired(at, second, 3) {
                requests += 1;
            }
        }
        assert_eq!((requests, routes.len()), (3, 0));
        assert!(routes.by_value.is_empty() && routes.by_destination.is_empty());
    }

    #[test]
    fn full_route_table_refuses_new_routes() {
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
