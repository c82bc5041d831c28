//! Zero-copy send over UDP: buffers lent to circuits.

use std::io::ErrorKind;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use towpath::xtp::lend::{LEND_BYTES_MIN, LOANS_MAX};
use towpath::xtp::{Buffer, Circuit, Endpoint, EndpointConfig, LendOutcome, ReturnedBuffer};

const LIMIT: Duration = Duration::from_secs(20);

fn endpoint() -> Endpoint {
    let local = "127.0.0.1:0".parse().expect("a literal address");
    Endpoint::bind(local, &EndpointConfig::default()).expect("the loopback has a free port")
}

/// A circuit and its peer.
fn pair(server: &Endpoint, client: &Endpoint) -> (Circuit, Circuit) {
    server.listen(true);
    let address = server.local_addr();
    thread::scope(|scope| {
        let accepted = scope.spawn(|| server.accept(LIMIT).expect("the client connects"));
        let circuit = client.connect(address, LIMIT).expect("the server listens");
        (circuit, accepted.join().expect("no panic"))
    })
}

/// Reads until the end; how many bytes came.
fn discard(peer: &mut Circuit) -> usize {
    let mut buffer = [0; 65_536];
    let mut all = 0;
    while let Some(len) = peer
        .recv(&mut buffer, LIMIT)
        .expect("the peer ends its direction")
    {
        all += len;
    }
    all
}

fn bytes(index: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (index * 31 + at * 7) as u8).collect()
}

#[test]
fn all_buffer_types_are_lent_and_reclaimed_in_order() {
    const COUNT: usize = 400;
    let (server, client) = (endpoint(), endpoint());
    let (mut circuit, mut peer) = pair(&server, &client);
    let len = |index: usize| 1 + index * 97 % 20_000;
    let expected: Vec<u8> = (0..COUNT)
        .flat_map(|index| bytes(index, len(index)))
        .collect();
    thread::scope(|scope| {
        let received = scope.spawn(|| {
            let mut all = vec![0; expected.len() + 1];
            let got = peer.recv_all(&mut all, LIMIT).expect("the end");
            all.truncate(got);
            all
        });
        let mut kept = std::collections::VecDeque::new();
        let check = |returned: ReturnedBuffer, kept: &mut std::collections::VecDeque<usize>| {
            let index = kept.pop_front().expect("it was lent");
            assert!(returned.is_complete);
            assert_eq!(*returned.buffer, *bytes(index, len(index)));
        };
        for index in 0..COUNT {
            let octets = bytes(index, len(index));
            let buffer: Buffer = match index % 3 {
                0 => octets.into(),
                1 => octets.into_boxed_slice().into(),
                _ => Arc::<[u8]>::from(octets).into(),
            };
            match circuit.lend(buffer, LIMIT).expect("the peer reads") {
                LendOutcome::Copied(buffer) => assert!(buffer.len() < LEND_BYTES_MIN),
                LendOutcome::Lent => kept.push_back(index),
            }
            while let Some(returned) = circuit.try_reclaim() {
                check(returned, &mut kept);
            }
        }
        circuit.finish().expect("the end is sent");
        while let Some(returned) = circuit.reclaim(LIMIT).expect("the peer has them") {
            check(returned, &mut kept);
        }
        assert!(kept.is_empty() && circuit.lent() == 0);
        let received = received.join().expect("no panic");
        assert!(received == expected, "bytes changed");
    });
    let (back, closed) = circuit.close_lent(LIMIT);
    closed.expect("the peer has everything");
    assert!(back.is_empty());
}

#[test]
fn abort_and_close_return_all_lent_buffers() {
    let (server, client) = (endpoint(), endpoint());
    for closes in [false, true] {
        let (mut circuit, mut peer) = pair(&server, &client);
        let mut lent = 0;
        let refused = loop {
            match circuit.try_lend(bytes(lent, 9000)) {
                Ok(kept) => assert_eq!(kept, LendOutcome::Lent),
                Err(refused) => break refused,
            }
            lent += 1;
        };
        assert_eq!(refused.error.kind(), ErrorKind::WouldBlock);
        assert_eq!(*refused.buffer, *bytes(lent, 9000));
        assert!(lent < LOANS_MAX, "the window is shorter than that");
        let back = if closes {
            // What was acknowledged meanwhile made room for more than the window: the peer has to read.
            let reader = thread::spawn(move || discard(&mut peer));
            let (back, closed) = circuit.close_lent(LIMIT);
            closed.expect("the peer reads");
            assert!(back.iter().all(|returned| returned.is_complete));
            assert_eq!(reader.join().expect("no panic"), 9000 * lent);
            back
        } else {
            circuit.abort_lent()
        };
        assert_eq!(back.len(), lent);
        for (index, returned) in back.into_iter().enumerate() {
            assert_eq!(*returned.buffer, *bytes(index, 9000));
        }
    }
}

#[test]
fn oversized_lend_is_refused_with_its_size() {
    let (server, client) = (endpoint(), endpoint());
    let (mut circuit, _peer) = pair(&server, &client);
    let refused = circuit
        .lend(vec![1; 8 << 20], LIMIT)
        .expect_err("too large");
    assert_eq!(refused.error.kind(), ErrorKind::InvalidInput);
    assert!(refused.error.to_string().contains("8388608"));
    assert_eq!(refused.buffer.len(), 8 << 20);
    assert!(circuit.try_reclaim().is_none());
    assert_eq!(circuit.reclaim(LIMIT).expect("nothing is lent"), None);
}
