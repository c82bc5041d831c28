//! An intermediate system of XTP 3.6: it passes packets between neighbours by their routes.
//!
//! A FIRST or PATH is passed on by its address segment, and leaves a *trail*: two `legs`, one to
//! the neighbour it came from and one to the next. Everything later finds its leg by the route in
//! its header, without a look behind the header, in either direction. So a packet could be passed on
//! when its header is there (cut-through); the check in the trailer is the receiver's affair.
//!
//! An intermediate system may impose a rate on the associations of a route (RCNTL), which it tells
//! its neighbours when a trail is made, when the rate changes, and now and then while they ask.

mod route_table;

use crate::config::RateLimit;
use crate::pdu::v3::{BodyV3, HeaderV3, InformationSegment, PacketKind, PacketV3, RTN_V3};
use crate::pdu::{AddressSegment, Diag, DiagCode, DiagValue, Options, UNLIMITED, Version};
use crate::procedure::route_management::{
    OP_REQUEST, OP_RESPONSE, ROUTE_ASSIGN, ROUTE_RELEASE, ROUTE_RELEASED,
};
use core::net::IpAddr;
use core::time::Duration;
use engine::{
    Address, Batch, Counters, Deliveries, Event, Framing, Instant, Path, PathFault, Properties,
    Protocol, Received,
};
use route_table::RouteTable;
use std::collections::{BTreeMap, VecDeque};

/// What an intermediate system does.
#[derive(Clone, Debug)]
pub struct RouterConfig {
    /// The neighbour on the way to a host. Hosts that are not listed are stations of a simulator,
    /// and neighbours themselves.
    pub next_hops: BTreeMap<IpAddr, Address>,
    /// Hosts that are not listed are nobody: on a real network it passes nothing on to them.
    pub only_listed: bool,
    /// What all associations of a route together may send through it.
    pub rate: Option<RateLimit>,
    /// Trails at most; each takes some 300 bytes.
    ///
    /// 4096, as many as an endpoint has routes.
    pub paths_max: usize,
    /// A trail that nothing passed for so long is forgotten.
    ///
    /// Two minutes: associations ask after a minute of silence.
    pub idle_timeout: Duration,
    /// Wait for the answer to a release, doubled with each try.
    ///
    /// 500 ms, as an association's first WTIMER.
    pub release_timeout: Duration,
    /// Octets that wait to be sent at most; more are dropped.
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
            paths_max: 4096,
            idle_timeout: Duration::from_secs(120),
            release_timeout: Duration::from_millis(500),
            queue_max: 1 << 20,
        }
    }
}

/// An intermediate system. It has no circuits of its own.
#[derive(Debug)]
pub struct Router {
    config: RouterConfig,
    routes: RouteTable,
    /// Where to, what, and which arrival it was; 0 for its own.
    queue: VecDeque<(Address, Vec<u8>, u64)>,
    /// The arrival transmitted last.
    last_forwarded: u64,
    queued_bytes: usize,
    counters: Counters,
}

const VERSION: Version = Version::V36;

/// A rate is told again to a neighbour that asks for something, so often.
const RATE_INTERVAL: Duration = Duration::from_secs(1);

impl Router {
    /// One without trails.
    pub fn new(config: RouterConfig) -> Router {
        Router {
            config,
            routes: RouteTable::default(),
            queue: VecDeque::new(),
            last_forwarded: 0,
            queued_bytes: 0,
            counters: Counters::default(),
        }
    }

    /// Trails there are.
    pub fn paths(&self) -> usize {
        self.routes.len().div_ceil(2)
    }

    /// Imposes a rate on every route from now on, and tells all neighbours.
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

    /// Sends a packet of its own.
    fn send_own(&mut self, to: Address, route: u32, key: u32, body: BodyV3<'_>) {
        let header = HeaderV3 {
            kind: body.kind(),
            options: Options::NONE,
            pad_front: 0,
            pad_back: 0,
            key,
            route,
            seq: 0,
            dseq: 0,
            sync: 0,
            dlen: 0,
            sort: 0,
            ttl: 1,
        };
        self.enqueue(to, PacketV3 { header, body }.emit(VERSION), 0);
    }

    fn send_refusal(&mut self, to: Address, header: &HeaderV3, value: DiagValue) {
        let diag = Diag {
            code: DiagCode::REFUSED,
            value,
            text: b"",
        };
        self.send_own(
            to,
            header.route ^ RTN_V3,
            header.key ^ RTN_V3,
            BodyV3::Diag(diag),
        );
    }

    /// Tells a neighbour the rate of its route, not more often than useful.
    fn send_rate(&mut self, now: Instant, local_route: u32, at_once: bool) {
        let limit = lower_limit(self.config.rate, self.routes.imposed_rate(local_route));
        if limit.is_none() && !at_once {
            return;
        }
        let Some((neighbour, route)) =
            self.routes
                .mark_rate_sent(local_route, now, RATE_INTERVAL, at_once)
        else {
            return;
        };
        let (rate, burst) = match limit {
            Some(limit) => (limit.rate_bytes_per_s, limit.burst_bytes),
            None => (UNLIMITED, UNLIMITED),
        };
        self.send_own(neighbour, route, 0, BodyV3::Rcntl { rate, burst });
    }

    /// What is to become of a packet; None when it is dropped.
    fn process(&mut self, now: Instant, from: Address, packet: &[u8]) -> Option<()> {
        let header = HeaderV3::parse_header_only(VERSION, packet).ok()?;
        match header.kind {
            PacketKind::Route => return self.handle_route(now, from, &header, packet),
            PacketKind::Maint if header.route == 0 => {
                return self.handle_maint(from, &header, packet);
            }
            _ => {}
        }
        let local_route = match self.routes.find(from, header.route) {
            Some(local_route) => local_route,
            None => self.install_path(now, from, &header, packet)?,
        };
        if header.kind == PacketKind::Rcntl {
            return self.handle_rcntl(now, local_route, packet);
        }
        let opens_path = matches!(header.kind, PacketKind::First | PacketKind::Path);
        let has_sreq = header.options.has(Options::SREQ);
        if header.route & RTN_V3 == 0 && (opens_path || has_sreq) {
            let route = self.routes.outgoing_route(local_route);
            self.send_own(
                from,
                route,
                0,
                BodyV3::Route {
                    op: ROUTE_ASSIGN,
                    route: local_route,
                },
            );
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

    /// A trail for a FIRST or PATH: the leg it came by.
    fn install_path(
        &mut self,
        now: Instant,
        from: Address,
        header: &HeaderV3,
        packet: &[u8],
    ) -> Option<u32> {
        let opens_path = matches!(header.kind, PacketKind::First | PacketKind::Path);
        if !opens_path || header.route == 0 || header.route & RTN_V3 != 0 {
            return None;
        }
        // Here one look is taken behind the header, so all of it is checked.
        let body = PacketV3::parse(VERSION, packet).ok()?.body;
        let (BodyV3::First { address, .. } | BodyV3::Path(address)) = body else {
            return None;
        };
        let Some(to) = self.next_hop(&address) else {
            self.send_refusal(from, header, DiagValue::ADDRESS_FORMAT);
            return None;
        };
        if to == from || self.paths() >= self.config.paths_max {
            self.send_refusal(from, header, DiagValue::NO_RESOURCE);
            return None;
        }
        let due = now + self.config.idle_timeout;
        Some(self.routes.install(from, header.route, to, due))
    }

    /// The next neighbour on the way to an address.
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

    fn handle_maint(&mut self, from: Address, header: &HeaderV3, packet: &[u8]) -> Option<()> {
        let BodyV3::Maint(InformationSegment {
            op: OP_REQUEST,
            octets,
        }) = PacketV3::parse(VERSION, packet).ok()?.body
        else {
            return None;
        };
        let info = InformationSegment {
            op: OP_RESPONSE,
            octets,
        };
        self.send_own(from, 0, header.key ^ RTN_V3, BodyV3::Maint(info));
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
                    route: local_route.unwrap_or(1),
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

    /// An intermediate system beyond `leg` imposes a rate, which whoever sends that way must know.
    fn handle_rcntl(&mut self, now: Instant, local_route: u32, packet: &[u8]) -> Option<()> {
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
            if let Some((local_route, neighbour, route)) = released {
                let body = BodyV3::Route {
                    op: ROUTE_RELEASE,
                    route: local_route,
                };
                self.send_own(neighbour, route, 0, body);
            }
        }
    }
}

/// What both of two limits allow.
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

impl Protocol for Router {
    fn properties(&self) -> Properties {
        Properties {
            packet_max: PACKET_MAX,
            packet_len: None,
            framing: Framing::Records,
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

impl engine::Router for Router {
    fn forwarded_from(&self) -> u64 {
        self.last_forwarded
    }

    /// What goes by a known route and is passed on as it is needs no look behind the header.
    fn supports_cut_through(&self, path: Path, head: &[u8]) -> bool {
        let Ok(header) = HeaderV3::parse_header_only(VERSION, head) else {
            return false;
        };
        let passes = !matches!(header.kind, PacketKind::Route | PacketKind::Rcntl);
        passes && self.routes.find(path.remote, header.route).is_some()
    }
}
