//! VMTP as a library: forwarding, conditional calls, datagrams, probes, names, groups, reports.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use towpath::vmtp::groups::{group, group_address};
use towpath::vmtp::{
    CallFlags, CallNote, Endpoint, EndpointConfig, EntityId, Found, Note, entities,
};

/// How long a test waits for what must come: only a failure waits that long.
const LIMIT: Duration = Duration::from_secs(30);

fn endpoint() -> Endpoint {
    let any = "127.0.0.1:0".parse().expect("an address");
    Endpoint::bind(any, &EndpointConfig::default()).expect("a port")
}

/// Serves an endpoint with the octets of `name` before those of a request, while `act` runs.
fn serving(endpoint: &Endpoint, name: &str, act: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let answer =
                |request: &towpath::vmtp::Request| [name.as_bytes(), &request.octets[..]].concat();
            endpoint.serve(1, answer, || over.load(Ordering::Relaxed));
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        over.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
fn forwarded_requests_are_answered_by_another_endpoint() {
    let (client, front, back) = (endpoint(), endpoint(), endpoint());
    let service = front.create_entity(1).expect("room");
    let worker = back.create_entity(2).expect("room");
    client.locate(service, front.local_addr());
    front.locate(worker, back.local_addr());
    let caller = client.create_client().expect("room");
    serving(&back, "back: ", || {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20 {
                    let request = front.receive(LIMIT).expect("a request");
                    let octets = request.octets.clone();
                    front.forward(request, worker, octets).expect("forwarded");
                }
            });
            for number in 0..20usize {
                let octets = vec![b'x'; number * 500];
                let reply = caller
                    .call(service, octets.clone(), LIMIT)
                    .expect("a reply");
                assert!(
                    reply.octets == [b"back: ", &octets[..]].concat(),
                    "call {number}"
                );
                assert_eq!(reply.from, worker);
            }
        });
    });
}

#[test]
fn conditional_call_finds_a_server_that_waits_or_nobody() {
    let (client, server) = (endpoint(), endpoint());
    let service = server.create_entity(1).expect("room");
    client.locate(service, server.local_addr());
    let caller = client.create_client().expect("room");
    let note = Note {
        call: CallNote {
            flags: CallFlags::CONDITIONAL,
            ..CallNote::default()
        },
        ..Note::default()
    };
    // Nobody waits; the endpoint itself takes arrivals in.
    let call = caller.begin(service, &b"now"[..], &note);
    let error = caller
        .take(&call, LIMIT)
        .expect("in time")
        .expect_err("nobody");
    assert!(error.to_string().contains("NOT_AWAITING_MSG"), "{error}");
    serving(&server, "", || {
        // The server's thread may not wait yet.
        let answered = (0..1000).any(|_| {
            let call = caller.begin(service, &b"now"[..], &note);
            caller.take(&call, LIMIT).expect("in time").is_ok()
        });
        assert!(answered);
    });
}

#[test]
fn calls_within_an_endpoint_need_no_socket() {
    let endpoint = endpoint();
    let service = endpoint.create_entity(1).expect("room");
    let caller = endpoint.create_client().expect("room");
    serving(&endpoint, "here: ", || {
        let reply = caller
            .call(service, vec![b'y'; 100_000], LIMIT)
            .expect("a reply");
        assert!(reply.octets.starts_with(b"here: yyy") && reply.octets.len() == 100_006);
        let reply = caller.call(service, Vec::new(), LIMIT).expect("a reply");
        assert_eq!(reply.octets, b"here: ");
    });
}

#[test]
fn datagrams_arrive_without_an_answer() {
    let (client, server) = (endpoint(), endpoint());
    let service = server.create_entity(1).expect("room");
    client.locate(service, server.local_addr());
    let caller = client.create_client().expect("room");
    caller
        .send_datagram(service, &b"one way"[..])
        .expect("it is sent");
    let request = server.receive(LIMIT).expect("it came");
    assert_eq!(request.octets, b"one way");
    let error = caller
        .send_datagram(EntityId(3), &b"x"[..])
        .expect_err("not located");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn probe_finds_an_entity_or_says_nobody_with_tries_and_time() {
    let (client, server) = (endpoint(), endpoint());
    let service = server.create_entity(1).expect("room");
    client.locate(service, server.local_addr());
    let caller = client.create_client().expect("room");
    let spacing = Duration::from_millis(100);
    let found = caller.probe(service, 50, spacing).expect("a question");
    assert!(matches!(found, Found::Somebody { .. }), "{found:?}");
    let other = EntityId(service.0 + (1 << 32));
    client.locate(other, server.local_addr());
    let found = caller.probe(other, 50, spacing).expect("a question");
    assert!(
        matches!(found, Found::Nobody { tries: 50, .. }),
        "{found:?}"
    );
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let away = EntityId(service.0 + (2 << 32));
    client.locate(away, silent.local_addr().expect("an address"));
    let Found::Nobody { tries, after } = caller.probe(away, 3, spacing).expect("a question") else {
        panic!("nobody is there");
    };
    assert_eq!(tries, 3);
    assert!(after >= 3 * spacing, "{after:?}");
    let error = caller.probe(service, 0, spacing).expect_err("no tries");
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn entity_that_moved_is_followed() {
    let (client, old, new) = (endpoint(), endpoint(), endpoint());
    let service = old.create_entity(1).expect("room");
    client.locate(service, old.local_addr());
    let caller = client.create_client().expect("room");
    new.adopt_entity(service).expect("room");
    old.migrate(service, new.local_addr()).expect("it works");
    serving(&new, "moved: ", || {
        let reply = caller
            .call(service, &b"where?"[..], LIMIT)
            .expect("a reply");
        assert_eq!(reply.octets, b"moved: where?");
    });
}

#[test]
fn live_endpoints_report_their_entities_and_clients() {
    let (client, server) = (endpoint(), endpoint());
    let service = server.create_entity(9).expect("room");
    client.locate(service, server.local_addr());
    let path = server.serve_entities().expect("a socket");
    let caller = client.create_client().expect("room");
    serving(&server, "", || {
        caller.call(service, &b"x"[..], LIMIT).expect("a reply");
        let report = entities::query(&path).expect("a report");
        assert_eq!(report.entities.len(), 1);
        assert_eq!(report.entities[0].entity, format!("{:016x}", service.0));
        assert_eq!(report.records_total, 1);
        assert_eq!(report.records[0].peer, client.local_addr().to_string());
        let own = entities::query_all(Some(std::process::id())).expect("a list");
        assert!(own.iter().any(|found| found.path == path));
    });
    drop(server);
    assert!(!path.exists(), "it is removed");
}

/// A port that nobody else has.
fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("an address").port()
}

#[test]
fn members_of_a_group_all_answer_over_multicast() {
    let at = SocketAddr::new(group_address(0x123, false), free_port());
    let members = group(0x123, Ipv4Addr::new(239, 0, 1, 35));
    let client = endpoint();
    client.locate(members, at);
    let caller = client.create_client().expect("room");
    let servers: Vec<Endpoint> = (0..3).map(|_| endpoint()).collect();
    for (number, server) in servers.iter().enumerate() {
        let entity = server.create_entity(number as u32 + 1).expect("room");
        server.join(members, entity, at).expect("it joins");
    }
    let names = ["a", "b", "c"];
    serving(&servers[0], names[0], || {
        serving(&servers[1], names[1], || {
            serving(&servers[2], names[2], || {
                let wait = Duration::from_secs(3);
                let replies = caller.call_group(members, &b"!"[..], wait, true);
                let replies = replies.expect("it is sent");
                let mut texts: Vec<Vec<u8>> =
                    replies.into_iter().map(|reply| reply.octets).collect();
                texts.sort();
                assert_eq!(texts, [b"a!", b"b!", b"c!"]);
                let first = caller
                    .call(members, vec![b'?'; 3000], LIMIT)
                    .expect("a reply");
                assert_eq!(first.octets.len(), 3001);
            });
        });
    });
}

#[test]
fn members_at_one_endpoint_each_answer_until_they_leave() {
    let at = SocketAddr::new(group_address(0x124, false), free_port());
    let members = group(0x124, Ipv4Addr::new(239, 0, 1, 36));
    let (client, server) = (endpoint(), endpoint());
    client.locate(members, at);
    let caller = client.create_client().expect("room");
    let entities = [1, 2].map(|number| server.create_entity(number).expect("room"));
    for entity in entities {
        server.join(members, entity, at).expect("it joins");
    }
    let answer = |request: &towpath::vmtp::Request| {
        let name = if request.answerer == entities[0] {
            "a"
        } else {
            "b"
        };
        [name.as_bytes(), &request.octets].concat()
    };
    let ask = || {
        let wait = Duration::from_secs(3);
        let replies = caller.call_group(members, &b"!"[..], wait, true);
        let replies = replies.expect("it is sent").into_iter();
        let mut texts: Vec<Vec<u8>> = replies.map(|reply| reply.octets).collect();
        texts.sort();
        texts
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| server.serve(1, answer, || stop.load(Ordering::Relaxed)));
        let both = ask();
        let left = server.leave(members, entities[0], at);
        let one = ask();
        stop.store(true, Ordering::Relaxed);
        left.expect("it was a member");
        assert_eq!(both, [b"a!", b"b!"]);
        assert_eq!(one, [b"b!"]);
    });
}

#[test]
fn name_is_held_by_nobody_and_then_by_one() {
    let managers = SocketAddr::from((Ipv4Addr::new(224, 0, 1, 0), free_port()));
    let (client, server) = (endpoint(), endpoint());
    client.join_managers(managers).expect("it joins");
    server.join_managers(managers).expect("it joins");
    let caller = client.create_client().expect("room");
    let spacing = Duration::from_millis(50);
    let found = caller
        .unique_name("printer", 3, spacing)
        .expect("a question");
    assert!(matches!(found, Found::Nobody { tries: 3, .. }), "{found:?}");
    server.hold_name("printer").expect("room");
    let found = caller
        .unique_name("printer", 40, spacing)
        .expect("a question");
    assert!(matches!(found, Found::Somebody { .. }), "{found:?}");
    client.hold_name("scanner").expect("room");
    let found = caller
        .unique_name("scanner", 1, spacing)
        .expect("a question");
    assert!(
        matches!(found, Found::Somebody { .. }),
        "its own: {found:?}"
    );
}

#[test]
fn streams_are_answered_in_order_with_64_calls_in_flight() {
    let (client, server) = (endpoint(), endpoint());
    let service = server.create_entity(1).expect("room");
    client.locate(service, server.local_addr());
    let caller = client.create_client().expect("room");
    serving(&server, "", || {
        let mut stream = caller.stream(service);
        let (mut sent, mut received) = (0usize, 0usize);
        while received < 300 {
            while sent < 300 && stream.in_flight() < 64 {
                let octets = vec![sent as u8; (sent * 37) % 3000];
                match sent {
                    299 => stream.finish(octets).expect("room"),
                    _ => stream.begin(octets).expect("room"),
                }
                sent += 1;
            }
            let reply = stream
                .next_reply(LIMIT)
                .expect("in flight")
                .expect("a reply");
            assert_eq!(
                reply.octets.len(),
                (received * 37) % 3000,
                "reply {received}"
            );
            assert!(reply.octets.iter().all(|octet| *octet == received as u8));
            received += 1;
        }
        assert!(stream.next_reply(LIMIT).is_none());
    });
}
