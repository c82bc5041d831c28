//! Circuits and transactions through the layer over UDP.

use crate::users::{call, echo, wire};
use crate::{messages, xtp};
use driver::Endpoint;
use engine::{Layer, Protocol};
use engine_call::CallConfig;
use engine_xtp::{Config, Xtp};
use layer_halves::Halves;

fn halves() -> Box<dyn Layer + Send> {
    Box::new(Halves::new(1500, 1))
}

#[test]
fn circuits_carry_megabytes_both_ways_as_sent() {
    let sent = messages(3, 600);
    let octets: usize = sent.iter().map(Vec::len).sum();
    assert!(octets > 4 << 20, "megabytes, not {octets} octets");
    let endpoints = echo([xtp(1), xtp(2)], halves, &sent);
    let discarded = endpoints
        .map(|endpoint| endpoint.with_pump(|pump| pump.engine().counters().packets_discarded));
    assert_eq!(
        discarded,
        [0, 0],
        "packets come out of the layer as they went in"
    );
}

#[test]
fn calls_through_the_layer_get_their_replies() {
    let sent = messages(5, 200);
    let client = call(&CallConfig::default(), halves, &sent);
    let calls = client.wire_calls();
    assert!(
        calls.packets_sent >= 2 * sent.len() as u64,
        "each packet is two frames: {calls:?}"
    );
}

#[test]
fn packets_that_do_not_fit_are_refused_with_both_lengths() {
    let (wire, _) = wire();
    let engine = Xtp::new(Config {
        packet_len: 1472,
        ..Config::default()
    });
    let refused = Endpoint::with_layer(engine, wire, Box::new(Halves::new(1000, 1)), 1 << 20);
    let error = refused.map(drop).expect_err("they do not fit");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
    let text = error.to_string();
    assert!(text.contains("1472") && text.contains("1000"), "{text}");
}
