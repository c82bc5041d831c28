//! An engine that panics: every call of its endpoint is an error, and no thread waits for ever.

use crate::postman::Postman;
use driver::{Endpoint, RouterHost, TransactionEndpoint};
use engine::{Address, Associations, Deliveries, EntityId, Instant, Protocol, Received};
use engine_bare::{Bare, BareConfig};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use wire_udp::UdpWire;

const LIMIT: Duration = Duration::from_secs(20);

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

/// `bare`, until its fuse is lit: then the next packet makes it panic.
struct Fused {
    inner: Bare,
    is_lit: Arc<AtomicBool>,
}

impl Protocol for Fused {
    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        assert!(!self.is_lit.load(Ordering::Relaxed), "the fuse is lit");
        self.inner.handle_packet(now, packet, deliveries);
    }

    engine::forward_protocol! { self => self.inner;
        properties handle_timeout handle_path_error poll_transmit poll_event poll_timeout counters
    }
}

impl Associations for Fused {
    engine::forward_associations! { self => self.inner;
        layout connect listen submit submit_all consume close status receive_window
        set_receive_full set_path_mtu sort_by_priority
    }
}

type Host = Endpoint<Fused, UdpWire>;

fn host() -> (Host, SocketAddr, Arc<AtomicBool>) {
    let wire = UdpWire::bind(loopback()).expect("a port");
    let address = wire.local_addr().expect("bound");
    let is_lit = Arc::new(AtomicBool::new(false));
    let engine = Fused {
        inner: Bare::new(BareConfig::default()),
        is_lit: Arc::clone(&is_lit),
    };
    let host = Endpoint::new(engine, wire, 64 << 10).expect("a thread");
    (host, address, is_lit)
}

/// That a call failed because of the panic.
fn assert_broken<T>(result: io::Result<T>, call: &str) {
    let text = result.err().map(|error| error.to_string());
    let text = text.unwrap_or_else(|| panic!("{call} says nothing"));
    assert!(
        text.starts_with("endpoint broken: panic in"),
        "{call}: {text}"
    );
}

#[test]
fn panic_in_engine_is_the_error_of_every_call_and_wakes_waiting_threads() {
    let (server, at, _) = host();
    let (client, _, is_lit) = host();
    server.listen(true);
    let to = Address::Socket(at);
    let mut circuit = client.connect(to, LIMIT).expect("it listens");
    let mut second = client.connect(to, LIMIT).expect("it listens");
    let mut accepted = server.accept(LIMIT).expect("it is open");
    let (say, reported) = channel();
    std::thread::spawn(move || {
        // One of the threads that wait takes in the packet, or the helper; the others must wake.
        let waited = second.recv(&mut [0; 100], Duration::MAX);
        say.send(waited.map(|_| ())).expect("the test waits");
        assert_broken(second.try_send(b"more"), "try_send");
    });
    let mut watch = client.watch().expect("the first");
    is_lit.store(true, Ordering::Relaxed);
    accepted.send(b"hello", LIMIT).expect("room");
    accepted.flush().expect("it sends");
    match reported.recv_timeout(LIMIT) {
        Ok(waited) => assert_broken(waited, "recv"),
        // The thread ran the engine, and panicked with it.
        Err(error) => assert!(error == std::sync::mpsc::RecvTimeoutError::Disconnected),
    }
    assert_broken(circuit.try_recv(&mut [0; 100]), "try_recv");
    assert_broken(circuit.recv(&mut [0; 100], LIMIT), "recv");
    assert_broken(circuit.flush(), "flush");
    assert_broken(circuit.finish(), "finish");
    assert_broken(circuit.drain(LIMIT), "drain");
    assert_broken(circuit.abort(), "abort");
    assert!(circuit.status().closed.is_some());
    assert_broken(client.accept(LIMIT), "accept");
    assert_broken(client.try_accept(), "try_accept");
    assert_broken(client.connect(to, LIMIT), "connect");
    assert_broken(client.command(|_, _| ()), "command");
    assert_broken(watch.prepare_wait(), "prepare_wait");
    assert_broken(watch.poll_ready(&mut Vec::new()), "poll_ready");
    // To look at what is left is allowed.
    assert!(client.with_pump(|pump| pump.engine().counters().packets_parsed) > 0);
    drop((circuit, watch, client));
}

#[test]
fn panic_in_engine_of_transactions_ends_every_wait() {
    let silent = UdpSocket::bind(loopback()).expect("a port");
    let server = EntityId(9 << 32 | 9);
    let wire = UdpWire::bind(loopback()).expect("a port");
    let engine = Vmtp::new(VmtpConfig::default());
    let host = TransactionEndpoint::new(engine, wire).expect("a thread");
    host.locate(server, Address::Socket(silent.local_addr().expect("bound")));
    let (say, reported) = channel();
    std::thread::scope(|scope| {
        // One of them drives, the others sleep, as callers and as a server.
        for number in 1..=3 {
            let caller = EntityId(number << 32 | 1);
            host.create_entity(caller).expect("room");
            let (host, say) = (&host, say.clone());
            scope.spawn(move || {
                let called = host.call(caller, server, &[7; 8], Duration::MAX);
                say.send(called.map(drop)).expect("the test waits");
            });
        }
        let (serving, saying) = (&host, say.clone());
        scope.spawn(move || {
            let received = serving.receive(Duration::MAX).map(drop);
            saying.send(received).expect("the test waits");
        });
        // All calls have left.
        let end = std::time::Instant::now() + LIMIT;
        while host.held().callers < 3 {
            assert!(std::time::Instant::now() < end, "{:?}", host.held());
            std::thread::sleep(Duration::from_millis(1));
        }
        let panics = || host.with_engine(|_, _| -> () { panic!("as the test wants it") });
        let panicked = scope.spawn(move || panics().is_err()).join();
        assert!(panicked.is_err());
        for _ in 0..4 {
            assert_broken(reported.recv_timeout(LIMIT).expect("it wakes"), "a wait");
        }
    });
    let call = host.call(EntityId(1 << 32 | 1), server, &[7; 8], Duration::MAX);
    assert_broken(call, "call");
    assert_broken(host.receive(Duration::MAX), "receive");
    assert!(host.counters().packets_built >= 3, "to look is allowed");
}

#[test]
fn panic_in_router_is_the_error_of_its_check() {
    let wire = UdpWire::bind(loopback()).expect("a port");
    let at = wire.local_addr().expect("bound");
    let host = RouterHost::new(Postman::default(), wire).expect("a thread");
    host.check().expect("it works");
    let armed = host.command(|engine, _| engine.panics = true);
    armed.expect("it works");
    let peer = UdpSocket::bind(loopback()).expect("a port");
    let end = std::time::Instant::now() + LIMIT;
    while host.check().is_ok() {
        assert!(std::time::Instant::now() < end, "nobody noticed");
        peer.send_to(b"packet", at).expect("the loopback");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_broken(host.check(), "check");
    assert_broken(host.command(|_, _| ()), "command");
    assert_eq!(host.with_router(|engine| engine.received.len()), 0);
}

/// The longest limit is no limit: nothing overflows.
#[test]
fn limits_of_duration_max_are_for_ever() {
    let (server, at, _) = host();
    server.listen(true);
    let (client, _, _) = host();
    let serving = std::thread::spawn(move || {
        let mut accepted = server.accept(Duration::MAX).expect("a peer");
        let mut buffer = [0; 100];
        let len = accepted.recv(&mut buffer, Duration::MAX);
        let len = len.expect("a message").expect("not the end");
        accepted.send(&buffer[..len], Duration::MAX).expect("room");
        accepted.drain(Duration::MAX).expect("it is read");
        let mut more = || accepted.recv(&mut buffer, Duration::MAX);
        while more().expect("no error").is_some() {}
    });
    let to = Address::Socket(at);
    let mut circuit = client.connect(to, Duration::MAX).expect("it listens");
    circuit.send(b"hello", Duration::MAX).expect("room");
    circuit.flush().expect("it sends");
    let mut buffer = [0; 100];
    let len = circuit.recv(&mut buffer, Duration::MAX).expect("an answer");
    assert_eq!(len, Some(5));
    // Larger than the store: it waits for room.
    let lent = vec![1; 20_000];
    for _ in 0..10 {
        circuit.lend(lent.clone(), Duration::MAX).expect("room");
    }
    assert!(circuit.reclaim(Duration::MAX).expect("no error").is_none());
    circuit.finish().expect("it sends");
    drop(circuit);
    serving.join().expect("no panic");
}
