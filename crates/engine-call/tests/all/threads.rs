//! Calls of many threads over a real wire.

use driver::TransactionEndpoint;
use engine::{Address, EntityId, Note};
use engine_call::{Call, CallConfig};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wire_udp::UdpWire;

const SERVER: EntityId = EntityId(1);

/// How long a test waits for what must come: only a failure waits that long.
const LIMIT: Duration = Duration::from_secs(30);

type Endpoint = TransactionEndpoint<Call, UdpWire>;

fn endpoint(seed: u64) -> (Endpoint, SocketAddr) {
    let wire = UdpWire::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a port");
    let address = wire.local_addr().expect("an address");
    let config = CallConfig {
        seed,
        ..CallConfig::default()
    };
    let endpoint = TransactionEndpoint::new(Call::new(config), wire).expect("an endpoint");
    (endpoint, address)
}

/// Two endpoints: one that calls, and one that answers with the request reversed until `stop`.
fn with_server(test: impl FnOnce(&Endpoint, &Endpoint)) {
    let ((client, _), (server, at)) = (endpoint(1), endpoint(2));
    server.create_entity(SERVER).expect("room");
    client.locate(SERVER, Address::Socket(at));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    if let Ok(mut request) = server.receive(Duration::from_millis(20)) {
                        let mut reply = std::mem::take(&mut request.octets);
                        reply.reverse();
                        server.reply(request, reply);
                    }
                }
            });
        }
        let _guard = StopOnDrop(&stop);
        test(&client, &server);
    });
}

fn message(caller: u64, number: u64, len: usize) -> Vec<u8> {
    let mut octets = vec![(caller ^ number) as u8; len];
    octets[..8].copy_from_slice(&(caller << 32 | number).to_be_bytes());
    octets
}

#[test]
fn each_of_64_callers_gets_its_own_replies_and_they_share_calls_of_the_wire() {
    const CALLERS: u64 = 64;
    const CALLS: u64 = 50;
    with_server(|client, server| {
        let done = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for caller in 0..CALLERS {
                let entity = EntityId(100 + caller);
                client.create_entity(entity).expect("room");
                let done = &done;
                scope.spawn(move || {
                    for number in 0..CALLS {
                        let request = message(caller, number, 64);
                        let mut wanted = request.clone();
                        wanted.reverse();
                        let reply = client.call(entity, SERVER, request, LIMIT);
                        assert_eq!(reply.expect("a reply"), wanted);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), CALLERS * CALLS);
        let calls = client.wire_calls();
        let packets_a_call = calls.packets_sent as f64 / calls.sends as f64;
        println!("{packets_a_call:.1} packets a call of the wire from {CALLERS} callers");
        assert!(packets_a_call > 1.0, "{calls:?}");
        // Replies are acknowledged; the server's messages go when the acknowledgements arrive.
        for endpoint in [client, server] {
            await_nothing_held(endpoint);
        }
    });
}

/// Ends the server also when the test fails.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn calls_of_one_thread_share_calls_of_the_wire_round_after_round() {
    const CALLERS: u64 = 64;
    const ROUNDS: u64 = 40;
    let ((client, _), (server, at)) = (endpoint(5), endpoint(6));
    server.create_entity(SERVER).expect("room");
    client.locate(SERVER, Address::Socket(at));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                if let Ok(mut request) = server.receive(Duration::from_millis(20)) {
                    let reply = std::mem::take(&mut request.octets);
                    server.reply_noted(request, reply, &Note::default());
                }
            }
        });
        let _guard = StopOnDrop(&stop);
        let begin = |caller: u64, number| {
            let request = message(caller, number, 64);
            client.begin(EntityId(100 + caller), SERVER, request, &Note::default())
        };
        for caller in 0..CALLERS {
            client.create_entity(EntityId(100 + caller)).expect("room");
        }
        let mut calls = Vec::new();
        for caller in 0..CALLERS {
            calls.push(begin(caller, 0));
            // The first ones come one by one.
            client.flush();
        }
        for number in 1..=ROUNDS {
            for (caller, call) in (0..).zip(&mut calls) {
                let reply = client.take(call, LIMIT).expect("in time").expect("a reply");
                assert_eq!(reply.octets, message(caller, number - 1, 64));
                *call = begin(caller, number);
            }
        }
    });
    for endpoint in [&client, &server] {
        let calls = endpoint.wire_calls();
        let packets_a_call = calls.packets_sent as f64 / calls.sends as f64;
        println!("{packets_a_call:.1} packets a call of the wire");
        assert!(packets_a_call > 2.0, "{calls:?}");
    }
}

/// Waits until an endpoint holds no message and no caller.
fn await_nothing_held(endpoint: &Endpoint) {
    let give_up = std::time::Instant::now() + LIMIT;
    while endpoint.held() != driver::transactions::Held::default() {
        assert!(std::time::Instant::now() < give_up, "{:?}", endpoint.held());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn long_message_makes_the_round_trip_whole() {
    with_server(|client, _| {
        let entity = EntityId(100);
        client.create_entity(entity).expect("room");
        let request: Arc<[u8]> = message(7, 9, 200_000).into();
        let mut wanted = request.to_vec();
        wanted.reverse();
        let reply = client.call(entity, SERVER, request, LIMIT);
        assert_eq!(reply.expect("a reply"), wanted);
    });
}

#[test]
fn unknown_entities_are_refused_with_the_reason() {
    with_server(|client, _| {
        let entity = EntityId(100);
        let error = client
            .call(entity, SERVER, vec![1; 8], LIMIT)
            .expect_err("not created");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        client.create_entity(entity).expect("room");
        let error = client
            .call(entity, EntityId(5), vec![1; 8], LIMIT)
            .expect_err("not located");
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    });
    let ((client, _), (server, at)) = (endpoint(3), endpoint(4));
    let entity = EntityId(100);
    client.create_entity(entity).expect("room");
    client.locate(SERVER, Address::Socket(at));
    let error = client
        .call(entity, SERVER, vec![1; 8], LIMIT)
        .expect_err("nobody serves");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused);
    drop(server);
}

#[test]
fn caller_whose_time_is_over_leaves_nothing_behind() {
    let (client, _) = endpoint(5);
    let silent = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    client.locate(
        SERVER,
        Address::Socket(silent.local_addr().expect("an address")),
    );
    let entity = EntityId(100);
    client.create_entity(entity).expect("room");
    let limit = Duration::from_millis(10);
    let error = client
        .call(entity, SERVER, vec![1; 8], limit)
        .expect_err("nobody answers");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    await_nothing_held(&client);
}
