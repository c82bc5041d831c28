//! Notes, messages in parts, memory lent by the transport and to the user.

use super::allowed;
use super::bursts::makes_unordered_calls;
use super::support::{LIMIT, Pair, Subject, flush, for_each, pattern, recv_bytes, recv_one, send};
use std::io::{self, ErrorKind};
use std::time::Instant;
use towpath::{Circuit, Note, Options, Part, Reliability};

/// Receives parts into `buffer` until a message ends, or `len` bytes of a stream came.
fn recv_parts(circuit: &mut dyn Circuit, is_stream: bool, len: usize, sizes: &[usize]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for size in sizes.iter().cycle() {
        let mut buffer = vec![0; *size];
        let part = recv_part(circuit, &mut buffer);
        assert!(part.len <= *size);
        bytes.extend_from_slice(&buffer[..part.len]);
        assert!(!(is_stream && part.end), "a stream has no messages");
        if part.end || is_stream && bytes.len() >= len {
            return bytes;
        }
        assert!(
            is_stream || part.len == *size,
            "only the last part is shorter"
        );
    }
    bytes
}

fn recv_part(circuit: &mut dyn Circuit, buffer: &mut [u8]) -> Part {
    retry(|| circuit.receive_part(buffer)).expect("a part, not the end")
}

/// Calls `attempt` until it does not return `WouldBlock`.
fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> T {
    let deadline = Instant::now() + LIMIT;
    loop {
        match attempt() {
            Ok(done) => return done,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(Instant::now() < deadline, "nothing happens");
    }
}

fn recv_whole(subject: &Subject, circuit: &mut dyn Circuit, len: usize) -> Vec<u8> {
    if subject.transport.class().stream {
        recv_bytes(circuit, len)
    } else {
        recv_one(circuit)
    }
}

/// Whether the transport has memory that its user writes into and reads from.
fn lends_memory(subject: &Subject) -> bool {
    let name = subject.name();
    let is_bare = ["bare", "aal34", "aal5"].contains(&name);
    // An association a message has no place for the next one.
    let has_store = !["xtp-transaction", "xtp-datagram"].contains(&name);
    is_bare || name.starts_with("sctp") || name.starts_with("xtp") && has_store
}

#[test]
fn message_received_in_parts_equals_the_whole() {
    for_each(&Options::default(), |subject| {
        let is_stream = subject.transport.class().stream;
        let mut pair = subject.introduced_pair();
        for (salt, len) in [1, 64, 1400, 1494, 16384, 40_000].into_iter().enumerate() {
            if !allowed(subject, len) {
                continue;
            }
            for sizes in [&[1000][..], &[1, 7, 3000], &[len], &[len + 1], &[64 << 10]] {
                let message = pattern(len, salt);
                send(&mut *pair.client, &message);
                let got = recv_parts(&mut *pair.server, is_stream, len, sizes);
                assert!(got == message, "{}: {len} in {sizes:?}", subject.name());
            }
        }
    });
}

/// Receives into a buffer and returns the number of octets received.
type ReceiveCall = fn(&mut dyn Circuit, &mut [u8]) -> io::Result<usize>;

#[test]
fn rest_of_a_message_is_received_by_every_call() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        let (first, second) = (pattern(500, 1), pattern(300, 2));
        let calls: [ReceiveCall; 4] = [
            |circuit, buffer| circuit.recv(buffer).map(Option::unwrap_or_default),
            |circuit, buffer| circuit.try_recv(buffer).map(Option::unwrap_or_default),
            |circuit, buffer| Ok(circuit.receive_part(buffer)?.map_or(0, |part| part.len)),
            |circuit, buffer| {
                let counts = circuit.recv_run(buffer, 1)?;
                Ok(counts.map_or(0, |counts| counts.bytes as usize))
            },
        ];
        for (index, call) in calls.into_iter().enumerate() {
            send(&mut *pair.client, &first);
            // Calls that are under way together promise no order.
            let second_comes_later = makes_unordered_calls(subject);
            if !second_comes_later {
                send(&mut *pair.client, &second);
            }
            let mut got = vec![0; 100];
            let part = recv_part(&mut *pair.server, &mut got);
            assert_eq!((part.len, part.end), (100, false), "{}", subject.name());
            if second_comes_later {
                send(&mut *pair.client, &second);
            }
            let mut buffer = [0; 1000];
            let len = retry(|| call(&mut *pair.server, &mut buffer));
            // Runs of some transports receive into memory of their own, and only count.
            got.extend_from_slice(&buffer[..len]);
            if subject.transport.class().stream {
                let mut sent = [&first[..], &second].concat();
                let counts_only = index == 3 && got[100..].iter().all(|&octet| octet == 0);
                if counts_only {
                    sent[100..100 + len].fill(0);
                }
                let left = 800 - got.len();
                got.extend(recv_bytes(&mut *pair.server, left));
                assert!(got == sent, "{} {index}", subject.name());
                continue;
            }
            let counts_only = index == 3 && got[100..] != first[100..];
            assert!(counts_only || got == first, "{} {index}", subject.name());
            assert_eq!(got.len(), first.len(), "{} {index}", subject.name());
            assert!(recv_one(&mut *pair.server) == second, "{}", subject.name());
        }
    });
}

#[test]
fn notes_beyond_the_transport_are_refused() {
    let plain = Note::default();
    let fields = [
        Note { stream: 1, ..plain },
        Note {
            unordered: true,
            ..plain
        },
        Note {
            reliability: Reliability::Retransmissions(1),
            ..plain
        },
        Note {
            context: 7,
            ..plain
        },
        Note {
            tag: Some(1),
            ..plain
        },
        Note {
            end_tag: Some(1),
            ..plain
        },
    ];
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        for note in fields {
            let is_sctp = subject.name().starts_with("sctp");
            let carried = note.tag.is_some() && subject.name() == "xtp-message"
                || is_sctp && note.end_tag.is_none();
            if carried {
                continue;
            }
            let refused = pair.client.send_noted(b"message", &note);
            let error = refused.expect_err("no transport carries it");
            assert_eq!(
                error.kind(),
                ErrorKind::Unsupported,
                "{}: {note:?}",
                subject.name()
            );
        }
        retry(|| pair.client.send_noted(b"message", &plain));
        flush(&mut *pair.client);
        let got = recv_whole(subject, &mut *pair.server, 7);
        assert_eq!(got, b"message", "{}: nothing else was sent", subject.name());
    });
}

#[test]
fn notes_of_sctp_messages_arrive_with_them() {
    for_each(&Options::default(), |subject| {
        if !subject.name().starts_with("sctp") {
            return;
        }
        let mut pair = subject.introduced_pair();
        for (stream, tag, unordered) in [(3, None, false), (0, Some(51), true), (15, Some(7), true)]
        {
            let note = Note {
                stream,
                tag,
                unordered,
                ..Note::default()
            };
            for len in [7, 30_000] {
                let message = pattern(len, 1);
                retry(|| pair.client.send_noted(&message, &note));
                flush(&mut *pair.client);
                let mut buffer = vec![0; len];
                let part = recv_part(&mut *pair.server, &mut buffer);
                assert!(buffer == message, "{}: {len}", subject.name());
                assert_eq!((part.note, part.end), (note, true), "{}", subject.name());
            }
        }
    });
}

#[test]
fn reserved_and_committed_equals_sent() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        if !lends_memory(subject) {
            let refused = pair.client.reserve(10).map(drop);
            let error = refused.expect_err("the kernel copies");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", subject.name());
            let error = pair
                .client
                .commit(&Note::default())
                .expect_err("nothing is reserved");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", subject.name());
            return;
        }
        for (salt, len) in [1, 64, 1400, 5000, 16384, 60_000].into_iter().enumerate() {
            let message = pattern(len, salt);
            write_reserved(&mut *pair.client, &message);
            // What is sent otherwise comes in its turn.
            send(&mut *pair.client, b"after");
            let got = recv_whole(subject, &mut *pair.server, len + 5);
            if subject.transport.class().stream {
                assert!(
                    got == [&message[..], b"after"].concat(),
                    "{}",
                    subject.name()
                );
            } else {
                assert!(got == message, "{}: {len}", subject.name());
                assert_eq!(recv_one(&mut *pair.server), b"after", "{}", subject.name());
            }
        }
        let error = pair
            .client
            .commit(&Note::default())
            .expect_err("nothing is reserved");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{}", subject.name());
    });
}

/// Writes `message` where it is sent from.
fn write_reserved(circuit: &mut dyn Circuit, message: &[u8]) {
    retry(|| {
        let mut rest = message;
        for piece in circuit.reserve(message.len())? {
            let (front, after) = rest.split_at(piece.len());
            piece.copy_from_slice(front);
            rest = after;
        }
        assert!(rest.is_empty(), "room for all of it");
        Ok(())
    });
    circuit.commit(&Note::default()).expect("it was reserved");
}

#[test]
fn lent_arrivals_equal_what_was_sent() {
    for_each(&Options::default(), |subject| {
        let Pair {
            mut client,
            mut server,
            listener: _listener,
        } = subject.introduced_pair();
        if !lends_memory(subject) {
            let error = server
                .take_arrival()
                .map(drop)
                .expect_err("the kernel copies");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", subject.name());
            return;
        }
        let is_stream = subject.transport.class().stream;
        for round in 0..20 {
            let messages: Vec<Vec<u8>> = (0..5)
                .map(|index| pattern(1 + round * 613 + index * 97, index))
                .collect();
            messages
                .iter()
                .for_each(|message| send(&mut *client, message));
            let sent = messages.concat();
            let (mut got, mut ends) = (Vec::new(), Vec::new());
            // Every other round begins with a part.
            if round % 2 == 1 {
                let mut buffer = [0; 50];
                let part = recv_part(&mut *server, &mut buffer);
                got.extend_from_slice(&buffer[..part.len]);
                ends.extend(part.end.then_some(got.len()));
            }
            while got.len() < sent.len() {
                retry(|| {
                    let arrival = server.take_arrival()?.expect("not the end");
                    for piece in arrival.pieces() {
                        assert!(!piece.gap && piece.note.is_plain());
                        got.extend_from_slice(piece.bytes);
                        ends.extend(piece.end.then_some(got.len()));
                    }
                    Ok(())
                });
            }
            assert!(got == sent, "{} {round}", subject.name());
            let whole = messages.iter().scan(0, |end, message| {
                *end += message.len();
                Some(*end)
            });
            let expected: Vec<usize> = if is_stream {
                Vec::new()
            } else {
                whole.collect()
            };
            assert_eq!(ends, expected, "{} {round}", subject.name());
        }
        client.finish().expect("the end is sent");
        let end = retry(|| Ok(server.take_arrival()?.is_none()));
        assert!(end, "{}", subject.name());
    });
}

/// Options of XTP with a dialect, which say which tags there are.
fn dialect(name: &str) -> Options {
    Options {
        transport_specific: [("dialect".to_owned(), name.to_owned())].into(),
        ..Options::default()
    }
}

#[test]
fn notes_of_xtp_messages_arrive_in_both_directions() {
    let transport = towpath::find("xtp-message").expect("its name");
    for (name, has_end_tag) in [("4.0", false), ("3.6", true), ("3.3", true)] {
        let subject = Subject::new(transport, &dialect(name));
        let Pair {
            mut client,
            mut server,
            listener: _listener,
        } = subject.introduced_pair();
        let note = |tag, end_tag: Option<u64>| Note {
            tag,
            end_tag: end_tag.filter(|_| has_end_tag),
            ..Note::default()
        };
        let notes = [
            note(Some(1), None),
            note(None, Some(2)),
            Note::default(),
            note(Some(u64::MAX), Some(0)),
        ];
        for round in 0..8 {
            let (from, to) = match round % 2 {
                0 => (&mut client, &mut server),
                _ => (&mut server, &mut client),
            };
            let lens = [1, 100, 9000, 1400 + round];
            for (note, len) in notes.iter().zip(lens) {
                retry(|| from.send_noted(&pattern(len, round), note));
            }
            flush(&mut **from);
            for (note, len) in notes.iter().zip(lens) {
                check_noted(&mut **to, note, &pattern(len, round), round % 4 < 2);
            }
        }
        let refused = client.send_noted(
            b"x",
            &Note {
                end_tag: Some(2),
                ..Note::default()
            },
        );
        let kind = refused.err().map(|error| error.kind());
        let expected = (!has_end_tag).then_some(ErrorKind::Unsupported);
        assert_eq!(kind, expected, "{name}");
    }
}

/// Receives a message with its note: in parts, or lent.
fn check_noted(circuit: &mut dyn Circuit, note: &Note, message: &[u8], in_parts: bool) {
    if in_parts {
        check_noted_parts(circuit, note, message);
    } else {
        check_noted_arrival(circuit, note, message);
    }
}

fn check_noted_parts(circuit: &mut dyn Circuit, note: &Note, message: &[u8]) {
    let mut got = Vec::new();
    let mut buffer = [0; 700];
    loop {
        let part = recv_part(circuit, &mut buffer);
        assert_eq!(part.note, *note);
        got.extend_from_slice(&buffer[..part.len]);
        if part.end {
            break;
        }
    }
    assert!(got == message);
}

fn check_noted_arrival(circuit: &mut dyn Circuit, note: &Note, message: &[u8]) {
    let mut got = Vec::new();
    // The other messages of the arrival are dropped with it, so this one is taken as a whole first.
    let part = recv_part(circuit, &mut []);
    assert_eq!((part.len, part.end, part.note), (0, false, *note));
    retry(|| {
        let arrival = circuit.take_arrival()?.expect("not the end");
        for piece in arrival.pieces() {
            assert_eq!((piece.end, piece.note), (true, *note));
            got.extend_from_slice(piece.bytes);
        }
        Ok(())
    });
    assert!(got == message);
}
