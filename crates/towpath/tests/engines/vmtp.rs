//! VMTP as a library: threads that call and serve over the loopback.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use towpath::vmtp::{Endpoint, EndpointConfig, EntityId, Note};
use towpath::{Circuit, Options};

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
fn reply_longer_than_the_buffer_gives_its_length_and_a_prefix() {
    with_server(|client, server| {
        let entity = client.create_client().expect("room");
        let request = message(3, 4, 5000);
        let wanted = reversed(request.clone());
        let mut buffer = [0; 8000];
        let len = entity.call_into(server, &request, &mut buffer, LIMIT);
        assert_eq!(len.expect("a reply"), 5000);
        assert!(buffer[..5000] == wanted && buffer[5000..] == [0; 3000]);
        let mut short = [0; 100];
        let len = entity.call_into(server, &request, &mut short, LIMIT);
        assert_eq!(len.expect("a reply"), 5000);
        assert!(short[..] == wanted[..100]);
    });
}

/// The ends of a circuit of transport `vmtp` with an option.
fn circuit_with(option: &str, value: &str) -> (Box<dyn Circuit>, Box<dyn Circuit>) {
    let transport = towpath::find("vmtp").expect("it is registered");
    let own = [(option.to_owned(), value.to_owned())].into();
    transport.check_options(&own).expect("it has the option");
    let options = Options {
        transport_specific: own,
        ..Options::default()
    };
    let mut listener = transport.listen(&options).expect("a port");
    let place = listener.rendezvous().expect("its address");
    let client = transport.connect(&place, 0, &options).expect("a circuit");
    let deadline = Instant::now() + LIMIT;
    (client, listener.accept(deadline).expect("its server"))
}

#[test]
fn calls_of_a_stream_in_the_race_come_in_order_and_are_all_answered() {
    const CALLS: usize = 200;
    let (mut client, mut server) = circuit_with("stream", "on");
    let serving = std::thread::spawn(move || {
        let mut buffer = vec![0; 20_000];
        for number in 0..CALLS {
            let len = loop {
                match server.recv(&mut buffer) {
                    Ok(len) => break len.expect("no end"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
                }
            };
            assert!(buffer[..len] == message(1, number, len), "call {number}");
            server.send(&buffer[..len]).expect("it is answered");
            server.flush().expect("it is sent");
        }
        server
    });
    let (mut sent, mut received) = (0, 0);
    let mut buffer = vec![0; 20_000];
    while received < CALLS {
        let in_flight = sent - received;
        if sent < CALLS && in_flight < 30 {
            let len = [5, 600, 17_000][sent % 3];
            client.send(&message(1, sent, len)).expect("room");
            sent += 1;
            continue;
        }
        client.flush().expect("it is sent");
        match client.recv(&mut buffer) {
            Ok(len) => {
                let len = len.expect("no end");
                assert!(
                    buffer[..len] == message(1, received, len),
                    "reply {received}"
                );
                received += 1;
            }
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    serving.join().expect("no panic");
    assert_eq!(client.effective()["stream"], "on");
}

#[test]
fn datagrams_in_the_race_are_repeated_delivered_once_and_answered_by_nothing() {
    const MESSAGES: usize = 100;
    let (mut client, mut server) = circuit_with("repeat", "3");
    for number in 0..MESSAGES {
        let sent = client.send(&message(2, number, 900));
        match sent {
            Ok(()) => {}
            // 64 at a time, until their last copies have left.
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
    client.finish().expect("all copies leave");
    let sent = client.counts()["packets_sent"];
    assert!(sent >= 3 * 64 && sent % 3 == 0, "{sent} packets");
    let mut buffer = vec![0; 2000];
    let mut arrived = BTreeSet::new();
    while let Ok(len) = server.recv(&mut buffer) {
        let octets = buffer[..len.expect("no end")].to_vec();
        assert!(arrived.insert(octets), "it is delivered once");
    }
    assert_eq!(arrived.len() as u64, sent / 3);
    assert!((0..64).all(|number| arrived.contains(&message(2, number, 900))));
    assert_eq!(server.counts()["packets_sent"], 0);
    let refused = [
        server.send(b"back"),
        client.recv(&mut buffer).map(drop),
        client.try_recv(&mut buffer).map(drop),
    ];
    for error in refused.map(|result| result.expect_err("no way back")) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("repeat"), "{error}");
    }
}

#[test]
fn wrong_numbers_of_copies_are_refused_with_the_remedy() {
    let transport = towpath::find("vmtp").expect("it is registered");
    for (own, said) in [
        (&[("repeat", "0")][..], "use 1 to 8"),
        (&[("repeat", "9")], "use 1 to 8"),
        (&[("repeat", "on")], "use 1 to 8"),
        (&[("repeat", "2"), ("stream", "on")], "leave one out"),
    ] {
        let own = own
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let error = transport.check_options(&own.collect()).expect_err(said);
        assert!(error.contains(said), "{error}");
    }
    let own = [("repeat".to_owned(), "2".to_owned())].into();
    let class = transport.class_with(&own);
    assert!(!class.reliable && !class.flow_control && transport.class().reliable);
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
fn ten_thousand_clients_of_an_endpoint_are_all_answered() {
    with_server(|client, server| {
        let create = |_| client.create_client().expect("room");
        let clients: Vec<_> = (0..10_000).map(create).collect();
        for (first, clients) in clients.chunks(250).enumerate() {
            let begin = |(number, client): (usize, &towpath::vmtp::Client<'_>)| {
                let request = message(first, number, 20);
                client.begin(server, request, &Note::default())
            };
            let calls: Vec<_> = clients.iter().enumerate().map(begin).collect();
            for (number, (client, call)) in clients.iter().zip(&calls).enumerate() {
                let reply = client.take(call, LIMIT).expect("in time").expect("a reply");
                assert_eq!(reply.octets, reversed(message(first, number, 20)));
            }
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
