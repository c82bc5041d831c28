//! How circuits end: in one direction, in both, and without a word of the peer.

use crate::support::{LIMIT, for_each, recv, send};
use std::io::ErrorKind;
use std::time::{Duration, Instant};
use towpath::Options;

#[test]
fn end_of_stream_follows_all_data() {
    for_each(&Options::default(), |subject| {
        if subject.transport.class().connectionless {
            return;
        }
        let mut pair = subject.introduced_pair();
        send(&mut *pair.client, b"final data");
        pair.client.finish().expect("the end is sent");
        let mut bytes = Vec::new();
        while let Some(more) = recv(&mut *pair.server) {
            bytes.extend(more);
        }
        assert_eq!(bytes, b"final data", "{}", subject.name());
    });
}

#[test]
fn one_direction_ends_alone_if_the_class_says_so() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        if let Err(error) = pair.client.finish() {
            // The end is sent, or flushed; a call is not over before it is answered.
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{}", subject.name());
            assert!(subject.transport.only_answers(), "{}", subject.name());
        }
        let mut buffer = [0; 64];
        // Without an end every receive times out; with one the first may, too.
        let deadline = Instant::now()
            + if subject.transport.class().half_close {
                LIMIT
            } else {
                WAIT
            };
        let ended = loop {
            match pair.server.recv(&mut buffer) {
                Ok(None) => break true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => panic!("{}: {other:?}", subject.name()),
            }
            if Instant::now() >= deadline {
                break false;
            }
        };
        let half_close = ended && {
            // Where both directions end at once, the answer is refused or goes nowhere.
            let class = subject.transport.class();
            match class.half_close {
                true => send(&mut *pair.server, b"answer"),
                false => drop(pair.server.send(b"answer")),
            }
            class.half_close && recv(&mut *pair.client).as_deref() == Some(b"answer")
        };
        assert_eq!(
            half_close,
            subject.transport.class().half_close,
            "{}",
            subject.name()
        );
    });
}

/// How long an end is waited for that does not come.
const WAIT: Duration = Duration::from_millis(50);

#[test]
fn vanished_peer_gives_end_or_error_without_hanging() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        drop(pair.server);
        drop(pair.listener);
        let mut buffer = [0; 64];
        let connectionless = subject.transport.class().connectionless;
        let deadline = Instant::now() + LIMIT;
        let mut noticed = false;
        // A connectionless end may notice nothing. For others a worker of the kernel may have to run first, as for MPTCP.
        let rounds = if connectionless { 20 } else { usize::MAX };
        for _ in 0..rounds {
            let _ = pair.client.send(b"are you there?");
            noticed = match pair.client.recv(&mut buffer) {
                Ok(None) => true,
                Ok(Some(len)) => panic!("{}: {len} bytes from no peer", subject.name()),
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            if noticed || Instant::now() > deadline {
                break;
            }
        }
        assert!(
            noticed || connectionless,
            "{}: no end or error",
            subject.name()
        );
        assert!(Instant::now() < deadline, "{}: hung", subject.name());
    });
}
