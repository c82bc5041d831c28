//! Bursts of messages, in order where the transport promises it.

use crate::support::{Subject, flush, for_each, pattern, recv_bytes, recv_one};
use std::sync::atomic::{AtomicUsize, Ordering};
use towpath::{OptionHelp, Options};

#[test]
fn burst_arrives_in_order() {
    for_each(&Options::default(), |subject| {
        let (sent, got) = burst(subject);
        if makes_unordered_calls(subject) {
            // Calls that are under way together promise no order, and nothing is lost.
            let (sent, got) = (messages_of(&sent), messages_of(&got));
            assert!(got == sent, "{}: a message changed", subject.name());
        } else {
            assert!(got == sent, "{}: the order changed", subject.name());
        }
    });
}

#[test]
fn burst_of_calls_in_a_stream_arrives_in_order() {
    let tested = AtomicUsize::new(0);
    let in_stream = |option: &OptionHelp| option.name == "stream" && option.values == "off|on";
    for_each(&Options::default(), |subject| {
        let has_streams = subject.transport.options().iter().any(in_stream);
        if !makes_unordered_calls(subject) || !has_streams {
            return;
        }
        tested.fetch_add(1, Ordering::Relaxed);
        let (sent, got) = burst(&subject.with_option("stream", "on"));
        assert!(got == sent, "{}: the order changed", subject.name());
    });
    assert!(tested.into_inner() > 0);
}

/// Whether each message is a call of its own.
pub(crate) fn makes_unordered_calls(subject: &Subject) -> bool {
    subject.transport.only_answers() && !subject.transport.class().ordered
}

/// Octets of a message of a burst.
const BURST_MESSAGE: usize = 64;

/// A burst of twenty messages: what was sent and what was received, both joined.
fn burst(subject: &Subject) -> (Vec<u8>, Vec<u8>) {
    let mut pair = subject.introduced_pair();
    let messages: Vec<Vec<u8>> = (0..20).map(|salt| pattern(BURST_MESSAGE, salt)).collect();
    for message in &messages {
        pair.client.send(message).expect("space for a few");
    }
    flush(&mut *pair.client);
    let got = if subject.transport.class().stream {
        recv_bytes(&mut *pair.server, 20 * BURST_MESSAGE)
    } else {
        (0..20).flat_map(|_| recv_one(&mut *pair.server)).collect()
    };
    (messages.concat(), got)
}

/// The messages of a burst, sorted.
fn messages_of(joined: &[u8]) -> Vec<&[u8]> {
    let mut messages: Vec<&[u8]> = joined.chunks(BURST_MESSAGE).collect();
    messages.sort_unstable();
    messages
}
