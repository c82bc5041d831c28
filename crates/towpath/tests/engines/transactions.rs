//! Transactions of XTP as a library.

use crate::files::endpoint;
use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};
use towpath::xtp::{Endpoint, EndpointConfig};

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn transactions_leave_no_state() {
    const COUNT: usize = 200;
    let server = endpoint();
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || {
        let mut request = vec![0; 10_000];
        for number in 0..COUNT {
            let mut circuit = server.accept(LIMIT).expect("a request");
            let len = circuit.recv_all(&mut request, LIMIT).expect("all of it");
            request[..len].reverse();
            // Every third reply comes in two packets at least.
            let front = if number % 3 == 1 { len / 2 } else { 0 };
            if front > 0 {
                circuit.send(&request[..front], LIMIT).expect("space");
                circuit.flush().expect("a packet");
            }
            circuit
                .send_last(&request[front..len], LIMIT)
                .expect("space to send");
            circuit.close(LIMIT).expect("the client takes it");
        }
        server.holdings()
    });
    let client = endpoint();
    let mut reply = vec![0; 10_000];
    for number in 0..COUNT {
        let request: Vec<u8> = (0..1 + number * 40).map(|i| i as u8).collect();
        let len = client
            .transact(address, &request, &mut reply, LIMIT)
            .expect("a reply");
        assert!(reply[..len].iter().rev().eq(&request), "number {number}");
    }
    // The server has the client's final acknowledgement, which may have been delayed.
    let holdings = serving.join().expect("no panic");
    assert_eq!((holdings.associations, holdings.reassembly_bytes), (0, 0));
    assert_eq!(client.holdings().associations, 0);
}

#[test]
fn transactions_of_several_threads_end_without_another_call() {
    const THREADS: usize = 3;
    const EACH: usize = 40;
    let server = endpoint();
    server.listen(true);
    let address = server.local_addr();
    let serving = thread::spawn(move || {
        let mut request = [0; 64];
        for _ in 0..THREADS * EACH {
            let (accepted, len) = server
                .accept_request(&mut request, LIMIT)
                .expect("a request");
            accepted.reply(&request[..len], LIMIT).expect("room");
        }
        server
    });
    let client = endpoint();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let client = &client;
            scope.spawn(move || {
                for number in 0..EACH {
                    let (request, mut reply) = ([thread as u8 + 1; 48], [0; 64]);
                    let len = client.transact(address, &request[number..], &mut reply, LIMIT);
                    assert_eq!(&reply[..len.expect("a reply")], &request[number..]);
                }
            });
        }
    });
    let server = serving.join().expect("no panic");
    let deadline = Instant::now() + LIMIT;
    while [&client, &server].map(|end| end.holdings().associations) != [0, 0] {
        assert!(
            Instant::now() < deadline,
            "the last acknowledgement stays away"
        );
        thread::sleep(Duration::from_millis(1));
    }
}

/// Answers `count` requests, of which a buffer of `room` bytes takes the beginning, with their length and that beginning.
fn serve(server: Endpoint, room: usize, count: usize) -> thread::JoinHandle<Endpoint> {
    thread::spawn(move || {
        let mut request = vec![0; room];
        for _ in 0..count {
            let (accepted, len) = server
                .accept_request(&mut request, LIMIT)
                .expect("a request");
            let mut reply = (len as u32).to_be_bytes().to_vec();
            reply.extend_from_slice(&request[..len.min(room)]);
            accepted.reply(&reply, LIMIT).expect("room");
        }
        server
    })
}

/// What [`serve`] answers.
fn reply_to(request: &[u8], room: usize) -> Vec<u8> {
    let mut reply = (request.len() as u32).to_be_bytes().to_vec();
    reply.extend_from_slice(&request[..request.len().min(room)]);
    reply
}

#[test]
fn requests_come_whole_whatever_their_length() {
    // Of nothing, one packet, several, and more than a buffer takes.
    let lengths = [0, 1, 64, 1000, 1400, 1500, 5000, 100_000];
    for room in [0, 100, 200_000] {
        for bind in [Endpoint::bind, Endpoint::bind_messages] {
            let bound = || {
                let local = "127.0.0.1:0".parse().expect("an address");
                bind(local, &EndpointConfig::default()).expect("an endpoint")
            };
            let (client, server) = (bound(), bound());
            server.listen(true);
            let address = server.local_addr();
            let serving = serve(server, room, lengths.len());
            let mut reply = vec![0; 200_000];
            for len in lengths {
                let request: Vec<u8> = (0..len).map(|at| at as u8).collect();
                let got = client
                    .transact(address, &request, &mut reply, LIMIT)
                    .expect("a reply");
                assert!(reply[..got] == reply_to(&request, room), "{len} in {room}");
            }
            drop(serving.join().expect("no panic"));
        }
    }
}

#[test]
fn requests_come_in_the_order_of_their_openings() {
    const COUNT: usize = 20;
    let (client, server) = (endpoint(), endpoint());
    server.listen(true);
    let address = server.local_addr();
    // All of them wait to be accepted.
    let mut circuits: Vec<_> = (0..COUNT)
        .map(|number| {
            client
                .begin_transaction(address, &[number as u8; 64])
                .expect("room")
        })
        .collect();
    let mut request = [0; 64];
    for number in 0..COUNT {
        let (accepted, len) = server.accept_request(&mut request, LIMIT).expect("one");
        assert_eq!(request[..len], [number as u8; 64]);
        accepted.reply(&request[..len], LIMIT).expect("room");
    }
    for (number, circuit) in circuits.iter_mut().enumerate() {
        let mut reply = [0; 64];
        let len = circuit.recv_all(&mut reply, LIMIT).expect("a reply");
        assert_eq!(reply[..len], [number as u8; 64]);
    }
}

#[test]
fn a_request_in_pieces_is_awaited_and_one_that_breaks_off_ends_only_its_own_circuit() {
    let (client, server) = (endpoint(), endpoint());
    server.listen(true);
    let address = server.local_addr();
    let asking = thread::spawn(move || {
        let mut broken = client.begin_connect(address).expect("room");
        broken.send(&[1; 64], LIMIT).expect("room");
        broken.flush().expect("a packet");
        broken.abort().expect("a packet");
        let mut slow = client.begin_connect(address).expect("room");
        for piece in 0..4 {
            slow.send(&[piece; 50], LIMIT).expect("room");
            slow.flush().expect("a packet");
            thread::sleep(Duration::from_millis(20));
        }
        slow.finish().expect("a packet");
        let mut reply = [0; 300];
        let len = slow.recv_all(&mut reply, LIMIT).expect("a reply");
        reply[..len].to_vec()
    });
    let mut request = [0; 300];
    let mut failures = 0;
    loop {
        match server.accept_request(&mut request, LIMIT) {
            Ok((accepted, len)) => {
                accepted.reply(&request[..len], LIMIT).expect("room");
                break;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                failures += 1;
            }
        }
    }
    assert_eq!(failures, 1, "the one that was aborted");
    let expected: Vec<u8> = (0..4).flat_map(|piece| [piece; 50]).collect();
    assert_eq!(asking.join().expect("no panic"), expected);
}

#[test]
fn without_a_request_its_wait_ends() {
    let server = endpoint();
    server.listen(true);
    for limit in [Duration::ZERO, Duration::from_millis(20)] {
        let error = server.accept_request(&mut [0; 64], limit).err();
        let kind = error.map(|error| error.kind());
        assert_eq!(kind, Some(ErrorKind::TimedOut), "{limit:?}");
    }
}
