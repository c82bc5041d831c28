//! Circuits and transactions through the layer over UDP.

use crate::{messages, xtp};
use driver::{Endpoint, TransactionEndpoint};
use engine::{Address, EntityId, Layer};
use engine_call::{Call, CallConfig};
use engine_xtp::{Config, Xtp};
use layer_halves::Halves;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use wire_udp::UdpWire;

/// How long a test waits for what must come: only a failure waits that long.
const LIMIT: Duration = Duration::from_secs(30);

fn wire() -> (UdpWire, SocketAddr) {
    let wire = UdpWire::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = wire.local_addr().expect("an address");
    (wire, address)
}

fn halves() -> Box<dyn Layer + Send> {
    Box::new(Halves::new(1500, 1))
}

fn xtp_endpoint(seed: u64) -> (Endpoint<Xtp, UdpWire>, SocketAddr) {
    let (wire, address) = wire();
    let endpoint = Endpoint::with_layer(xtp(seed), wire, halves(), 1 << 20);
    (endpoint.expect("an endpoint"), address)
}

#[test]
fn circuits_carry_megabytes_both_ways_as_sent() {
    let ((client, _), (server, at)) = (xtp_endpoint(1), xtp_endpoint(2));
    server.listen(true);
    let sent = messages(3, 600);
    let octets: usize = sent.iter().map(Vec::len).sum();
    assert!(octets > 4 << 20, "megabytes, not {octets} octets");
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
        for (number, message) in sent.iter().enumerate() {
            circuit.send(message, LIMIT).expect("room");
            circuit.flush().expect("a wire");
            let len = circuit.recv(&mut buffer, LIMIT).expect("an echo");
            let echo = &buffer[..len.expect("not the end")];
            assert!(echo == message.as_slice(), "message {number} differs");
        }
        circuit.finish().expect("a wire");
        assert_eq!(circuit.recv(&mut buffer, LIMIT).expect("the end"), None);
    });
    let discarded = |endpoint: &Endpoint<Xtp, UdpWire>| {
        endpoint.with_pump(|pump| engine::Protocol::counters(pump.engine()).packets_discarded)
    };
    assert_eq!(
        (discarded(&client), discarded(&server)),
        (0, 0),
        "packets come out of the layer as they went in"
    );
}

#[test]
fn calls_through_the_layer_get_their_replies() {
    const SERVER: EntityId = EntityId(1);
    let endpoint = |seed| {
        let (wire, address) = wire();
        let engine = Call::new(CallConfig {
            seed,
            ..CallConfig::default()
        });
        let endpoint = TransactionEndpoint::with_layer(engine, wire, halves());
        (endpoint.expect("an endpoint"), address)
    };
    let ((client, _), (server, at)) = (endpoint(1), endpoint(2));
    server.create_entity(SERVER).expect("room");
    client.locate(SERVER, Address::Socket(at));
    let sent = messages(5, 200);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..sent.len() {
                let mut request = server.receive(LIMIT).expect("a request");
                let mut reply = std::mem::take(&mut request.octets);
                reply.reverse();
                server.reply(request, reply);
            }
        });
        client.create_entity(EntityId(100)).expect("room");
        for message in &sent {
            let reply = client.call(EntityId(100), SERVER, message.clone(), LIMIT);
            let mut reply = reply.expect("a reply");
            reply.reverse();
            assert!(reply == *message, "a reply differs");
        }
    });
    let calls = client.wire_calls();
    assert!(
        calls.packets_sent >= 2 * sent.len() as u64,
        "each packet is two frames: {calls:?}"
    );
}

#[test]
fn packets_that_do_not_fit_are_refused_with_both_lengths() {
    let (wire, _) = wire();
    let engine = Xtp::new(Config {
        packet_len: 1472,
        ..Config::default()
    });
    let refused = Endpoint::with_layer(engine, wire, Box::new(Halves::new(1000, 1)), 1 << 20);
    let error = refused.map(drop).expect_err("they do not fit");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(text.contains("1472") && text.contains("1000"), "{text}");
}
