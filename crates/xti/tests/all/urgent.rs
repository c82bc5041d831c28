//! Expedited data over TCP: one octet beside the others.

use crate::kit::{LIMIT, deadline, listener, pair};
use crate::loopback::tli;
use std::sync::Arc;
use std::time::Duration;
use xti::{Flags, Look, StreamOptions, TliError, XtiEndpoint};

const EXPEDITED: Flags = Flags {
    more: false,
    expedited: true,
};

#[test]
fn expedited_octet_wakes_a_receiver_that_has_nothing_else() {
    let (client, server) = pair(StreamOptions::default());
    std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut buffer = [0; 8];
            let received = server.receive(&mut buffer).expect("an octet");
            (received, buffer[0])
        });
        // Whether it waits already or not, it gets the octet.
        std::thread::sleep(Duration::from_millis(20));
        client.send(b"!", EXPEDITED, LIMIT).expect("room");
        let (received, octet) = receiver.join().expect("no panic");
        assert_eq!((received.len, received.expedited, octet), (1, true, b'!'));
    });
}

#[test]
fn expedited_octet_is_no_part_of_the_stream_and_passes_what_waits() {
    let (client, server) = pair(StreamOptions::default());
    client
        .send(b"before", Flags::default(), LIMIT)
        .expect("room");
    client.send(b"!", EXPEDITED, LIMIT).expect("room");
    client
        .send(b"after", Flags::default(), LIMIT)
        .expect("room");
    client.flush(LIMIT).expect("they leave");
    let (mut plain, mut expedited) = (Vec::new(), Vec::new());
    let mut buffer = [0; 64];
    while plain.len() < 11 || expedited.is_empty() {
        let received = server.receive_within(&mut buffer, LIMIT).expect("more");
        match received.expedited {
            true => expedited.extend(&buffer[..received.len]),
            false => plain.extend(&buffer[..received.len]),
        }
    }
    assert_eq!(
        (&plain[..], &expedited[..]),
        (&b"beforeafter"[..], &b"!"[..])
    );
}

#[test]
fn look_says_that_expedited_data_came_and_more_than_an_octet_is_refused() {
    let (client, server) = pair(StreamOptions::default());
    assert_eq!(tli(client.send(b"no", EXPEDITED, LIMIT)), TliError::BadData);
    assert_eq!(tli(client.send(b"", EXPEDITED, LIMIT)), TliError::BadData);
    client.send(b"!", EXPEDITED, LIMIT).expect("room");
    server.wait(false, LIMIT).expect("it comes");
    assert_eq!(server.look(), Some(Look::Expedited));
    let mut buffer = [0; 8];
    let received = server.try_receive(&mut buffer).expect("it is there");
    assert!(received.expedited && received.len == 1 && buffer[0] == b'!');
    assert_eq!(tli(server.try_receive(&mut buffer)), TliError::NoData);
}

#[test]
fn receive_waits_as_long_as_a_limit_set_after_the_connection_says() {
    let (_listener, address) = listener(1);
    // Without a limit of its own a receive would never end.
    let client = XtiEndpoint::open_tcp(Arc::new(|_| Ok(())), StreamOptions::default());
    let client = client.expect("a stream");
    client.bind(&[], 0).expect("any address");
    client.connect(&address, deadline()).expect("it listens");
    let socket = client.socket().expect("it is connected");
    let limit = Some(Duration::from_millis(20));
    socket.set_read_timeout(limit).expect("a limit");
    assert_eq!(tli(client.receive(&mut [0; 8])), TliError::NoData);
}
