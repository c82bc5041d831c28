//! Empty messages: they arrive as messages where a transport says so, and are refused elsewhere.

use crate::support::{LIMIT, for_each, send};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Mutex;
use std::time::Instant;
use towpath::{Circuit, Options, Transport};

fn options() -> Options {
    Options {
        message_len: 0,
        ..Options::default()
    }
}

fn carries_empty(transport: &dyn Transport) -> bool {
    transport.carries_empty(&BTreeMap::new())
}

/// Messages and bytes that arrive until there are so many messages.
fn arrived(server: &mut dyn Circuit, messages: u64) -> (u64, u64) {
    let (deadline, mut buffer) = (Instant::now() + LIMIT, vec![0; 65_536]);
    let (mut count, mut bytes) = (0, 0);
    while count < messages && Instant::now() < deadline {
        match server.recv_run(&mut buffer, 1) {
            Ok(Some(run)) => {
                count += run.messages;
                bytes += run.bytes;
            }
            Ok(None) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("{error}"),
        }
    }
    (count, bytes)
}

#[test]
fn runs_of_empty_messages_arrive_as_as_many_messages() {
    let others = Mutex::new(Vec::new());
    for_each(&options(), |subject| {
        if !carries_empty(subject.transport) || subject.name() == "null" {
            return;
        }
        let mut pair = subject.introduced_pair();
        let taken = pair.client.send_run(&[], 5).expect("room for a run") as u64;
        pair.client.flush().expect("they leave");
        send(&mut *pair.client, b"behind");
        let (count, bytes) = arrived(&mut *pair.server, taken + 1);
        if (count, bytes) != (taken + 1, 6) {
            others.lock().expect("nobody panicked").push(format!(
                "{}: {count} of {}, {bytes} B",
                subject.name(),
                taken + 1
            ));
        }
    });
    let others = others.into_inner().expect("nobody panicked");
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn empty_message_is_refused_where_none_is_carried() {
    for_each(&options(), |subject| {
        if carries_empty(subject.transport) || subject.transport.class().stream {
            return;
        }
        let mut pair = subject.introduced_pair();
        let refused = pair.client.send(&[]).expect_err(subject.name());
        assert_eq!(
            refused.kind(),
            ErrorKind::InvalidInput,
            "{}",
            subject.name()
        );
    });
}
