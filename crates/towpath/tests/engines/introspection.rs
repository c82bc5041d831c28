//! Introspection of live endpoints: context reports and packet traces.

#[path = "../../../../fuzz/src/text.rs"]
mod text;

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use text::{Draws, mutated};
use towpath::xtp::contexts::{query, query_all};
use towpath::xtp::group::{GroupEndpointConfig, Receiver, Sender, Stream, example_group};
use towpath::xtp::{Circuit, Endpoint, EndpointConfig, TraceLog};

const LIMIT: Duration = Duration::from_secs(30);

fn bind(settings: &EndpointConfig) -> Endpoint {
    Endpoint::bind(SocketAddr::from(([127, 0, 0, 1], 0)), settings).expect("a free port")
}

/// Two endpoints and a circuit between them.
fn joined(settings: &EndpointConfig) -> (Endpoint, Endpoint, Circuit, Circuit) {
    let (client, server) = (bind(settings), bind(settings));
    server.listen(true);
    let to = server.local_addr();
    let accepting = server.clone();
    let accepted = std::thread::spawn(move || accepting.accept(LIMIT).expect("a circuit"));
    let near = client.connect(to, LIMIT).expect("it listens");
    let far = accepted.join().expect("no panic");
    (client, server, near, far)
}

#[test]
fn endpoint_report_shows_association_state() {
    let (client, server, mut near, mut far) = joined(&EndpointConfig::default());
    let path = client.serve_contexts().expect("a private directory");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions();
    let folder = path.parent().expect("a folder");
    assert_eq!(mode(folder).mode() & 0o777, 0o700);
    near.send(&[7; 1000], LIMIT).expect("space to send");
    near.flush().expect("a wire");
    let mut buffer = [0; 2000];
    assert_eq!(far.recv(&mut buffer, LIMIT).expect("bytes"), Some(1000));
    near.drain(LIMIT).expect("an answer");
    let report = query(&path).expect("an answer");
    assert_eq!(report.process, std::process::id());
    assert_eq!(report.address, client.local_addr().to_string());
    assert_eq!(
        (report.dialect.as_str(), report.associations_total),
        ("4.0", 1)
    );
    let it = &report.associations[0];
    assert_eq!(it.peer, server.local_addr().to_string());
    assert_eq!((it.service.as_str(), it.initiator), ("stream", true));
    assert_eq!(
        (it.send_end, it.send_next, it.send_acknowledged),
        (1000, 1000, 1000)
    );
    assert!(it.remote_key.is_some() && it.rtt_ns.is_some(), "{it:?}");
    assert!(it.timers_ns.contains_key("CTIMER"), "{it:?}");
    assert!(it.timers_ns.values().all(|left| *left <= 60_000_000_000));
    assert!(report.counters["packets_sent"] >= 2);
    let found = query_all(Some(std::process::id())).expect("the folder");
    assert!(found.iter().any(|found| found.path == path));
    drop((near, far, client, server));
    assert!(!path.exists(), "the socket goes with the endpoint");
}

#[test]
fn stale_context_socket_is_removed() {
    let endpoint = bind(&EndpointConfig::default());
    let path = endpoint.serve_contexts().expect("a private directory");
    // A stale socket, as a killed process leaves it. No process has this PID.
    let stale = path.with_file_name(format!("4194305{}-1.sock", std::process::id() % 100));
    drop(std::os::unix::net::UnixListener::bind(&stale).expect("a socket"));
    assert!(stale.exists());
    query_all(None).expect("the folder");
    assert!(!stale.exists() && path.exists());
    let why = query(&stale).expect_err("it is gone");
    assert_eq!(why.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn idle_context_clients_do_not_block_queries() {
    let endpoint = bind(&EndpointConfig::default());
    let path = endpoint.serve_contexts().expect("a private directory");
    let idle: Vec<_> = (0..20)
        .map(|_| std::os::unix::net::UnixStream::connect(&path).expect("it listens"))
        .collect();
    assert_eq!(query(&path).expect("an answer").associations_total, 0);
    drop(idle);
}

/// Format values in the header.
const DATA: u8 = 0;
const FIRST: u8 = 2;
const TCNTL: u8 = 5;

struct Event {
    what: String,
    at: u64,
    from: u64,
    len: usize,
    hash: String,
    format: u8,
    seq: u64,
}

fn events(text: &str) -> Vec<Event> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| event(line).expect(line)).collect()
}

fn event(line: &str) -> Option<Event> {
    let mut words = line.split(' ');
    let _at_ps: u64 = words.next()?.parse().ok()?;
    let what = words.next()?.to_owned();
    let mut value = |name: &str| words.next()?.strip_prefix(name).map(str::to_owned);
    let (at, from) = (value("at=")?.parse().ok()?, value("from=")?.parse().ok()?);
    let (len, hash) = (value("len=")?.parse().ok()?, value("hash=")?);
    let hex = words.next()?;
    let octet = |at: usize| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok();
    let octets = (0..hex.len() / 2).map(octet).collect::<Option<Vec<u8>>>()?;
    Some(Event {
        what,
        at,
        from,
        len,
        hash,
        format: octets[11] & 0x1f,
        seq: u64::from_be_bytes(*octets[24..].first_chunk()?),
    })
}

#[test]
fn trace_of_live_transfer_is_complete_and_ordered() {
    let name = format!("towpath-trace-{}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let log = Arc::new(TraceLog::create(&path).expect("a file"));
    let settings = EndpointConfig {
        trace: Some(Arc::clone(&log)),
        ..EndpointConfig::default()
    };
    let (client, server, mut near, mut far) = joined(&settings);
    near.send(&[9; 5000], LIMIT).expect("space to send");
    near.finish().expect("a wire");
    let mut buffer = vec![0; 8000];
    assert_eq!(far.recv_all(&mut buffer, LIMIT).expect("all"), 5000);
    far.close(LIMIT).expect("an end");
    near.drain(LIMIT).expect("an end");
    drop(near);
    let end = Instant::now() + LIMIT;
    while client.holdings().associations + server.holdings().associations > 0 {
        assert!(Instant::now() < end, "the associations end");
        std::thread::sleep(Duration::from_millis(2));
    }
    drop((client, server));
    assert!(log.take_error().is_none());
    let text = fs::read_to_string(&path).expect("it was written");
    let _ = fs::remove_file(&path);
    assert!(text.starts_with("# station 0 is 127.0.0.1:"), "{text}");
    check(&events(&text));
}

/// Station 0 opened the association, sent 5000 bytes and closed; station 1 replied.
fn check(events: &[Event]) {
    let mut offered: BTreeMap<(&str, u64), i64> = BTreeMap::new();
    for event in events {
        let count = offered.entry((&event.hash, event.from)).or_default();
        *count += match event.what.as_str() {
            "offered" => 1,
            "arrived" => -1,
            other => panic!("nothing is {other} on this path"),
        };
        assert!(*count >= 0, "what arrived was offered before");
        assert_eq!(event.at == event.from, event.what == "offered");
    }
    let offered: Vec<&Event> = events
        .iter()
        .filter(|event| event.what == "offered")
        .collect();
    let kinds = |station| offered.iter().filter(move |event| event.from == station);
    assert_eq!(offered[0].format, FIRST);
    let answer = kinds(1).next().expect("an answer");
    assert_eq!(answer.format, TCNTL);
    let data: Vec<&&Event> = kinds(0).filter(|event| event.format == DATA).collect();
    let mut seen = [false; 5000];
    for event in &data {
        let from = event.seq as usize;
        seen[from..from + event.len - 32].fill(true);
    }
    assert!(seen.iter().all(|seen| *seen), "all bytes are in the trace");
    assert_eq!(data[0].seq, 0);
}

/// What listens on a socket of the folder may say anything.
#[test]
fn query_of_a_mutated_report_gives_a_report_or_refuses_it() {
    const QUERIES: u64 = 400;
    let endpoint = bind(&EndpointConfig::default());
    let live = endpoint.serve_contexts().expect("a private directory");
    let mut report = String::new();
    let mut socket = UnixStream::connect(live).expect("it listens");
    socket.read_to_string(&mut report).expect("a report");
    let path = std::env::temp_dir().join(format!("towpath-mutated-{}.sock", std::process::id()));
    // Left by an earlier process with this number.
    let _ = fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    let serving = std::thread::spawn(move || {
        for seed in 0..QUERIES {
            let (mut client, _) = listener.accept().expect("a client");
            let said = mutated(&report, &mut Draws(seed));
            client.write_all(said.as_bytes()).expect("the client reads");
        }
    });
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..QUERIES {
        match query(&path) {
            Ok(_) => accepted += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
                refused += 1;
            }
        }
    }
    serving.join().expect("no panic");
    fs::remove_file(&path).expect("it was there");
    assert!(accepted > 10 && refused > 10, "{accepted}, {refused}");
}

/// A sender with two members, all of which serve reports and write one trace, after 100,000 bytes.
fn group_with_trace(log: &Arc<TraceLog>) -> (Sender, Vec<(Receiver, Stream)>) {
    let settings = GroupEndpointConfig {
        trace: Some(Arc::clone(log)),
        contexts: true,
        ..GroupEndpointConfig::for_members(2)
    };
    let (group, local) = (example_group(), [127, 0, 0, 1].into());
    let join = |_| Receiver::join(group, local, &settings).expect("it joins");
    let receivers: Vec<Receiver> = (0..2).map(join).collect();
    let mut sender = Sender::open(group, local, &settings).expect("it opens");
    sender.wait_ready(LIMIT).expect("both join");
    sender.send(&[7; 100_000], LIMIT).expect("space to send");
    sender.flush().expect("a wire");
    let read = |receiver: Receiver| {
        let mut stream = receiver.accept(LIMIT).expect("a sender");
        let (mut buffer, mut left) = (vec![0; 100_000], 100_000);
        while left > 0 {
            let some = stream.recv(&mut buffer, LIMIT).expect("bytes");
            left -= some.expect("not the end");
        }
        (receiver, stream)
    };
    (sender, receivers.into_iter().map(read).collect())
}

#[test]
fn group_reports_show_members_and_streams() {
    let path = std::env::temp_dir().join(format!("towpath-group-{}", std::process::id()));
    let log = Arc::new(TraceLog::create(&path).expect("a file"));
    let (sender, receivers) = group_with_trace(&log);
    let addresses: Vec<String> = receivers
        .iter()
        .map(|(receiver, _)| receiver.local_addr().to_string())
        .collect();
    let own = || query_all(Some(std::process::id())).expect("the folder");
    let end = Instant::now() + LIMIT;
    let it = loop {
        let reports = own().into_iter().filter_map(|found| found.report.ok());
        let mut senders = reports.flat_map(|report| report.group_senders);
        let ours = senders.find(|it| {
            it.members
                .iter()
                .any(|one| addresses.contains(&one.address))
        });
        let it = ours.expect("the sender answers");
        if it.members.iter().all(|one| one.received == 100_000) || Instant::now() > end {
            break it;
        }
        // Queries without a pause would take the processors from what they ask about.
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(
        (it.state.as_str(), it.reliability.as_str()),
        ("active", "counted")
    );
    assert_eq!((it.send_end, it.send_next), (100_000, 100_000));
    assert_eq!(it.members.len(), 2);
    for member in &it.members {
        assert!(addresses.contains(&member.address), "{member:?}");
        let got = (member.state.as_str(), member.start, member.received);
        assert_eq!(got, ("member", 0, 100_000));
        assert!(member.allocation.is_some_and(|alloc| alloc >= 100_000));
    }
    assert!(!it.timers_ns.is_empty(), "{it:?}");
    let streams = own().into_iter().filter_map(|found| found.report.ok());
    let ours = streams.filter(|report| addresses.contains(&report.address));
    let streams: Vec<_> = ours.flat_map(|report| report.group_receivers).collect();
    assert_eq!(streams.len(), 2);
    for stream in &streams {
        assert_eq!(stream.sender_key, it.key);
        assert!(stream.counted && stream.validated, "{stream:?}");
        assert_eq!(
            (stream.state.as_str(), stream.receive_next),
            ("active", 100_000)
        );
    }
    drop((sender, receivers));
    fs::remove_file(&path).expect("it is there");
}

#[test]
fn trace_of_a_group_has_packets_of_both_ends() {
    let path = std::env::temp_dir().join(format!("towpath-group-trace-{}", std::process::id()));
    let log = Arc::new(TraceLog::create(&path).expect("a file"));
    drop(group_with_trace(&log));
    let text = fs::read_to_string(&path).expect("it was written");
    fs::remove_file(&path).expect("it is there");
    let events = events(&text);
    let count = |what: &str, format: u8| {
        let same = events
            .iter()
            .filter(|it| it.what == what && it.format == format);
        same.count()
    };
    assert!(count("offered", DATA) >= 100_000 / 1472);
    // Each packet to the group arrives at both receivers.
    assert!(count("arrived", DATA) >= 2 * (100_000 / 1472));
    assert!(count("offered", FIRST) >= 1 && count("arrived", TCNTL) >= 2);
}
