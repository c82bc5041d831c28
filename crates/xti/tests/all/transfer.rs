//! Data: all of them, in order, whatever the queues are like; and soon.

use crate::kit::{LIMIT, all_options, pair};
use std::time::Duration;
use xti::{Flags, StreamOptions, TliError, XtiEndpoint};

/// Octet `at` of the test's data.
fn octet(at: usize) -> u8 {
    (at * 31 + at / 251) as u8
}

fn send_all(end: &XtiEndpoint, total: usize, size: usize, flags: Flags) {
    let data: Vec<u8> = (0..total).map(octet).collect();
    for piece in data.chunks(size) {
        let mut done = 0;
        while done < piece.len() {
            done += end.send(&piece[done..], flags, LIMIT).unwrap();
        }
    }
    end.flush(LIMIT).unwrap();
    end.send_release().unwrap();
}

fn receive_all(end: &XtiEndpoint, size: usize) -> usize {
    let (mut total, mut buffer) = (0, vec![0; size]);
    loop {
        match end.receive(&mut buffer) {
            Ok(received) => {
                for (index, &got) in buffer[..received.len].iter().enumerate() {
                    assert_eq!(got, octet(total + index), "octet {}", total + index);
                }
                total += received.len;
            }
            Err(error) if error.tli == TliError::Look => {
                end.receive_release().unwrap();
                return total;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn transfer(options: StreamOptions, total: usize, size: usize, more: bool) {
    let (client, server) = pair(options);
    let flags = Flags {
        more,
        ..Flags::default()
    };
    std::thread::scope(|scope| {
        scope.spawn(|| send_all(&client, total, size, flags));
        assert_eq!(
            receive_all(&server, 3000),
            total,
            "{options:?}, {size} octets a send"
        );
    });
}

#[test]
fn all_octets_arrive_in_order_with_every_kind_of_queue() {
    for options in all_options() {
        for size in [1, 64, 2047, 2048, 70_000] {
            transfer(options, (size * 1500).min(700_000), size, false);
        }
        transfer(options, 100_000, 700, true);
    }
}

#[test]
fn sends_of_mixed_lengths_keep_their_order() {
    let (client, server) = pair(StreamOptions::default());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let data: Vec<u8> = (0..400_000).map(octet).collect();
            let (mut at, mut step) = (0, 0);
            while at < data.len() {
                step += 1;
                let len = [1, 5000, 300, 20_000, 2048][step % 5].min(data.len() - at);
                at += client
                    .send(&data[at..at + len], Flags::default(), LIMIT)
                    .unwrap();
            }
            client.flush(LIMIT).unwrap();
            client.send_release().unwrap();
        });
        assert_eq!(receive_all(&server, 1000), 400_000);
    });
}

#[test]
fn queued_message_leaves_without_another_call() {
    let (client, server) = pair(StreamOptions::default());
    client.try_send(b"alone", Flags::default()).unwrap();
    assert_eq!(client.kernel_sends(), 0, "it is queued");
    assert_eq!(
        server.receive(&mut [0; 16]).unwrap().len,
        5,
        "the helper carries it on"
    );
    assert_eq!(client.kernel_sends(), 1);
}

#[test]
fn message_leaves_at_once_when_nothing_is_deferred() {
    let options = StreamOptions {
        deferred: false,
        ..StreamOptions::default()
    };
    let (client, server) = pair(options);
    client.try_send(b"at once", Flags::default()).unwrap();
    assert_eq!(client.kernel_sends(), 1);
    assert_eq!(server.receive(&mut [0; 16]).unwrap().len, 7);
}

#[test]
fn many_messages_leave_in_one_call() {
    let options = StreamOptions::default();
    let (client, server) = pair(options);
    for _ in 0..400 {
        client.try_send(&[7; 64], Flags::default()).unwrap();
    }
    client.run();
    assert!(
        client.kernel_sends() < 400,
        "{} calls",
        client.kernel_sends()
    );
    let mut total = 0;
    while total < 400 * 64 {
        total += server.receive(&mut [0; 64]).unwrap().len;
    }
    assert!(
        server.kernel_receives() < 400,
        "{} calls",
        server.kernel_receives()
    );
}

#[test]
fn sender_whose_peer_does_not_read_gets_flow_and_goes_on_later() {
    let (client, server) = pair(StreamOptions::default());
    let mut sent = 0;
    loop {
        match client.try_send(&[1; 60_000], Flags::default()) {
            Ok(len) => sent += len,
            Err(error) => {
                assert_eq!(error.tli, TliError::Flow);
                break;
            }
        }
    }
    assert_eq!(
        client
            .send(&[1; 10], Flags::default(), Duration::ZERO)
            .unwrap_err()
            .tli,
        TliError::Flow
    );
    // What is queued leaves without another call of the sender.
    let mut received = 0;
    while received < sent {
        received += server.receive(&mut [0; 65_536]).unwrap().len;
    }
    assert_eq!(received, sent);
    assert_eq!(client.send(&[2; 10], Flags::default(), LIMIT).unwrap(), 10);
}
