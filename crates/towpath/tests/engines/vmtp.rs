//! VMTP as a library: threads that call and serve over the loopback.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use towpath::vmtp::{Endpoint, EndpointConfig, EntityId, Note};

/// How long a test waits for what must come: only a failure waits that long.
const LIMIT: Duration = Duration::from_secs(30);

fn endpoint() -> Endpoint {
    let any = "127.0.0.1:0".parse().expect("an address");
    Endpoint::bind(any, &EndpointConfig::default()).expect("a port")
}

/// A client's endpoint, and a server that answers with the request reversed.
fn with_server(test: impl FnOnce(&Endpoint, EntityId)) {
    let (client, server) = (endpoint(), endpoint());
    let entity = server.create_entity(5).expect("room");
    client.locate(entity, server.local_addr());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let reverse = |request: &towpath::vmtp::Request| {
                let mut octets = request.octets.clone();
                octets.reverse();
                octets
            };
            server.serve(2, reverse, || stop.load(Ordering::Relaxed));
        });
        test(&client, entity);
        stop.store(true, Ordering::Relaxed);
    });
}

fn message(caller: usize, number: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (caller * 31 + number * 7 + at + at / 250) as u8)
        .collect()
}

fn reversed(mut octets: Vec<u8>) -> Vec<u8> {
    octets.reverse();
    octets
}

#[test]
fn each_of_32_threads_gets_its_own_replies() {
    with_server(|client, server| {
        std::thread::scope(|scope| {
            for caller in 0..32 {
                scope.spawn(move || {
                    let entity = client.create_client().expect("room");
                    for (number, len) in
                        [0, 20, 21, 1000, 16_384].repeat(10).into_iter().enumerate()
                    {
                        let request = message(caller, number, len);
                        let wanted = reversed(request.clone());
                        let reply = entity.call(server, request, LIMIT).expect("a reply");
                        assert!(reply.octets == wanted, "caller {caller}, call {number}");
                        assert_eq!(reply.from, server);
                    }
                });
            }
        });
    });
}

#[test]
fn message_of_4_mib_makes_the_round_trip() {
    with_server(|client, server| {
        let entity = client.create_client().expect("room");
        let request = message(1, 2, 4 << 20);
        let wanted = reversed(request.clone());
        let reply = entity.call(server, request, LIMIT).expect("a reply");
        assert!(reply.octets == wanted);
        let error = entity
            .call(server, vec![0; (4 << 20) + 1], LIMIT)
            .expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn calls_begun_together_are_all_answered() {
    with_server(|client, server| {
        let entity = client.create_client().expect("room");
        let note = Note::default();
        let begin = |number| entity.begin(server, message(0, number, 64), &note);
        let calls: Vec<_> = (0..200).map(begin).collect();
        for (number, call) in calls.iter().enumerate() {
            let reply = entity.take(call, LIMIT).expect("in time");
            let wanted = reversed(message(0, number, 64));
            assert_eq!(reply.expect("a reply").octets, wanted);
        }
    });
}

#[test]
fn unknown_entities_and_wrong_values_are_refused_with_the_reason() {
    let (client, server) = (endpoint(), endpoint());
    let served = server.create_entity(5).expect("room");
    let entity = client.create_client().expect("room");
    let error = entity
        .call(served, vec![1], LIMIT)
        .expect_err("not located");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let other = EntityId(served.0 + (1 << 32));
    client.locate(other, server.local_addr());
    let error = entity.call(other, vec![1], LIMIT).expect_err("nobody");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    let error = server.create_entity(0x8000).expect_err("out of range");
    assert!(error.to_string().contains("32768"), "{error}");
    let long = EndpointConfig {
        packet_len: 70_000,
        ..EndpointConfig::default()
    };
    let any = "127.0.0.1:0".parse().expect("an address");
    let error = Endpoint::bind(any, &long).err().expect("out of range");
    assert!(error.to_string().contains("70000"), "{error}");
}

#[test]
fn caller_whose_server_is_silent_gets_its_own_time_out() {
    let client = endpoint();
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = EntityId(0x5_7f00_0001);
    client.locate(server, silent.local_addr().expect("an address"));
    let entity = client.create_client().expect("room");
    let limit = Duration::from_millis(20);
    let error = entity.call(server, vec![1], limit).expect_err("silent");
    assert_eq!(error.kind(), ErrorKind::TimedOut);
}
