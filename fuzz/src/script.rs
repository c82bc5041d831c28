//! An XTP endpoint driven by a script.
//!
//! A script is a sequence of commands: an opcode, an octet or two of arguments, and for packets
//! their octets. Lengths, checksums and keys are mostly fixed up, as an attacker would, so that
//! packets pass the first checks.

use super::host::{Host, Summary, boundary, completed, split_packet};
use core::time::Duration;
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Batch, Event, Framing, Protocol,
};
use engine_xtp::pdu::{Body, Format, HEADER_LEN, Header, Options, Packet, RTN, Service};
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

/// An endpoint with its host.
struct FuzzedEndpoint {
    host: Host<Xtp>,
    /// Last sync and highest sequence number it sent, for control packets to it.
    sync: u32,
    sent_seq: u64,
    /// Octets from less octets to each address that is not validated yet.
    amplification_credit: BTreeMap<Address, i64>,
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
    fuzzed.host.summary()
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
        initial_rtt: bit(25).then_some(Duration::from_millis(20)),
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
            host: Host::new(xtp, &[5, 6]),
            sync: 0,
            sent_seq: 0,
            amplification_credit: BTreeMap::new(),
        }
    }

    /// Executes the first command of `script` and returns the rest; None at its end.
    fn step<'a>(&mut self, script: &'a [u8]) -> Option<&'a [u8]> {
        let (&[what, argument], rest) = script.split_first_chunk::<2>()?;
        let (host, mut left) = (&mut self.host, rest);
        let association = host.association(argument);
        let (now, bytes) = (host.now, u64::from(argument) * 16);
        match what % 16 {
            0 if host.associations.len() < 64 => {
                let to = Address::Station(u32::from(argument % 2));
                let _ = host.engine.connect(now, &[to]);
            }
            1 if what & 0x10 != 0 => self.write_tagged(association, bytes),
            1 => self.write(association, bytes),
            2 => host.engine.finish(now, association),
            3 => host.engine.abort(now, association),
            4 => host.read(association),
            5 if what & 0x10 != 0 => {
                let sort = (argument & 0x80 == 0).then_some(u16::from(argument));
                host.engine.set_sort(association, sort);
            }
            5 => host.engine.post(now, association, bytes),
            6 => self.set_rates(what, argument, association),
            7 => {
                host.wait(argument);
                self.timeout();
            }
            _ => {
                let octets;
                (octets, left) = split_packet(rest)?;
                let packet = self.fix_up_packet(what, argument, octets);
                self.deliver(Address::Station(u32::from(what >> 7)), &packet);
            }
        }
        self.drain();
        Some(left)
    }

    fn write(&mut self, association: AssociationId, bytes: u64) {
        let push = bytes.is_multiple_of(32);
        self.host.write(association, bytes, STORE_MAX, push);
    }

    /// Writes a message that begins with a tag.
    fn write_tagged(&mut self, association: AssociationId, bytes: u64) {
        let start = self.host.written(association);
        if start + bytes <= STORE_MAX && bytes > 8 {
            self.host.engine.tag(association, start);
        }
        self.write(association, bytes);
    }

    /// Admits an association, or changes what it may send or lets its peer send.
    fn set_rates(&mut self, what: u8, argument: u8, association: AssociationId) {
        let rate = (argument & 0x80 == 0).then_some(RateLimit {
            rate_bytes_per_s: OWN_RATE.rate_bytes_per_s << (argument % 8),
            ..OWN_RATE
        });
        let (xtp, now) = (&mut self.host.engine, self.host.now);
        match what >> 4 & 3 {
            1 => xtp.set_rate(now, association, rate),
            2 => xtp.impose_rate(now, association, rate),
            _ => xtp.admit(now, association),
        }
    }

    fn timeout(&mut self) {
        self.host.engine.handle_timeout(self.host.now);
        self.host.assert_timer_in_future();
    }

    /// `octets` as a packet: as they are, or with the fields fixed up that an attacker can set.
    fn fix_up_packet(&self, what: u8, argument: u8, octets: &[u8]) -> Vec<u8> {
        let mut packet = octets.to_vec();
        if what & 0x40 != 0 || packet.len() < HEADER_LEN {
            return packet;
        }
        let known = self.host.keys[usize::from(argument & 7) % self.host.keys.len()];
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
        completed(packet)
    }

    fn deliver(&mut self, from: Address, packet: &[u8]) {
        let validated = Header::parse(packet).is_ok_and(|header| header.key & RTN != 0);
        let amplification_credit = self.amplification_credit.entry(from).or_insert(0);
        *amplification_credit = amplification_credit.saturating_add(packet.len() as i64);
        if validated {
            *amplification_credit = i64::MAX / 2;
        }
        self.host.deliver(from, packet);
    }

    /// Polls all events and packets of the endpoint. User data are zeros.
    fn drain(&mut self) {
        let mut burst = 0;
        loop {
            let mut batch = Batch::new(1 + self.host.associations.len() % 4);
            self.host.engine.poll_transmit(self.host.now, &mut batch);
            let Some(path) = batch.path().filter(|_| !batch.is_empty()) else {
                break;
            };
            for packet in batch.packets() {
                let mut octets = Vec::new();
                batch.write(packet, &mut octets, |store, named, out| {
                    let (_, written) = self.host.sender(&batch, store);
                    assert!(named.end <= written);
                    out.resize(out.len() + (named.end - named.start) as usize, 0);
                });
                self.observe_sent(path.remote, &octets);
                burst += 1;
            }
            assert!(burst < BURST_MAX, "endless sending");
        }
        while let Some(event) = self.host.engine.poll_event() {
            match event {
                Event::Accepted(id, _) | Event::Connected(id) => self.host.associations.push(id),
                Event::Closed(id, _) => self.host.associations.retain(|known| *known != id),
                _ => {}
            }
        }
    }

    fn observe_sent(&mut self, to: Address, packet: &[u8]) {
        self.host.sent += 1;
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
        if let Some(key) = key {
            self.host.reveal(key);
        }
    }

    fn check(&self) {
        let holdings = self.host.engine.holdings();
        assert!(
            holdings.associations <= ASSOCIATIONS_MAX && holdings.quarantined <= QUARANTINE_MAX
        );
        assert!(holdings.reassembly_bytes as u64 <= ASSOCIATIONS_MAX as u64 * 4 * WINDOW);
        assert_eq!(holdings.queued, 0, "something was not polled");
    }

    /// Advances time until no timer is left: a silent peer is abandoned.
    fn run_until_idle(&mut self) {
        let give_up_at = self.host.now + Duration::from_secs(600);
        while self.host.advance(give_up_at) {
            self.timeout();
            self.drain();
        }
    }
}
