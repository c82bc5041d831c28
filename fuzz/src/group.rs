//! A group endpoint driven by a script of packets, commands and time steps.

use super::host::{Host, Summary, boundary, completed, split_packet};
use core::time::Duration;
use engine::{Address, AssociationId, Associations, AssociationsExt, Batch, Event, Protocol};
use engine_xtp::ErrorControl;
use engine_xtp::group::{BucketConfig, Config, GroupEndpoint, LateJoin, Reliability};
use engine_xtp::pdu::{Body, HEADER_LEN, Packet, RTN};
use std::collections::BTreeMap;

const WINDOW: u64 = 20_000;
const MEMBERS_MAX: usize = 8;
const ASSOCIATIONS_MAX: usize = 16;

/// Keys of foreign senders.
const FOREIGN: [u64; 2] = [5, 6];

/// Limit of bytes written to a stream.
const STORE_MAX: u64 = 200_000;

/// Limit of batches sent at one instant. A batch is one packet here; a window of the shortest
/// packets to each of three receivers is far less.
const BURST_MAX: usize = 5_000;

struct FuzzedGroup {
    host: Host<GroupEndpoint>,
    released: BTreeMap<AssociationId, u64>,
    sync: u32,
    seq: u64,
}

/// Runs a script: four octets choose the configuration; then follow commands of two octets, some
/// with the octets of a packet.
pub fn group(octets: &[u8]) -> Summary {
    let Some((choice, mut script)) = octets.split_first_chunk::<4>() else {
        return Summary::default();
    };
    let mut group = GroupEndpoint::new(config(*choice));
    group.listen(choice[3] & 1 == 0);
    let mut fuzzed = FuzzedGroup {
        host: Host::new(group, &[7]),
        released: BTreeMap::new(),
        sync: 0,
        seq: 0,
    };
    while let Some(rest) = fuzzed.step(script) {
        script = rest;
        fuzzed.check();
    }
    fuzzed.run_until_idle();
    fuzzed.host.summary()
}

fn config(choice: [u8; 4]) -> Config {
    let bit = |at: usize| choice[at / 8] >> (at % 8) & 1 != 0;
    let buckets = Reliability::Buckets(BucketConfig {
        requests: 1 + u32::from(choice[2] & 3),
        tolerated: u32::from(choice[2] >> 2 & 3),
    });
    let all = Address::Station(u32::MAX);
    let each = if bit(9) { 3 } else { 0 };
    Config {
        packet_len: if bit(0) { 1472 } else { 128 },
        window: WINDOW,
        initial_window: 5000,
        checksum: bit(1),
        framing: match bit(2) {
            true => engine::Framing::Messages,
            false => engine::Framing::Stream,
        },
        reliability: match choice[0] >> 3 & 3 {
            0 => Reliability::None,
            1 => buckets,
            _ => Reliability::Counted,
        },
        error: match bit(5) {
            true => ErrorControl::Selective,
            false => ErrorControl::GoBackN,
        },
        fastnak: bit(6),
        members_min: usize::from(bit(7)),
        members_keep: usize::from(bit(8)),
        members_max: MEMBERS_MAX,
        replicate: (0..each).map(Address::Station).collect(),
        late_join: [LateJoin::Earliest, LateJoin::Next, LateJoin::Never]
            [usize::from(choice[1] >> 2 & 3).min(2)],
        answer_to: bit(12).then_some(all),
        slot: Duration::from_millis(if bit(13) { 3 } else { 0 }),
        damping: bit(14),
        associations_max: ASSOCIATIONS_MAX,
        ..Config::default()
    }
}

impl FuzzedGroup {
    /// Executes the first command of `script` and returns the rest; None at its end.
    fn step<'a>(&mut self, script: &'a [u8]) -> Option<&'a [u8]> {
        let (&[what, argument], rest) = script.split_first_chunk::<2>()?;
        let (host, mut left) = (&mut self.host, rest);
        let (now, association) = (host.now, host.association(argument));
        match what % 16 {
            0 if host.associations.len() < ASSOCIATIONS_MAX => {
                if let Ok(id) = host.engine.connect(now, &[Address::Station(u32::MAX)]) {
                    host.associations.push(id);
                }
            }
            1 => host.write(
                association,
                u64::from(argument) * 64,
                STORE_MAX,
                argument.is_multiple_of(2),
            ),
            2 => host.engine.finish(now, association),
            3 => host.engine.abort(now, association),
            4 => host.read(association),
            5 => host
                .engine
                .expel(now, association, Address::Station(u32::from(argument % 4))),
            6 | 7 => {
                host.wait(argument);
                self.timeout();
            }
            _ => {
                let octets;
                (octets, left) = split_packet(rest)?;
                let packet = self.fix_up_packet(what, argument, octets);
                let from = Address::Station(u32::from(what >> 6 & 1));
                self.host.deliver(from, &packet);
            }
        }
        self.drain();
        Some(left)
    }

    fn timeout(&mut self) {
        self.host.engine.handle_timeout(self.host.now);
        // A closed stream sends END with its next packet.
        self.drain();
        self.host.assert_timer_in_future();
    }

    /// `octets` as a packet: as they are, or with the fields fixed up that a peer would set.
    fn fix_up_packet(&self, what: u8, argument: u8, octets: &[u8]) -> Vec<u8> {
        let mut packet = octets.to_vec();
        if what & 0x80 != 0 || packet.len() < HEADER_LEN {
            return packet;
        }
        let known = match usize::from(argument & 7) {
            few @ 0..3 => FOREIGN[few % 2],
            other => self.host.keys[other % self.host.keys.len()],
        };
        packet[..8].copy_from_slice(&known.to_be_bytes());
        packet[8] |= 0x08;
        packet[11] = 0x20 | packet[11] & 0x0f;
        if argument & 8 == 0 {
            packet[9] &= !0x1a;
        }
        match argument >> 5 & 3 {
            // Among the bytes of a stream; or wherever the script says.
            0 | 1 => {
                let near = u64::from(packet[31]) * WINDOW / 64;
                packet[24..32].copy_from_slice(&near.to_be_bytes());
            }
            2 => {}
            _ => {
                packet[24..32].copy_from_slice(&boundary(what).to_be_bytes());
                // NOERR: a stream may begin at any sequence number.
                packet[8] |= (argument & 1) << 4;
            }
        }
        if argument & 16 == 0 && packet.len() >= HEADER_LEN + 20 {
            let rseq = match packet[38] & 7 {
                0 => boundary(packet[39]),
                _ => (u128::from(packet[39]) * u128::from(self.seq) / 255) as u64,
            };
            packet[32..40].copy_from_slice(&rseq.to_be_bytes());
            let echo = self.sync.wrapping_sub(u32::from(packet[51] % 4));
            packet[48..52].copy_from_slice(&echo.to_be_bytes());
        }
        completed(packet)
    }

    /// Polls all events and packets of the endpoint. User data are zeros.
    fn drain(&mut self) {
        self.events();
        for burst in 0.. {
            let mut batch = Batch::new(1);
            self.host.engine.poll_transmit(self.host.now, &mut batch);
            if batch.path().is_none() || batch.is_empty() {
                break;
            }
            for packet in batch.packets() {
                let mut octets = Vec::new();
                batch.write(packet, &mut octets, |store, named, out| {
                    let (association, written) = self.host.sender(&batch, store);
                    let released = self.released.get(&association).copied().unwrap_or(0);
                    let in_buffer = named.start >= released && named.end <= written;
                    assert!(in_buffer, "{named:?} of {released}..{written}");
                    out.resize(out.len() + (named.end - named.start) as usize, 0);
                });
                self.observe_sent(&octets);
            }
            self.events();
            assert!(burst < BURST_MAX, "endless sending");
        }
        self.events();
    }

    fn events(&mut self) {
        while let Some(event) = self.host.engine.poll_event() {
            match event {
                Event::Accepted(id, _) => self.host.associations.push(id),
                Event::Released(id, range) => {
                    let released = self.released.entry(id).or_default();
                    assert_eq!(range.start, *released, "not the next bytes");
                    assert!(range.end > *released, "position released twice");
                    *released = range.end;
                }
                Event::Closed(id, _) => self.host.associations.retain(|known| *known != id),
                _ => {}
            }
        }
        while self.host.engine.poll_member_event().is_some() {}
    }

    fn observe_sent(&mut self, packet: &[u8]) {
        self.host.sent += 1;
        let parsed = Packet::parse(packet).expect("an engine sends valid packets");
        self.sync = parsed.header.sync.0;
        self.seq = self
            .seq
            .max(parsed.header.seq + u64::from(parsed.header.dlen));
        let key = match parsed.body {
            Body::Jcntl { xkey, .. } => xkey | RTN,
            // The key granted to a member.
            Body::Tcntl { xkey, .. } if xkey != 0 => xkey | RTN,
            _ if parsed.header.key & RTN == 0 => parsed.header.key | RTN,
            _ => return,
        };
        self.host.reveal(key);
    }

    fn check(&self) {
        let holdings = self.host.engine.holdings();
        assert!(holdings.associations <= ASSOCIATIONS_MAX && holdings.quarantined <= 1024);
        assert!(holdings.members <= ASSOCIATIONS_MAX * MEMBERS_MAX);
        assert!(holdings.reassembly_bytes as u64 <= ASSOCIATIONS_MAX as u64 * 2 * WINDOW);
        assert!(holdings.entries <= ASSOCIATIONS_MAX * (2 * 256 + 64 + 16));
    }

    /// Advances time, but bounded: an idle group sends keepalives for as long as it lives.
    fn run_until_idle(&mut self) {
        let give_up_at = self.host.now + Duration::from_secs(600);
        for _ in 0..100 {
            if !self.host.advance(give_up_at) {
                return;
            }
            self.timeout();
        }
    }
}
