//! An XTP endpoint driven by a script.
//!
//! A script is a sequence of commands: an opcode, an octet or two of arguments, and for packets
//! their octets. Lengths, checksums and keys are mostly fixed up, as an attacker would, so that
//! packets pass the first checks.

use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, Bytes, Deliveries, Event,
    Framing, Instant, Note, Protocol, Received, SendFlags, Store,
};
use engine_xtp::pdu::{Body, CHECK_AT, Format, HEADER_LEN, Header, Options, Packet, RTN, Service};
use engine_xtp::{
    Config, Congestion, ErrorControl, FlowControl, RateLimit, SpanMeaning, StatusRequestKind, Xtp,
};
use std::collections::BTreeMap;

const WINDOW: u64 = 32 << 10;
const ASSOCIATIONS_MAX: usize = 6;
const QUARANTINE_MAX: usize = 8;

/// Limit of bytes written to an association's send buffer.
const STORE_MAX: u64 = 64 << 10;

/// A rate that an endpoint sets itself: slow enough that it matters, and fast enough that a script
/// ends.
const OWN_RATE: RateLimit = RateLimit {
    rate_bytes_per_s: 1_000_000,
    burst_bytes: 4096,
};

/// Limit of packets sent after one input: everything written, in messages of 16 bytes, on all
/// associations.
const BURST_MAX: usize = ASSOCIATIONS_MAX * STORE_MAX as usize / 16;

/// Counters of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets that were accepted.
    pub accepted: u64,
    /// User bytes delivered.
    pub delivered: u64,
    /// Packets the endpoint sent.
    pub sent: u64,
}

/// Powers of two at which a sequence number may overflow: 2^32, the engine's limit 2^62, 2^63 and
/// 2^64, which is 0.
const BOUNDARIES: [u64; 4] = [1 << 32, 1 << 62, 1 << 63, 0];

/// A sequence number from 4 below to 3 above one of [`BOUNDARIES`], chosen by the opcode's free bits.
pub(crate) fn boundary(what: u8) -> u64 {
    let base = BOUNDARIES[usize::from(what >> 4 & 3)];
    base.wrapping_add(u64::from(what & 7)).wrapping_sub(4)
}

/// The association that `batch` names as its sender, whose bytes alone its packets carry.
pub(crate) fn sender(batch: &Batch, store: Store) -> AssociationId {
    let association = batch.sender().expect("user bytes have a sender");
    assert_eq!(store, Store::Association(association), "bytes of another");
    association
}

/// An endpoint with its inputs and outputs.
struct FuzzedEndpoint {
    xtp: Xtp,
    now: Instant,
    associations: Vec<AssociationId>,
    /// Bytes submitted on each association, and bytes its user has not consumed.
    written: BTreeMap<AssociationId, u64>,
    unread: BTreeMap<AssociationId, u64>,
    /// Keys that the endpoint revealed.
    keys: Vec<u64>,
    /// Last sync and highest sequence number it sent, for control packets to it.
    sync: u32,
    sent_seq: u64,
    /// Octets from less octets to each address that is not validated yet.
    amplification_credit: BTreeMap<Address, i64>,
    sent: u64,
}

/// Runs `script`. The first four octets choose the configuration.
///
/// # Panics
///
/// When the endpoint breaks an invariant: bounded memory and output, delivered ranges within the
/// packet, the amplification limit, timers in the future.
pub fn sequence(script: &[u8]) -> Summary {
    let Some((choice, mut rest)) = script.split_first_chunk::<4>() else {
        return Summary::default();
    };
    let mut fuzzed = FuzzedEndpoint::new(config(*choice));
    while let Some(left) = fuzzed.step(rest) {
        rest = left;
        fuzzed.check();
    }
    fuzzed.run_until_idle();
    let counters = fuzzed.xtp.counters();
    Summary {
        accepted: counters.packets_parsed - counters.packets_discarded,
        delivered: counters.bytes_delivered,
        sent: fuzzed.sent,
    }
}

fn config(choice: [u8; 4]) -> Config {
    let bit = |at: usize| choice[at / 8] >> (at % 8) & 1 != 0;
    let pair = |at: usize| usize::from(bit(at)) * 2 + usize::from(bit(at + 1));
    Config {
        packet_len: if bit(0) { 1472 } else { 128 },
        window: WINDOW,
        initial_window: if bit(1) { 8192 } else { 0 },
        checksum: bit(2),
        framing: if bit(3) {
            Framing::Messages
        } else {
            Framing::Stream
        },
        error: [
            ErrorControl::Selective,
            ErrorControl::GoBackN,
            ErrorControl::None,
        ][pair(4).min(2)],
        fastnak: bit(6),
        explicit: bit(7),
        flow: [
            FlowControl::Allocation,
            FlowControl::Reservation,
            FlowControl::Off,
        ][pair(8).min(2)],
        service: match (bit(17), bit(18)) {
            (true, false) => Service::Isochronous,
            (true, true) => Service::Bulk,
            _ => [
                Service::Stream,
                Service::Transaction,
                Service::AckedDatagram,
                Service::Datagram,
            ][pair(10)],
        },
        rate: (bit(17) || bit(19)).then_some(OWN_RATE),
        congestion: [
            Congestion::Off,
            Congestion::NewReno,
            Congestion::Ledbat,
            Congestion::Bbr,
        ][pair(12)],
        spans: if bit(14) {
            SpanMeaning::Received
        } else {
            SpanMeaning::Missing
        },
        supervised: bit(15),
        high_water: bit(16).then_some(100),
        null_data: bit(20),
        status_request_kind: if bit(21) {
            StatusRequestKind::Delivered
        } else {
            StatusRequestKind::Received
        },
        sort: bit(22).then_some(7),
        iqmax: bit(23).then_some(WINDOW / 2),
        oqmax: bit(24).then_some(WINDOW / 4),
        initial_rtt: bit(25).then_some(core::time::Duration::from_millis(20)),
        associations_max: ASSOCIATIONS_MAX,
        quarantine_max: QUARANTINE_MAX,
        ..Config::default()
    }
}

impl FuzzedEndpoint {
    fn new(config: Config) -> FuzzedEndpoint {
        let mut xtp = Xtp::new(config);
        xtp.listen(true);
        FuzzedEndpoint {
            xtp,
            now: Instant::from_nanos(1000),
            associations: Vec::new(),
            written: BTreeMap::new(),
            unread: BTreeMap::new(),
            keys: vec![5, 6],
            sync: 0,
            sent_seq: 0,
            amplification_credit: BTreeMap::new(),
            sent: 0,
        }
    }

    /// Executes the first command of `script` and returns the rest; None at its end.
    fn step<'a>(&mut self, script: &'a [u8]) -> Option<&'a [u8]> {
        let (&[what, argument], rest) = script.split_first_chunk::<2>()?;
        let association = self.association(argument);
        let (now, bytes) = (self.now, u64::from(argument) * 16);
        let mut left = rest;
        match what % 16 {
            0 if self.associations.len() < 64 => {
                let to = Address::Station(u32::from(argument % 2));
                let _ = self.xtp.connect(now, &[to]);
            }
            1 if what & 0x10 != 0 => self.write_tagged(association, bytes),
            1 => self.write(association, bytes),
            2 => self.xtp.finish(now, association),
            3 => self.xtp.abort(now, association),
            4 => self.read(association),
            5 if what & 0x10 != 0 => {
                let sort = (argument & 0x80 == 0).then_some(u16::from(argument));
                self.xtp.set_sort(association, sort);
            }
            5 => self.xtp.post(now, association, bytes),
            6 => self.set_rates(what, argument, association),
            7 => {
                self.now = now + core::time::Duration::from_micros(100) * (1 << (argument % 20));
                self.timeout();
            }
            _ => {
                let (&len, rest) = rest.split_first()?;
                let len = (usize::from(len) * 6).min(rest.len());
                let (octets, rest) = rest.split_at(len);
                let packet = self.fix_up_packet(what, argument, octets);
                self.deliver(Address::Station(u32::from(what >> 7)), &packet);
                left = rest;
            }
        }
        self.drain();
        Some(left)
    }

    fn association(&self, argument: u8) -> AssociationId {
        let count = self.associations.len().max(1);
        let found = self.associations.get(usize::from(argument) % count);
        found.copied().unwrap_or(AssociationId(0))
    }

    fn write(&mut self, association: AssociationId, bytes: u64) {
        let end = self.written.entry(association).or_default();
        *end = (*end + bytes).min(STORE_MAX);
        let flags = SendFlags {
            push: bytes.is_multiple_of(32),
            ..SendFlags::END_OF_MESSAGE
        };
        self.xtp
            .submit(self.now, association, *end, flags, &Note::default());
    }

    /// Writes a message that begins with a tag.
    fn write_tagged(&mut self, association: AssociationId, bytes: u64) {
        let start = self.written.get(&association).copied().unwrap_or(0);
        if start + bytes <= STORE_MAX && bytes > 8 {
            self.xtp.tag(association, start);
        }
        self.write(association, bytes);
    }

    /// Admits an association, or changes what it may send or lets its peer send.
    fn set_rates(&mut self, what: u8, argument: u8, association: AssociationId) {
        let rate = (argument & 0x80 == 0).then_some(RateLimit {
            rate_bytes_per_s: OWN_RATE.rate_bytes_per_s << (argument % 8),
            ..OWN_RATE
        });
        match what >> 4 & 3 {
            1 => self.xtp.set_rate(self.now, association, rate),
            2 => self.xtp.impose_rate(self.now, association, rate),
            _ => self.xtp.admit(self.now, association),
        }
    }

    fn read(&mut self, association: AssociationId) {
        let unread = std::mem::take(self.unread.entry(association).or_default());
        self.xtp.consume(self.now, association, unread);
    }

    fn timeout(&mut self) {
        self.xtp.handle_timeout(self.now);
        let next = self.xtp.poll_timeout();
        assert!(
            next.is_none_or(|at| at > self.now),
            "an expired timer stays armed"
        );
    }

    /// `octets` as a packet: as they are, or with the fields fixed up that an attacker can set.
    fn fix_up_packet(&self, what: u8, argument: u8, octets: &[u8]) -> Vec<u8> {
        let mut packet = octets.to_vec();
        if what & 0x40 != 0 || packet.len() < HEADER_LEN {
            return packet;
        }
        let known = self.keys[usize::from(argument & 7) % self.keys.len()];
        packet[..8].copy_from_slice(&known.to_be_bytes());
        packet[11] = 0x20 | packet[11] & 0x0f;
        if argument & 8 == 0 {
            // Close and multicast bits would end most runs at once.
            packet[8] &= !0x08;
            packet[9] &= !0x1a;
        }
        if argument & 16 == 0 {
            packet[24..30].fill(0);
        }
        if argument & 0xc0 == 0xc0 {
            packet[24..32].copy_from_slice(&boundary(what).to_be_bytes());
        }
        if argument & 32 == 0 && packet.len() >= HEADER_LEN + 20 {
            let seq = u64::from(packet[39]) * self.sent_seq / 255;
            packet[32..40].copy_from_slice(&seq.to_be_bytes());
            packet[48..52].copy_from_slice(&self.sync.to_be_bytes());
        }
        let dlen = (packet.len() - HEADER_LEN) as u32;
        packet[12..16].copy_from_slice(&dlen.to_be_bytes());
        packet[CHECK_AT..CHECK_AT + 2].fill(0);
        let nocheck = packet[8] & 0x40 != 0;
        let covered = if nocheck { HEADER_LEN } else { packet.len() };
        let check = engine::checksum::checksum(&packet[..covered]);
        packet[CHECK_AT..CHECK_AT + 2].copy_from_slice(&check.to_be_bytes());
        packet
    }

    fn deliver(&mut self, from: Address, packet: &[u8]) {
        let validated = Header::parse(packet).is_ok_and(|header| header.key & RTN != 0);
        let amplification_credit = self.amplification_credit.entry(from).or_insert(0);
        *amplification_credit = amplification_credit.saturating_add(packet.len() as i64);
        if validated {
            *amplification_credit = i64::MAX / 2;
        }
        let mut deliveries = Deliveries::default();
        self.xtp
            .handle_packet(self.now, Received::new(from, packet), &mut deliveries);
        for delivery in deliveries.bytes {
            let len = match delivery.bytes {
                Bytes::Packet(range) => {
                    assert!(range.start >= HEADER_LEN && range.end <= packet.len());
                    range.len()
                }
                Bytes::Reassembled(bytes) => bytes.len(),
            };
            *self.unread.entry(delivery.association).or_default() += len as u64;
        }
    }

    /// Polls all events and packets of the endpoint. User data are zeros.
    fn drain(&mut self) {
        let mut burst = 0;
        loop {
            let mut batch = Batch::new(1 + self.associations.len() % 4);
            self.xtp.poll_transmit(self.now, &mut batch);
            let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
                break;
            };
            for packet in batch.packets() {
                let mut octets = Vec::new();
                batch.write(packet, &mut octets, |store, named, out| {
                    let association = sender(&batch, store);
                    let written = self.written.get(&association).copied().unwrap_or(0);
                    assert!(named.end <= written);
                    out.resize(out.len() + (named.end - named.start) as usize, 0);
                });
                self.observe_sent(path.remote, &octets);
                burst += 1;
            }
            assert!(burst < BURST_MAX, "endless sending");
        }
        while let Some(event) = self.xtp.poll_event() {
            match event {
                Event::Accepted(id, _) | Event::Connected(id) => self.associations.push(id),
                Event::Closed(id, _) => self.associations.retain(|known| *known != id),
                _ => {}
            }
        }
    }

    fn observe_sent(&mut self, to: Address, packet: &[u8]) {
        self.sent += 1;
        let parsed = Packet::parse(packet).expect("an engine sends valid packets");
        self.sync = parsed.header.sync.0;
        self.sent_seq = parsed.header.seq.max(self.sent_seq);
        let mut key = None;
        match parsed.body {
            Body::Tcntl { xkey, .. } => key = Some(xkey | RTN),
            // A FIRST of the endpoint itself: the address is trusted, and the key is revealed.
            _ if parsed.header.format == Format::First => key = Some(parsed.header.key | RTN),
            _ => {}
        }
        let opened = parsed.header.key & RTN == 0;
        let amplification_credit = self.amplification_credit.entry(to).or_insert(0);
        if opened || parsed.header.options.has(Options::MULTI) {
            *amplification_credit = i64::MAX / 2;
        }
        *amplification_credit -= packet.len() as i64;
        assert!(
            *amplification_credit >= 0,
            "more out than in before the address was validated"
        );
        if let Some(key) = key.filter(|key| !self.keys.contains(key)) {
            self.keys.truncate(7);
            self.keys.insert(0, key);
        }
    }

    fn check(&self) {
        let holdings = self.xtp.holdings();
        assert!(
            holdings.associations <= ASSOCIATIONS_MAX && holdings.quarantined <= QUARANTINE_MAX
        );
        assert!(holdings.reassembly_bytes as u64 <= ASSOCIATIONS_MAX as u64 * 4 * WINDOW);
        assert_eq!(holdings.queued, 0, "something was not polled");
    }

    /// Advances time until no timer is left: a silent peer is abandoned.
    fn run_until_idle(&mut self) {
        let give_up_at = self.now + core::time::Duration::from_secs(600);
        while let Some(at) = self.xtp.poll_timeout().filter(|at| *at < give_up_at) {
            self.now = self.now.max(at);
            self.timeout();
            self.drain();
        }
    }
}
