//! Streams whose first transmissions leave by reference.

use crate::support::{Subject, flush, pattern, recv_bytes, send};
use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;
use towpath::{Circuit, Options};

/// Bytes a direction: many times the send store.
const BYTES: usize = 6 << 20;

/// Circuits, one after another: more than a process has pipes.
const CIRCUITS: usize = 40;

/// Lengths of messages that are sent in turn.
const LENGTHS: [usize; 5] = [1, 70_000, 16 << 10, 128 << 10, 5_000];

/// The byte stream; a listener of one peer sends by reference too.
fn xtp() -> Subject {
    named("xtp")
}

fn named(name: &str) -> Subject {
    let options = Options {
        one_peer: true,
        ..Options::default()
    };
    Subject::new(towpath::find(name).expect("a transport"), &options)
}

/// Sends messages of many lengths, `salt` telling them apart.
fn send_all(circuit: &mut dyn Circuit, salt: usize) {
    let octets = pattern(BYTES, salt);
    let mut rest = &octets[..];
    for len in LENGTHS.iter().cycle() {
        let (message, after) = rest.split_at(rest.len().min(*len));
        send(circuit, message);
        if after.is_empty() {
            break;
        }
        rest = after;
    }
    flush(circuit);
}

fn check(from: &mut dyn Circuit, to: &mut dyn Circuit, salt: usize) {
    thread::scope(|scope| {
        let received = scope.spawn(|| recv_bytes(to, BYTES));
        send_all(from, salt);
        let received = received.join().expect("it receives");
        assert!(received == pattern(BYTES, salt), "direction {salt} changed");
    });
    let said = from.effective().get("splice").cloned();
    assert_eq!(said.as_deref(), Some("on"), "direction {salt}");
}

#[test]
fn bytes_by_reference_arrive_as_they_were_sent_in_both_directions() {
    let mut pair = xtp().introduced_pair();
    check(&mut *pair.client, &mut *pair.server, 0);
    check(&mut *pair.server, &mut *pair.client, 1);
}

/// Lends messages of whole pages and others, each several times, until `rounds` of all were sent.
fn lend_all(circuit: &mut dyn Circuit, messages: &[Arc<[u8]>], rounds: usize) {
    for message in std::iter::repeat_n(messages, rounds).flatten() {
        let mut left = 3;
        while left > 0 {
            match circuit.send_shared_run(message, left) {
                Ok(count) => left -= count,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
        }
    }
    flush(circuit);
}

/// Lends in one direction, many times the send store.
fn check_lent(from: &mut dyn Circuit, to: &mut dyn Circuit, messages: &[Arc<[u8]>]) {
    const ROUNDS: usize = 12;
    let round: Vec<u8> = (messages.iter())
        .flat_map(|message| message.repeat(3))
        .collect();
    thread::scope(|scope| {
        let received = scope.spawn(|| recv_bytes(to, ROUNDS * round.len()));
        lend_all(from, messages, ROUNDS);
        let received = received.join().expect("it receives");
        assert!(received == round.repeat(ROUNDS), "bytes changed");
    });
    let said = from.effective().get("splice").cloned();
    assert_eq!(said.as_deref(), Some("on"));
}

#[test]
fn lent_bytes_arrive_as_they_were_sent_in_both_directions() {
    let lengths = LENGTHS.into_iter().chain([4096, 61_440, 1 << 10]);
    let salted = lengths.zip(0..);
    let messages: Vec<Arc<[u8]>> = salted
        .map(|(len, salt)| pattern(len, salt).into())
        .collect();
    for name in ["xtp-lent", "xtp-driver"] {
        let mut pair = named(name).introduced_pair();
        check_lent(&mut *pair.client, &mut *pair.server, &messages);
        check_lent(&mut *pair.server, &mut *pair.client, &messages);
    }
}

#[test]
fn circuits_by_reference_leave_no_descriptor() {
    let subject = xtp();
    let descriptors = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let mut counts = Vec::new();
    for salt in 0..CIRCUITS {
        let mut pair = subject.introduced_pair();
        let message = pattern(256 << 10, salt);
        thread::scope(|scope| {
            let received = scope.spawn(|| recv_bytes(&mut *pair.server, message.len()));
            send(&mut *pair.client, &message);
            flush(&mut *pair.client);
            assert!(received.join().expect("it receives") == message);
        });
        drop(pair);
        counts.push(descriptors());
    }
    // Other tests of the process have some too, and end.
    let least = counts[CIRCUITS / 2..].iter().min();
    let first = counts[..CIRCUITS / 2].iter().max();
    assert!(least <= first, "{counts:?}");
}
