//! Three levels: the header's octets, a pair in virtual time, and many seeds with link faults.

#[path = "../../../fuzz/src/drawn.rs"]
mod drawn;

use drawn::seeds;
use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::sys::{Producer, ring};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Deliveries, Instant, Protocol, Received,
    SplitMix64,
};
use engine_bare::pdu::{BareHeader, HEADER_LEN, PacketType};
use engine_bare::{Bare, BareConfig};
use link::LinkConfig;
use sim::World;

const MS: u64 = 1_000_000_000;

#[test]
fn header_octets_match_the_format() {
    let header = BareHeader {
        packet_type: PacketType::Data,
        receiver_id: 0x0102_0304,
        position: 0x1122_3344_5566_7788,
        acknowledged: 9,
    };
    let octets = header.emit();
    assert_eq!(
        octets,
        [
            0xb7, 4, 0, 0, 1, 2, 3, 4, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0, 0, 0, 0,
            0, 0, 0, 9
        ]
    );
    assert_eq!(BareHeader::parse(&octets), Some(header));
}

#[test]
fn random_octets_parse_to_what_emit_writes() {
    let mut random = SplitMix64::new(5);
    let mut parsed = 0;
    for _ in 0..200_000 {
        let mut octets: Vec<u8> = (0..random.below(40))
            .map(|_| random.next_u64() as u8)
            .collect();
        if octets.len() >= 4 && random.below(2) == 0 {
            octets[..4].copy_from_slice(&[0xb7, random.below(8) as u8, 0, 0]);
        }
        if let Some(header) = BareHeader::parse(&octets) {
            parsed += 1;
            assert_eq!(header.emit()[..], octets[..HEADER_LEN]);
        }
    }
    assert!(
        parsed > 10_000,
        "only {parsed} headers were valid: the test checks too little"
    );
}

#[test]
fn hostile_packets_neither_panic_nor_use_unbounded_memory() {
    let mut random = SplitMix64::new(6);
    let config = BareConfig {
        associations_max: 8,
        ..BareConfig::default()
    };
    let mut bare = Bare::new(config);
    bare.listen(true);
    let mut batch = engine::Batch::new(46);
    let mut deliveries = Deliveries::default();
    for step in 0..200_000u64 {
        let header = BareHeader {
            packet_type: [
                PacketType::Open,
                PacketType::Opened,
                PacketType::Refused,
                PacketType::Data,
                PacketType::Final,
            ][random.below(5) as usize],
            receiver_id: random.below(10) as u32,
            position: random.next_u64() >> random.below(64),
            acknowledged: random.next_u64() >> random.below(64),
        };
        let mut packet = header.emit().to_vec();
        packet.resize(HEADER_LEN + random.below(1500) as usize, 0);
        let from = Address::Station(random.below(3) as u32);
        let now = Instant::from_nanos(step * 1000);
        bare.handle_packet(now, Received::new(from, &packet), &mut deliveries);
        let within = |delivery: &engine::Delivery| match &delivery.bytes {
            engine::Bytes::Packet(range) => range.end <= packet.len(),
            engine::Bytes::Reassembled(_) => false,
        };
        assert!(deliveries.bytes.iter().all(within));
        deliveries.clear();
        bare.handle_timeout(now);
        batch.clear();
        bare.poll_transmit(now, &mut batch);
        while bare.poll_event().is_some() {}
    }
}

/// Results of one run in virtual time.
struct RunOutcome {
    sent: Vec<Vec<u8>>,
    received: Vec<Vec<u8>>,
    trace: Vec<sim::TraceLine>,
    retransmissions: u64,
    bytes_lost: u64,
    link_lost: u64,
    closed: [bool; 2],
}

/// Sends `count` messages of random lengths from station 0 to station 1 and closes.
fn run(count: usize, config: LinkConfig, seed: u64) -> RunOutcome {
    let engines = [0, 1].map(|station| {
        Bare::new(BareConfig {
            seed: seed + station,
            ..BareConfig::default()
        })
    });
    let mut world = World::new(engines, config, seed);
    world.pump(1).engine().listen(true);
    let now = world.now();
    let id = world
        .pump(0)
        .engine()
        .connect(now, &[Address::Station(1)])
        .expect("room for one");
    let layout = world.pump(0).engine().layout(None);
    let (mut producer, consumer) = ring(layout, 64 << 10);
    world.pump(0).attach(id, consumer);
    let mut random = SplitMix64::new(seed);
    let sent: Vec<Vec<u8>> = (0..count)
        .map(|index| message(&mut random, index))
        .collect();
    let mut received = Vec::new();
    let mut receiver = Acceptor {
        id: None,
        reader: MessageReader::new(engine::Framing::Records),
    };
    let mut next = 0;
    let mut finished = false;
    while world
        .step(100_000 * MS)
        .expect("a simulated wire does not fail")
    {
        next = append(&mut producer, &sent, next);
        if next == sent.len() && !finished && world.pump(0).status(id).connected {
            let now = world.now();
            world.pump(0).engine().push(now, id, producer.position());
            world.pump(0).engine().finish(now, id);
            finished = true;
        }
        receiver.take(&mut world, &mut received);
    }
    let peer = receiver.id.unwrap_or(AssociationId(0));
    RunOutcome {
        retransmissions: world.pump(0).engine().counters().retransmissions
            + world.pump(1).engine().counters().retransmissions,
        bytes_lost: world.pump(1).engine().counters().bytes_lost,
        link_lost: world.link_counters(0).lost + world.link_counters(0).dropped,
        closed: [
            world.pump(0).status(id).closed.is_some(),
            world.pump(1).status(peer).closed.is_some(),
        ],
        trace: world.trace().to_vec(),
        sent,
        received,
    }
}

fn message(random: &mut SplitMix64, index: usize) -> Vec<u8> {
    let len = [0, 1, 64, 1447, 1448, 5000][random.below(6) as usize];
    (0..len).map(|at| (index * 31 + at) as u8).collect()
}

fn append(producer: &mut Producer, sent: &[Vec<u8>], mut next: usize) -> usize {
    while next < sent.len() && producer.append_record(&sent[next]) {
        next += 1;
    }
    next
}

struct Acceptor {
    id: Option<AssociationId>,
    reader: MessageReader,
}

impl Acceptor {
    fn take(&mut self, world: &mut World<Bare>, received: &mut Vec<Vec<u8>>) {
        if let Some((id, _)) = world.pump(1).accept() {
            self.id = Some(id);
            let now = world.now();
            // The receiver sends nothing: it closes its direction at once.
            world.pump(1).engine().finish(now, id);
        }
        let Some(id) = self.id else {
            return;
        };
        let mut buffer = vec![0; 8192];
        while let Some(chunk) = world.pump(1).pop_chunk(id) {
            self.reader.put(chunk);
            while let ReadOutcome::Message(len) = self.reader.next(&mut buffer) {
                received.push(buffer[..len].to_vec());
            }
            let spent = self.reader.take_consumed().expect("the chunk just put");
            let now = world.now();
            world.pump(1).consume(now, id, spent);
        }
    }
}

#[test]
fn lossless_link_delivers_all_without_retransmission() {
    let config = LinkConfig {
        rate_bps: Some(100_000_000),
        delay_ps: MS,
        ..LinkConfig::default()
    };
    let outcome = run(500, config, 11);
    assert!(outcome.received == outcome.sent, "messages differ");
    assert_eq!(outcome.retransmissions, 0);
    assert_eq!(outcome.bytes_lost, 0);
    assert_eq!(outcome.closed, [true, true]);
}

#[test]
fn equal_seeds_give_equal_traces() {
    let config = LinkConfig {
        rate_bps: Some(10_000_000),
        delay_ps: MS,
        loss_ppm: 50_000,
        ..LinkConfig::default()
    };
    assert!(run(200, config, 21).trace == run(200, config, 21).trace);
    assert!(run(200, config, 21).trace != run(200, config, 22).trace);
}

#[test]
fn link_faults_lose_but_never_corrupt_or_reorder_messages() {
    for seed in seeds(40) {
        let config = LinkConfig {
            rate_bps: Some(50_000_000),
            delay_ps: MS,
            reorder_ps: MS / 2,
            loss_ppm: 20_000,
            duplicate_ppm: 20_000,
            reorder_ppm: 20_000,
            ..LinkConfig::default()
        };
        let outcome = run(300, config, seed);
        let mut rest = outcome.sent.iter();
        for message in &outcome.received {
            assert!(
                rest.any(|sent| sent == message),
                "seed {seed}: a message came twice, out of order or damaged"
            );
        }
        assert_eq!(
            outcome.closed,
            [true, true],
            "seed {seed}: the association did not end"
        );
        assert!(outcome.link_lost == 0 || outcome.bytes_lost > 0 || outcome.received.len() <= 300);
        assert!(
            outcome.received.len() > 150,
            "seed {seed}: {} of 300",
            outcome.received.len()
        );
    }
}
