//! A star network in virtual time: stations around routers, each with a link of its own.

use crate::pair::MS;
use crate::user::{Plan, User};
use engine::test_kit::{nothing, written};
use engine::{
    Address, Associations, Batch, Deliveries, Delivery, Event, Instant, Protocol, Received,
};
use engine_xtp::pdu::Version;
use engine_xtp::pdu::v3::HeaderV3;
use engine_xtp::{Config, RouterConfig, Xtp, XtpRouter};
use link::{Link, LinkConfig};
use std::collections::BTreeMap;

/// Octets of framing around a packet, as in `pair`.
const FRAME_OVERHEAD: usize = 46;

/// A node of the network.
pub enum Node {
    /// A station with its users.
    Endpoint(Box<Xtp>, Vec<User>),
    /// A router.
    Router(Box<XtpRouter>),
}

/// A sent packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub at_ps: u64,
    pub from: u32,
    pub to: u32,
    pub packet: Vec<u8>,
}

enum NetEvent {
    Arrival { to: u32, from: u32, packet: Vec<u8> },
    Wake(u32, usize),
}

pub struct Star {
    pub nodes: BTreeMap<u32, Node>,
    /// Links by source and destination.
    links: BTreeMap<(u32, u32), Link>,
    link: LinkConfig,
    /// Routers forward packets as soon as the header has arrived.
    pub cut_through: bool,
    config: Config,
    /// The plan of users whose associations the peer opened.
    pub answer: Plan,
    queue: BTreeMap<(u64, u64), NetEvent>,
    made: u64,
    pub now_ps: u64,
    pub trace: Vec<Sent>,
    seed: u64,
    /// Drops the packets for which it returns true.
    pub drop_if: Option<fn(&Sent) -> bool>,
}

impl Star {
    /// A network without stations; `config` applies to all that are added.
    pub fn new(config: &Config, link: LinkConfig, seed: u64) -> Star {
        Star {
            nodes: BTreeMap::new(),
            links: BTreeMap::new(),
            link,
            cut_through: false,
            config: config.clone(),
            answer: Plan::default(),
            queue: BTreeMap::new(),
            made: 0,
            now_ps: 0,
            trace: Vec::new(),
            seed,
            drop_if: None,
        }
    }

    pub fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ps / 1000)
    }

    /// Adds a router.
    pub fn add_router(&mut self, station: u32, config: RouterConfig) {
        let router = Box::new(XtpRouter::new(config));
        self.nodes.insert(station, Node::Router(router));
    }

    pub fn router(&mut self, station: u32) -> &mut XtpRouter {
        match self.nodes.get_mut(&station) {
            Some(Node::Router(router)) => router,
            _ => panic!("no router {station}"),
        }
    }

    /// Adds a listening station behind a gateway.
    pub fn add_endpoint(&mut self, station: u32, gateway: u32) {
        let config = Config {
            gateway: Some(Address::Station(gateway)),
            seed: self.seed * 64 + u64::from(station),
            ..self.config.clone()
        };
        let mut xtp = Xtp::new(config);
        xtp.listen(true);
        self.nodes
            .insert(station, Node::Endpoint(Box::new(xtp), Vec::new()));
    }

    pub fn station(&mut self, station: u32) -> (&mut Xtp, &mut Vec<User>) {
        match self.nodes.get_mut(&station) {
            Some(Node::Endpoint(xtp, users)) => (xtp, users),
            _ => panic!("no station {station}"),
        }
    }

    /// A user at `from` opens an association to `to` and follows `plan`.
    pub fn open(&mut self, from: u32, to: u32, plan: &Plan) {
        let (now, config) = (self.now(), self.config.clone());
        let (xtp, users) = self.station(from);
        let id = xtp.connect(now, &[Address::Station(to)]).expect("room");
        let mut user = User::new(plan, &config);
        user.attach(id);
        users.push(user);
    }

    /// Runs until no event is left, or until `end_ps`.
    pub fn run(&mut self, end_ps: u64) {
        loop {
            let stations: Vec<u32> = self.nodes.keys().copied().collect();
            for station in &stations {
                self.serve(*station);
            }
            let deadlines = self.nodes.values().filter_map(|node| match node {
                Node::Endpoint(xtp, _) => xtp.poll_timeout(),
                Node::Router(router) => router.poll_timeout(),
            });
            let next = deadlines.map(|at| at.as_nanos() * 1000);
            let next = next
                .chain(self.queue.keys().next().map(|&(at, _)| at))
                .min();
            let Some(next) = next.filter(|at| *at <= end_ps) else {
                return;
            };
            self.now_ps = self.now_ps.max(next);
            self.arrivals();
            let now = self.now();
            for node in self.nodes.values_mut() {
                match node {
                    Node::Endpoint(xtp, _) => xtp.handle_timeout(now),
                    Node::Router(router) => router.handle_timeout(now),
                }
            }
        }
    }

    fn arrivals(&mut self) {
        while let Some(entry) = self.queue.first_entry() {
            if entry.key().0 > self.now_ps {
                return;
            }
            match entry.remove() {
                NetEvent::Wake(station, user) => self.station(station).1[user].wake(),
                NetEvent::Arrival { to, from, packet } => self.arrive(to, from, &packet),
            }
        }
    }

    fn arrive(&mut self, to: u32, from: u32, packet: &[u8]) {
        let now = self.now();
        let mut deliveries = Deliveries::default();
        let from = Address::Station(from);
        match self.nodes.get_mut(&to) {
            Some(Node::Router(router)) => {
                router.handle_packet(now, Received::new(from, packet), &mut deliveries);
            }
            Some(Node::Endpoint(xtp, _)) => {
                xtp.handle_packet(now, Received::new(from, packet), &mut deliveries);
                self.deliver(to, deliveries.bytes, packet);
            }
            None => {}
        }
    }

    /// Hands out deliveries before events, so that users see data before the end of the stream.
    fn deliver(&mut self, station: u32, deliveries: Vec<Delivery>, packet: &[u8]) {
        let (config, plan) = (self.config.clone(), self.answer.clone());
        let (xtp, users) = self.station(station);
        let events: Vec<Event> = std::iter::from_fn(|| xtp.poll_event()).collect();
        for event in &events {
            if let Event::Accepted(id, _) = *event {
                let mut user = User::new(&plan, &config);
                user.attach(id);
                users.push(user);
            }
        }
        for delivery in deliveries {
            let id = delivery.association;
            let user = users.iter_mut().find(|user| user.has(id));
            user.expect("an association has a user")
                .deliver(delivery, packet);
        }
        for event in events {
            users
                .iter_mut()
                .for_each(|user| user.handle_event(event.clone()));
        }
    }

    fn take_events(&mut self, station: u32) {
        self.deliver(station, Vec::new(), &[]);
    }

    fn serve(&mut self, station: u32) {
        let (now, now_ps) = (self.now(), self.now_ps);
        if let Some(Node::Endpoint(..)) = self.nodes.get(&station) {
            self.take_events(station);
            let (xtp, users) = self.station(station);
            let mut wakes = Vec::new();
            for (index, user) in users.iter_mut().enumerate() {
                wakes.extend(user.act(now, xtp).map(|pause| (now_ps + pause, index)));
            }
            for (at_ps, user) in wakes {
                self.push(at_ps, NetEvent::Wake(station, user));
            }
        }
        loop {
            let mut batch = Batch::new(1);
            let packets = match self.nodes.get_mut(&station) {
                Some(Node::Endpoint(xtp, users)) => {
                    xtp.poll_transmit(now, &mut batch);
                    let is_sender = |user: &&User| batch.sender().is_some_and(|id| user.has(id));
                    match users.iter().find(is_sender) {
                        Some(user) => user.gather(&batch),
                        None => written(&batch, nothing),
                    }
                }
                Some(Node::Router(router)) => {
                    router.poll_transmit(now, &mut batch);
                    written(&batch, nothing)
                }
                None => return,
            };
            let Some(Address::Station(to)) = batch.path().map(|path| path.remote) else {
                break;
            };
            if packets.is_empty() {
                break;
            }
            for packet in packets {
                self.carry(station, to, packet);
            }
            if let Some(Node::Endpoint(..)) = self.nodes.get(&station) {
                self.take_events(station);
            }
        }
    }

    fn push(&mut self, at_ps: u64, event: NetEvent) {
        self.made += 1;
        self.queue.insert((at_ps, self.made), event);
    }

    fn carry(&mut self, from: u32, to: u32, mut packet: Vec<u8>) {
        HeaderV3::parse_header_only(Version::V36, &packet).expect("a good header was built");
        let sent = Sent {
            at_ps: self.now_ps,
            from,
            to,
            packet: packet.clone(),
        };
        let lost = self.drop_if.is_some_and(|drop_if| drop_if(&sent));
        self.trace.push(sent);
        let (config, seed) = (self.link, self.seed);
        let number = from * 64 + to;
        let link = self.links.entry((from, to));
        let link = link.or_insert_with(|| Link::new(config, seed, number));
        let octets = packet.len() + FRAME_OVERHEAD;
        let fate = link.offer(self.now_ps, octets);
        if let Some(bit) = fate.corrupt_bit
            && let Some(octet) = packet.get_mut((bit / 8) as usize)
        {
            *octet ^= 1 << (bit % 8);
        }
        let passes = matches!(self.nodes.get(&to), Some(Node::Router(_)));
        for at_ps in [fate.arrival_ps, fate.copy_ps].into_iter().flatten() {
            // With cut-through, a packet arrives earlier by the time of what follows its header.
            let rest = octets.saturating_sub(FRAME_OVERHEAD + Version::V36.header_len());
            let rate = self.link.rate_bps.unwrap_or(u64::MAX);
            let ahead = (rest as u128 * 8 * 1_000_000_000_000 / u128::from(rate)) as u64;
            let cut = if passes && self.cut_through { ahead } else { 0 };
            let at_ps = at_ps.saturating_sub(cut).max(self.now_ps);
            if !lost {
                let packet = packet.clone();
                self.push(at_ps, NetEvent::Arrival { to, from, packet });
            }
        }
    }
}

/// Long enough for all routes to be released after the last association ended.
pub const LONG: u64 = 600_000 * MS;
