//! One circuit to several listeners: `ring=all` and `ring=one` of `shm` and `shm-spin`.

use crate::support::{LIMIT, pattern, recv, send};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::thread;
use std::time::Instant;
use towpath::{Circuit, Options, Sharing, Transport, find};

const RECEIVERS: usize = 3;

/// A ring shorter than the messages of a test, so that each place is used many times.
fn options(ring: &str) -> Options {
    Options {
        transport_specific: BTreeMap::from([("ring".to_owned(), ring.to_owned())]),
        buffers: Some(4096),
        ..Options::default()
    }
}

fn transport(name: &str) -> &'static dyn Transport {
    find(name).expect("it is registered")
}

/// A sender to all, and its receivers.
fn open(name: &str) -> (Box<dyn Circuit>, Vec<Box<dyn Circuit>>) {
    open_shared(name, "all")
}

/// A sender, and its receivers, with this value of `ring`.
fn open_shared(name: &str, ring: &str) -> (Box<dyn Circuit>, Vec<Box<dyn Circuit>>) {
    let (transport, options) = (transport(name), options(ring));
    let listener = |_| transport.listen(&options).expect("it listens");
    let mut listeners: Vec<_> = (0..RECEIVERS).map(listener).collect();
    let places = listeners
        .iter()
        .map(|listener| listener.rendezvous().expect("a name"));
    let places: Vec<_> = places.collect();
    let sender = transport.connect_to_many(&places, &options);
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
fn every_message_that_is_shared_out_arrives_at_one_receiver_and_all_see_the_end() {
    const COUNT: usize = 300;
    let len = |number: usize| 2 + number * 29 % 2000;
    let sent = |number: usize| {
        let mut message = pattern(len(number), number);
        message[..2].copy_from_slice(&(number as u16).to_le_bytes());
        message
    };
    for name in ["shm", "shm-spin"] {
        let (mut sender, receivers) = open_shared(name, "one");
        let mut got = Vec::new();
        thread::scope(|scope| {
            let receiving = receivers.into_iter().map(|mut receiver| {
                scope.spawn(move || {
                    let mut numbers = Vec::new();
                    while let Some(message) = recv(receiver.as_mut()) {
                        let number = usize::from(u16::from_le_bytes([message[0], message[1]]));
                        assert!(message == sent(number), "{name}: message {number}");
                        numbers.push(number);
                    }
                    numbers
                })
            });
            let receiving: Vec<_> = receiving.collect();
            for number in 0..COUNT {
                send(sender.as_mut(), &sent(number));
            }
            sender.finish().expect("it ends");
            for thread in receiving {
                got.extend(thread.join().expect("it received"));
            }
        });
        got.sort_unstable();
        assert!(got.into_iter().eq(0..COUNT), "{name}: each once");
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
    for (value, wanted) in [("all", Sharing::All), ("one", Sharing::One)] {
        for plain in [&[][..], &[("ring", value)]] {
            let option = shm.option_to_many(&own(plain), wanted);
            assert_eq!(option, Some(("ring", value)));
        }
    }
    let other = shm.option_to_many(&own(&[("ring", "one")]), Sharing::All);
    assert_eq!(other, None, "what was asked for stays");
    for other in [
        ("ring", "each"),
        ("lent", "on"),
        ("order", "on"),
        ("push", "meter"),
    ] {
        let own = own(&[other]);
        assert_eq!(shm.option_to_many(&own, Sharing::All), None, "{other:?}");
    }
    for wrong in [
        &[("ring", "some")][..],
        &[("ring", "all"), ("lent", "on")],
        &[("ring", "one"), ("order", "on")],
    ] {
        let refused = shm.check_options(&own(wrong)).expect_err("it is refused");
        assert!(refused.contains("ring"), "{refused}");
    }
    for without in ["tcp", "streams-pipe", "shm-remote"] {
        let transport = transport(without);
        assert_eq!(
            transport.option_to_many(&own(&[]), Sharing::All),
            None,
            "{without}"
        );
        let refused = transport.connect_to_many(&[], &Options::default());
        let refused = refused.err().expect("a circuit for each");
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
    }
}
