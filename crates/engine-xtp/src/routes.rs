//! Routes of an endpoint of XTP 3.x: the RTT and rate limit that associations on one path share
//! (0008, Routes).

use crate::config::RateLimit;
use crate::management;
use crate::pdu::v3::RTN_V3;
use crate::route_values::{RouteId, RouteValues};
use congestion::{RateCredit, RttEstimator};
use core::time::Duration;
use engine::{Address, Instant};
use std::collections::BTreeMap;

/// What the associations on a route share.
#[derive(Debug, Default)]
struct SharedPath {
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

/// The routes of an endpoint.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// The timer of a route says when it is unused for so long that it is released or forgotten.
    values: RouteValues<SharedPath>,
    /// Routes created here, by neighbour and destination.
    by_destination: BTreeMap<(Address, Address), RouteId>,
}

/// Limit of routes, some 200 octets each (0008, Release).
const ROUTES_MAX: usize = 4096;

/// An unused route that a neighbour created is forgotten after two minutes (0008, Release): two
/// keepalive intervals of its creator.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// What to do about an expired route without users.
pub(crate) enum RouteExpiry {
    /// Request its release from the neighbour.
    RequestRelease(RouteId),
    /// Nothing: it was forgotten.
    Forgotten,
}

impl Routes {
    /// Number of routes.
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Each route as a record of a manager's answer.
    pub(crate) fn records(&self) -> impl Iterator<Item = String> {
        self.values.iter().map(|(route, entry)| {
            let path = &entry.state;
            let limit = path.rate_credit.as_ref().map(RateCredit::limit);
            let rate = limit.map(|limit| limit.rate_bytes_per_s.to_string());
            management::record(&[
                ("route", Some(route.value().to_string())),
                ("neighbour", Some(management::address_text(entry.neighbour))),
                ("users", Some(path.users.to_string())),
                ("rate_bytes_per_s", rate),
            ])
        })
    }

    fn path(&self, route: RouteId) -> Option<&SharedPath> {
        self.values.get(route).map(|entry| &entry.state)
    }

    fn path_mut(&mut self, route: RouteId) -> Option<&mut SharedPath> {
        self.values.get_mut(route).map(|entry| &mut entry.state)
    }

    fn add(&mut self, neighbour: Address) -> Option<RouteId> {
        let has_room = self.len() < ROUTES_MAX;
        has_room.then(|| self.values.add(neighbour, SharedPath::default()))
    }

    /// The route to `destination` via `neighbour`, created if missing; None if the table is full.
    pub(crate) fn find_or_create(
        &mut self,
        neighbour: Address,
        destination: Address,
    ) -> Option<RouteId> {
        if let Some(&route) = self.by_destination.get(&(neighbour, destination)) {
            return Some(route);
        }
        let route = self.add(neighbour)?;
        self.by_destination.insert((neighbour, destination), route);
        self.path_mut(route)?.destination = Some(destination);
        Some(route)
    }

    /// The route of a packet from `neighbour` with `field` in its header.
    pub(crate) fn find(&self, neighbour: Address, field: u32) -> Option<RouteId> {
        self.values.find(neighbour, field)
    }

    /// The route that `neighbour` calls `value`, created if missing; None if the table is full.
    pub(crate) fn learn(
        &mut self,
        neighbour: Address,
        value: u32,
        now: Instant,
    ) -> Option<RouteId> {
        let found = self.find(neighbour, value);
        if found.is_some() || value == 0 || value & RTN_V3 != 0 {
            return found;
        }
        let route = self.add(neighbour)?;
        self.values.set_remote(route, value);
        self.values.arm(route, now + IDLE_TIMEOUT);
        Some(route)
    }

    /// Sets the neighbour's value of `route`.
    pub(crate) fn set_value(&mut self, route: RouteId, value: u32) {
        self.values.set_remote(route, value);
    }

    /// Forgets the neighbour's value, which may no longer be valid.
    pub(crate) fn forget_value(&mut self, route: RouteId) {
        self.values.forget_remote(route);
    }

    /// The route field in the header of packets on `route`; 0 without one.
    pub(crate) fn header_field(&self, route: Option<RouteId>) -> u32 {
        route.map_or(0, |route| self.values.header_field(route))
    }

    /// The neighbour of a route.
    pub(crate) fn neighbour(&self, route: RouteId) -> Option<Address> {
        self.values.get(route).map(|entry| entry.neighbour)
    }

    /// Destination of a route that was created here.
    pub(crate) fn destination(&self, route: RouteId) -> Option<Address> {
        self.path(route)?.destination
    }

    /// An association begins to use the route.
    pub(crate) fn add_user(&mut self, route: RouteId) {
        if let Some(path) = self.path_mut(route) {
            path.users += 1;
            path.tries = 0;
            self.values.disarm(route);
        }
    }

    /// An association stops using the route. Without users, a route created here is released after
    /// `idle_time`.
    pub(crate) fn remove_user(&mut self, route: RouteId, now: Instant, idle_time: Duration) {
        let Some(path) = self.path_mut(route) else {
            return;
        };
        path.users = path.users.saturating_sub(1);
        let (unused, created_here) = (path.users == 0, path.destination.is_some());
        if unused {
            let span = if created_here {
                idle_time
            } else {
                IDLE_TIMEOUT
            };
            self.values.arm(route, now + span);
        }
    }

    /// When the next unused route expires.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.values.deadline()
    }

    /// Handles the next expired route: requests its release, with `wait` doubled each time, or
    /// forgets it after `tries_max` requests (0008, Release).
    pub(crate) fn take_expired(
        &mut self,
        now: Instant,
        wait: Duration,
        tries_max: u32,
    ) -> Option<RouteExpiry> {
        let route = self.values.pop_due(now)?;
        let entry = self.values.get_mut(route)?;
        let may_request = entry.state.destination.is_some() && entry.has_remote();
        if !may_request || entry.state.tries >= tries_max {
            self.remove(route);
            return Some(RouteExpiry::Forgotten);
        }
        entry.state.tries += 1;
        let again = now + wait * (1 << entry.state.tries.min(16));
        self.values.arm(route, again);
        Some(RouteExpiry::RequestRelease(route))
    }

    /// The neighbour released the route: forgotten if unused, else its value is dropped.
    pub(crate) fn release(&mut self, route: RouteId) {
        match self.path(route).map(|path| path.users) {
            Some(0) => self.remove(route),
            Some(_) => self.forget_value(route),
            None => {}
        }
    }

    fn remove(&mut self, route: RouteId) {
        if let Some(entry) = self.values.remove(route)
            && let Some(destination) = entry.state.destination
        {
            self.by_destination.remove(&(entry.neighbour, destination));
        }
    }

    /// RTT estimate shared by all associations on the route (0008, Sharing).
    pub(crate) fn rtt(&self, route: RouteId) -> Option<&RttEstimator> {
        self.path(route).map(|path| &path.rtt)
    }

    /// Adds an RTT sample of one of them.
    pub(crate) fn sample_rtt(&mut self, route: RouteId, rtt: Duration) {
        if let Some(path) = self.path_mut(route) {
            path.rtt.sample(rtt);
        }
    }

    /// Sets or lifts a router's limit for all of them together (0008, RCNTL).
    pub(crate) fn set_rate_limit(
        &mut self,
        route: RouteId,
        limit: Option<RateLimit>,
        now: Instant,
    ) {
        let Some(path) = self.path_mut(route) else {
            return;
        };
        match (limit, &mut path.rate_credit) {
            (None, credit) => *credit = None,
            (Some(limit), Some(credit)) => credit.set_limit(limit, now),
            (Some(limit), credit) => *credit = Some(RateCredit::new(limit, now)),
        }
    }

    /// The rate limit of a route.
    pub(crate) fn rate_limit(&self, route: RouteId) -> Option<RateLimit> {
        self.path(route)?
            .rate_credit
            .as_ref()
            .map(RateCredit::limit)
    }

    /// When the route has credit again; None if it has now.
    pub(crate) fn blocked_until(&mut self, route: RouteId, now: Instant) -> Option<Instant> {
        let credit = self.path_mut(route)?.rate_credit.as_mut()?;
        (!credit.allows(now)).then(|| credit.next_refill())
    }

    /// Charges a packet of `octets` sent on the route.
    pub(crate) fn spend_credit(&mut self, route: RouteId, octets: usize) {
        let path = self.path_mut(route);
        if let Some(credit) = path.and_then(|path| path.rate_credit.as_mut()) {
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
        let route = routes.find_or_create(gateway, destination).expect("room");
        assert_eq!(routes.find_or_create(gateway, destination), Some(route));
        assert_eq!((route.value(), routes.header_field(Some(route))), (1, 1));
        routes.add_user(route);
        routes.add_user(route);
        routes.set_value(route, 9);
        assert_eq!(routes.header_field(Some(route)), 9 | RTN_V3);
        assert_eq!(routes.find(gateway, 9), Some(route));
        assert_eq!(routes.find(destination, 9), None);
        assert_eq!(routes.find(gateway, route.value() | RTN_V3), Some(route));
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
        assert_eq!(routes.find(gateway, 9), None);
        assert!(routes.by_destination.is_empty());
    }

    #[test]
    fn full_route_table_refuses_new_routes() {
        let mut routes = Routes::default();
        let mut learn = |station, value| {
            let route = routes.learn(Address::Station(station), value, Instant::ZERO);
            route.map(RouteId::value)
        };
        for value in 1..=ROUTES_MAX as u32 {
            assert_eq!(learn(3, value), Some(value));
        }
        assert_eq!(learn(4, 1), None);
        assert_eq!(learn(3, 7), Some(7));
    }
}
