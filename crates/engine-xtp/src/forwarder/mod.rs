//! An intermediate system of XTP 3.6: it passes packets between neighbours by their routes.
//!
//! A FIRST or PATH is passed on by its address segment, and leaves a *trail*: two `legs`, one to
//! the neighbour it came from and one to the next. Everything later finds its leg by the route in
//! its header, without a look behind the header, in either direction. So a packet could be passed on
//! when its header is there (cut-through); the check in the trailer is the receiver's affair.
//!
//! An intermediate system may impose a rate on the associations of a route (RCNTL), which it tells
//! its neighbours when a trail is made, when the rate changes, and now and then while they ask.

mod legs;

use crate::api::RateLimit;
use crate::pdu::three::{Body3, Header3, Information, Kind, Packet3, RTN3};
use crate::pdu::{AddressSegment, Diag, DiagCode, DiagValue, Dialect, Options, UNLIMITED};
use crate::procedure::route::{ANSWERS, ASKS, ASSIGN, RELEASE, RELEASED};
use core::net::IpAddr;
use core::time::Duration;
use engine::{
    Address, Batch, AssociationId, CommandError, Counters, Delivery, Engine, Event, Instant,
    SegmentLayout,
};
use legs::Legs;
use std::collections::{BTreeMap, VecDeque};

/// What an intermediate system does.
#[derive(Clone, Debug)]
pub struct ForwarderConfig {
    /// The neighbour on the way to a host. Hosts that are not listed are stations of a simulator,
    /// and neighbours themselves.
    pub next: BTreeMap<IpAddr, Address>,
    /// Hosts that are not listed are nobody: on a real network it passes nothing on to them.
    pub only_listed: bool,
    /// What all associations of a route together may send through it.
    pub rate: Option<RateLimit>,
    /// Trails at most; each takes some 300 bytes.
    ///
    /// 4096, as many as an endpoint has routes.
    pub trails_max: usize,
    /// A trail that nothing passed for so long is forgotten.
    ///
    /// Two minutes: associations ask after a minute of silence.
    pub idle: Duration,
    /// Wait for the answer to a release, doubled with each try.
    ///
    /// 500 ms, as an association's first WTIMER.
    pub wait: Duration,
    /// Octets that wait to be sent at most; more are dropped.
    ///
    /// 1 MiB is an endpoint's window.
    pub queue_max: usize,
}

impl Default for ForwarderConfig {
    fn default() -> Self {
        ForwarderConfig {
            next: BTreeMap::new(),
            only_listed: false,
            rate: None,
            trails_max: 4096,
            idle: Duration::from_secs(120),
            wait: Duration::from_millis(500),
            queue_max: 1 << 20,
        }
    }
}

/// An intermediate system. It has no circuits of its own.
#[derive(Debug)]
pub struct Forwarder {
    config: ForwarderConfig,
    legs: Legs,
    /// Where to, what, and which arrival it was; 0 for its own.
    queue: VecDeque<(Address, Vec<u8>, u64)>,
    /// The arrival transmitted last.
    relayed: u64,
    queued: usize,
    counters: Counters,
}

const DIALECT: Dialect = Dialect::V36;

/// A rate is told again to a neighbour that asks for something, so often.
const TELL_EVERY: Duration = Duration::from_secs(1);

impl Forwarder {
    /// One without trails.
    pub fn new(config: ForwarderConfig) -> Forwarder {
        Forwarder {
            config,
            legs: Legs::default(),
            queue: VecDeque::new(),
            relayed: 0,
            queued: 0,
            counters: Counters::default(),
        }
    }

    /// Trails there are.
    pub fn trails(&self) -> usize {
        self.legs.len().div_ceil(2)
    }

    /// Imposes a rate on every route from now on, and tells all neighbours.
    pub fn impose(&mut self, now: Instant, rate: Option<RateLimit>) {
        self.config.rate = rate;
        for leg in self.legs.all() {
            self.tell_rate(now, leg, true);
        }
    }

    fn send(&mut self, to: Address, octets: Vec<u8>, arrival: u64) {
        if self.queued + octets.len() > self.config.queue_max {
            self.counters.packets_discarded += 1;
            return;
        }
        self.queued += octets.len();
        self.counters.packets_built += 1;
        self.counters.bytes_copied += octets.len() as u64;
        self.queue.push_back((to, octets, arrival));
    }

    /// Sends a packet of its own.
    fn say(&mut self, to: Address, route: u32, key: u32, body: Body3<'_>) {
        let header = Header3 {
            kind: body.kind(),
            options: Options::NONE,
            front: 0,
            back: 0,
            key,
            route,
            seq: 0,
            dseq: 0,
            sync: 0,
            dlen: 0,
            sort: 0,
            ttl: 1,
        };
        self.send(to, Packet3 { header, body }.emit(DIALECT), 0);
    }

    fn refuse(&mut self, to: Address, header: &Header3, value: DiagValue) {
        let diag = Diag {
            code: DiagCode::REFUSED,
            value,
            text: b"",
        };
        self.say(
            to,
            header.route ^ RTN3,
            header.key ^ RTN3,
            Body3::Diag(diag),
        );
    }

    /// Tells a neighbour the rate of its route, not more often than useful.
    fn tell_rate(&mut self, now: Instant, leg: u32, at_once: bool) {
        let limit = lowest(self.config.rate, self.legs.beyond(leg));
        if limit.is_none() && !at_once {
            return;
        }
        let Some((neighbour, route)) = self.legs.tell(leg, now, TELL_EVERY, at_once) else {
            return;
        };
        let (rate, burst) = match limit {
            Some(limit) => (limit.rate_bytes_per_s, limit.burst_bytes),
            None => (UNLIMITED, UNLIMITED),
        };
        self.say(neighbour, route, 0, Body3::Rcntl { rate, burst });
    }

    /// What is to become of a packet; None when it is dropped.
    fn take(&mut self, now: Instant, from: Address, packet: &[u8]) -> Option<()> {
        let header = Header3::parse_head(DIALECT, packet).ok()?;
        match header.kind {
            Kind::Route => return self.take_route(now, from, &header, packet),
            Kind::Maint if header.route == 0 => return self.take_maint(from, &header, packet),
            _ => {}
        }
        let leg = match self.legs.find(from, header.route) {
            Some(leg) => leg,
            None => self.lay(now, from, &header, packet)?,
        };
        if header.kind == Kind::Rcntl {
            return self.take_limit(now, leg, packet);
        }
        let makes = matches!(header.kind, Kind::First | Kind::Path);
        let asks = header.options.has(Options::SREQ);
        if header.route & RTN3 == 0 && (makes || asks) {
            let route = self.legs.outgoing(leg);
            self.say(
                from,
                route,
                0,
                Body3::Route {
                    op: ASSIGN,
                    route: leg,
                },
            );
        }
        if makes || asks {
            let news = makes && self.config.rate.is_some();
            self.tell_rate(now, leg, news);
        }
        if header.ttl == 0 {
            return None;
        }
        let (to, route) = self.legs.pass(leg, now + self.config.idle)?;
        let mut octets = packet.to_vec();
        let changed = Header3 {
            route,
            ttl: header.ttl - 1,
            ..header
        };
        octets[..DIALECT.header_len()].copy_from_slice(&changed.emit(DIALECT));
        self.send(to, octets, self.counters.packets_parsed);
        Some(())
    }

    /// A trail for a FIRST or PATH: the leg it came by.
    fn lay(&mut self, now: Instant, from: Address, header: &Header3, packet: &[u8]) -> Option<u32> {
        let makes = matches!(header.kind, Kind::First | Kind::Path);
        if !makes || header.route == 0 || header.route & RTN3 != 0 {
            return None;
        }
        // Here one look is taken behind the header, so all of it is checked.
        let body = Packet3::parse(DIALECT, packet).ok()?.body;
        let (Body3::First { address, .. } | Body3::Path(address)) = body else {
            return None;
        };
        let Some(to) = self.next(&address) else {
            self.refuse(from, header, DiagValue::ADDRESS_FORMAT);
            return None;
        };
        if to == from || self.trails() >= self.config.trails_max {
            self.refuse(from, header, DiagValue::NO_RESOURCE);
            return None;
        }
        let due = now + self.config.idle;
        Some(self.legs.lay(from, header.route, to, due))
    }

    /// The next neighbour on the way to an address.
    fn next(&self, address: &AddressSegment<'_>) -> Option<Address> {
        let host = match address {
            AddressSegment::V4(ends) => IpAddr::V4(ends.dst_host),
            AddressSegment::V6(ends) => IpAddr::V6(ends.dst_host),
            _ => return None,
        };
        match (self.config.next.get(&host), host) {
            (Some(next), _) => Some(*next),
            (None, _) if self.config.only_listed => None,
            (None, IpAddr::V4(host)) => Some(Address::Station(host.to_bits())),
            (None, IpAddr::V6(_)) => None,
        }
    }

    fn take_maint(&mut self, from: Address, header: &Header3, packet: &[u8]) -> Option<()> {
        let Body3::Maint(Information { op: ASKS, octets }) =
            Packet3::parse(DIALECT, packet).ok()?.body
        else {
            return None;
        };
        let info = Information {
            op: ANSWERS,
            octets,
        };
        self.say(from, 0, header.key ^ RTN3, Body3::Maint(info));
        Some(())
    }

    fn take_route(
        &mut self,
        now: Instant,
        from: Address,
        header: &Header3,
        packet: &[u8],
    ) -> Option<()> {
        let Body3::Route { op, route } = Packet3::parse(DIALECT, packet).ok()?.body else {
            return None;
        };
        if route == 0 || route & RTN3 != 0 {
            return None;
        }
        let leg = self.legs.find(from, header.route);
        match op {
            ASSIGN => {
                self.legs.assign(leg?, route);
                self.tell_rate(now, leg?, false);
            }
            RELEASE => {
                let other = leg.and_then(|leg| self.legs.release(leg, now));
                let released = Body3::Route {
                    op: RELEASED,
                    route: leg.unwrap_or(1),
                };
                self.say(from, route | RTN3, 0, released);
                if other.is_some() {
                    self.release_due(now);
                }
            }
            RELEASED => self.legs.forget(leg?),
            _ => return None,
        }
        Some(())
    }

    /// An intermediate system beyond `leg` imposes a rate, which whoever sends that way must know.
    fn take_limit(&mut self, now: Instant, leg: u32, packet: &[u8]) -> Option<()> {
        let Body3::Rcntl { rate, burst } = Packet3::parse(DIALECT, packet).ok()?.body else {
            return None;
        };
        let limit = (rate != UNLIMITED).then_some(RateLimit {
            rate_bytes_per_s: rate,
            burst_bytes: burst,
        });
        let other = self.legs.limit_beyond(leg, limit)?;
        self.tell_rate(now, other, true);
        Some(())
    }

    fn release_due(&mut self, now: Instant) {
        while let Some(released) = self.legs.take_due(now, self.config.wait) {
            if let Some((leg, neighbour, route)) = released {
                let body = Body3::Route {
                    op: RELEASE,
                    route: leg,
                };
                self.say(neighbour, route, 0, body);
            }
        }
    }
}

/// What both of two limits allow.
fn lowest(one: Option<RateLimit>, other: Option<RateLimit>) -> Option<RateLimit> {
    match (one, other) {
        (Some(one), Some(other)) => Some(RateLimit {
            rate_bytes_per_s: one.rate_bytes_per_s.min(other.rate_bytes_per_s),
            burst_bytes: one.burst_bytes.min(other.burst_bytes),
        }),
        (one, other) => one.or(other),
    }
}

impl Engine for Forwarder {
    fn layout(&self) -> SegmentLayout {
        SegmentLayout {
            header: DIALECT.overhead(),
            payload: 1456,
        }
    }

    fn connect(&mut self, _now: Instant, _to: Address) -> Result<AssociationId, CommandError> {
        Err(CommandError::TooManyAssociations)
    }

    fn listen(&mut self, _accept: bool) {}

    fn submit(&mut self, _now: Instant, _circuit: AssociationId, _end: u64, _push: bool) {}

    fn consume(&mut self, _now: Instant, _circuit: AssociationId, _bytes: u64) {}

    fn finish(&mut self, _now: Instant, _circuit: AssociationId) {}

    fn abort(&mut self, _now: Instant, _circuit: AssociationId) {}

    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        _deliveries: &mut Vec<Delivery>,
    ) {
        self.counters.packets_parsed += 1;
        self.counters.bytes_summed += DIALECT.header_len() as u64;
        if self.take(now, from, packet).is_none() {
            self.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.release_due(now);
    }

    fn poll_transmit(&mut self, _now: Instant, batch: &mut Batch) {
        if let Some((to, octets, arrival)) = self.queue.pop_front() {
            self.relayed = arrival;
            self.queued -= octets.len();
            batch.set_destination(AssociationId(0), to);
            batch.push(&octets, 0..0);
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        None
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.legs.deadline()
    }

    fn bytes_in_flight(&self, _circuit: AssociationId) -> u64 {
        0
    }

    /// What goes by a known route and is passed on as it is needs no look behind the header.
    fn supports_cut_through(&self, from: Address, head: &[u8]) -> bool {
        let Ok(header) = Header3::parse_head(DIALECT, head) else {
            return false;
        };
        let passes = !matches!(header.kind, Kind::Route | Kind::Rcntl);
        passes && self.legs.find(from, header.route).is_some()
    }

    fn forwarded_from(&self) -> Option<u64> {
        Some(self.relayed)
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
