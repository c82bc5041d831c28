//! Endpoints of SCTP with several addresses, on the loopback.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use towpath::sctp::{Association, Endpoint, EndpointConfig, MessageInfo, Notice, PathStatus};

const LIMIT: Duration = Duration::from_secs(30);

/// Two addresses of this host, with any port.
fn two() -> [SocketAddr; 2] {
    [1, 2].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)))
}

/// An association of two endpoints with two addresses each: the client's end and the server's.
fn pair() -> (Endpoint, Association, Association) {
    let config = EndpointConfig::default();
    let server = Endpoint::bind(&two(), &config).expect("two sockets");
    server.listen(true);
    let client = Endpoint::bind(&two(), &config).expect("two sockets");
    let to = server.local_addrs().to_vec();
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
fn silent_or_absent_peer_and_wrong_addresses_are_named() {
    let config = EndpointConfig::default();
    let endpoint = Endpoint::bind(&two()[..1], &config).expect("a socket");
    let deaf = Endpoint::bind(&two()[..1], &config).expect("a socket");
    let refused = endpoint
        .connect(deaf.local_addrs(), LIMIT)
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
