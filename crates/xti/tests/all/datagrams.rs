//! Datagrams: to whom they were sent, whole or in parts, and what does not leave.

use crate::kit::{LIMIT, loopback, open};
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Duration;
use xti::{Flags, Look, Marks, StreamOptions, TliError, XtiEndpoint, XtiState, inet};

fn open_udp(options: StreamOptions) -> XtiEndpoint {
    let setup: inet::Setup = Arc::new(|_| Ok(()));
    XtiEndpoint::open_udp(setup, options).unwrap()
}

/// A bound endpoint, and its address.
fn bound(options: StreamOptions) -> (XtiEndpoint, Vec<u8>) {
    let end = open_udp(options);
    let address = end.bind(&loopback(), 0).unwrap().address;
    (end, address)
}

fn receive(end: &XtiEndpoint) -> (Vec<u8>, Vec<u8>) {
    let (mut buffer, mut source) = (vec![0; 70_000], Vec::new());
    let received = end
        .receive_datagram(&mut buffer, &mut source, LIMIT)
        .unwrap();
    assert!(!received.more);
    buffer.truncate(received.len);
    (buffer, source)
}

#[test]
fn datagrams_keep_their_boundaries_and_say_where_they_come_from() {
    for deferred in [true, false] {
        let options = StreamOptions {
            deferred,
            ..StreamOptions::default()
        };
        let ((a, at_a), (b, at_b)) = (bound(options), bound(options));
        assert_eq!(a.information().tsdu, 65_507);
        for len in [0, 1, 1400, 40_000, 65_507] {
            let message: Vec<u8> = (0..len).map(|at| (at * 7 + len) as u8).collect();
            a.send_datagram(&at_b, &message, LIMIT).unwrap();
            // A deferred one leaves by the helper.
            assert_eq!(receive(&b), (message, at_a.clone()), "{len}");
        }
        b.send_datagram(&at_a, b"back", LIMIT).unwrap();
        assert_eq!(receive(&a), (b"back".to_vec(), at_b.clone()));
        assert_eq!((a.state(), b.state()), (XtiState::Idle, XtiState::Idle));
    }
}

#[test]
fn sockets_and_endpoints_exchange_datagrams() {
    let (end, address) = bound(StreamOptions::default());
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = inet::decode(&address).unwrap();
    socket.send_to(b"from a socket", peer).unwrap();
    let (octets, source) = receive(&end);
    assert_eq!(octets, b"from a socket");
    assert_eq!(inet::decode(&source), Some(socket.local_addr().unwrap()));
    end.send_datagram(&source, b"to it", LIMIT).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let mut buffer = [0; 64];
    assert_eq!(socket.recv_from(&mut buffer).unwrap(), (5, peer));
}

#[test]
fn datagram_longer_than_the_buffer_comes_in_parts_with_t_more() {
    let ((a, at_a), (b, at_b)) = (
        bound(StreamOptions::default()),
        bound(StreamOptions::default()),
    );
    a.send_datagram(&at_b, b"in three parts", LIMIT).unwrap();
    a.send_datagram(&at_b, b"next", LIMIT).unwrap();
    let (mut buffer, mut source) = ([0; 6], Vec::new());
    let mut parts = Vec::new();
    for _ in 0..4 {
        let got = b.receive_datagram(&mut buffer, &mut source, LIMIT).unwrap();
        parts.push((buffer[..got.len].to_vec(), got.more, source.is_empty()));
    }
    let part = |octets: &[u8], more, is_rest| (octets.to_vec(), more, is_rest);
    let wanted = [
        part(b"in thr", true, false),
        part(b"ee par", true, true),
        part(b"ts", false, true),
        part(b"next", false, false),
    ];
    assert_eq!(parts, wanted);
    assert_eq!(source, at_a);
}

#[test]
fn calls_out_of_place_are_refused_by_number() {
    let (end, address) = bound(StreamOptions::default());
    let tli = |error: xti::Error| error.tli;
    let sent = |to: &[u8], len| end.try_send_datagram(to, &vec![0; len]).unwrap_err().tli;
    assert_eq!(sent(&address, 65_508), TliError::BadData);
    assert_eq!(sent(&[], 1), TliError::BadAddress);
    assert_eq!(sent(&[0; 29], 1), TliError::BadAddress);
    let mut source = Vec::new();
    let nothing = end.try_receive_datagram(&mut [0; 9], &mut source);
    assert_eq!(nothing.unwrap_err().tli, TliError::NoData);
    let none = end.receive_datagram_error();
    assert_eq!(none.unwrap_err().tli, TliError::NoDatagramError);
    assert_eq!(
        end.try_send(b"x", Flags::default()).map_err(tli),
        Err(TliError::OutOfState)
    );
    let unbound = open_udp(StreamOptions::default());
    let early = unbound.try_send_datagram(&address, b"x").map_err(tli);
    assert_eq!(early, Err(TliError::OutOfState));
    let connections = open(StreamOptions::default());
    connections.bind(&loopback(), 0).unwrap();
    let wrong = connections.try_send_datagram(&address, b"x").map_err(tli);
    assert_eq!(wrong, Err(TliError::NotSupported));
    assert_eq!(
        end.start_connect(&address).map_err(tli),
        Err(TliError::NotSupported)
    );
}

#[test]
fn datagram_that_cannot_leave_is_reported_and_the_next_ones_leave() {
    let options = StreamOptions {
        deferred: false,
        ..StreamOptions::default()
    };
    let ((a, _), (b, at_b)) = (bound(options), bound(options));
    // An address of another family than the socket's.
    let wrong = inet::encode("[::1]:9".parse().unwrap());
    a.send_datagram(&wrong, b"lost", LIMIT).unwrap();
    assert_eq!(a.look(), Some(Look::DatagramError));
    let refused = a.try_send_datagram(&at_b, b"x").unwrap_err();
    assert_eq!(refused.tli, TliError::Look);
    let failure = a.receive_datagram_error().unwrap();
    assert_eq!(failure.destination, wrong);
    assert_ne!(failure.errno, 0);
    a.send_datagram(&at_b, b"leaves", LIMIT).unwrap();
    assert_eq!(receive(&b).0, b"leaves");
}

#[test]
fn full_queue_says_so_and_loses_nothing_that_it_took() {
    let options = StreamOptions {
        marks: Marks::new(1, 0).unwrap(),
        ..StreamOptions::default()
    };
    let ((a, _), (b, at_b)) = (bound(options), bound(options));
    for number in 0..50_u32 {
        a.send_datagram(&at_b, &number.to_le_bytes(), LIMIT)
            .unwrap();
        assert_eq!(receive(&b).0, number.to_le_bytes());
    }
}

#[test]
fn unbind_gives_the_address_up_and_a_receive_ends_at_its_limit() {
    let (end, _) = bound(StreamOptions::default());
    let mut source = Vec::new();
    let limit = Duration::from_millis(1);
    let nothing = end.receive_datagram(&mut [0; 9], &mut source, limit);
    assert_eq!(nothing.unwrap_err().tli, TliError::NoData);
    end.unbind().unwrap();
    assert_eq!(end.state(), XtiState::Unbound);
    end.bind(&[], 0).unwrap();
}
