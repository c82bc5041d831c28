//! Data that travel with the handshake: behind COOKIE-ECHO and COOKIE-ACK (RFC 9260 section 5.1).

use crate::paths::network::{CLIENT, DELAY_MS, Network, SERVER, config};
use engine_sctp::pdu::{ChunkType, Chunks};
use engine_sctp::{Authentication, LocalAddresses, SctpConfig};

fn one_path() -> SctpConfig {
    SctpConfig {
        local_addresses: LocalAddresses::Stations(1),
        ..config()
    }
}

/// The types of the chunks of all packets, and who sent them.
fn trace(network: &Network) -> Vec<(usize, Vec<ChunkType>)> {
    let kinds = |packet: &[u8]| Chunks::new(packet).map(|chunk| chunk.kind).collect();
    let sent = network.trace.iter();
    sent.map(|sent| (sent.from, kinds(&sent.packet))).collect()
}

#[test]
fn data_submitted_at_once_arrive_with_the_cookie() {
    let mut network = Network::new(one_path());
    network.open();
    network.send(CLIENT, 700);
    network.send(CLIENT, 600);
    // INIT, INIT-ACK, and half a round trip for the COOKIE-ECHO.
    network.run_until(1 + 3 * DELAY_MS);
    assert_eq!(network.received[SERVER], 1300);
    let cookie = &trace(&network)[2];
    let data = ChunkType::DATA;
    assert_eq!(*cookie, (CLIENT, vec![ChunkType::COOKIE_ECHO, data, data]));
    let answer = &trace(&network)[3];
    let expected = vec![ChunkType::COOKIE_ACK, ChunkType::SACK];
    assert_eq!(
        *answer,
        (SERVER, expected),
        "data of a cookie are acknowledged at once"
    );
    network.run_until(500);
    assert_eq!(network.paths(CLIENT)[0].flight, 0);
}

#[test]
fn one_packet_leaves_before_the_cookie_ack() {
    let mut network = Network::new(one_path());
    network.open();
    network.send(CLIENT, 20_000);
    network.run_until(1 + 3 * DELAY_MS);
    let sent = trace(&network);
    assert_eq!(sent.iter().filter(|(from, _)| *from == CLIENT).count(), 2);
    assert!(network.trace[2].packet.len() <= 1472);
    network.run_until(500);
    assert_eq!(network.received[SERVER], 20_000);
}

#[test]
fn data_of_a_lost_cookie_come_again_with_it() {
    let mut network = Network::new(one_path());
    network.open();
    network.send(CLIENT, 900);
    network.run_until(1 + 2 * DELAY_MS - 1);
    network.cut[0] = true;
    network.run_until(20);
    network.cut[0] = false;
    network.run_until(3000);
    assert_eq!(network.received[SERVER], 900);
    let expected = (CLIENT, vec![ChunkType::COOKIE_ECHO, ChunkType::DATA]);
    let cookies = trace(&network);
    assert_eq!(cookies.iter().filter(|sent| **sent == expected).count(), 2);
    network.send(CLIENT, 50_000);
    network.run_until(6000);
    assert_eq!(network.received[SERVER], 50_900);
    assert_eq!(network.paths(CLIENT)[0].flight, 0);
}

#[test]
fn lost_cookie_ack_doubles_no_data() {
    let mut network = Network::new(one_path());
    network.open();
    network.send(CLIENT, 900);
    network.run_until(1 + 2 * DELAY_MS);
    network.cut[0] = true;
    network.run_until(3 * DELAY_MS + 2);
    network.cut[0] = false;
    network.run_until(5000);
    assert_eq!(network.received[SERVER], 900);
    assert_eq!(network.paths(CLIENT)[0].flight, 0);
    let duplicates = trace(&network).into_iter().filter(|(from, kinds)| {
        *from == SERVER && *kinds == [ChunkType::COOKIE_ACK, ChunkType::SACK]
    });
    assert_eq!(duplicates.count(), 2);
}

#[test]
fn answer_of_the_server_leaves_with_the_cookie_ack() {
    let mut network = Network::new(one_path());
    network.answers_at_once = Some(800);
    network.open();
    network.run_until(1 + 4 * DELAY_MS);
    assert_eq!(network.received[CLIENT], 800);
    let answer = &trace(&network)[3];
    assert_eq!(
        *answer,
        (SERVER, vec![ChunkType::COOKIE_ACK, ChunkType::DATA])
    );
}

#[test]
fn early_data_are_authenticated_with_the_cookie() {
    let mut network = Network::new(SctpConfig {
        authentication: Some(Authentication::of_everything()),
        ..one_path()
    });
    network.open();
    network.send(CLIENT, 700);
    network.run_until(1 + 3 * DELAY_MS);
    assert_eq!(network.received[SERVER], 700);
    let expected = vec![ChunkType::AUTH, ChunkType::COOKIE_ECHO, ChunkType::DATA];
    assert_eq!(trace(&network)[2], (CLIENT, expected));
}

/// A client whose user is told that it can send when the INIT is answered.
fn connecting_early() -> Network {
    let mut network = Network::new(SctpConfig {
        connects_early: true,
        ..one_path()
    });
    network.open();
    network
}

#[test]
fn first_message_after_the_answer_travels_with_the_cookie() {
    let mut network = connecting_early();
    network.run_until(1 + 2 * DELAY_MS);
    assert!(network.is_connected, "told when the INIT is answered");
    assert_eq!(network.trace.len(), 2, "the cookie waits for company");
    network.send(CLIENT, 700);
    network.run_until(1 + 3 * DELAY_MS);
    assert_eq!(network.received[SERVER], 700);
    let expected = vec![ChunkType::COOKIE_ECHO, ChunkType::DATA];
    assert_eq!(trace(&network)[2], (CLIENT, expected));
    network.run_until(500);
    assert_eq!(network.paths(CLIENT)[0].flight, 0);
}

#[test]
fn cookie_does_not_wait_for_a_message_for_long() {
    let mut network = connecting_early();
    network.run_until(2 + 2 * DELAY_MS);
    assert_eq!(
        trace(&network)[2],
        (CLIENT, vec![ChunkType::COOKIE_ECHO]),
        "a millisecond after the INIT-ACK"
    );
    network.send(CLIENT, 700);
    network.run_until(500);
    assert_eq!(network.received[SERVER], 700);
}

#[test]
fn cookie_that_waited_and_was_lost_is_repeated() {
    let mut network = connecting_early();
    network.run_until(1 + 2 * DELAY_MS);
    network.cut[0] = true;
    network.send(CLIENT, 700);
    network.run_until(20);
    network.cut[0] = false;
    network.run_until(3000);
    assert_eq!(network.received[SERVER], 700);
    let cookies = trace(&network).into_iter();
    let cookies = cookies.filter(|(_, kinds)| kinds[0] == ChunkType::COOKIE_ECHO);
    assert_eq!(cookies.count(), 2);
}

#[test]
fn end_before_a_message_lets_the_cookie_go() {
    let mut network = connecting_early();
    network.run_until(1 + 2 * DELAY_MS);
    network.close(CLIENT);
    network.run_until(500);
    let graceful = Some(engine::CloseReason::Graceful);
    assert_eq!(network.closed, [graceful; 2]);
}
