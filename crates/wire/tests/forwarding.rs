//! A traced wire and its receiver forward every call.

#[path = "support/mock_wire.rs"]
mod mock_wire;

use engine::Address;
use mock_wire::{Calls, MockWire, assert_receiver_forwards, assert_wire_forwards};
use std::fs::File;
use std::sync::Arc;
use wire::trace::{TraceLog, Traced};

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
