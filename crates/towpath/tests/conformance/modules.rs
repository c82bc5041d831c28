//! `shm` and `shm-spin` with each module of their channels: messages arrive as without, and ends with others refuse.

use crate::support::{LIMIT, Subject, flush, pattern, recv, recv_one, send};
use std::io::ErrorKind::WouldBlock;
use std::sync::Arc;
use std::thread;
use std::time::Instant;
use towpath::{Options, find};

/// The sets of modules.
const WAYS: [&str; 5] = [
    "order=on",
    "checksum=on",
    "reassemble=on",
    "order=on,checksum=on",
    "order=on,checksum=on,reassemble=on",
];

fn options(way: &str) -> Options {
    let pairs = way.split(',').filter_map(|part| part.split_once('='));
    let own = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Options {
        transport_specific: own.collect(),
        buffers: Some(16 << 10),
        ..Options::default()
    }
}

fn subject(name: &str, way: &str) -> Subject {
    let transport = find(name).expect("it is registered");
    let options = options(way);
    let checked = transport.check_options(&options.transport_specific);
    checked.expect("they are its options");
    Subject::new(transport, &options)
}

#[test]
fn messages_arrive_with_each_module_both_ways_and_then_the_end() {
    for name in ["shm", "shm-spin"] {
        for way in WAYS {
            let longest = match way.contains("reassemble") {
                true => 100_000,
                false => 16_000,
            };
            let lengths = [0, 1, 63, 64, 4000, longest];
            let mut pair = subject(name, way).pair();
            thread::scope(|scope| {
                let server = scope.spawn(|| {
                    for (salt, len) in lengths.into_iter().enumerate() {
                        let got = recv_one(&mut *pair.server);
                        assert!(got == pattern(len, salt), "{name},{way}: {len} bytes");
                        send(&mut *pair.server, &got);
                    }
                    recv(&mut *pair.server)
                });
                for (salt, len) in lengths.into_iter().enumerate() {
                    send(&mut *pair.client, &pattern(len, salt));
                    let got = recv_one(&mut *pair.client);
                    assert!(got == pattern(len, salt), "{name},{way}: {len} bytes back");
                }
                pair.client.finish().expect("nothing is left to send");
                assert_eq!(server.join().expect("no panic"), None, "{name},{way}");
            });
            assert!(pair.client.effective().contains_key("modules"));
        }
    }
}

#[test]
fn part_of_a_message_longer_than_the_buffer_stays_for_the_next_receive() {
    let mut pair = subject("shm", "checksum=on,reassemble=on").pair();
    let message = pattern(3000, 1);
    send(&mut *pair.client, &message);
    let (mut got, mut buffer) = (Vec::new(), [0; 1024]);
    for end in [false, false, true] {
        let part = pair.server.receive_part(&mut buffer);
        let part = part.expect("it is there").expect("before the end");
        got.extend_from_slice(&buffer[..part.len]);
        assert_eq!(part.end, end);
    }
    assert!(got == message);
}

#[test]
fn messages_without_room_are_dropped_and_counted_by_both_ends() {
    let mut pair = subject("shm", "flow=drop,order=on").pair();
    let class = subject("shm", "flow=drop")
        .transport
        .class_with(&options("flow=drop").transport_specific);
    assert!(!class.reliable && !class.flow_control);
    // The ring holds 16 KiB.
    for number in 0..100 {
        pair.client.try_send(&[number; 1000]).expect("it takes all");
    }
    let dropped = pair.client.counts()["receive_drops"];
    assert!((80..100).contains(&dropped), "{dropped}");
    let mut received = 0;
    let mut buffer = [0; 1000];
    while let Ok(Some(_)) = pair.server.try_recv(&mut buffer) {
        received += 1;
    }
    assert_eq!(received + dropped, 100);
    pair.client.try_send(b"tells").expect("there is room");
    assert_eq!(recv_one(&mut *pair.server), b"tells");
    assert_eq!(pair.server.counts()["records_missing"], dropped);
}

#[test]
fn ends_with_other_modules_refuse_each_other_with_the_remedy() {
    for (listening, connecting) in [
        ("checksum=on", ""),
        ("", "checksum=on"),
        ("order=on", "flow=drop"),
    ] {
        let mut subject = subject("shm", listening);
        subject.connecting = options(connecting);
        let mut listener = subject
            .transport
            .listen(&subject.listening)
            .expect("it listens");
        let rendezvous = listener.rendezvous().expect("it has a name");
        let connected = subject
            .transport
            .connect(&rendezvous, 0, &subject.connecting);
        let _client = connected.expect("the other end refuses");
        let refused = listener
            .accept(Instant::now() + LIMIT)
            .err()
            .expect("other modules");
        let text = refused.to_string();
        assert!(
            text.contains("give both ends the same"),
            "{listening} {connecting}: {text}"
        );
        assert_ne!(refused.kind(), WouldBlock);
    }
    let shm = find("shm").expect("it is registered");
    for wrong in ["flow=sometimes", "checksum=crc", "lanes=2"] {
        let refused = shm.check_options(&options(wrong).transport_specific);
        let (name, _) = wrong.split_once('=').expect("a pair");
        assert!(refused.expect_err(wrong).contains(name));
    }
}

/// Shared messages of two contents, single ones between them, through more rounds than the ring has slots.
#[test]
fn messages_that_stay_in_their_slots_are_right_each_time() {
    for name in ["shm", "shm-spin"] {
        let mut lent = subject(name, "lent=on");
        for options in [&mut lent.listening, &mut lent.connecting] {
            options.message_len = 1000;
        }
        let mut pair = lent.pair();
        let shared: [Arc<[u8]>; 3] =
            [0, 1, 2].map(|salt| pattern([1000, 700, 5000][salt], salt).into());
        for round in 0..100 {
            let message = &shared[if round % 31 == 0 { 2 } else { round / 30 % 2 }];
            let sent = pair.client.send_shared_run(message, 1);
            assert_eq!(sent.expect("there is room"), 1);
            assert!(recv_one(&mut *pair.server) == **message, "{name} {round}");
            if round % 7 == 0 {
                send(&mut *pair.client, &pattern(round, 9));
                assert!(recv_one(&mut *pair.server) == pattern(round, 9));
            }
        }
        pair.client
            .send_shared_run(&shared[0], 8)
            .expect("there is room");
        let mut counted = 0;
        while counted < 8 {
            let run = pair.server.recv_run(&mut [0; 16], 8 - counted as usize);
            let run = run.expect("they are there").expect("before the end");
            assert_eq!(run.bytes, run.messages * 1000);
            counted += run.messages;
        }
        assert_eq!(pair.client.effective()["lent"], "on");
    }
    let shm = find("shm").expect("it is registered");
    let refused = shm.check_options(&options("lent=on,checksum=on").transport_specific);
    assert!(refused.expect_err("both").contains("leave one of them out"));
}

#[test]
fn pieces_without_room_leave_with_a_flush() {
    let mut pair = subject("shm", "reassemble=on").pair();
    let long = pattern(100_000, 3);
    pair.client.try_send(&long).expect("a part of it has room");
    thread::scope(|scope| {
        let server = scope.spawn(|| recv_one(&mut *pair.server));
        flush(&mut *pair.client);
        assert!(server.join().expect("no panic") == long);
    });
}
