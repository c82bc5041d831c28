//! A traced wire and its receiver forward every call.

#[path = "support/mock_wire.rs"]
mod mock_wire;

use engine::{Address, Path};
use mock_wire::{Calls, MockWire, assert_receiver_forwards, assert_wire_forwards};
use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;
use wire::discard::DiscardMeter;
use wire::trace::{TraceLog, Traced};
use wire::{Taken, Wire};

/// A traced wire over a mock, with a log.
fn traced(name: &str) -> (Traced<MockWire>, Calls) {
    let name = format!("towpath-forwarding-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let file = File::create(&path).expect("room for a file");
    let _ = std::fs::remove_file(&path);
    let calls = Calls::default();
    let log = Arc::new(TraceLog::to_file(file, &path, 1 << 20));
    let wire = Traced::new(MockWire(calls.clone()), Some(log), Address::Station(1));
    (wire, calls)
}

#[test]
fn traced_wire_forwards_every_call() {
    let (mut wire, calls) = traced("wire");
    assert_wire_forwards(&mut wire, &calls);
}

#[test]
fn traced_receiver_forwards_every_call() {
    let (wire, calls) = traced("receiver");
    assert_receiver_forwards(&wire, &calls);
}

#[test]
fn discarding_wire_copies_what_is_sent_and_sends_nothing() {
    let meter = DiscardMeter::new();
    let (wire, calls) = traced("discarding");
    let mut wire = wire.discarding_into(Some(meter.clone()));
    let path = Path::to(Address::Station(2));
    let slices = [IoSlice::new(b"header"), IoSlice::new(b"and user data")];
    wire.send(path, &slices, 10).expect("it is copied");
    let taken = wire.send_by_reference(path, &slices, 19);
    assert_eq!(taken.expect("it is copied"), Taken::Copied);
    let seen = meter.discarded();
    assert_eq!((seen.calls, seen.packets, seen.octets), (2, 3, 38));
    let none: [&str; 0] = [];
    assert_eq!(calls.take(), none);
}
