//! Messages of a byte stream that are longer than the engine's send store.

use crate::support::{LIMIT, Subject, flush, for_each, pattern, recv, recv_bytes, send};
use std::io::ErrorKind::{ConnectionReset, InvalidInput, WouldBlock};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;
use towpath::{Circuit, Options};

/// Longer than such a store takes, also where a packet of 64 KiB raises its length, and no multiple
/// of what it takes at once.
const LONG: usize = 300_001;

/// Runs `test`, with a send store of 4 KiB, for each transport that has an option for its length.
fn for_each_with_short_store(stream: bool, test: impl Fn(&Subject) + Sync) {
    let tested = AtomicUsize::new(0);
    for_each(&Options::default(), |subject| {
        if !subject.has_option("queue") || subject.transport.class().stream != stream {
            return;
        }
        test(&subject.with_option("queue", "4k"));
        tested.fetch_add(1, Ordering::Relaxed);
    });
    assert!(tested.into_inner() > 0, "no transport has a queue option");
}

#[test]
fn byte_stream_carries_messages_longer_than_its_store() {
    for_each_with_short_store(true, |subject| {
        let mut pair = subject.introduced_pair();
        thread::scope(|scope| {
            let server = scope.spawn(|| recv_bytes(&mut *pair.server, 3 * LONG));
            let client = &mut *pair.client;
            for salt in 0..3 {
                send(client, &pattern(LONG, salt));
            }
            let got = server.join().expect("the server receives");
            let sent: Vec<u8> = (0..3).flat_map(|salt| pattern(LONG, salt)).collect();
            assert!(got == sent, "{}: the bytes changed", subject.name());
        });
    });
}

#[test]
fn receiving_sends_the_end_of_a_long_message() {
    for_each_with_short_store(true, |subject| {
        let mut pair = subject.introduced_pair();
        thread::scope(|scope| {
            scope.spawn(|| {
                let request = recv_bytes(&mut *pair.server, LONG);
                send_nonblocking(&mut *pair.server, &request);
                assert_eq!(recv_bytes(&mut *pair.server, 1), [7]);
            });
            // No flush: both ends send what is left while they receive.
            let client = &mut *pair.client;
            send_nonblocking(client, &pattern(LONG, 5));
            let reply = recv_bytes(client, LONG);
            assert!(reply == pattern(LONG, 5), "{}: changed", subject.name());
            send(client, &[7]);
        });
    });
}

#[test]
fn end_comes_after_all_bytes_of_a_long_message() {
    for_each_with_short_store(true, |subject| {
        let mut pair = subject.introduced_pair();
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let got = recv_bytes(&mut *pair.server, LONG);
                (got, recv(&mut *pair.server))
            });
            let client = &mut *pair.client;
            send_nonblocking(client, &pattern(LONG, 9));
            while let Err(error) = client.finish() {
                assert_eq!(error.kind(), WouldBlock, "{}: {error}", subject.name());
            }
            let (got, end) = server.join().expect("the server receives");
            assert!(got == pattern(LONG, 9), "{}: changed", subject.name());
            assert_eq!(end, None, "{}", subject.name());
        });
    });
}

#[test]
fn message_with_boundaries_longer_than_the_store_is_refused() {
    for_each_with_short_store(false, |subject| {
        // It carries messages over a byte stream.
        if subject.name() == "shm-remote" {
            return;
        }
        let mut pair = subject.introduced_pair();
        let Err(error) = pair.client.send(&pattern(LONG, 1)) else {
            panic!("{}: it cannot be held", subject.name());
        };
        assert_eq!(error.kind(), InvalidInput, "{}", subject.name());
        let text = format!("a message of {LONG} bytes does not fit into the send store");
        assert!(error.to_string().starts_with(&text), "{error}");
        send(&mut *pair.client, b"short");
        flush(&mut *pair.client);
        assert_eq!(recv(&mut *pair.server).as_deref(), Some(&b"short"[..]));
    });
}

#[test]
fn circuit_dropped_with_an_unsent_tail_does_not_end_gracefully() {
    for_each_with_short_store(true, |subject| {
        let mut pair = subject.introduced_pair();
        send_nonblocking(&mut *pair.client, &pattern(LONG, 3));
        // The peer reads nothing meanwhile, so that the tail has no room.
        drop(pair.client);
        let mut buffer = [0; 4096];
        let mut got = 0;
        let deadline = Instant::now() + LIMIT;
        let ended = loop {
            match pair.server.recv(&mut buffer) {
                Ok(Some(len)) => got += len,
                Ok(None) => break Ok(()),
                Err(error) if error.kind() == WouldBlock && Instant::now() < deadline => {}
                Err(error) => break Err(error.kind()),
            }
        };
        let name = subject.name();
        assert!(got < LONG, "{name}: the tail was not unsent");
        assert_eq!(ended, Err(ConnectionReset), "{name}: {got} bytes came");
    });
}

/// Sends one message without blocking; the next calls send what is left of it.
fn send_nonblocking(circuit: &mut dyn Circuit, message: &[u8]) {
    circuit.try_send(message).expect("room for its beginning");
}
