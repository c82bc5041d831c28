//! The functions of XTI without a stream: states, events and errors are those of an endpoint with one.

use crate::kit::{LIMIT, deadline, loopback};
use std::sync::Arc;
use xti::sockets::{DatagramSocketEndpoint, SocketEndpoint};
use xti::{Flags, Look, TliError, XtiState, inet};

fn open() -> SocketEndpoint {
    let setup: inet::Setup = Arc::new(|socket| socket.set_read_timeout(Some(LIMIT)));
    SocketEndpoint::open(setup)
}

/// An end that listens, and its address.
fn listener(queue_len: u32) -> (SocketEndpoint, Vec<u8>) {
    let mut end = open();
    let bound = end.bind(&loopback(), queue_len).unwrap();
    (end, bound.address)
}

fn client(address: &[u8]) -> SocketEndpoint {
    let mut end = open();
    end.bind(&[], 0).unwrap();
    end.connect(address, deadline()).unwrap();
    end
}

fn pair() -> (SocketEndpoint, SocketEndpoint) {
    let (mut listener, address) = listener(1);
    let client = client(&address);
    let call = listener.listen(deadline()).unwrap();
    let mut server = open();
    listener.accept(&mut server, call.sequence).unwrap();
    assert_eq!(listener.state(), XtiState::Idle);
    (client, server)
}

fn tli<T>(result: Result<T, xti::Error>) -> Option<TliError> {
    result.err().map(|error| error.tli)
}

/// Waits for an event.
fn event(end: &mut SocketEndpoint) -> Look {
    let until = deadline();
    loop {
        if let Some(look) = end.look() {
            return look;
        }
        assert!(std::time::Instant::now() < until, "no event");
        std::thread::yield_now();
    }
}

#[test]
fn data_and_releases_go_both_ways() {
    let (mut client, mut server) = pair();
    let flags = Flags::default();
    assert_eq!(client.send(b"question", flags), Ok(8));
    assert_eq!(event(&mut server), Look::Data);
    let mut buffer = [0; 16];
    let received = server.receive(&mut buffer).unwrap();
    assert_eq!(&buffer[..received.len], b"question");
    client.send_release().unwrap();
    assert_eq!(client.state(), XtiState::Released);
    assert_eq!(tli(client.send(b"late", flags)), Some(TliError::OutOfState));
    assert_eq!(tli(server.receive(&mut buffer)), Some(TliError::Look));
    server.receive_release().unwrap();
    assert_eq!(server.state(), XtiState::PeerReleased);
    assert_eq!(server.send(b"answer", flags), Ok(6));
    assert_eq!(client.receive(&mut buffer).unwrap().len, 6);
    server.send_release().unwrap();
    assert_eq!(server.state(), XtiState::Idle);
    assert_eq!(event(&mut client), Look::Release);
    client.receive_release().unwrap();
    assert_eq!(client.state(), XtiState::Idle);
    assert_eq!(client.system_calls(), (1, 1));
}

#[test]
fn calls_without_an_answer_say_which_error_it_is() {
    let (mut client, mut server) = pair();
    let mut buffer = [0; 8];
    assert_eq!(tli(server.try_receive(&mut buffer)), Some(TliError::NoData));
    assert_eq!(tli(server.receive_release()), Some(TliError::NoRelease));
    assert_eq!(
        tli(server.receive_disconnect()),
        Some(TliError::NoDisconnect)
    );
    let flags = Flags::default();
    assert_eq!(tli(client.send(b"", flags)), Some(TliError::BadData));
    let expedited = Flags {
        expedited: true,
        ..flags
    };
    assert_eq!(
        tli(client.send(b"!", expedited)),
        Some(TliError::NotSupported)
    );
    let full = loop {
        if let Err(error) = client.try_send(&[7; 65_536], flags) {
            break error;
        }
    };
    assert_eq!(full.tli, TliError::Flow);
    assert_eq!(tli(open().bind(b"none", 0)), Some(TliError::BadAddress));
    assert_eq!(tli(open().listen(deadline())), Some(TliError::OutOfState));
    let (mut listener, address) = listener(1);
    let _first = self::client(&address);
    let call = listener.listen(deadline()).unwrap();
    assert_eq!(tli(listener.listen(deadline())), Some(TliError::QueueFull));
    let mut other = open();
    let wrong = listener.accept(&mut other, call.sequence + 1);
    assert_eq!(tli(wrong), Some(TliError::BadSequence));
    let busy = open().bind(&address, 1);
    assert_eq!(tli(busy), Some(TliError::AddressBusy));
}

#[test]
fn disconnect_comes_with_its_reason() {
    let (mut client, mut server) = pair();
    client.send_disconnect(None).unwrap();
    assert_eq!(client.state(), XtiState::Idle);
    assert_eq!(event(&mut server), Look::Disconnect);
    assert_eq!(server.receive_disconnect().unwrap().reason, 104);
    assert_eq!(server.state(), XtiState::Idle);

    // Bound, so that nobody else takes the port, and it does not listen.
    let (_holder, address) = listener(0);
    let mut refused = open();
    refused.bind(&[], 0).unwrap();
    assert_eq!(
        tli(refused.connect(&address, deadline())),
        Some(TliError::Look)
    );
    assert_eq!(refused.receive_disconnect().unwrap().reason, 111);
    assert_eq!(refused.state(), XtiState::Idle);
}

/// An end of datagrams, and its address.
fn datagram_end() -> (DatagramSocketEndpoint, Vec<u8>) {
    let mut end =
        DatagramSocketEndpoint::open(Arc::new(|socket| socket.set_read_timeout(Some(LIMIT))));
    assert_eq!(end.state(), XtiState::Unbound);
    let address = end.bind(&loopback()).unwrap().address;
    assert_eq!(end.state(), XtiState::Idle);
    (end, address)
}

#[test]
fn datagrams_straight_on_sockets_keep_their_rest_for_the_next_call() {
    let (mut client, from) = datagram_end();
    let (mut server, address) = datagram_end();
    assert_eq!(server.look(), None);
    for datagram in [&b"abcdef"[..], b"", b"g"] {
        client.send(&address, datagram).unwrap();
    }
    let (mut buffer, mut source) = ([0; 4], Vec::new());
    let mut receive = || {
        let received = server.receive(&mut buffer, &mut source).unwrap();
        assert_eq!(source, from);
        (buffer[..received.len].to_vec(), received.more)
    };
    assert_eq!(receive(), (b"abcd".to_vec(), true));
    assert_eq!(receive(), (b"ef".to_vec(), false));
    assert_eq!(receive(), (Vec::new(), false));
    assert_eq!(receive(), (b"g".to_vec(), false));
    let nothing = server.try_receive(&mut buffer, &mut source).unwrap_err();
    assert_eq!(nothing.tli, TliError::NoData);
    let too_long = client.send(&address, &vec![0; 65_508]).unwrap_err();
    assert_eq!(too_long.tli, TliError::BadData);
    assert_eq!(
        client.send(&[1, 2], b"a").unwrap_err().tli,
        TliError::BadAddress
    );
    assert_eq!(
        client.receive_error().unwrap_err().tli,
        TliError::NoDatagramError
    );
    server.unbind().unwrap();
    assert_eq!(server.unbind().unwrap_err().tli, TliError::OutOfState);
}

#[test]
fn a_datagram_that_fails_says_so_once() {
    let (mut client, _) = datagram_end();
    // The kernel sends nothing to port 0.
    let nowhere = xti::inet::encode("127.0.0.1:0".parse().unwrap());
    assert_eq!(client.send(&nowhere, b"a").unwrap_err().tli, TliError::Look);
    assert_eq!(client.look(), Some(Look::DatagramError));
    assert_eq!(client.send(&nowhere, b"a").unwrap_err().tli, TliError::Look);
    assert_eq!(client.receive_error().unwrap(), 22);
    assert_eq!(client.look(), None);
}
