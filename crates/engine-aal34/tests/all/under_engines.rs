//! Circuits and transactions through cells: over UDP, and in virtual time with faults.

use crate::octets;
use driver::receive_queue::{MessageReader, ReadOutcome};
use driver::{Endpoint, TransactionEndpoint};
use engine::{Address, Associations, AssociationsExt, EntityId, Framing, Layer};
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig};
use engine_call::{Call, CallConfig};
use engine_xtp::{Config, Xtp};
use link::LinkConfig;
use sim::World;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use wire_udp::UdpWire;

/// How long a test waits for what must come: only a failure waits that long.
const LIMIT: Duration = Duration::from_secs(30);

/// A millisecond, ps.
const MS: u64 = 1_000_000_000;

fn study() -> Adaptation {
    Adaptation::Aal34(Aal34Config {
        sar: SarFormat::Study,
        mids: SarFormat::Study.mids(),
        ..Aal34Config::default()
    })
}

fn all() -> [Adaptation; 3] {
    [
        Adaptation::Aal34(Aal34Config::default()),
        study(),
        Adaptation::Aal5,
    ]
}

fn cells(adaptation: Adaptation, frame_cells: usize, packet_max: usize) -> Cells {
    let config = CellsConfig {
        adaptation,
        frame_cells,
        packet_max,
        ..CellsConfig::default()
    };
    Cells::new(config).expect("it fits together")
}

fn xtp(seed: u64) -> Xtp {
    Xtp::new(Config {
        framing: Framing::Messages,
        packet_len: 1408,
        seed,
        ..Config::default()
    })
}

fn wire() -> (UdpWire, SocketAddr) {
    let wire = UdpWire::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = wire.local_addr().expect("an address");
    (wire, address)
}

#[test]
fn circuits_over_udp_carry_messages_as_sent() {
    for adaptation in all() {
        let endpoint = |seed| {
            let (wire, address) = wire();
            let layer: Box<dyn Layer + Send> = Box::new(cells(adaptation, 27, 1408));
            let endpoint = Endpoint::with_layer(xtp(seed), wire, layer, 1 << 20);
            (endpoint.expect("an endpoint"), address)
        };
        let ((client, _), (server, at)) = (endpoint(1), endpoint(2));
        server.listen(true);
        let lens = [1, 88, 89, 1400, 60_000, 1, 5000].repeat(20);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut circuit = server.accept(LIMIT).expect("a circuit");
                let mut buffer = vec![0; 64 << 10];
                while let Some(len) = circuit.recv(&mut buffer, LIMIT).expect("a message") {
                    circuit.send(&buffer[..len], LIMIT).expect("room");
                    circuit.flush().expect("a wire");
                }
                circuit.finish().expect("a wire");
                circuit.drain(LIMIT).expect("all is acknowledged");
            });
            let mut circuit = client.connect(Address::Socket(at), LIMIT).expect("a peer");
            let mut buffer = vec![0; 64 << 10];
            for (number, len) in lens.iter().enumerate() {
                let message = octets(*len, number as u64);
                circuit.send(&message, LIMIT).expect("room");
                circuit.flush().expect("a wire");
                let len = circuit.recv(&mut buffer, LIMIT).expect("an echo");
                assert!(
                    buffer[..len.expect("not the end")] == message,
                    "message {number}"
                );
            }
            circuit.finish().expect("a wire");
            assert_eq!(circuit.recv(&mut buffer, LIMIT).expect("the end"), None);
        });
    }
}

#[test]
fn calls_over_udp_get_their_replies() {
    const SERVER: EntityId = EntityId(1);
    for adaptation in all() {
        let endpoint = |seed| {
            let (wire, address) = wire();
            let usual = CallConfig::default();
            let engine = Call::new(CallConfig {
                seed,
                packet_len: 1408,
                ..usual
            });
            let layer = Box::new(cells(adaptation, 27, 1408));
            let endpoint = TransactionEndpoint::with_layer(engine, wire, layer);
            (endpoint.expect("an endpoint"), address)
        };
        let ((client, _), (server, at)) = (endpoint(1), endpoint(2));
        server.create_entity(SERVER).expect("room");
        client.locate(SERVER, Address::Socket(at));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..100 {
                    let mut request = server.receive(LIMIT).expect("a request");
                    let mut reply = std::mem::take(&mut request.octets);
                    reply.reverse();
                    server.reply(request, reply);
                }
            });
            client.create_entity(EntityId(100)).expect("room");
            for number in 0..100 {
                let message = octets(number * 150, number as u64);
                let reply = client.call(EntityId(100), SERVER, message.clone(), LIMIT);
                let mut reply = reply.expect("a reply");
                reply.reverse();
                assert!(reply == message, "reply {number} differs");
            }
        });
    }
}

/// Sends 60 messages in single cells over a line that loses, damages and doubles them; the trace, and
/// how many cells were lost.
fn transfer(adaptation: Adaptation, seed: u64) -> (Vec<sim::TraceLine>, u64) {
    let line = LinkConfig {
        rate_bps: Some(155_520_000),
        delay_ps: MS / 10,
        loss_ppm: 1000,
        corrupt_ppm: 1000,
        duplicate_ppm: 500,
        ..LinkConfig::default()
    };
    let layer = |packet_max| Box::new(cells(adaptation, 1, packet_max)) as _;
    let world = World::with_layers([xtp(seed), xtp(seed + 1)], layer, line, seed);
    let mut world = world.expect("packets fit");
    world.pump(1).engine().listen(true);
    let now = world.now();
    let opened = world.pump(0).engine().connect(now, &[Address::Station(1)]);
    let id = opened.expect("room");
    let layout = world.pump(0).engine().layout(None);
    let (mut producer, consumer) = driver::sys::ring(layout, 256 << 10);
    world.pump(0).attach(id, consumer);
    let sent: Vec<Vec<u8>> = (0..60)
        .map(|at| octets(1 + at * 97, seed + at as u64))
        .collect();
    let (mut next, mut is_finished, mut peer) = (0, false, None);
    let mut reader = MessageReader::new(Framing::Messages);
    let mut received: Vec<Vec<u8>> = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while world.step(1_000_000 * MS).expect("no wire fails") {
        while next < sent.len() && producer.append_message(&sent[next]) {
            next += 1;
        }
        let now = world.now();
        if next == sent.len() && !is_finished {
            let end = producer.position();
            world.pump(0).submit_pending(now, id, true);
            world.pump(0).engine().push(now, id, end);
            world.pump(0).engine().finish(now, id);
            is_finished = true;
        }
        let pump = world.pump(1);
        if let Some((id, _)) = pump.accept() {
            pump.engine().finish(now, id);
            peer = Some(id);
        }
        let Some(peer) = peer else { continue };
        while let Some(chunk) = pump.pop_chunk(peer) {
            reader.put(chunk);
            while let ReadOutcome::Message(len) = reader.next(&mut buffer) {
                received.push(buffer[..len].to_vec());
            }
            let consumed = reader.take_consumed().expect("the chunk just put");
            pump.consume(now, peer, consumed);
        }
    }
    assert!(
        received == sent,
        "seed {seed}: {} messages came",
        received.len()
    );
    let lost = world.link_counters(0).lost + world.link_counters(1).lost;
    (world.trace().to_vec(), lost)
}

#[test]
fn circuit_over_a_line_with_faults_delivers_every_message_in_order() {
    let mut lost = 0;
    for adaptation in all() {
        for seed in 0..5 {
            let (trace, of_seed) = transfer(adaptation, seed);
            assert!(
                trace.iter().all(|line| line.packet.len() == 53),
                "cells alone"
            );
            lost += of_seed;
        }
    }
    assert!(lost > 50, "{lost} cells lost prove little");
}

#[test]
fn same_seed_gives_the_same_cells() {
    assert!(transfer(study(), 3).0 == transfer(study(), 3).0);
    assert!(transfer(study(), 3).0 != transfer(study(), 4).0);
}
