//! Loop-back: datagrams between ends of one host, through rings of shared memory.

use crate::kit::{LIMIT, deadline};
use crate::loopback::{bound, open, pattern, tli};
use xti::{Look, ServiceType, StreamOptions, TliError, loopback};

#[test]
fn datagrams_of_several_ends_arrive_whole_with_their_source() {
    for deferred in [true, false] {
        let options = StreamOptions {
            deferred,
            ..StreamOptions::default()
        };
        let datagrams = |_| {
            let end = open(ServiceType::Datagrams, options);
            let address = end.bind(&[], 0).unwrap().address;
            (end, address)
        };
        let [a, b, c] = [0, 1, 2].map(datagrams);
        for len in [0, 1, 1400, loopback::TIDU] {
            for (from, at) in [&a, &b] {
                from.send_datagram(&c.1, &pattern(len), LIMIT).unwrap();
                let mut buffer = vec![0; loopback::TIDU];
                let mut source = Vec::new();
                let received =
                    c.0.receive_datagram(&mut buffer, &mut source, LIMIT)
                        .unwrap();
                assert!(buffer[..received.len] == pattern(len) && !received.more);
                assert_eq!(&source, at);
            }
        }
        c.0.send_datagram(&a.1, b"back", LIMIT).unwrap();
        let mut source = Vec::new();
        let received =
            a.0.receive_datagram(&mut [0; 16], &mut source, LIMIT)
                .unwrap();
        assert_eq!((received.len, source), (4, c.1));
    }
}

#[test]
fn datagram_to_nobody_is_an_event_that_names_it() {
    let (end, _) = bound(ServiceType::Datagrams, 0);
    let (gone, address) = bound(ServiceType::Datagrams, 0);
    end.send_datagram(&address, b"arrives", LIMIT).unwrap();
    assert_eq!(
        gone.receive_datagram(&mut [0; 8], &mut Vec::new(), LIMIT)
            .unwrap()
            .len,
        7
    );
    drop(gone);
    end.send_datagram(&address, b"x", LIMIT).unwrap();
    assert_eq!(end.look(), Some(Look::DatagramError));
    assert_eq!(
        tli(end.send_datagram(&address, b"x", LIMIT)),
        TliError::Look
    );
    let failure = end.receive_datagram_error().unwrap();
    assert_eq!((failure.destination, failure.errno), (address, 111));
    assert_eq!(
        tli(end.send_datagram(&[b'n'; 65], b"x", LIMIT)),
        TliError::BadAddress
    );
    assert_eq!(tli(end.connect(b"x", deadline())), TliError::NotSupported);
}

#[test]
fn full_ring_of_datagrams_refuses_and_goes_on() {
    let (from, _) = bound(ServiceType::Datagrams, 0);
    let (to, address) = bound(ServiceType::Datagrams, 0);
    let message = pattern(1000);
    let mut sent = 0;
    while from.try_send_datagram(&address, &message).is_ok() {
        sent += 1;
        assert!(sent < 100_000, "it is never full");
    }
    assert_eq!(
        tli(from.try_send_datagram(&address, &message)),
        TliError::Flow
    );
    let mut buffer = [0; 1000];
    for _ in 0..sent {
        let received = to
            .receive_datagram(&mut buffer, &mut Vec::new(), LIMIT)
            .unwrap();
        assert!(buffer[..received.len] == message);
        from.look();
    }
    from.send_datagram(&address, b"after", LIMIT).unwrap();
    let received = to
        .receive_datagram(&mut buffer, &mut Vec::new(), LIMIT)
        .unwrap();
    assert_eq!(received.len, 5);
}
