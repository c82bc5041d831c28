//! A multicast medium in virtual time: stations with a group endpoint and a user each.
//!
//! A frame passes the sender's outgoing link, whose faults all receivers share, and then the
//! incoming link of each receiver, whose faults are its own.

use super::dishonest::Dishonesty;
use super::plan::Station;
use super::reading::{Reading, log_line, read};
use engine::test_kit::written;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, Bytes, CloseReason, Deliveries,
    Event, Instant, Protocol, Received, Store,
};
use engine_xtp::group::{Config, GroupEndpoint, Holdings, Member};
use engine_xtp::pdu::{Options, Reject};
use link::Link;
use std::collections::{BTreeMap, BTreeSet};

/// The group's address: all other stations.
pub const ALL: Address = Address::Station(u32::MAX);

const FRAME_OVERHEAD: usize = 46;

/// Size of a sender's send buffer.
const STORE_LEN: u64 = 256 << 10;

/// A stream as a station received it.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The position of its first byte in the sender's stream.
    pub start: Option<u64>,
    pub bytes: u64,
    pub wrong: u64,
    pub gaps: u64,
    pub finished: bool,
    pub closed: Option<CloseReason>,
}

/// A station: its engine and its user.
pub struct Host {
    pub engine: GroupEndpoint,
    pub plan: Station,
    pub is_up: bool,
    /// The stream it sends.
    pub sending: Option<AssociationId>,
    pub connected: bool,
    pub closed: Option<CloseReason>,
    /// Its user never finishes the stream.
    pub never_ends: bool,
    written: u64,
    pub released: u64,
    finished: bool,
    /// The streams it receives, and those from before a crash.
    pub streams: BTreeMap<AssociationId, Stream>,
    pub earlier_streams: Vec<Stream>,
    pub member_events: Vec<Member>,
    unread: Vec<(u64, AssociationId, u64)>,
    dishonesty: Dishonesty,
    in_link: Link,
    out_link: Link,
}

impl Host {
    /// Packets it retransmitted.
    pub fn engine_retransmissions(&self) -> u64 {
        self.engine.counters().retransmissions
    }
}

enum NetEvent {
    /// A frame reaches the medium: sender, destination, octets.
    Air(usize, Address, Vec<u8>),
    Arrival(usize, usize, Vec<u8>),
    Wake(usize),
    Crash(usize),
    Start(usize),
}

pub struct GroupNetwork {
    pub hosts: Vec<Host>,
    pub now_ps: u64,
    /// Time, station and octets of each packet sent.
    pub trace: Vec<(u64, usize, Vec<u8>)>,
    /// Syncs of the status requests of station 0 in order.
    pub requests: Vec<u32>,
    /// Echoes that station 0 accepted, by receiver.
    pub echoes_accepted: BTreeMap<usize, BTreeSet<u32>>,
    /// The highest holdings of station 0.
    pub holdings_max: Holdings,
    queue: BTreeMap<(u64, u64), NetEvent>,
    made: u64,
    seed: u64,
}

/// The byte of a stream of station `from` at `position`.
fn byte(from: usize, position: u64) -> u8 {
    let mixed = (position ^ (from as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 56) as u8
}

impl GroupNetwork {
    pub fn new(stations: Vec<Station>, seed: u64) -> GroupNetwork {
        let host = |(index, plan): (usize, Station)| {
            let link = |config, direction| Link::new(config, seed, direction);
            let own = Config {
                seed: seed * 1000 + index as u64,
                ..plan.config.clone()
            };
            Host {
                engine: GroupEndpoint::new(own),
                is_up: false,
                sending: None,
                connected: false,
                closed: None,
                never_ends: false,
                written: 0,
                released: 0,
                finished: false,
                streams: BTreeMap::new(),
                earlier_streams: Vec::new(),
                member_events: Vec::new(),
                unread: Vec::new(),
                dishonesty: Dishonesty::new(plan.lie),
                in_link: link(plan.link, index as u32 * 2),
                out_link: link(plan.out, index as u32 * 2 + 1),
                plan,
            }
        };
        let hosts: Vec<Host> = stations.into_iter().enumerate().map(host).collect();
        let mut network = GroupNetwork {
            hosts,
            now_ps: 0,
            trace: Vec::new(),
            requests: Vec::new(),
            echoes_accepted: BTreeMap::new(),
            holdings_max: Holdings::default(),
            queue: BTreeMap::new(),
            made: 0,
            seed,
        };
        for index in 0..network.hosts.len() {
            let plan = network.hosts[index].plan.clone();
            network.push(plan.start_ps, NetEvent::Start(index));
            if let Some(at_ps) = plan.crash_ps {
                network.push(at_ps, NetEvent::Crash(index));
            }
            if let Some(at_ps) = plan.restart_ps {
                network.push(at_ps, NetEvent::Start(index));
            }
        }
        network
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.now_ps / 1000)
    }

    /// Runs until no event is left, or until `limit_ps`.
    pub fn run(&mut self, limit_ps: u64) {
        let mut still = 0;
        loop {
            let before = self.now_ps;
            for station in 0..self.hosts.len() {
                self.serve(station);
            }
            let holdings = self.hosts[0].engine.holdings();
            self.holdings_max.unreleased = self.holdings_max.unreleased.max(holdings.unreleased);
            self.holdings_max.entries = self.holdings_max.entries.max(holdings.entries);
            self.holdings_max.members = self.holdings_max.members.max(holdings.members);
            let up = self.hosts.iter().filter(|host| host.is_up);
            let deadlines = up.filter_map(|host| host.engine.poll_timeout());
            let next = deadlines
                .map(|at| at.as_nanos() * 1000)
                .chain(self.queue.keys().next().map(|&(at, _)| at))
                .min();
            let Some(next) = next.filter(|at| *at <= limit_ps) else {
                return;
            };
            self.now_ps = self.now_ps.max(next);
            still = if self.now_ps == before { still + 1 } else { 0 };
            assert!(still < 10_000, "seed {}: time does not advance", self.seed);
            while let Some(entry) = self.queue.first_entry() {
                if entry.key().0 > self.now_ps {
                    break;
                }
                let event = entry.remove();
                self.handle_event(event);
            }
            for station in 0..self.hosts.len() {
                self.handle_timeout(station);
            }
        }
    }

    /// A forged packet reaches station `to` at `at_ps`, with `from` as its source.
    pub fn forge(&mut self, at_ps: u64, from: usize, to: usize, packet: Vec<u8>) {
        self.push(at_ps, NetEvent::Arrival(from, to, packet));
    }

    fn push(&mut self, at_ps: u64, event: NetEvent) {
        self.made += 1;
        self.queue.insert((at_ps, self.made), event);
    }

    fn handle_timeout(&mut self, station: usize) {
        let now = self.now();
        let host = &mut self.hosts[station];
        if host.is_up && host.engine.poll_timeout().is_some_and(|at| at <= now) {
            host.engine.handle_timeout(now);
            let next = host.engine.poll_timeout();
            assert!(
                next.is_none_or(|at| at > now),
                "an expired timer stays armed"
            );
        }
    }

    fn handle_event(&mut self, event: NetEvent) {
        match event {
            NetEvent::Air(from, to, packet) => self.propagate(from, to, &packet),
            NetEvent::Arrival(from, to, packet) => self.arrive(from, to, &packet),
            NetEvent::Wake(station) => self.read(station),
            NetEvent::Crash(station) => {
                let host = &mut self.hosts[station];
                host.is_up = false;
                host.unread.clear();
                let streams = std::mem::take(&mut host.streams);
                host.earlier_streams.extend(streams.into_values());
            }
            NetEvent::Start(station) => self.start(station),
        }
    }

    fn start(&mut self, station: usize) {
        let now = self.now();
        let seed = self.seed * 1000 + station as u64 + self.now_ps;
        let host = &mut self.hosts[station];
        host.engine = GroupEndpoint::new(Config {
            seed,
            ..host.plan.config.clone()
        });
        host.is_up = true;
        match host.plan.sends {
            Some(_) => host.sending = host.engine.connect(now, &[ALL]).ok(),
            None => host.engine.listen(true),
        }
    }

    fn propagate(&mut self, from: usize, to: Address, packet: &[u8]) {
        for station in 0..self.hosts.len() {
            let wanted = to == ALL && station != from || to == Address::Station(station as u32);
            let host = &mut self.hosts[station];
            if !wanted || host.plan.cut_ps.contains(&self.now_ps) {
                continue;
            }
            let verdict = host.in_link.offer(self.now_ps, packet.len());
            for at_ps in [verdict.arrival_ps, verdict.copy_ps].into_iter().flatten() {
                let mut packet = packet.to_vec();
                if let Some(bit) = verdict.corrupt_bit
                    && let Some(octet) = packet.get_mut((bit / 8) as usize)
                {
                    *octet ^= 1 << (bit % 8);
                }
                self.push(at_ps, NetEvent::Arrival(from, station, packet));
            }
        }
    }

    fn arrive(&mut self, from: usize, to: usize, packet: &[u8]) {
        let now = self.now();
        let host = &mut self.hosts[to];
        if !host.is_up {
            return;
        }
        let late = host.engine.rejects().count(Reject::Released);
        let mut deliveries = Deliveries::default();
        let source = Address::Station(from as u32);
        host.engine
            .handle_packet(now, Received::new(source, packet), &mut deliveries);
        let taken = host.engine.rejects().count(Reject::Released) == late;
        if to == 0 && taken {
            self.record_echo(from, packet);
        }
        for delivery in deliveries.bytes {
            let bytes = match delivery.bytes {
                Bytes::Packet(range) => packet[range].to_vec(),
                Bytes::Reassembled(bytes) => bytes,
            };
            self.deliver(from, to, delivery.association, delivery.gap, &bytes);
        }
        self.take_events(to);
    }

    fn record_echo(&mut self, from: usize, packet: &[u8]) {
        if let Some(Reading {
            echo: Some(echo), ..
        }) = self.read_packet(packet)
        {
            self.echoes_accepted.entry(from).or_default().insert(echo.0);
        }
    }

    fn deliver(&mut self, from: usize, to: usize, id: AssociationId, gap: bool, bytes: &[u8]) {
        let at_ps = self.now_ps + self.hosts[to].plan.pause.as_nanos() as u64 * 1000;
        let host = &mut self.hosts[to];
        let stream = host.streams.entry(id).or_default();
        assert!(
            !stream.finished && stream.closed.is_none(),
            "bytes after the end of the stream"
        );
        if gap {
            stream.gaps += 1;
        }
        if stream.start.is_none() || gap {
            // The position is found by the bytes: the first that matches.
            let starts = if gap { 0..4_000_000 } else { 0..1 };
            let fits = |start: &u64| {
                let mut pairs = (*start..).zip(bytes);
                pairs.all(|(at, octet)| byte(from, at) == *octet)
            };
            let known = stream.start.map_or(0, |first| first + stream.bytes);
            stream.start = starts
                .filter(|start| *start >= known)
                .find(fits)
                .map(|start| start - stream.bytes);
        }
        let first = stream.start.unwrap_or(0) + stream.bytes;
        let wrong = (first..)
            .zip(bytes)
            .filter(|(at, octet)| byte(from, *at) != **octet);
        stream.wrong += wrong.count() as u64;
        stream.bytes += bytes.len() as u64;
        host.unread.push((at_ps, id, bytes.len() as u64));
        self.push(at_ps, NetEvent::Wake(to));
    }

    /// The user of `station` consumes the bytes whose pause is over.
    fn read(&mut self, station: usize) {
        let now = self.now();
        let host = &mut self.hosts[station];
        let due: Vec<_> = host
            .unread
            .extract_if(.., |(at, ..)| *at <= self.now_ps)
            .collect();
        for (_, id, bytes) in due {
            host.engine.consume(now, id, bytes);
        }
    }

    fn take_events(&mut self, station: usize) {
        let host = &mut self.hosts[station];
        while let Some(event) = host.engine.poll_event() {
            match event {
                Event::Connected(_) => host.connected = true,
                Event::Accepted(id, _) => {
                    host.streams.entry(id).or_default();
                }
                Event::Released(_, range) => {
                    assert!(
                        range.end <= host.written,
                        "released bytes that were never written"
                    );
                    assert_eq!(range.start, host.released, "not the next bytes");
                    host.released = range.end;
                }
                Event::Finished(id) => host.streams.entry(id).or_default().finished = true,
                Event::Closed(id, reason) if Some(id) == host.sending => host.closed = Some(reason),
                Event::Closed(id, reason) => {
                    host.streams.entry(id).or_default().closed = Some(reason);
                }
                other => panic!("no event of a group: {other:?}"),
            }
        }
        while let Some((_, member)) = host.engine.poll_member_event() {
            host.member_events.push(member);
        }
    }

    fn serve(&mut self, station: usize) {
        if !self.hosts[station].is_up {
            return;
        }
        self.take_events(station);
        self.write(station);
        let now = self.now();
        let mut sent = 0;
        loop {
            let mut batch = Batch::new(1 + station % 3);
            self.hosts[station].engine.poll_transmit(now, &mut batch);
            let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
                break;
            };
            for packet in self.gather(station, &batch) {
                self.carry(station, path.remote, packet);
            }
            sent += 1;
            assert!(sent < 10_000, "endless transmission");
            self.take_events(station);
        }
        self.take_events(station);
    }

    fn write(&mut self, station: usize) {
        let now = self.now();
        let host = &mut self.hosts[station];
        let (Some(total), Some(id)) = (host.plan.sends, host.sending) else {
            return;
        };
        let to = total.min(host.released + STORE_LEN);
        if host.connected && to > host.written {
            host.written = to;
            host.engine.push(now, id, to);
            if host.plan.asks {
                host.engine.request_ack(now, id);
            }
        }
        if host.written == total && !host.finished && !host.never_ends {
            host.finished = true;
            host.engine.finish(now, id);
        }
    }

    fn gather(&self, station: usize, batch: &Batch) -> Vec<Vec<u8>> {
        let host = &self.hosts[station];
        written(batch, |store, range, out| {
            let own = host.sending.map(Store::Association);
            assert_eq!(Some(store), own, "a receiver sent DATA");
            assert!(
                range.start >= host.released,
                "a packet names released bytes"
            );
            assert!(
                range.end <= host.written,
                "a packet names bytes that were never written"
            );
            out.extend(range.clone().map(|at| byte(station, at)));
        })
    }

    fn carry(&mut self, station: usize, to: Address, packet: Vec<u8>) {
        let packet = self.hosts[station].dishonesty.falsify(packet);
        let reading = self.read_packet(&packet);
        let reading = reading.expect("an engine sends good packets");
        assert!(reading.options.has(Options::MULTI));
        if station == 0 && reading.options.has(Options::SREQ) && reading.is_cntl {
            self.requests.push(reading.sync.0);
        }
        self.trace.push((self.now_ps, station, packet.clone()));
        let host = &mut self.hosts[station];
        if host.plan.cut_ps.contains(&self.now_ps) {
            return;
        }
        let verdict = host
            .out_link
            .offer(self.now_ps, packet.len() + FRAME_OVERHEAD);
        for at_ps in [verdict.arrival_ps, verdict.copy_ps].into_iter().flatten() {
            self.push(at_ps, NetEvent::Air(station, to, packet.clone()));
        }
    }

    fn read_packet(&self, packet: &[u8]) -> Option<Reading> {
        read(self.hosts[0].plan.config.version, packet)
    }

    /// The longest run of requests of station 0 that `station` left unanswered.
    pub fn longest_silence(&self, station: usize) -> usize {
        let none = BTreeSet::new();
        let echoes_accepted = self.echoes_accepted.get(&station).unwrap_or(&none);
        let mut longest = 0;
        let mut run = 0;
        for sync in &self.requests {
            run = if echoes_accepted.contains(sync) {
                0
            } else {
                run + 1
            };
            longest = longest.max(run);
        }
        longest
    }

    /// The stream that `station` receives.
    pub fn stream(&self, station: usize) -> Option<&Stream> {
        self.hosts[station].streams.values().next()
    }

    /// The last packets as text, for the message of a failed assertion.
    pub fn packet_log(&self, count: usize) -> String {
        let skipped = self.trace.len().saturating_sub(count);
        self.trace[skipped..].iter().map(log_line).collect()
    }
}
