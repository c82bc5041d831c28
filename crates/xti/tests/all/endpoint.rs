//! Connections: how they come, are refused and end.

use crate::kit::{deadline, listener, loopback, open, pair};
use std::time::Instant;
use xti::{Error, Flags, Look, StreamOptions, TliError, XtiState};

fn tli<T: std::fmt::Debug>(result: Result<T, Error>) -> TliError {
    result.unwrap_err().tli
}

#[test]
fn release_of_both_ends_leads_back_to_idle() {
    let (client, server) = pair(StreamOptions::default());
    client
        .send(b"last", Flags::default(), crate::kit::LIMIT)
        .unwrap();
    client.send_release().unwrap();
    assert_eq!(client.state(), XtiState::Released);
    assert_eq!(
        tli(client.try_send(b"x", Flags::default())),
        TliError::OutOfState
    );
    let mut buffer = [0; 16];
    assert_eq!(server.receive(&mut buffer).unwrap().len, 4);
    assert_eq!(tli(server.receive(&mut buffer)), TliError::Look);
    assert_eq!(server.look(), Some(Look::Release));
    server.receive_release().unwrap();
    assert_eq!(server.state(), XtiState::PeerReleased);
    server
        .send(b"answer", Flags::default(), crate::kit::LIMIT)
        .unwrap();
    server.send_release().unwrap();
    assert_eq!(server.state(), XtiState::Idle);
    assert_eq!(client.receive(&mut buffer).unwrap().len, 6);
    assert_eq!(tli(client.receive(&mut buffer)), TliError::Look);
    client.receive_release().unwrap();
    assert_eq!(client.state(), XtiState::Idle);
}

#[test]
fn refused_connect_is_an_event_with_its_reason() {
    let (closed, address) = listener(1);
    drop(closed);
    let client = open(StreamOptions::default());
    client.bind(&[], 0).unwrap();
    assert_eq!(tli(client.connect(&address, deadline())), TliError::Look);
    assert_eq!(client.look(), Some(Look::Disconnect));
    const ECONNREFUSED: i32 = 111;
    assert_eq!(client.receive_disconnect().unwrap().reason, ECONNREFUSED);
    assert_eq!(client.state(), XtiState::Idle);
    assert_eq!(tli(client.receive_disconnect()), TliError::NoDisconnect);
}

#[test]
fn connect_that_cannot_start_is_a_system_error_and_leaves_the_end_idle() {
    let client = open(StreamOptions::default());
    client.bind(&loopback(), 0).unwrap();
    let other_family = xti::inet::encode("[::1]:9".parse().unwrap());
    let error = client.connect(&other_family, deadline()).unwrap_err();
    const EAFNOSUPPORT: i32 = 97;
    assert_eq!((error.tli, error.errno), (TliError::System, EAFNOSUPPORT));
    assert_eq!(client.state(), XtiState::Idle);
}

#[test]
fn abort_reaches_the_peer_as_a_disconnection() {
    let (client, server) = pair(StreamOptions::default());
    client.send_disconnect(None).unwrap();
    assert_eq!(client.state(), XtiState::Idle);
    assert_eq!(tli(server.receive(&mut [0; 4])), TliError::Look);
    const ECONNRESET: i32 = 104;
    assert_eq!(server.receive_disconnect().unwrap().reason, ECONNRESET);
    assert_eq!(server.state(), XtiState::Idle);
}

#[test]
fn listener_answers_each_connection_once() {
    let (listener, address) = listener(2);
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let client = open(StreamOptions::default());
            client.bind(&[], 0).unwrap();
            client.connect(&address, deadline()).unwrap();
            client
        })
        .collect();
    let first = listener.listen(deadline()).unwrap();
    let second = listener.listen(deadline()).unwrap();
    assert_eq!(listener.state(), XtiState::Incoming);
    assert_eq!(tli(listener.listen(Instant::now())), TliError::QueueFull);
    assert_eq!(
        tli(listener.accept_here(first.sequence)),
        TliError::IndicationsOut
    );
    let server = open(StreamOptions::default());
    assert_eq!(tli(listener.accept(&server, 99)), TliError::BadSequence);
    listener.accept(&server, first.sequence).unwrap();
    let third = open(StreamOptions::default());
    assert_eq!(
        tli(listener.accept(&third, first.sequence)),
        TliError::BadSequence
    );
    listener.send_disconnect(Some(second.sequence)).unwrap();
    assert_eq!(listener.state(), XtiState::Idle);
    clients[0]
        .send(b"kept", Flags::default(), crate::kit::LIMIT)
        .unwrap();
    clients[0].run();
    let mut buffer = [0; 8];
    assert_eq!(server.receive(&mut buffer).unwrap().len, 4);
    assert_eq!(tli(clients[1].receive(&mut buffer)), TliError::Look);
}

#[test]
fn only_connection_may_be_accepted_on_the_listener_itself() {
    let (listener, address) = listener(1);
    let client = open(StreamOptions::default());
    client.bind(&[], 0).unwrap();
    client.connect(&address, deadline()).unwrap();
    let call = listener.listen(deadline()).unwrap();
    listener.accept_here(call.sequence).unwrap();
    listener
        .send(b"hello", Flags::default(), crate::kit::LIMIT)
        .unwrap();
    listener.run();
    assert_eq!(client.receive(&mut [0; 8]).unwrap().len, 5);
}

#[test]
fn functions_in_the_wrong_state_say_so() {
    let end = open(StreamOptions::default());
    assert_eq!(tli(end.listen(Instant::now())), TliError::OutOfState);
    assert_eq!(tli(end.start_connect(&loopback())), TliError::OutOfState);
    assert_eq!(tli(end.unbind()), TliError::OutOfState);
    assert_eq!(tli(end.send_disconnect(None)), TliError::OutOfState);
    assert_eq!(tli(end.try_receive(&mut [0; 4])), TliError::OutOfState);
    end.bind(&loopback(), 0).unwrap();
    assert_eq!(tli(end.bind(&loopback(), 0)), TliError::OutOfState);
    assert_eq!(tli(end.listen(Instant::now())), TliError::BadQueueLength);
    assert_eq!(tli(end.start_connect(&[1, 2, 3])), TliError::BadAddress);
    end.unbind().unwrap();
    assert_eq!(end.state(), XtiState::Unbound);
}

#[test]
fn address_in_use_is_named() {
    let (_listener, address) = listener(1);
    let second = open(StreamOptions::default());
    assert_eq!(tli(second.bind(&address, 1)), TliError::AddressBusy);
    assert_eq!(second.state(), XtiState::Unbound);
}

#[test]
fn addresses_of_a_connection_are_those_of_its_ends() {
    let (client, server) = pair(StreamOptions::default());
    let (local, remote) = client.addresses().unwrap();
    assert_eq!(server.addresses().unwrap(), (remote, local));
}
