//! One circuit to several listeners: `ring=all` of `shm` and `shm-spin`.

use crate::support::{LIMIT, pattern, recv, send};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::thread;
use std::time::Instant;
use towpath::{Circuit, Options, Transport, find};

const RECEIVERS: usize = 3;

/// A ring shorter than the messages of a test, so that each place is used many times.
fn options() -> Options {
    Options {
        transport_specific: BTreeMap::from([("ring".to_owned(), "all".to_owned())]),
        buffers: Some(4096),
        ..Options::default()
    }
}

fn transport(name: &str) -> &'static dyn Transport {
    find(name).expect("it is registered")
}

/// A sender, and its receivers.
fn open(name: &str) -> (Box<dyn Circuit>, Vec<Box<dyn Circuit>>) {
    let (transport, options) = (transport(name), options());
    let listener = |_| transport.listen(&options).expect("it listens");
    let mut listeners: Vec<_> = (0..RECEIVERS).map(listener).collect();
    let places = listeners
        .iter()
        .map(|listener| listener.rendezvous().expect("a name"));
    let places: Vec<_> = places.collect();
    let sender = transport.connect_to_all(&places, &options);
    let accepted = listeners
        .iter_mut()
        .map(|listener| listener.accept(Instant::now() + LIMIT).expect("it came"));
    let receivers = accepted.collect();
    (sender.expect("all listen"), receivers)
}

#[test]
fn every_message_arrives_at_each_receiver_once_in_order_and_then_the_end() {
    let lengths = || (0..300_usize).map(|number| number * 29 % 2000);
    for name in ["shm", "shm-spin"] {
        let (mut sender, receivers) = open(name);
        thread::scope(|scope| {
            for mut receiver in receivers {
                scope.spawn(move || {
                    for (salt, len) in lengths().enumerate() {
                        let got = recv(receiver.as_mut()).expect("not the end");
                        assert!(got == pattern(len, salt), "{name}: {len} bytes");
                    }
                    assert_eq!(recv(receiver.as_mut()), None, "{name}");
                });
            }
            for (salt, len) in lengths().enumerate() {
                send(sender.as_mut(), &pattern(len, salt));
            }
            sender.finish().expect("it ends");
        });
    }
}

#[test]
fn message_longer_than_a_buffer_comes_in_parts() {
    let (mut sender, mut receivers) = open("shm");
    send(sender.as_mut(), &pattern(1000, 1));
    for receiver in &mut receivers {
        let mut got = Vec::new();
        loop {
            let mut buffer = [0; 300];
            let part = receiver.receive_part(&mut buffer);
            let part = part.expect("it came").expect("not the end");
            got.extend_from_slice(&buffer[..part.len]);
            if part.end {
                break;
            }
        }
        assert!(got == pattern(1000, 1));
    }
}

#[test]
fn receiver_that_ends_before_its_sender_ends_the_circuit_with_a_reason() {
    let (mut sender, mut receivers) = open("shm");
    drop(receivers.remove(1));
    let end = Instant::now() + LIMIT;
    let error = loop {
        assert!(Instant::now() < end, "nobody noticed");
        match sender.send(&[1; 1000]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => break error,
            Ok(()) => {}
        }
        for receiver in &mut receivers {
            while let Ok(Some(_)) = receiver.try_recv(&mut [0; 8]) {}
        }
    };
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    let text = error.to_string();
    assert!(
        text.contains("a receiver of the ring has closed it"),
        "{text}"
    );
}

#[test]
fn each_end_has_one_direction() {
    let (mut sender, mut receivers) = open("shm");
    let answered = receivers[0].try_send(b"back").expect_err("no way back");
    assert_eq!(answered.kind(), ErrorKind::Unsupported);
    let received = sender.try_recv(&mut [0; 8]).expect_err("no way back");
    assert_eq!(received.kind(), ErrorKind::Unsupported);
}

#[test]
fn one_ring_is_for_plain_rings_alone() {
    let shm = transport("shm");
    let own = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        owned.collect()
    };
    for plain in [&[][..], &[("ring", "all")]] {
        assert_eq!(shm.option_to_all(&own(plain)), Some(("ring", "all")));
    }
    for other in [
        ("ring", "each"),
        ("lent", "on"),
        ("order", "on"),
        ("push", "meter"),
    ] {
        assert_eq!(shm.option_to_all(&own(&[other])), None, "{other:?}");
    }
    for wrong in [&[("ring", "one")][..], &[("ring", "all"), ("lent", "on")]] {
        let refused = shm.check_options(&own(wrong)).expect_err("it is refused");
        assert!(refused.contains("ring"), "{refused}");
    }
    for without in ["tcp", "streams-pipe", "shm-remote"] {
        let transport = transport(without);
        assert_eq!(transport.option_to_all(&own(&[])), None, "{without}");
        let refused = transport.connect_to_all(&[], &Options::default());
        let refused = refused.err().expect("a circuit for each");
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
}
