//! Devices of XTP: a write returns when the peer has acknowledged it.

use crate::support::{LIMIT, Subject, pattern, recv_bytes, send};
use std::io::ErrorKind::{TimedOut, WouldBlock};
use std::sync::Arc;
use std::time::{Duration, Instant};
use towpath::{Circuit, Interest, Options, registry};

fn subject() -> Subject {
    let transport = registry::find("xtp-driver").expect("a transport of this build");
    Subject::new(transport, &Options::default())
}

/// Packets that came to a circuit: of one that only sends, they acknowledge.
fn received(circuit: &dyn Circuit) -> u64 {
    circuit.counts()["packets_received"]
}

#[test]
fn each_write_returns_with_its_acknowledgement() {
    let mut pair = subject().pair();
    for (salt, len) in [1, 100, 1400, 5000, 100_000].into_iter().enumerate() {
        let message: Arc<[u8]> = pattern(len, salt).into();
        let before = received(&*pair.client);
        // The peer's user reads nothing meanwhile.
        pair.client.send(&message).expect("it is acknowledged");
        let between = received(&*pair.client);
        assert!(between > before, "{len} bytes: no packet came");
        let sent = pair.client.send_shared_run(&message, 2);
        assert_eq!(sent.expect("both are acknowledged"), 2);
        let after = received(&*pair.client);
        assert!(after >= between + 2, "{len} bytes: {between}, then {after}");
        let got = recv_bytes(&mut *pair.server, 3 * len);
        assert!(got == message.repeat(3), "{len} bytes came changed");
    }
}

#[test]
fn write_without_blocking_waits_for_the_one_before() {
    let mut pair = subject().pair();
    let deadline = Instant::now() + LIMIT;
    let mut refused = 0;
    for salt in 0..20 {
        let message = pattern(3000, salt);
        while let Err(error) = pair.client.try_send(&message) {
            assert_eq!(error.kind(), WouldBlock);
            assert!(Instant::now() < deadline, "it is not acknowledged");
            refused += 1;
            let wait = pair.client.wait(Interest::Write, deadline);
            wait.expect("the wire is whole");
        }
    }
    assert!(refused > 0, "no write waited for the one before");
    let sent: Vec<u8> = (0..20).flat_map(|salt| pattern(3000, salt)).collect();
    assert!(recv_bytes(&mut *pair.server, sent.len()) == sent);
}

#[test]
fn each_end_writes_to_a_device_of_its_own() {
    let mut pair = subject().pair();
    pair.client.send(b"there").expect("it is acknowledged");
    pair.server.send(b"and back").expect("it is acknowledged");
    assert_eq!(recv_bytes(&mut *pair.client, 8), b"and back");
    pair.client.finish().expect("its direction ends");
    assert_eq!(recv_bytes(&mut *pair.server, 5), b"there");
    pair.server.send(b"still").expect("the other goes on");
    assert_eq!(recv_bytes(&mut *pair.client, 5), b"still");
}

#[test]
fn write_that_is_acknowledged_late_is_sent_once() {
    // A message takes longer than a call waits.
    let slow = subject().with_option("rate", "800kbit");
    let slow = slow.with_option("burst", "2k");
    let mut pair = slow.pair();
    let messages: Vec<Vec<u8>> = (0..4).map(|salt| pattern(5000, salt)).collect();
    for message in &messages {
        send(&mut *pair.client, message);
    }
    let shared: Arc<[u8]> = pattern(5000, 9).into();
    let deadline = Instant::now() + LIMIT;
    let mut lent = 0;
    while lent < 2 {
        match pair.client.send_shared_run(&shared, 2 - lent) {
            Ok(count) => lent += count,
            Err(error) => assert_eq!(error.kind(), WouldBlock, "{error}"),
        }
        assert!(Instant::now() < deadline, "{lent} were lent");
    }
    let sent = [messages.concat(), shared.repeat(2)].concat();
    assert!(recv_bytes(&mut *pair.server, sent.len()) == sent);
    let error = pair.server.try_recv(&mut [0; 8]).expect_err("no more");
    assert_eq!(error.kind(), WouldBlock, "{error}");
}

#[test]
fn association_without_its_second_makes_way_when_its_peer_has_gone() {
    let subject = subject();
    let listener = subject.transport.listen(&subject.listening);
    let mut listener = listener.expect("a listener");
    let rendezvous = listener.rendezvous().expect("an address");
    let mut accept_for = |limit: Duration| listener.accept(Instant::now() + limit);
    let one = registry::find("xtp").expect("a transport of this build");
    let half = one.connect(&rendezvous, 0, &subject.connecting);
    let mut half = half.expect("the listener answers");
    let none = accept_for(Duration::from_millis(50)).err();
    assert_eq!(none.expect("no second came").kind(), TimedOut);
    half.finish().expect("its end is sent");
    drop(half);
    let none = accept_for(Duration::from_millis(50)).err();
    assert_eq!(none.expect("no pair came").kind(), TimedOut);
    let mut client = subject
        .transport
        .connect(&rendezvous, 0, &subject.connecting)
        .expect("the listener answers");
    let mut server = accept_for(LIMIT).expect("a pair");
    client.send(b"there").expect("it is acknowledged");
    assert_eq!(recv_bytes(&mut *server, 5), b"there");
}
