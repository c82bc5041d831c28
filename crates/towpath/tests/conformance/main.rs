//! Conformance tests of the contract, for all transports. Unavailable ones print SKIPPED.

mod broadcast;
mod bursts;
mod by_reference;
mod cells;
mod devices;
mod empty_messages;
mod endings;
mod long_messages;
mod modules;
mod options;
mod parts;
mod pushed;
#[path = "../support/mod.rs"]
mod support;
mod xtp_calls;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{LIMIT, Subject, flush, for_each, pattern, recv, recv_bytes, recv_one, send};
use towpath::{Circuit, CircuitResult, Family, Listener, Options, Reach, all};

const LENGTHS: [usize; 5] = [0, 1, 64, 1400, 16384];

/// Whether the transport can send a message of `len` bytes.
fn allowed(subject: &Subject, len: usize) -> bool {
    let own = BTreeMap::new();
    match subject.name() {
        _ if len == 0 && !subject.transport.class().stream => subject.transport.carries_empty(&own),
        // The MTU of a veth pair is 1500 octets, less the header of 6.
        "raw-ether" => len <= 1494,
        _ => true,
    }
}

#[test]
fn messages_of_every_length_arrive_intact_and_in_order() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.pair();
        for (salt, len) in LENGTHS.into_iter().enumerate() {
            if !allowed(subject, len) {
                continue;
            }
            let message = pattern(len, salt);
            send(&mut *pair.client, &message);
            let got = if subject.transport.class().stream {
                recv_bytes(&mut *pair.server, len)
            } else {
                recv_one(&mut *pair.server)
            };
            assert!(
                got == message,
                "{}: {len} bytes came changed",
                subject.name()
            );
        }
    });
}

#[test]
fn messages_arrive_over_ipv6() {
    let options = Options {
        family: Family::V6,
        ..Options::default()
    };
    for_each(&options, |subject| {
        if subject.transport.class().reach == Reach::Network && !subject.is_link_layer() {
            subject.introduced_pair();
        }
    });
}

#[test]
fn send_run_and_recv_run_keep_messages_whole() {
    for len in [64, 1400] {
        let options = Options {
            message_len: len,
            // Buffers for a whole run: connectionless transports drop what does not fit.
            buffers: Some(1 << 20),
            ..Options::default()
        };
        for_each(&options, |subject| {
            let mut pair = subject.introduced_pair();
            let message = pattern(len, 3);
            let taken = pair.client.send_run(&message, 40).expect("space for a run");
            assert!((1..=40).contains(&taken), "{}", subject.name());
            flush(&mut *pair.client);
            let arrived = recv_runs(&mut *pair.server, (taken * len) as u64);
            assert_eq!(arrived.bytes, (taken * len) as u64, "{}", subject.name());
            if !subject.transport.class().stream {
                assert_eq!(arrived.messages, taken as u64, "{}", subject.name());
            }
            assert!(arrived.calls >= 1);
        });
    }
}

#[test]
fn shared_messages_arrive_intact_and_are_released() {
    let options = Options {
        message_len: 1400,
        buffers: Some(1 << 20),
        ..Options::default()
    };
    for_each(&options, |subject| {
        let mut pair = subject.introduced_pair();
        let message: Arc<[u8]> = pattern(1400, 5).into();
        let taken = pair.client.send_shared_run(&message, 20);
        let taken = taken.expect("space for a run");
        flush(&mut *pair.client);
        let got = if subject.transport.class().stream {
            recv_bytes(&mut *pair.server, taken * 1400)
        } else {
            (0..taken)
                .flat_map(|_| recv_one(&mut *pair.server))
                .collect()
        };
        assert!(got == message.repeat(taken), "{}", subject.name());
        drop(pair);
        let deadline = Instant::now() + LIMIT;
        // A helper thread may be the last to release it.
        while Arc::strong_count(&message) > 1 {
            assert!(Instant::now() < deadline, "{} keeps it", subject.name());
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

fn recv_runs(circuit: &mut dyn Circuit, bytes: u64) -> towpath::ReceiveCounts {
    let mut all = towpath::ReceiveCounts::default();
    let mut buffer = vec![0; 64 << 10];
    let deadline = Instant::now() + LIMIT;
    while all.bytes < bytes {
        match circuit.recv_run(&mut buffer, 8) {
            Ok(arrived) => all.merge(arrived.expect("not the end")),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(
            Instant::now() < deadline,
            "{} of {bytes} bytes came",
            all.bytes
        );
    }
    all
}

#[test]
fn runs_and_single_receives_mix() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        let message = pattern(100, 9);
        let taken = pair.client.send_run(&message, 10).expect("space for a run");
        flush(&mut *pair.client);
        let mut bytes = recv_one(&mut *pair.server).len();
        bytes += recv_one_more(&mut *pair.server, taken * 100 - bytes);
        let rest = (taken * 100 - bytes) as u64;
        assert_eq!(
            recv_runs(&mut *pair.server, rest).bytes,
            rest,
            "{}",
            subject.name()
        );
    });
}

/// Receives once more if data are outstanding.
fn recv_one_more(circuit: &mut dyn Circuit, left: usize) -> usize {
    if left == 0 {
        return 0;
    }
    recv_one(circuit).len()
}

#[test]
fn recv_without_data_returns_would_block() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        let mut buffer = [0; 64];
        for circuit in [&mut pair.client, &mut pair.server] {
            let error = circuit.try_recv(&mut buffer).expect_err("nothing is there");
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{}", subject.name());
            let error = circuit.recv(&mut buffer).expect_err("nothing comes");
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{}", subject.name());
            let error = circuit.recv_run(&mut buffer, 4).expect_err("nothing comes");
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{}", subject.name());
        }
    });
}

#[test]
fn calls_wait_for_their_replies_if_the_class_says_so() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        send(&mut *pair.client, b"a call");
        let next = pair.client.send(b"a call");
        let waits = matches!(&next, Err(error) if error.kind() == ErrorKind::WouldBlock);
        assert_eq!(
            waits,
            subject.transport.class().calls,
            "{}: {next:?}",
            subject.name()
        );
    });
}

#[test]
fn request_and_reply_rounds_complete() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.pair();
        for round in 0..50 {
            let request = pattern(64, round);
            send(&mut *pair.client, &request);
            assert_eq!(recv_one(&mut *pair.server), request, "{}", subject.name());
            let reply = pattern(64, round + 1);
            send(&mut *pair.server, &reply);
            assert_eq!(recv_one(&mut *pair.client), reply, "{}", subject.name());
        }
    });
}

#[test]
fn three_circuits_do_not_mix_data() {
    let options = Options {
        circuits: 3,
        ..Options::default()
    };
    for_each(&options, |subject| {
        let (_listener, mut clients, mut servers) = subject.open();
        for (index, client) in clients.iter_mut().enumerate() {
            send(&mut **client, &[index as u8; 8]);
        }
        let mut seen = Vec::new();
        for server in &mut servers {
            let got = recv_one(&mut **server);
            send(&mut **server, &got);
            seen.push(got[0]);
        }
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2], "{}", subject.name());
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(
                recv_one(&mut **client),
                [index as u8; 8],
                "{}",
                subject.name()
            );
        }
    });
}

#[test]
fn circuits_connect_in_any_order() {
    let options = Options {
        circuits: 2,
        ..Options::default()
    };
    for_each(&options, |subject| {
        let transport = subject.transport;
        let mut listener = transport.listen(&subject.listening).expect("a listener");
        let rendezvous = listener.rendezvous().expect("an address");
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| {
                let connect = |index| transport.connect(&rendezvous, index, &subject.connecting);
                [1, 0].map(|index| connect(index).expect("the listener answers"))
            });
            let deadline = Instant::now() + LIMIT;
            let servers = [0, 1].map(|_| listener.accept(deadline).expect("a client"));
            drop((clients.join().expect("both connected"), servers));
        });
    });
}

#[test]
fn listener_serves_clients_one_after_another() {
    serve_clients(|listener| listener.accept(Instant::now() + LIMIT));
}

#[test]
fn accept_that_times_out_loses_no_client() {
    serve_clients(|listener| {
        let end = Instant::now() + LIMIT;
        loop {
            match listener.accept(Instant::now()) {
                Err(error) if error.kind() == ErrorKind::TimedOut && Instant::now() < end => {}
                result => return result,
            }
        }
    });
}

/// Serves five clients of each transport with connections, one after another.
fn serve_clients(accept: impl Fn(&mut dyn Listener) -> CircuitResult + Sync) {
    for_each(&Options::default(), |subject| {
        if !subject.transport.class().connects {
            return;
        }
        let transport = subject.transport;
        let mut listener = transport.listen(&subject.listening).expect("a listener");
        let rendezvous = listener.rendezvous().expect("an address");
        std::thread::scope(|scope| {
            let clients = scope.spawn(|| {
                for round in 0..5u8 {
                    let client = transport.connect(&rendezvous, 0, &subject.connecting);
                    let mut client = client.expect("the listener answers");
                    send(&mut *client, &[round; 32]);
                    assert_eq!(recv_one(&mut *client), [round; 32], "{}", transport.name());
                }
            });
            for _ in 0..5 {
                let mut server = accept(&mut *listener).expect("a client");
                let request = recv_one(&mut *server);
                send(&mut *server, &request);
                // A connection-oriented client closes once it has the reply.
                if !transport.class().connectionless {
                    assert_eq!(recv(&mut *server), None, "{}", transport.name());
                }
            }
            clients.join().expect("every client was served");
        });
    });
}

#[test]
fn oversized_message_error_names_its_size() {
    for_each(&Options::default(), |subject| {
        if subject.transport.class().stream {
            return;
        }
        let mut pair = subject.introduced_pair();
        let huge = vec![0; 8 << 20];
        for sent in [
            pair.client.try_send(&huge),
            pair.client.send(&huge),
            pair.client.send_run(&huge, 4).map(drop),
        ] {
            let error = sent.expect_err("too large");
            assert_eq!(
                error.kind(),
                ErrorKind::InvalidInput,
                "{}: {error}",
                subject.name()
            );
            assert!(
                error.to_string().contains("8388608"),
                "{}: {error}",
                subject.name()
            );
        }
        send(&mut *pair.client, b"still usable");
        assert_eq!(
            recv_one(&mut *pair.server),
            b"still usable",
            "{}",
            subject.name()
        );
    });
}

#[test]
fn full_circuit_blocks_sender_without_loss() {
    for_each(&Options::default(), assert_full_circuit_blocks);
}

/// Fills a circuit with flow control, empties it, and compares.
fn assert_full_circuit_blocks(subject: &Subject) {
    if !subject.transport.class().flow_control {
        return;
    }
    let mut pair = subject.introduced_pair();
    let mut sent = Vec::new();
    let mut count = 0;
    loop {
        let message = pattern(1000, count);
        match pair.client.try_send(&message) {
            Ok(()) => sent.extend(message),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{}", subject.name());
                break;
            }
        }
        count += 1;
        assert!(count < 100_000, "{}: never full", subject.name());
    }
    let mut got: Vec<u8> = Vec::new();
    let deadline = Instant::now() + LIMIT;
    while got.len() < sent.len() {
        // Sends the unsent tail of a message or a buffer once there is space.
        let _ = pair.client.flush();
        let mut buffer = vec![0; 64 << 10];
        match pair.server.recv(&mut buffer) {
            Ok(more) => got.extend(&buffer[..more.expect("not the end")]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
        }
        assert!(
            Instant::now() < deadline,
            "{}: {} bytes",
            subject.name(),
            got.len()
        );
    }
    let in_order = |octets: &[u8]| {
        let mut messages: Vec<Vec<u8>> = octets.chunks(1000).map(<[u8]>::to_vec).collect();
        if !subject.transport.class().ordered {
            messages.sort_unstable();
        }
        messages
    };
    let same = in_order(&got) == in_order(&sent);
    assert!(same, "{}: bytes changed", subject.name());
}

/// A message of `len` bytes comes to a circuit that is waited for.
fn assert_comes(circuit: &mut dyn Circuit, len: usize) {
    let deadline = Instant::now() + LIMIT;
    let got = loop {
        let waited = circuit.wait(towpath::Interest::Read, deadline);
        waited.expect("nothing fails");
        match circuit.try_recv(&mut [0; 64]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            got => break got.expect("a message"),
        }
        assert!(Instant::now() < deadline, "nothing comes");
    };
    assert_eq!(got, Some(len));
}

#[test]
fn wait_returns_at_deadline_and_on_arrival() {
    for_each(&Options::default(), |subject| {
        let mut pair = subject.introduced_pair();
        let soon = Instant::now() + Duration::from_millis(5);
        pair.server
            .wait(towpath::Interest::Read, soon)
            .expect("nothing fails");
        send(&mut *pair.client, b"now");
        assert_comes(&mut *pair.server, 3);
    });
}

#[test]
fn transport_names_are_unique_and_found() {
    let mut names: Vec<&str> = all().iter().map(|transport| transport.name()).collect();
    for name in &names {
        assert_eq!(towpath::find(name).expect("its name").name(), *name);
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    let Err(unknown) = towpath::find("tpc") else {
        panic!("there is no transport tpc");
    };
    assert!(unknown.to_string().contains("tcp"), "{unknown}");
}
