//! Endpoints of SCTP with several addresses, on the loopback.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use towpath::sctp::{
    AddressChange, Association, ChunkType, Endpoint, EndpointConfig, MessageInfo, Notice,
    PathStatus, Port, ReconfigOutcome, Reliability, SharedKey,
};

const LIMIT: Duration = Duration::from_secs(30);

/// Two addresses of this host, with any port.
fn two() -> [SocketAddr; 2] {
    [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))
}

/// An association of two endpoints with two addresses each: the client's end and the server's.
fn pair() -> (Endpoint, Association, Association) {
    pair_with(&EndpointConfig::default())
}

fn pair_with(config: &EndpointConfig) -> (Endpoint, Association, Association) {
    let server = Endpoint::bind(&two(), config).expect("two sockets");
    server.listen(true);
    let client = Endpoint::bind(&two(), config).expect("two sockets");
    let to = server.local_addrs();
    assert_eq!(to[0].port(), to[1].port());
    let opening = std::thread::spawn(move || client.connect(&to, LIMIT));
    let accepted = server.accept(LIMIT).expect("an association");
    let opened = opening.join().expect("no panic").expect("it opens");
    (server, opened, accepted)
}

/// Waits until both paths of an end answer.
fn wait_for_paths(association: &Association) -> Vec<Notice> {
    let end = Instant::now() + LIMIT;
    let mut notices = Vec::new();
    loop {
        notices.extend(std::iter::from_fn(|| association.next_notice()));
        let paths = association.status().paths;
        if paths.len() == 2 && paths.iter().all(|path| path.status == PathStatus::Active) {
            notices.extend(std::iter::from_fn(|| association.next_notice()));
            return notices;
        }
        assert!(Instant::now() < end, "{paths:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn messages_keep_stream_identifier_and_bounds() {
    let (_server, mut client, mut server) = pair();
    let infos = [(0, 0, false), (3, 51, false), (3, 52, true)];
    for (stream, ppid, unordered) in infos {
        let info = MessageInfo {
            stream,
            ppid,
            unordered,
            ..MessageInfo::default()
        };
        let message = vec![stream as u8; 3000 * (usize::from(stream) + 1)];
        client.send(&message, &info, LIMIT).expect("room");
        client.flush().expect("the wire works");
        let mut buffer = vec![0; 64 << 10];
        let got = server.receive(&mut buffer, LIMIT).expect("a message");
        let got = got.expect("no end");
        assert!(got.end && got.info == info, "{got:?}");
        assert_eq!(buffer[..got.len], message);
    }
    let wrong = MessageInfo {
        stream: 60_000,
        ..MessageInfo::default()
    };
    let refused = client
        .send(b"x", &wrong, LIMIT)
        .expect_err("no such stream");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    assert!(refused.to_string().contains("use 0 to 15"), "{refused}");
    assert!(client.send(b"", &MessageInfo::default(), LIMIT).is_err());
    let ended = std::thread::spawn(move || client.shutdown(LIMIT));
    assert_eq!(server.receive(&mut [0; 10], LIMIT).expect("an end"), None);
    drop(server);
    ended.join().expect("no panic").expect("everything arrived");
}

/// Waits for `found` to find something.
fn wait_for<T>(mut found: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < end, "it did not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn unacknowledged_messages_of_a_broken_association_come_back() {
    let (_server, mut client, server) = pair();
    client.keep_failed();
    // The window takes a part of them; the server's user reads nothing.
    let message = |number: u64| vec![number as u8; 20_000];
    let mut sent = 0;
    for number in 1..=60 {
        let info = MessageInfo {
            stream: (number % 3) as u16,
            ppid: 51,
            context: number,
            ..MessageInfo::default()
        };
        match client.send(&message(number), &info, Duration::from_millis(100)) {
            Ok(()) => sent = number,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::TimedOut);
                break;
            }
        }
    }
    client.flush().expect("the wire works");
    server.abort().expect("the wire works");
    let first = wait_for(|| client.next_failed());
    let mut failed = vec![first];
    failed.extend(std::iter::from_fn(|| client.next_failed()));
    for one in &failed {
        assert!(one.is_whole || one.was_sent, "{:?}", one.info);
        let whole = message(one.info.context);
        let fits = whole.ends_with(&one.bytes) && (!one.is_whole || whole == one.bytes);
        assert!(
            fits,
            "{:?} {} {} {:?}",
            one.info,
            one.is_whole,
            one.bytes.len(),
            one.bytes.first()
        );
        assert_eq!(
            (one.info.ppid, u64::from(one.info.stream)),
            (51, one.info.context % 3)
        );
    }
    let last = failed.last().expect("one at least");
    assert!(
        last.info.context == sent && !last.was_sent && last.is_whole,
        "{:?}",
        last.info
    );
    let contexts = failed.iter().map(|one| one.info.context);
    assert!(contexts.is_sorted(), "in the order in which they were sent");
}

#[test]
fn messages_whose_life_is_over_before_they_leave_come_back() {
    let (_server, mut client, _server_end) = pair();
    client.keep_failed();
    // The server's user reads nothing: messages that never end their life shut its window of 512 KiB.
    for len in [20_000; 26].into_iter().chain([4_000]) {
        let all = client.send(&vec![0; len], &MessageInfo::default(), LIMIT);
        all.expect("room in the window");
    }
    client.flush().expect("the wire works");
    client.report_dry(true);
    let is_dry = |notice: Notice| (notice == Notice::SenderDry).then_some(());
    wait_for(|| client.next_notice().and_then(is_dry));
    let sent = 45;
    for context in 1..=sent {
        let info = MessageInfo {
            context,
            reliability: Reliability::Lifetime(Duration::from_millis(30)),
            ..MessageInfo::default()
        };
        let all = client.send(&vec![context as u8; 20_000], &info, LIMIT);
        all.expect("room, as the old ones are given up");
    }
    client.flush().expect("the wire works");
    let mut failed = Vec::new();
    while failed.last() != Some(&sent) {
        let one = wait_for(|| client.next_failed());
        let whole = one.bytes == vec![one.info.context as u8; 20_000];
        assert!(whole || one.was_sent, "{:?}", one.info);
        failed.push(one.info.context);
    }
    assert!(failed.iter().copied().eq(1..=sent), "{failed:?}");
}

#[test]
fn sender_gets_a_notice_when_nothing_is_left_to_send() {
    let (_server, mut client, mut server) = pair();
    let is_dry = |notice: Notice| (notice == Notice::SenderDry).then_some(());
    client.report_dry(true);
    wait_for(|| client.next_notice().and_then(is_dry));
    client
        .send(b"more", &MessageInfo::default(), LIMIT)
        .expect("room");
    client.flush().expect("the wire works");
    server.receive(&mut [0; 10], LIMIT).expect("a message");
    wait_for(|| client.next_notice().and_then(is_dry));
}

#[test]
fn both_addresses_are_paths_and_either_can_be_primary() {
    let (_server, mut client, mut server) = pair();
    let paths = wait_for_paths(&server);
    let confirmed = |notice: &Notice| {
        matches!(
            notice,
            Notice::Path {
                status: PathStatus::Active,
                ..
            }
        )
    };
    assert!(paths.iter().any(confirmed), "{paths:?}");
    wait_for_paths(&client);
    let paths = client.status().paths;
    assert!(paths[0].is_primary && paths[0].carries_data);
    for path in &paths {
        assert_eq!(path.local.ip(), path.remote.ip(), "one link each");
    }
    client.set_primary(paths[1].remote).expect("it answers");
    client.request_heartbeat(paths[0].remote).expect("a path");
    let nowhere = SocketAddr::from((Ipv4Addr::new(10, 9, 8, 7), 1));
    let refused = client.set_primary(nowhere).expect_err("no address of it");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
    client
        .send(b"by the other", &MessageInfo::default(), LIMIT)
        .expect("room");
    let got = server.receive(&mut [0; 100], LIMIT).expect("a message");
    assert_eq!(got.expect("no end").len, 12);
    assert!(client.status().paths[1].carries_data);
}

#[test]
fn one_path_has_heartbeats_and_timeouts_of_its_own() {
    let (_server, mut client, _peer) = pair();
    wait_for_paths(&client);
    let before = client.status().paths;
    let mut parameters = before[1].parameters;
    parameters.heartbeat_interval = Duration::ZERO;
    // Whether a round trip was measured there yet or not.
    parameters.rto.min = Duration::from_secs(3);
    parameters.rto.initial = Duration::from_secs(3);
    let set = client.set_path_parameters(before[1].remote, parameters);
    set.expect("a path");
    let after = client.status().paths;
    assert_eq!(after[1].parameters, parameters);
    assert_eq!(after[1].rto, Duration::from_secs(3));
    assert_eq!(after[0].parameters, before[0].parameters);
    parameters.rto.max = Duration::from_secs(2);
    let wrong = client.set_path_parameters(before[1].remote, parameters);
    let wrong = wrong.expect_err("the shortest is above the longest");
    assert!(wrong.to_string().contains("out of order"), "{wrong}");
    let nowhere = SocketAddr::from((Ipv4Addr::new(10, 9, 8, 7), 1));
    let refused = client.set_path_parameters(nowhere, before[0].parameters);
    let refused = refused.expect_err("no address of it");
    assert_eq!(refused.kind(), ErrorKind::InvalidInput);
}

#[test]
fn chunks_are_authenticated_with_the_key_of_both_ends() {
    let words = [("auth", "all"), ("key", "one"), ("adaptation", "77")];
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = EndpointConfig::parse(&words.into()).expect("options");
    let (_server, mut client, mut server) = pair_with(&config);
    let message = vec![7; 40_000];
    let mut buffer = vec![0; 64 << 10];
    let info = MessageInfo::default();
    client.send(&message, &info, LIMIT).expect("room");
    client.flush().expect("the wire works");
    let got = server.receive(&mut buffer, LIMIT).expect("a message");
    assert_eq!(got.expect("no end").len, message.len());
    let summary = client.authentication().expect("both ends can");
    assert!(summary.peer_chunks.contains(&ChunkType::DATA));
    assert_eq!(wait_for(|| server.next_notice()), Notice::Adaptation(77));
    for end in [&mut client, &mut server] {
        let unset = end.set_active_key(5).expect_err("it was not set");
        assert!(unset.to_string().contains("no such key"), "{unset}");
        end.set_key(5, &SharedKey::new(b"two")).expect("room");
    }
    client.set_active_key(5).expect("it was set");
    client.send(&message, &info, LIMIT).expect("room");
    client.flush().expect("the wire works");
    let got = server.receive(&mut buffer, LIMIT).expect("a message");
    assert_eq!(got.expect("no end").len, message.len());
}

#[test]
fn address_goes_and_comes_back_while_messages_flow() {
    let words = [
        ("auth", "on"),
        ("addresses", "dynamic"),
        ("heartbeat", "1s"),
    ];
    let words = words.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = EndpointConfig::parse(&words.into()).expect("options");
    let (_server, mut client, mut server) = pair_with(&config);
    wait_for_paths(&client);
    wait_for_paths(&server);
    let first = two()[0].ip();
    let info = MessageInfo::default();
    let mut buffer = vec![0; 64 << 10];
    for change in [AddressChange::Deleted, AddressChange::Added] {
        match change {
            AddressChange::Deleted => client.delete_address(first).expect("there is another"),
            _ => client.add_address(first).expect("it was deleted"),
        }
        let notice = wait_for(|| {
            client
                .next_notice()
                .filter(|notice| !matches!(notice, Notice::Path { .. }))
        });
        let outcome = ReconfigOutcome::Done;
        assert_eq!(
            notice,
            Notice::OwnAddress {
                address: first,
                change,
                outcome
            }
        );
        let notice = wait_for(|| {
            server
                .next_notice()
                .filter(|notice| !matches!(notice, Notice::Path { .. }))
        });
        assert_eq!(
            notice,
            Notice::PeerAddress {
                address: first,
                change
            }
        );
        client.send(b"still here", &info, LIMIT).expect("room");
        client.flush().expect("the wire works");
        let got = server.receive(&mut buffer, LIMIT).expect("a message");
        assert_eq!(got.expect("no end").len, 10);
        let has_it = client
            .status()
            .paths
            .iter()
            .any(|path| path.local.ip() == first);
        assert_eq!(has_it, change == AddressChange::Added);
    }
    let last = client.delete_address("127.0.0.9".parse().expect("an address"));
    assert!(
        last.expect_err("not bound")
            .to_string()
            .contains("not bound")
    );
}

#[test]
fn silent_or_absent_peer_and_wrong_addresses_are_named() {
    let config = EndpointConfig::default();
    let endpoint = Endpoint::bind(&two()[..1], &config).expect("a socket");
    let deaf = Endpoint::bind(&two()[..1], &config).expect("a socket");
    let refused = endpoint
        .connect(&deaf.local_addrs(), LIMIT)
        .err()
        .expect("it does not listen");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let silent = [silent.local_addr().expect("bound")];
    let limit = Duration::from_millis(50);
    let kind = endpoint
        .connect(&silent, limit)
        .err()
        .expect("no answer")
        .kind();
    assert!(
        [ErrorKind::TimedOut, ErrorKind::ConnectionRefused].contains(&kind),
        "{kind:?}"
    );
    let all = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    for wrong in [&[][..], &[all, two()[0]]] {
        let error = Endpoint::bind(wrong, &config).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
}

#[test]
fn end_that_is_dropped_unread_lets_its_peer_end() {
    let (_server, mut client, server) = pair();
    let (message, info) = (vec![7; 60_000], MessageInfo::default());
    let mut sent = 0;
    // Until the peer's window is shut and the send buffer full.
    while client
        .send(&message, &info, Duration::from_millis(200))
        .is_ok()
    {
        sent += 1;
        assert!(sent < 1000, "nobody reads, and there is still room");
    }
    assert!(client.status().unacknowledged > 0 && sent > 8);
    drop(server);
    client.shutdown(LIMIT).expect("the window opened again");
}

#[test]
fn live_endpoints_report_their_associations_and_paths() {
    let (server, client, accepted) = pair();
    wait_for_paths(&client);
    wait_for_paths(&accepted);
    let socket = server.serve_contexts().expect("a private folder");
    let report = towpath::sctp::contexts::query(&socket).expect("it answers");
    assert_eq!(report.process, std::process::id());
    assert_eq!((report.associations_total, report.addresses.len()), (1, 2));
    let association = &report.associations[0];
    assert_eq!(association.state, "established");
    assert!(!association.opened_here && association.receive_window > 0);
    assert_eq!(association.paths.len(), 2);
    let path = &association.paths[0];
    assert!(path.is_primary && path.carries_data && path.state == "active");
    assert!(path.rto_ns >= 200_000_000 && path.congestion_window > 0);
    let of_process = towpath::sctp::contexts::query_all(Some(std::process::id()));
    let sockets = of_process.expect("a private folder");
    assert!(sockets.iter().any(|found| found.path == socket));
}

/// Opens an association to `to` and to SCTP's port 7, and sends on its fourth stream before the peer has
/// answered.
fn send_before_the_answer(client: &Endpoint, server: &Endpoint, to: SocketAddr) {
    server.listen(true);
    let mut opened = client.begin_connect_to_port(&[to], 7).expect("it begins");
    let info = MessageInfo {
        stream: 3,
        ..MessageInfo::default()
    };
    opened.try_send(b"early", &info).expect("room");
    assert!(opened.has_room(opened.message_max()));
    let mut accepted = server.accept(LIMIT).expect("an association");
    let mut buffer = [0; 16];
    let got = accepted.receive(&mut buffer, LIMIT).expect("a message");
    let got = got.expect("no end");
    assert_eq!((&buffer[..got.len], got.info.stream), (&b"early"[..], 3));
    assert_eq!(accepted.ports(), (7, opened.ports().0));
    let status = accepted.status();
    assert_eq!((status.inbound_streams, status.outbound_streams), (16, 16));
}

/// A configuration that listens at SCTP's port 7.
fn at_port_7() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.config.port = Port(7);
    config
}

#[test]
fn message_sent_before_the_answer_arrives_on_its_stream_at_another_port() {
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Endpoint::bind(&[any], &at_port_7()).expect("a socket");
    let client = Endpoint::bind(&[any], &EndpointConfig::default()).expect("a socket");
    send_before_the_answer(&client, &server, server.local_addrs()[0]);
}

#[test]
fn endpoints_on_raw_ip_select_packets_by_the_ports_of_sctp() {
    let local = [Ipv4Addr::new(127, 0, 0, 77).into()];
    let server = match Endpoint::bind_ip(&local, &at_port_7()) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            eprintln!("SKIPPED: {error}");
            return;
        }
        opened => opened.expect("a socket"),
    };
    let client = Endpoint::bind_ip(&local, &EndpointConfig::default()).expect("a socket");
    send_before_the_answer(&client, &server, SocketAddr::new(local[0], 0));
}
