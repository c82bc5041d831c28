//! A tap and its receiver forward every call.

#[path = "../../../wire/tests/support/mock_wire.rs"]
mod mock_wire;

use capture::{FileLimit, PcapngWriter, Recorder, Tap, ip};
use engine::Address;
use mock_wire::{Calls, MockWire, assert_receiver_forwards, assert_wire_forwards};
use std::io;
use std::sync::Arc;

/// A tap over a mock.
fn tap() -> (Tap<MockWire>, Calls) {
    let out: Box<dyn io::Write + Send> = Box::new(Vec::new());
    let writer = PcapngWriter::new(out, "", FileLimit::default()).expect("a vector");
    let recorder = Recorder::new(writer);
    let calls = Calls::default();
    let wire = MockWire(calls.clone());
    let clock = Arc::new(|| 0);
    let tap = capture::tap(wire, &recorder, "mock", Address::Station(1), ip::XTP, clock);
    (tap.expect("a vector"), calls)
}

#[test]
fn tap_forwards_every_call() {
    let (mut wire, calls) = tap();
    assert_wire_forwards(&mut wire, &calls);
}

#[test]
fn tapped_receiver_forwards_every_call() {
    let (wire, calls) = tap();
    assert_receiver_forwards(&wire, &calls);
}
