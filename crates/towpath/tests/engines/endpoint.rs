//! XTP as a library: many circuits on an endpoint, threads, readiness, datagrams.

use crate::services::carry_tagged;
use engine_xtp::Xtp;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};
use towpath::xtp::{Circuit, Endpoint, EndpointConfig, Tags};
use wire_udp::UdpWire;

const LIMIT: Duration = Duration::from_secs(20);

fn local() -> SocketAddr {
    "127.0.0.1:0".parse().expect("a literal address")
}

fn endpoint() -> Endpoint {
    Endpoint::bind(local(), &EndpointConfig::default()).expect("the loopback has a free port")
}

fn messages() -> Endpoint {
    Endpoint::bind_messages(local(), &EndpointConfig::default())
        .expect("the loopback has a free port")
}

/// Echoes messages of all circuits in one thread, by readiness, until `count` have ended.
fn serve_by_readiness(endpoint: &Endpoint, count: usize) -> io::Result<u64> {
    let mut watch = endpoint.watch()?;
    let mut circuits: BTreeMap<engine::AssociationId, Circuit> = BTreeMap::new();
    let (mut ended, mut echoed) = (0, 0);
    let (mut ready, mut buffer) = (Vec::new(), [0; 4096]);
    while ended < count {
        let span = watch.prepare_wait()?.unwrap_or(LIMIT).min(LIMIT);
        let span = Timespec::try_from(span).ok();
        let descriptor = watch.descriptor();
        poll(
            &mut [PollFd::new(&descriptor, PollFlags::IN)],
            span.as_ref(),
        )?;
        if watch.poll_ready(&mut ready)? {
            while let Ok(circuit) = endpoint.try_accept() {
                ready.push(circuit.id());
                circuits.insert(circuit.id(), circuit);
            }
        }
        for id in ready.drain(..) {
            let Some(circuit) = circuits.get_mut(&id) else {
                continue;
            };
            let over = loop {
                match circuit.try_recv(&mut buffer) {
                    Ok(Some(len)) => circuit.try_send(&buffer[..len])?,
                    Ok(None) => break true,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break false,
                    Err(error) => return Err(error),
                }
                echoed += 1;
            };
            if over {
                ended += 1;
                let circuit = circuits.remove(&id).expect("it was there");
                circuit.close(LIMIT)?;
            }
        }
    }
    Ok(echoed)
}

#[test]
fn one_thread_serves_many_circuits_by_readiness() {
    const CIRCUITS: usize = 40;
    let server = messages();
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || serve_by_readiness(&server, CIRCUITS));
    let client = messages();
    let mut circuits: Vec<Circuit> = (0..CIRCUITS)
        .map(|_| client.connect(address, LIMIT).expect("the server listens"))
        .collect();
    let mut buffer = [0; 4096];
    for round in 0..20u32 {
        for (index, circuit) in circuits.iter_mut().enumerate() {
            let message = vec![index as u8; 1 + round as usize * 100];
            circuit.send(&message, LIMIT).expect("the window is open");
        }
        for (index, circuit) in circuits.iter_mut().enumerate() {
            let got = circuit.recv(&mut buffer, LIMIT).expect("the echo");
            assert_eq!(got, Some(1 + round as usize * 100));
            assert!(buffer[..got.unwrap_or(0)].iter().all(|&b| b == index as u8));
        }
    }
    for circuit in circuits {
        circuit.close(LIMIT).expect("the server closes too");
    }
    let echoed = serving.join().expect("no panic").expect("no error");
    assert_eq!(echoed, 20 * CIRCUITS as u64);
    assert_eq!(client.holdings().associations, 0);
}

#[test]
fn threads_sharing_an_endpoint_lose_no_messages() {
    const THREADS: u8 = 6;
    let (server, client) = (messages(), messages());
    server.listen(true);
    let address = server.local_addr();
    thread::scope(|scope| {
        let server = &server;
        scope.spawn(move || {
            for _ in 0..THREADS {
                let mut circuit = server.accept(LIMIT).expect("every client connects");
                scope.spawn(move || echo(&mut circuit));
            }
        });
        for number in 0..THREADS {
            let client = client.clone();
            scope.spawn(move || {
                let mut circuit = client.connect(address, LIMIT).expect("the server listens");
                let mut buffer = [0; 256];
                for _ in 0..300 {
                    circuit.send(&[number; 100], LIMIT).expect("a short one");
                    let got = circuit.recv(&mut buffer, LIMIT).expect("the echo");
                    assert_eq!(got, Some(100));
                    assert_eq!(buffer[..100], [number; 100]);
                }
            });
        }
    });
}

fn echo(circuit: &mut Circuit) {
    let mut buffer = [0; 4096];
    while let Some(len) = circuit
        .recv(&mut buffer, LIMIT)
        .expect("messages or the end")
    {
        circuit.send(&buffer[..len], LIMIT).expect("space to send");
    }
}

#[test]
fn coalesced_message_leaves_while_thread_serves_another_circuit() {
    let (server, client) = (messages(), messages());
    server.listen(true);
    let address = server.local_addr();
    let mut busy = client.connect(address, LIMIT).expect("the server listens");
    let mut busy_peer = server.accept(LIMIT).expect("it connected");
    let mut quiet = client.connect(address, LIMIT).expect("the server listens");
    let mut quiet_peer = server.accept(LIMIT).expect("it connected");
    let reader = thread::spawn(move || {
        let mut buffer = [0; 64];
        let first = quiet_peer.recv(&mut buffer, LIMIT).expect("the first");
        (
            first,
            quiet_peer.recv(&mut buffer, LIMIT).expect("the second"),
        )
    });
    // The second is coalesced, since the first is in flight.
    quiet.send(&[1; 10], LIMIT).expect("space to send");
    quiet.send(&[2; 20], LIMIT).expect("space to send");
    let mut buffer = [0; 64];
    let end = Instant::now() + LIMIT;
    while !reader.is_finished() && Instant::now() < end {
        busy.send(&[3; 30], LIMIT).expect("space to send");
        busy_peer.recv(&mut buffer, LIMIT).expect("it arrives");
    }
    assert_eq!(reader.join().expect("no panic"), (Some(10), Some(20)));
}

/// Accepts `count` circuits and reads those whose data begin with 1 to the end; returns their
/// lengths.
fn read_those_marked(server: &Endpoint, count: usize) -> Vec<usize> {
    let mut others = Vec::new();
    let mut readers = Vec::new();
    for _ in 0..count {
        let mut circuit = server.accept(LIMIT).expect("it was opened");
        let mut buffer = vec![0; 64 << 10];
        let len = circuit.recv(&mut buffer, LIMIT).expect("its first bytes");
        if buffer[0] == 0 {
            others.push(circuit);
            continue;
        }
        readers.push(thread::spawn(move || {
            let rest = circuit.recv_all(&mut buffer, LIMIT).expect("all of it");
            len.unwrap_or(0) + rest
        }));
    }
    let lens = readers
        .into_iter()
        .map(|reader| reader.join().expect("no panic"));
    lens.collect()
}

#[test]
fn circuits_beyond_send_memory_pass_stalled_readers() {
    const STOPPED: usize = 40;
    const READ: usize = 60;
    const MESSAGES: usize = 24;
    let (server, client) = (endpoint(), endpoint());
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || read_those_marked(&server, STOPPED + READ));
    let open = |_| client.connect(address, LIMIT).expect("it listens");
    let mut stopped: Vec<Circuit> = (0..STOPPED).map(open).collect();
    for circuit in &mut stopped {
        // Until its send buffer is full, or it gets no memory for one.
        let full = |result: &io::Result<()>| result.is_err();
        let sends = (0..1000).map(|_| circuit.send(&[0; 16 << 10], Duration::from_millis(20)));
        let last = sends.into_iter().find(full).expect("it fills");
        assert_eq!(kind(last), Some(io::ErrorKind::TimedOut));
    }
    let mut read: Vec<Circuit> = (0..READ).map(open).collect();
    thread::scope(|scope| {
        for circuits in read.chunks_mut(READ / 4) {
            scope.spawn(move || {
                for number in 0..MESSAGES * circuits.len() {
                    let at = number % circuits.len();
                    let sent = circuits[at].send(&[1; 16 << 10], LIMIT);
                    sent.expect("it gets a send buffer");
                }
            });
        }
    });
    read.iter_mut()
        .for_each(|circuit| circuit.finish().expect("a packet"));
    let lens = serving.join().expect("no panic");
    assert_eq!(lens, [MESSAGES * (16 << 10); READ]);
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn waits_end_at_timeout_despite_empty_foreign_datagrams() {
    const SPAN: Duration = Duration::from_millis(50);
    let (server, client) = (endpoint(), endpoint());
    server.listen(true);
    let began = Instant::now();
    assert_eq!(kind(server.accept(SPAN)), Some(io::ErrorKind::TimedOut));
    assert!(began.elapsed() >= SPAN);
    let mut circuit = client
        .connect(server.local_addr(), LIMIT)
        .expect("it listens");
    let mut peer = server.accept(LIMIT).expect("it was opened");
    let began = Instant::now();
    let nothing = circuit.recv(&mut [0; 8], SPAN);
    assert_eq!(kind(nothing), Some(io::ErrorKind::TimedOut));
    assert!(began.elapsed() >= SPAN);
    let waiting = thread::spawn(move || circuit.recv(&mut [0; 8], Duration::MAX));
    let other_socket = UdpSocket::bind(local()).expect("a free port");
    for _ in 0..20 {
        let sent = other_socket.send_to(&[], client.local_addr());
        sent.expect("the loopback takes it");
        thread::sleep(Duration::from_millis(1));
    }
    peer.send(b"late", LIMIT).expect("space to send");
    let got = waiting.join().expect("no panic");
    assert_eq!(got.expect("it arrives"), Some(4));
}

#[test]
fn unbounded_wait_fails_when_peer_never_answers() {
    let mut settings = EndpointConfig::default();
    let config = &mut settings.config;
    (config.wtimer_initial, config.wtimer_max) = (config.wtimer_min, config.wtimer_min);
    config.retries_max = 3;
    let client = Endpoint::bind(local(), &settings).expect("a free port");
    let silent_socket = UdpSocket::bind(local()).expect("a free port");
    let to = silent_socket.local_addr().expect("a bound socket");
    let reply = client.transact(to, b"are you there?", &mut [0; 8], Duration::MAX);
    assert_eq!(kind(reply), Some(io::ErrorKind::TimedOut));
}

#[test]
fn datagrams_arrive_with_and_without_acknowledgement() {
    let (server, client) = (messages(), messages());
    server.listen(true);
    let address = server.local_addr();
    client.send_datagram(address, b"one").expect("a packet");
    client
        .send_acknowledged(address, b"two", LIMIT)
        .expect("the server has it");
    let mut buffer = [0; 16];
    for expected in [b"one", b"two"] {
        let mut circuit = server.accept(LIMIT).expect("a datagram");
        let got = circuit.recv(&mut buffer, LIMIT).expect("its message");
        assert_eq!(&buffer[..got.unwrap_or(0)], expected);
        assert_eq!(circuit.recv(&mut buffer, LIMIT).expect("its end"), None);
    }
}

#[test]
fn non_listening_endpoint_refuses_at_once() {
    let (server, client) = (endpoint(), endpoint());
    let opened = client.connect(server.local_addr(), LIMIT);
    assert_eq!(kind(opened), Some(io::ErrorKind::ConnectionRefused));
    let sent = client.send_acknowledged(server.local_addr(), b"x", LIMIT);
    assert_eq!(kind(sent), Some(io::ErrorKind::ConnectionRefused));
    assert!(
        server
            .try_accept()
            .is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
    );
}

#[test]
fn unaccepted_circuits_are_limited_by_backlog() {
    let wire = UdpWire::bind(local()).expect("the loopback has a free port");
    let address = wire.local_addr().expect("a bound socket");
    let engine = Xtp::new(EndpointConfig::default().config);
    let server = driver::Endpoint::new(engine, wire, 64 << 10).expect("a thread");
    server.with_pump(|pump| pump.set_backlog(3));
    server.listen(true);
    let client = endpoint();
    let mut circuits: Vec<Circuit> = (0..8)
        .filter_map(|_| client.connect(address, LIMIT).ok())
        .collect();
    let refused = || server.with_pump(|pump| pump.refused());
    let end = Instant::now() + LIMIT;
    while refused() < 5 && Instant::now() < end {
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(refused(), 5);
    let mut accepted = Vec::new();
    while let Ok(circuit) = server.try_accept() {
        accepted.push(circuit);
    }
    assert_eq!(accepted.len(), 3);
    let mut buffer = [0; 8];
    let live = circuits
        .iter_mut()
        .filter_map(|circuit| circuit.try_recv(&mut buffer).err())
        .filter(|error| error.kind() == io::ErrorKind::WouldBlock);
    assert_eq!(live.count(), 3, "the others are refused");
}

#[test]
fn tags_rate_and_priority_apply_to_messages() {
    let (server, client) = (messages(), messages());
    server.listen(true);
    let mut there = client
        .connect(server.local_addr(), LIMIT)
        .expect("it listens");
    let mut here = server.accept(LIMIT).expect("it was opened");
    there.set_sort(Some(1)).expect("no error of the kernel");
    let slow = towpath::xtp::RateLimit {
        rate_bytes_per_s: 50_000_000,
        burst_bytes: 100_000,
    };
    here.impose_rate(Some(slow))
        .expect("no error of the kernel");
    there.set_rate(Some(slow)).expect("no error of the kernel");
    let begin = |tag: &[u8; 8]| Tags {
        begin: Some(*tag),
        end: None,
    };
    let sent: [(Tags, &[u8]); 4] = [
        (begin(b"register"), b"one"),
        (Tags::default(), b"a message of more than eight bytes"),
        (begin(&[0; 8]), b"two"),
        (begin(&[255; 8]), &[7; 5000]),
    ];
    carry_tagged(&mut there, &mut here, &sent);
    carry_tagged(&mut here, &mut there, &sent);
    let end = Some([1; 8]);
    let refused = there.send_tagged(Tags { begin: end, end }, b"three", LIMIT);
    let why = refused.expect_err("4.0 has no such tag").to_string();
    assert!(why.contains("dialect=3.6"), "{why}");
    carry_tagged(&mut there, &mut here, &sent);
    there.finish().expect("no error of the kernel");
    let mut buffer = [0; 80];
    assert_eq!(here.recv_tagged(&mut buffer, LIMIT).expect("the end"), None);
}

#[test]
fn xtp3_versions_run_over_udp() {
    for dialect in ["3.6", "3.5", "3.3"] {
        for checksum in ["on", "off"] {
            let words = [("dialect", dialect), ("checksum", checksum)];
            let words = words.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let settings = EndpointConfig::parse(&BTreeMap::from(words)).expect("valid options");
            let bind = || Endpoint::bind_messages(local(), &settings).expect("a free port");
            let (server, client) = (bind(), bind());
            server.listen(true);
            let address = server.local_addr();
            let serving = thread::spawn(move || {
                let mut circuit = server.accept(LIMIT).expect("the client connects");
                echo(&mut circuit);
            });
            let mut circuit = client.connect(address, LIMIT).expect("it listens");
            let mut buffer = [0; 4096];
            for len in [1, 3, 100, 1424, 1428, 4000] {
                for round in 0..30u8 {
                    circuit
                        .send(&vec![round; len], LIMIT)
                        .expect("space to send");
                    let got = circuit.recv(&mut buffer, LIMIT).expect("the echo");
                    assert_eq!(got, Some(len), "{dialect}");
                    assert!(buffer[..len].iter().all(|&byte| byte == round));
                }
            }
            circuit.close(LIMIT).expect("the server closes too");
            serving.join().expect("no panic");
        }
    }
}

#[test]
fn empty_message_reads_as_end_without_error() {
    let (server, client) = (messages(), messages());
    server.listen(true);
    let mut buffer = [0; 8];
    let to = server.local_addr();
    client.send_datagram(to, b"").expect("it leaves");
    let mut circuit = server.accept(LIMIT).expect("an association");
    assert_eq!(circuit.recv(&mut buffer, LIMIT).expect("its end"), None);
    client
        .send_acknowledged(to, b"", LIMIT)
        .expect("it is confirmed");
    let mut circuit = server.accept(LIMIT).expect("an association");
    assert_eq!(circuit.recv(&mut buffer, LIMIT).expect("its end"), None);
}
