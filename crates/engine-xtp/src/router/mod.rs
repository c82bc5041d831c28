//! A router, the intermediate system of XTP 3.6: it forwards packets between neighbours by route.
//!
//! FIRST and PATH are forwarded by their address segment and install a *path*: two entries of the
//! route table, one for the previous hop and one for the next. All other packets are forwarded in
//! either direction by the route in their header alone. So a packet can be forwarded as soon as its
//! header has arrived (cut-through); the receiver verifies the check in the trailer.
//!
//! A router may limit the rate of all associations of a route. It sends the limit to its neighbours
//! (RCNTL) when a path is installed, when the limit changes, and repeatedly with their requests.

mod route_table;

use crate::config::RateLimit;
use crate::management::{self, Subject};
use crate::numbers::SyncNumber;
use crate::pdu::v3::{
    BodyV3, HeaderV3, InformationSegment, OP_EXPIRED, OP_REQUEST, OP_RESPONSE, PacketKind,
    PacketV3, RTN_V3,
};
use crate::pdu::{AddressSegment, Diag, DiagCode, DiagValue, Options, UNLIMITED, Version};
use crate::procedure::route_management::{ROUTE_ASSIGN, ROUTE_RELEASE, ROUTE_RELEASED};
use crate::route_values::{RouteId, returned_field};
use core::net::IpAddr;
use core::time::Duration;
use engine::{
    Address, Batch, Counters, Deliveries, Event, Framing, Instant, NoteFields, Path, PathFault,
    Properties, Protocol, Received,
};
use route_table::RouteTable;
use std::collections::{BTreeMap, VecDeque};

/// Options of a router.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// The next hop to each host. A host that is not listed is a station of a simulator and a
    /// neighbour itself.
    pub next_hops: BTreeMap<IpAddr, Address>,
    /// Hosts that are not listed are unreachable, as on a real network.
    pub only_listed: bool,
    /// Rate limit of each route, for all its associations together.
    pub rate: Option<RateLimit>,
    /// Hosts that may ask for paths and counters (MGMT).
    pub managers: Vec<IpAddr>,
    /// Paths at most; each takes some 300 bytes.
    ///
    /// 4096, as many as an endpoint has routes.
    pub paths_max: usize,
    /// A path without packets for this long is removed.
    ///
    /// Two minutes: idle associations send a keepalive every minute.
    pub idle_timeout: Duration,
    /// How long to wait for the answer to a release, doubled with each try.
    ///
    /// 500 ms, as an association's first WTIMER.
    pub release_timeout: Duration,
    /// Octets queued for sending at most; more are dropped.
    ///
    /// 1 MiB is an endpoint's window.
    pub queue_max: usize,
}

impl Default for RouterConfig {
    fn default() -> Self {
        RouterConfig {
            next_hops: BTreeMap::new(),
            only_listed: false,
            rate: None,
            managers: Vec::new(),
            paths_max: 4096,
            idle_timeout: Duration::from_secs(120),
            release_timeout: Duration::from_millis(500),
            queue_max: 1 << 20,
        }
    }
}

/// A router. It has no associations of its own.
#[derive(Debug)]
pub struct XtpRouter {
    config: RouterConfig,
    routes: RouteTable,
    /// Destination, octets, and the number of the arrival; 0 for the router's own packets.
    queue: VecDeque<(Address, Vec<u8>, u64)>,
    /// The arrival number of the packet transmitted last.
    last_forwarded: u64,
    queued_bytes: usize,
    counters: Counters,
}

const VERSION: Version = Version::V36;

/// Time to live of answers to MAINT: as long a path as there may be.
const ANSWER_TTL: u8 = 255;

/// Shortest time between two RCNTL that answer a neighbour's status requests (0008, RCNTL).
const RATE_INTERVAL: Duration = Duration::from_secs(1);

impl XtpRouter {
    /// A router without paths.
    pub fn new(config: RouterConfig) -> XtpRouter {
        XtpRouter {
            config,
            routes: RouteTable::default(),
            queue: VecDeque::new(),
            last_forwarded: 0,
            queued_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// The number of installed paths.
    pub fn paths(&self) -> usize {
        self.routes.len().div_ceil(2)
    }

    /// Sets the rate limit of every route and sends it to all neighbours.
    pub fn set_rate(&mut self, now: Instant, rate: Option<RateLimit>) {
        self.config.rate = rate;
        for local_route in self.routes.all() {
            self.send_rate(now, local_route, true);
        }
    }

    fn enqueue(&mut self, to: Address, octets: Vec<u8>, arrival: u64) {
        if self.queued_bytes + octets.len() > self.config.queue_max {
            self.counters.packets_discarded += 1;
            return;
        }
        self.queued_bytes += octets.len();
        self.counters.packets_built += 1;
        self.counters.bytes_copied += octets.len() as u64;
        self.queue.push_back((to, octets, arrival));
    }

    /// Sends one of the router's own packets.
    fn send_own(&mut self, to: Address, route: u32, key: u32, body: BodyV3<'_>) {
        self.send_with_sync(to, (route, key, SyncNumber::NONE), body);
    }

    fn send_with_sync(
        &mut self,
        to: Address,
        (route, key, sync): (u32, u32, SyncNumber),
        body: BodyV3<'_>,
    ) {
        let header = HeaderV3 {
            key,
            sync,
            ..HeaderV3::plain(body.kind(), route, 1)
        };
        self.enqueue(to, PacketV3 { header, body }.emit(VERSION), 0);
    }

    fn send_refusal(&mut self, to: Address, header: &HeaderV3, value: DiagValue) {
        let diag = Diag {
            code: DiagCode::REFUSED,
            value,
            text: b"",
        };
        // The sync of FIRST shows that its receiver sent this (0008, Names).
        let names = (header.route ^ RTN_V3, header.key ^ RTN_V3, header.sync);
        self.send_with_sync(to, names, BodyV3::Diag(diag));
    }

    /// Sends RCNTL to the neighbour of a route: `at_once`, or once in [`RATE_INTERVAL`].
    fn send_rate(&mut self, now: Instant, local_route: RouteId, at_once: bool) {
        let limit = lower_limit(self.config.rate, self.routes.imposed_rate(local_route));
        if limit.is_none() && !at_once {
            return;
        }
        let interval = if at_once {
            Duration::ZERO
        } else {
            RATE_INTERVAL
        };
        let sent = self.routes.mark_rate_sent(local_route, now, interval);
        let Some((neighbour, route)) = sent else {
            return;
        };
        let (rate, burst) = match limit {
            Some(limit) => (limit.rate_bytes_per_s, limit.burst_bytes),
            None => (UNLIMITED, UNLIMITED),
        };
        self.send_own(neighbour, route, 0, BodyV3::Rcntl { rate, burst });
    }

    /// Handles or forwards a packet; None if it is dropped.
    fn process(&mut self, now: Instant, from: Address, packet: &[u8]) -> Option<()> {
        let header = HeaderV3::parse_header_only(VERSION, packet).ok()?;
        match header.kind {
            PacketKind::Route => return self.handle_route(now, from, &header, packet),
            PacketKind::Maint if header.route == 0 => {
                return self.answer_maint(from, &header, packet, OP_RESPONSE);
            }
            PacketKind::Mgmt if header.route == 0 => {
                return self.answer_manager(from, &header, packet);
            }
            PacketKind::Maint if header.ttl == 0 => {
                // Only on a path, whose neighbour knows the route by which the answer goes.
                self.routes.find(from, header.route)?;
                return self.answer_maint(from, &header, packet, OP_EXPIRED);
            }
            _ => {}
        }
        let local_route = match self.routes.find(from, header.route) {
            Some(local_route) => {
                if header.route & RTN_V3 != 0 {
                    self.routes.confirm(local_route);
                }
                local_route
            }
            None => self.install_path(now, from, &header, packet)?,
        };
        if header.kind == PacketKind::Rcntl {
            return self.handle_rcntl(now, local_route, packet);
        }
        let opens_path = matches!(header.kind, PacketKind::First | PacketKind::Path);
        let has_sreq = header.options.has(Options::SREQ);
        // 0008, Routes: the value is sent again as long as requests arrive with the sender's.
        if header.route & RTN_V3 == 0 && (opens_path || has_sreq) {
            let assign = BodyV3::Route {
                op: ROUTE_ASSIGN,
                route: local_route.value(),
            };
            self.send_own(from, self.routes.header_field(local_route), 0, assign);
        }
        if opens_path || has_sreq {
            let rate_is_new = opens_path && self.config.rate.is_some();
            self.send_rate(now, local_route, rate_is_new);
        }
        if header.ttl == 0 {
            return None;
        }
        let (to, route) = self
            .routes
            .next_hop(local_route, now + self.config.idle_timeout)?;
        let mut octets = packet.to_vec();
        let changed = HeaderV3 {
            route,
            ttl: header.ttl - 1,
            ..header
        };
        octets[..VERSION.header_len()].copy_from_slice(&changed.emit(VERSION));
        self.enqueue(to, octets, self.counters.packets_parsed);
        Some(())
    }

    /// Installs a path for a FIRST or PATH: the route it arrived by.
    fn install_path(
        &mut self,
        now: Instant,
        from: Address,
        header: &HeaderV3,
        packet: &[u8],
    ) -> Option<RouteId> {
        let opens_path = matches!(header.kind, PacketKind::First | PacketKind::Path);
        if !opens_path || header.route == 0 || header.route & RTN_V3 != 0 {
            return None;
        }
        // The segments behind the header are needed here, so both checks are verified.
        let body = PacketV3::parse(VERSION, packet).ok()?.body;
        let (BodyV3::First { address, .. } | BodyV3::Path(address)) = body else {
            return None;
        };
        let Some(to) = self.next_hop(&address) else {
            self.send_refusal(from, header, DiagValue::ADDRESS_FORMAT);
            return None;
        };
        // 0008, An intermediate system: a full table or a way back is refused with DIAG; paths whose
        // opener may be forged give way (0021).
        let room = self.config.paths_max;
        let has_room = to != from && (self.paths() < room || self.routes.give_way(from, room));
        if !has_room {
            self.send_refusal(from, header, DiagValue::NO_RESOURCE);
            return None;
        }
        let due = now + self.config.idle_timeout;
        Some(self.routes.install(from, header.route, to, due))
    }

    /// The next hop to an address.
    fn next_hop(&self, address: &AddressSegment<'_>) -> Option<Address> {
        let host = match address {
            AddressSegment::V4(ends) => IpAddr::V4(ends.dst_host),
            AddressSegment::V6(ends) => IpAddr::V6(ends.dst_host),
            _ => return None,
        };
        match (self.config.next_hops.get(&host), host) {
            (Some(next), _) => Some(*next),
            (None, _) if self.config.only_listed => None,
            (None, IpAddr::V4(host)) => Some(Address::Station(host.to_bits())),
            (None, IpAddr::V6(_)) => None,
        }
    }

    /// Echoes a MAINT request with another operation (0008, MAINT).
    fn answer_maint(
        &mut self,
        from: Address,
        header: &HeaderV3,
        packet: &[u8],
        op: u32,
    ) -> Option<()> {
        let BodyV3::Maint(InformationSegment {
            op: OP_REQUEST,
            octets,
        }) = PacketV3::parse(VERSION, packet).ok()?.body
        else {
            return None;
        };
        let body = BodyV3::Maint(InformationSegment { op, octets });
        let route = returned_field(header.route);
        // It may have to pass the routers before this one.
        let header = HeaderV3 {
            key: header.key ^ RTN_V3,
            ..HeaderV3::plain(PacketKind::Maint, route, ANSWER_TTL)
        };
        self.enqueue(from, PacketV3 { header, body }.emit(VERSION), 0);
        Some(())
    }

    /// Answers a question of an allowed host.
    fn answer_manager(&mut self, from: Address, header: &HeaderV3, packet: &[u8]) -> Option<()> {
        if !management::is_manager(&self.config.managers, from) {
            return None;
        }
        let BodyV3::Mgmt(info) = PacketV3::parse(VERSION, packet).ok()?.body else {
            return None;
        };
        let records = |subject| -> Box<dyn Iterator<Item = String> + '_> {
            match subject {
                // A router has no associations.
                Subject::Contexts => Box::new(std::iter::empty()),
                Subject::Routes => Box::new(self.routes.records()),
                Subject::Counters => Box::new(management::counter_records(&self.counters)),
            }
        };
        let (header, octets) = management::respond(header, &info, ANSWER_TTL, records)?;
        let body = management::response_body(&octets);
        self.enqueue(from, PacketV3 { header, body }.emit(VERSION), 0);
        Some(())
    }

    fn handle_route(
        &mut self,
        now: Instant,
        from: Address,
        header: &HeaderV3,
        packet: &[u8],
    ) -> Option<()> {
        let BodyV3::Route { op, route } = PacketV3::parse(VERSION, packet).ok()?.body else {
            return None;
        };
        if route == 0 || route & RTN_V3 != 0 {
            return None;
        }
        let local_route = self.routes.find(from, header.route);
        match op {
            ROUTE_ASSIGN => {
                self.routes.assign(local_route?, route);
                self.send_rate(now, local_route?, false);
            }
            ROUTE_RELEASE => {
                let opposite =
                    local_route.and_then(|local_route| self.routes.release(local_route, now));
                let released = BodyV3::Route {
                    op: ROUTE_RELEASED,
                    route: local_route.map_or(1, RouteId::value),
                };
                self.send_own(from, route | RTN_V3, 0, released);
                if opposite.is_some() {
                    self.handle_due_routes(now);
                }
            }
            ROUTE_RELEASED => self.routes.remove(local_route?),
            _ => return None,
        }
        Some(())
    }

    /// Handles RCNTL: a router beyond `local_route` limits the rate, and the neighbour of the
    /// opposite route gets the lower of both limits (0008, RCNTL).
    fn handle_rcntl(&mut self, now: Instant, local_route: RouteId, packet: &[u8]) -> Option<()> {
        let BodyV3::Rcntl { rate, burst } = PacketV3::parse(VERSION, packet).ok()?.body else {
            return None;
        };
        let limit = (rate != UNLIMITED).then_some(RateLimit {
            rate_bytes_per_s: rate,
            burst_bytes: burst,
        });
        let opposite = self.routes.set_imposed_rate(local_route, limit)?;
        self.send_rate(now, opposite, true);
        Some(())
    }

    fn handle_due_routes(&mut self, now: Instant) {
        while let Some(released) = self.routes.take_due(now, self.config.release_timeout) {
            if let Some(release) = released {
                let body = BodyV3::Route {
                    op: ROUTE_RELEASE,
                    route: release.route.value(),
                };
                self.send_own(release.neighbour, release.field, 0, body);
            }
        }
    }
}

/// The lower of two limits.
fn lower_limit(one: Option<RateLimit>, other: Option<RateLimit>) -> Option<RateLimit> {
    match (one, other) {
        (Some(one), Some(other)) => Some(RateLimit {
            rate_bytes_per_s: one.rate_bytes_per_s.min(other.rate_bytes_per_s),
            burst_bytes: one.burst_bytes.min(other.burst_bytes),
        }),
        (one, other) => one.or(other),
    }
}

/// Octets of the longest packet that it builds itself or passes on over Ethernet.
const PACKET_MAX: usize = VERSION.overhead() + 1456;

impl Protocol for XtpRouter {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: PACKET_MAX,
            packet_len: None,
            framing: Framing::Records,
            notes: NoteFields::NONE,
            coalesce_delay: Duration::from_millis(1),
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, _deliveries: &mut Deliveries) {
        self.counters.packets_parsed += 1;
        self.counters.bytes_summed += VERSION.header_len() as u64;
        if self
            .process(now, packet.path.remote, packet.octets)
            .is_none()
        {
            self.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_due_routes(now);
    }

    /// The ends of a path deal with what is lost on it.
    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, _now: Instant, batch: &mut Batch) {
        if let Some((to, octets, arrival)) = self.queue.pop_front() {
            self.last_forwarded = arrival;
            self.queued_bytes -= octets.len();
            batch.set_path(to, None);
            batch.push_own(&octets);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.routes.deadline()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

impl engine::Router for XtpRouter {
    fn forwarded_from(&self) -> u64 {
        self.last_forwarded
    }

    /// Packets with a known route are forwarded by the header alone, except ROUTE and RCNTL.
    fn supports_cut_through(&self, path: Path, head: &[u8]) -> bool {
        let Ok(header) = HeaderV3::parse_header_only(VERSION, head) else {
            return false;
        };
        let passes = !matches!(header.kind, PacketKind::Route | PacketKind::Rcntl);
        passes && self.routes.find(path.remote, header.route).is_some()
    }
}
