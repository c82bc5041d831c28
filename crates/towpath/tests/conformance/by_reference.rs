//! Streams whose first transmissions leave by reference.

use crate::support::{Subject, flush, pattern, recv_bytes, send};
use std::thread;
use towpath::{Circuit, Options};

/// Bytes a direction: many times the send store.
const BYTES: usize = 6 << 20;

/// Circuits, one after another: more than a process has pipes.
const CIRCUITS: usize = 40;

/// The byte stream; a listener of one peer sends by reference too.
fn xtp() -> Subject {
    let options = Options {
        one_peer: true,
        ..Options::default()
    };
    Subject::new(towpath::find("xtp").expect("a transport"), &options)
}

/// Sends messages of many lengths, `salt` telling them apart.
fn send_all(circuit: &mut dyn Circuit, salt: usize) {
    let octets = pattern(BYTES, salt);
    let mut rest = &octets[..];
    for len in [1, 70_000, 16 << 10, 128 << 10, 5_000].iter().cycle() {
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
