//! Defects of other measurement servers, tried on this one. Each test is a class of published
//! advisories; after each the agent must still serve a client.

use crate::common::{CountingHost, Scratch};
use crate::common::{
    RawClient, await_idle, connect, job, open_agent, session, start, target, trusting_keys,
};
use control::frame::{REQUEST_MAX, encode};
use control::session::{FromAgent, ToAgent};
use control::{Caps, FromWorker, Side, ToWorker};
pub use engine_random::SplitMix64;
use results::TestSpec;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

/// The SplitMix64 generator.
mod engine_random {
    pub struct SplitMix64(pub u64);

    impl SplitMix64 {
        pub fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }
    }
}

/// CVE-2016-4303 and the parsers fuzzed later: malformed text before and after authentication.
#[test]
fn malformed_input_rejected() {
    let (agent, place) = open_agent(Caps::default());
    let mut random = SplitMix64(4303);
    let good = encode(
        &ToAgent::ToWorker(1, Box::new(ToWorker::Listen(job("tcp", Side::Listen)))),
        REQUEST_MAX,
    )
    .expect("a small request");
    for round in 0..120 {
        let mut raw = RawClient::connect(agent.address());
        if round % 3 > 0 {
            raw.send_client_version();
            raw.send(&ToAgent::Hello(control::PROTOCOL_VERSION));
        }
        let mut bad = good.clone();
        for _ in 0..1 + random.next() % 8 {
            let at = random.next() as usize % bad.len();
            bad[at] = random.next() as u8;
        }
        raw.send_octets(&bad);
        drop(raw);
    }
    await_idle(&agent, &place);
    drop(session(&agent));
}

/// CVE-2023-38403: a length near the maximum overflows. CVE-2026-71218: any length is allocated.
/// CVE-2025-54349: a buffer is one octet short.
#[test]
fn frame_length_checked_against_limit() {
    let (agent, place) = open_agent(Caps::default());
    for len in [u32::MAX, u32::MAX - 3, 1 << 31, REQUEST_MAX as u32 + 1] {
        let mut raw = RawClient::ready(agent.address());
        raw.send_octets(&len.to_le_bytes());
        assert_eq!(raw.read_until_closed(), None, "{len}");
    }
    // A frame of the maximum length is served.
    let mut raw = RawClient::ready(agent.address());
    let room = REQUEST_MAX - 4;
    let probe = ToAgent::Probe(vec![7; room]);
    assert_eq!(
        encode(&probe, REQUEST_MAX).expect("it fits").len(),
        4 + REQUEST_MAX
    );
    raw.send(&probe);
    let FromAgent::Probe(back) = raw.receive().expect("an answer") else {
        panic!("no probe");
    };
    assert_eq!(back, vec![7; room]);
    drop(raw);
    await_idle(&agent, &place);
}

/// CVE-2023-7250: a client sends less than it announced, and the server waits forever.
#[test]
fn partial_frame_does_not_block_other_clients() {
    let (agent, place) = open_agent(Caps::default());
    let mut raw = RawClient::ready(agent.address());
    raw.send_octets(&[100, 0, 0, 0, 1, 2, 3]);
    let mut others = [
        RawClient::connect(agent.address()),
        RawClient::connect(agent.address()),
    ];
    others[0].send_octets(b"towpath ");
    others[1].send_client_version();
    // It is served although the first is still connected.
    let next = session(&agent);
    assert_eq!(raw.read_until_closed(), None);
    for other in &mut others {
        assert_eq!(other.read_until_closed(), None);
    }
    drop(next);
    await_idle(&agent, &place);
}

/// CVE-2024-26306 and CVE-2025-54350: an oracle for wrong secrets, and a crash on them. Here a
/// client without a trusted key learns nothing, whatever it sends.
#[test]
fn unauthenticated_client_learns_nothing() {
    let scratch = Scratch::new();
    let (ours, theirs) = trusting_keys(&scratch);
    let place = CountingHost::new();
    let agent = start("127.0.0.1:0", Some(ours), Caps::default(), place.clone());
    let tries: [&[u8]; 5] = [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        &[0x16, 3, 1, 0xff, 0xff, 1, 2, 3],
        &[0; 300],
        &encode(&ToAgent::Hello(control::PROTOCOL_VERSION), 99).expect("a hello"),
    ];
    for octets in tries {
        let mut socket = TcpStream::connect(agent.address()).expect("the agent listens");
        let mut version = [0; 16];
        socket.read_exact(&mut version).expect("its version");
        let _ = socket.write_all(&[b"towpath client\0\0", octets].concat());
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let mut received = Vec::new();
        let _ = socket.read_to_end(&mut received);
        // At most a TLS alert: a record of seven octets.
        assert!(
            received.is_empty() || (received[0] == 21 && received.len() == 7),
            "{received:?}"
        );
    }
    drop(connect(&target(&agent), &theirs).expect("a friend is still let in"));
    assert_eq!(place.started(), 0);
}

/// CVE-2024-53580: a number where a text belongs; here, messages of the wrong type or out of order.
#[test]
fn out_of_order_messages_close_session() {
    let (agent, place) = open_agent(Caps::default());
    let tell = |message: ToWorker| ToAgent::ToWorker(1, Box::new(message));
    let wrong: [&[ToAgent]; 6] = [
        &[ToAgent::Hello(control::PROTOCOL_VERSION)],
        &[ToAgent::EndTrial],
        &[ToAgent::Spawn(1), tell(ToWorker::Go(0))],
        &[ToAgent::Spawn(1), tell(ToWorker::PeerDone(1))],
        &[ToAgent::Spawn(1), tell(ToWorker::Stop)],
        &[ToAgent::Machine(TestSpec {
            transports: vec!["x".repeat(300)],
            ..TestSpec::default()
        })],
    ];
    for requests in wrong {
        let mut raw = RawClient::ready(agent.address());
        requests.iter().for_each(|request| raw.send(request));
        let last = raw.read_until_closed();
        assert!(
            matches!(last, Some(FromAgent::SessionEnded(_))),
            "{requests:?}: {last:?}"
        );
    }
    for requests in [
        &b"\x03\0\0\0\xff\xff\xff"[..],
        b"\x01\0\0\0\x63",
        b"\0\0\0\0",
    ] {
        let mut raw = RawClient::ready(agent.address());
        raw.send_octets(requests);
        assert_eq!(raw.read_until_closed(), None);
    }
    await_idle(&agent, &place);
}

/// Octets of a datagram far beyond the 16 that the job agrees on.
const OVERLONG_LEN: usize = 60_000;

/// CVE-2025-54351: a datagram longer than the receive buffer is believed to have its full length.
/// `udp` and `udp-segmented` have buffers for any datagram and count what arrived; `udp-batched`
/// has buffers of the agreed length and refuses what does not fit.
#[test]
fn overlong_datagrams_counted_by_received_length_or_refused() {
    let (agent, place) = open_agent(Caps::default());
    for transport in ["udp", "udp-batched", "udp-segmented"] {
        let mut raw = RawClient::ready(agent.address());
        let mut listen = job(transport, Side::Listen);
        (listen.message_len, listen.circuit_options.read_len) = (16, 16);
        let to = listen_there(&mut raw, listen);
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
        for _ in 0..2 {
            socket.send_to(b"Z", to).expect("it is sent");
        }
        raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Accepted));
        // Before the trial, so that a stalled test thread cannot miss its 50 ms.
        for _ in 0..5 {
            socket.send_to(&[9; OVERLONG_LEN], to).expect("it is sent");
        }
        raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Go(0))));
        raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Running));
        raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::PeerDone(5))));
        let done = raw.await_answer(|answer| {
            matches!(answer, FromAgent::FromWorker(1, FromWorker::Finished(_)))
        });
        let FromAgent::FromWorker(1, FromWorker::Finished(report)) = done else {
            panic!("no report");
        };
        let circuit = &report.circuits[0];
        if transport == "udp-batched" {
            let error = circuit.error.as_deref().expect("a refusal");
            assert!(error.contains("longer than the receive buffers"), "{error}");
            assert_eq!(circuit.received_bytes, 0, "{circuit:?}");
        } else {
            assert_eq!(circuit.error, None, "{transport}");
            // The socket's receive buffer holds some of the five.
            assert!(
                (1..=5).contains(&circuit.received),
                "{transport}: {circuit:?}"
            );
            let bytes = circuit.received * OVERLONG_LEN as u64;
            assert_eq!(circuit.received_bytes, bytes, "{transport}: {circuit:?}");
        }
    }
    await_idle(&agent, &place);
}

/// Gives a worker a job; the address on which it listens.
pub fn listen_there(raw: &mut RawClient, job: control::Job) -> SocketAddr {
    raw.send(&ToAgent::Spawn(1));
    raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Listen(job))));
    let received = raw.await_answer(|answer| matches!(answer, FromAgent::FromWorker(1, _)));
    let FromAgent::FromWorker(1, FromWorker::Listening(frames)) = received else {
        panic!("not listening: {received:?}");
    };
    let text = std::str::from_utf8(&frames[0].bytes).expect("text");
    text.lines()
        .last()
        .and_then(|line| line.parse().ok())
        .expect("an address")
}

/// CVE-2026-71217: unbounded numbers of streams, lengths and so on exhaust threads and memory.
#[test]
fn client_requests_bounded_by_caps() {
    let (agent, place) = open_agent(Caps::default());
    let mut raw = RawClient::ready(agent.address());
    let changes: [fn(&mut control::Job); 6] = [
        |job| job.components[0].circuits = u32::MAX,
        |job| job.message_len = u64::MAX,
        |job| job.circuit_options.read_len = u64::MAX,
        |job| job.circuit_options.buffers = Some(u64::MAX),
        |job| job.limits.time_ns = u64::MAX,
        |job| job.limits.slice_ns = 1,
    ];
    for change in changes {
        let mut job = job("tcp", Side::Listen);
        change(&mut job);
        raw.send(&ToAgent::Spawn(1));
        raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Listen(job))));
        raw.await_answer(|answer| matches!(answer, FromAgent::Refused(Some(1), _)));
        raw.send(&ToAgent::EndWorker(1));
        raw.await_answer(|answer| *answer == FromAgent::WorkerEnded(1));
    }
    // The numbers of workers and peer checks are limited too.
    let most = control::session::WORKERS_MAX;
    (1..=most + 3).for_each(|number| raw.send(&ToAgent::Spawn(number)));
    for number in most + 1..=most + 3 {
        raw.await_answer(|answer| matches!(answer, FromAgent::Refused(Some(n), _) if *n == number));
    }
    (0..100).for_each(|_| raw.send(&ToAgent::ExpectPeer));
    raw.await_answer(|answer| matches!(answer, FromAgent::Refused(None, _)));
    drop(raw);
    await_idle(&agent, &place);
}

/// CVE-2026-101276: a watchdog frees what threads still use. Here it kills a process and reaps it;
/// a client that repeatedly disconnects during a trial leaves none behind.
#[test]
fn workers_reaped_when_client_leaves() {
    let (agent, place) = open_agent(Caps::default());
    let before = threads();
    for round in 0..12 {
        let mut raw = RawClient::ready(agent.address());
        let to = listen_there(&mut raw, job("tcp", Side::Listen));
        let data = TcpStream::connect(to).expect("it listens");
        if round % 2 == 0 {
            raw.await_answer(|answer| *answer == FromAgent::FromWorker(1, FromWorker::Accepted));
            raw.send(&ToAgent::ToWorker(1, Box::new(ToWorker::Go(0))));
        }
        drop((raw, data));
        await_idle(&agent, &place);
    }
    drop(agent);
    assert!(place.live_workers().is_empty());
    // Threads of other tests come and go; a leak would be twelve or more.
    crate::common::await_condition("threads were left", || threads() < before + 12);
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Predictable files in public folders: a worker cannot write any file.
#[test]
fn workers_cannot_write_files() {
    let (agent, place) = open_agent(Caps::default());
    let mut raw = RawClient::ready(agent.address());
    raw.send(&ToAgent::Spawn(1));
    raw.send(&ToAgent::Clock(1));
    raw.await_answer(|answer| matches!(answer, FromAgent::Clock(..)));
    let worker = place.live_workers()[0];
    let limits = std::fs::read_to_string(format!("/proc/{worker}/limits")).expect("its limits");
    let limit = |name: &str| {
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect(name);
        line.split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(limit("Max file size")[..2], ["0", "0"]);
    assert_eq!(limit("Max core file size")[..2], ["0", "0"]);
    assert_eq!(
        limit("Max address space")[0],
        Caps::default().memory.to_string()
    );
    drop(raw);
    await_idle(&agent, &place);
}
