//! Chunks that are authenticated (RFC 4895): which packets carry an AUTH, and what is dropped without.

use crate::paths::network::{CLIENT, Network, SERVER, config, path_by};
use engine::{AssociationId, CloseReason, CommandError};
use engine_sctp::pdu::cause::{CauseCode, causes};
use engine_sctp::pdu::chunk::push_chunk;
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::{ChunkType, Chunks, HmacId, KeyId};
use engine_sctp::{
    Authentication, DiscardReason, LocalAddresses, Notice, Sctp, SctpConfig, SharedKey,
};

/// Of one path, with this authentication.
fn authenticating(authentication: Authentication) -> SctpConfig {
    SctpConfig {
        local_addresses: LocalAddresses::Stations(1),
        authentication: Some(authentication),
        ..config()
    }
}

fn of_everything() -> SctpConfig {
    authenticating(Authentication::of_everything())
}

/// Two ends with configurations of their own and an association that is open.
fn network(configs: [SctpConfig; 2]) -> Network {
    let mut network = Network::of(configs);
    network.open();
    network.run_until(200);
    network
}

fn id(network: &Network, end: usize) -> AssociationId {
    network.ids[end].expect("an association")
}

/// The types of the chunks of the packets that `end` sent.
fn kinds(network: &Network, end: usize) -> Vec<Vec<ChunkType>> {
    let sent = network.trace.iter().filter(|sent| sent.from == end);
    sent.map(|sent| Chunks::new(&sent.packet).map(|chunk| chunk.kind).collect())
        .collect()
}

fn dropped(network: &Network, end: usize) -> u64 {
    network.ends[end]
        .discards()
        .count(DiscardReason::Authentication)
}

#[test]
fn messages_arrive_in_packets_that_begin_with_an_auth() {
    for hmac in [HmacId::SHA1, HmacId::SHA256] {
        for checksum in [true, false] {
            let authentication = Authentication {
                hmacs: vec![hmac],
                ..Authentication::of_everything()
            };
            let config = SctpConfig {
                checksum,
                ..authenticating(authentication)
            };
            let mut network = network([config.clone(), config]);
            for len in [1, 100, 1400, 1444, 30_000] {
                network.send(CLIENT, len);
                network.send(SERVER, len);
                network.run_until(network.now_ms() + 100);
            }
            assert_eq!(network.received, network.sent.map(|bytes| bytes));
            for end in [CLIENT, SERVER] {
                let plain = [ChunkType::INIT, ChunkType::INIT_ACK];
                for chunks in kinds(&network, end) {
                    let begins = chunks[0] == ChunkType::AUTH || plain.contains(&chunks[0]);
                    assert!(begins, "{chunks:?}");
                    let auths = chunks.iter().filter(|kind| **kind == ChunkType::AUTH);
                    assert!(auths.count() <= 1);
                }
                assert_eq!(dropped(&network, end), 0);
                let summary = network.ends[end].authentication(id(&network, end));
                assert_eq!(summary.map(|summary| summary.hmac), Some(hmac));
            }
            let longest = network.trace.iter().map(|sent| sent.packet.len()).max();
            assert!(longest <= Some(1472), "{longest:?}");
        }
    }
}

#[test]
fn only_chunks_that_the_peer_lists_are_authenticated() {
    let data_alone = Authentication {
        chunks: vec![ChunkType::DATA, ChunkType::INIT],
        ..Authentication::default()
    };
    let configs = [Authentication::default(), data_alone].map(authenticating);
    let mut network = network(configs);
    network.send(CLIENT, 5000);
    network.send(SERVER, 5000);
    network.run_until(1000);
    assert_eq!(network.received, [5000; 2]);
    let has_auth = |chunks: &Vec<ChunkType>| chunks.contains(&ChunkType::AUTH);
    for chunks in kinds(&network, CLIENT) {
        assert_eq!(has_auth(&chunks), chunks.contains(&ChunkType::DATA));
    }
    assert!(!kinds(&network, SERVER).iter().any(has_auth));
    let client = network.ends[CLIENT].authentication(id(&network, CLIENT));
    assert_eq!(client.expect("both can").peer_chunks, [ChunkType::DATA]);
}

/// A packet with the right tag and `chunks`.
fn forged(network: &Network, chunks: &[u8]) -> Vec<u8> {
    let mut packet = network.forge(CLIENT, ChunkType::PAD, &[])[..12].to_vec();
    packet.extend_from_slice(chunks);
    complete_checksum(&mut packet);
    packet
}

#[test]
fn forged_packets_with_the_right_tag_change_nothing() {
    let mut network = network([of_everything(), of_everything()]);
    let genuine = network.trace.iter().rfind(|sent| sent.from == CLIENT);
    let genuine = genuine.expect("it sent a COOKIE-ECHO").packet.clone();
    let cumulative = [0; 4];
    for (kind, value) in [
        (ChunkType::ABORT, &[][..]),
        (ChunkType::SHUTDOWN, &cumulative[..]),
        (ChunkType::DATA, &[7; 20][..]),
    ] {
        let mut chunks = Vec::new();
        let flags = if kind == ChunkType::DATA { 3 } else { 0 };
        push_chunk(&mut chunks, kind, flags, value);
        let plain = forged(&network, &chunks);
        let before = dropped(&network, SERVER);
        network.inject(SERVER, path_by(0, CLIENT), &plain);
        // With the AUTH of another packet.
        let auth = &genuine[12..genuine.len().min(12 + 40)];
        let borrowed = forged(&network, &[auth, &chunks].concat());
        network.inject(SERVER, path_by(0, CLIENT), &borrowed);
        assert_eq!(dropped(&network, SERVER), before + 2, "{kind:?}");
    }
    network.send(CLIENT, 3000);
    network.run_until(1000);
    assert_eq!(network.received[SERVER], 3000);
    assert_eq!(network.closed, [None; 2]);
}

#[test]
fn hmac_that_was_not_offered_is_reported() {
    let sha1 = Authentication {
        hmacs: vec![HmacId::SHA1],
        ..Authentication::of_everything()
    };
    let mut network = network([of_everything(), authenticating(sha1)]);
    let auth = [&[15, 0, 0, 40, 0, 0, 0, 3][..], &[0; 32]].concat();
    let packet = forged(&network, &auth);
    let sent = network.trace.len();
    network.arrive(SERVER, path_by(0, CLIENT), &packet);
    network.run_until(network.now_ms() + 1);
    let errors = network.trace[sent..].iter().flat_map(|sent| {
        let chunks = Chunks::new(&sent.packet).filter(|chunk| chunk.kind == ChunkType::ERROR);
        chunks
            .map(|chunk| {
                let cause = causes(chunk.value).next().expect("a cause");
                (cause.code, cause.value.to_vec())
            })
            .collect::<Vec<_>>()
    });
    let expected = [(CauseCode::UNSUPPORTED_HMAC, vec![0, 3])];
    assert_eq!(errors.collect::<Vec<_>>(), expected);
}

#[test]
fn ends_with_different_keys_do_not_open() {
    let with = |octets: &[u8]| {
        let mut authentication = Authentication::of_everything();
        authentication.keys.insert(KeyId(1), SharedKey::new(octets));
        authentication.active_key = KeyId(1);
        authenticating(authentication)
    };
    let mut same = network([with(b"one"), with(b"one")]);
    same.send(CLIENT, 10);
    same.run_until(1000);
    assert_eq!(same.received[SERVER], 10);
    let mut other = network([with(b"one"), with(b"two")]);
    other.run_until(1_000_000);
    assert_eq!(other.closed[CLIENT], Some(CloseReason::TimedOut));
    assert_eq!(other.ids[SERVER], None);
    assert_eq!(
        dropped(&other, SERVER),
        9,
        "a COOKIE-ECHO and eight repeats"
    );
}

#[test]
fn peer_without_authentication_raises_a_notice_alone() {
    let plain = SctpConfig {
        authentication: None,
        ..of_everything()
    };
    for configs in [[of_everything(), plain.clone()], [plain, of_everything()]] {
        let one = usize::from(configs[0].authentication.is_none());
        let mut network = network(configs);
        network.send(CLIENT, 4000);
        network.run_until(1000);
        assert_eq!(network.received[SERVER], 4000);
        let association = id(&network, one);
        let notice = Notice::NoAuthentication { association };
        assert!(network.notices[one].contains(&notice));
        assert_eq!(network.ends[one].authentication(association), None);
        let has_auth = |sent: &crate::paths::network::Sent| sent.has(ChunkType::AUTH);
        assert!(!network.trace.iter().any(has_auth));
    }
}

#[test]
fn keys_change_while_data_flow() {
    let mut network = network([of_everything(), of_everything()]);
    let key = SharedKey::new(b"a new one");
    for end in [CLIENT, SERVER] {
        let association = id(&network, end);
        let engine: &mut Sctp = &mut network.ends[end];
        let unset = engine.set_active_key(association, KeyId(3));
        assert_eq!(unset, Err(CommandError::Unsupported));
        engine
            .set_key(association, KeyId(3), &key)
            .expect("room for it");
    }
    for end in [CLIENT, SERVER] {
        let association = id(&network, end);
        let engine: &mut Sctp = &mut network.ends[end];
        engine
            .set_active_key(association, KeyId(3))
            .expect("it was set");
        network.send(CLIENT, 3000);
        network.run_until(network.now_ms() + 300);
    }
    for end in [CLIENT, SERVER] {
        let association = id(&network, end);
        let deleted = network.ends[end].delete_key(association, KeyId(0));
        deleted.expect("it is not in use");
    }
    network.send(SERVER, 3000);
    network.run_until(network.now_ms() + 300);
    assert_eq!(network.received, [3000, 6000]);
    assert_eq!([CLIENT, SERVER].map(|end| dropped(&network, end)), [0; 2]);
}

#[test]
fn association_ends_behind_an_auth() {
    let mut network = network([of_everything(), of_everything()]);
    network.send(CLIENT, 500);
    network.close(CLIENT);
    network.run_until(5000);
    assert_eq!(network.closed, [Some(CloseReason::Graceful); 2]);
    let mut network = self::network([of_everything(), of_everything()]);
    network.abort(SERVER);
    network.run_until(5000);
    assert_eq!(network.closed, [Some(CloseReason::Aborted); 2]);
}

#[test]
fn number_of_the_peers_user_raises_a_notice() {
    let adapting = |adaptation| SctpConfig {
        adaptation,
        ..config()
    };
    let network = network([adapting(Some(7)), adapting(Some(0))]);
    for (end, value) in [(CLIENT, 0), (SERVER, 7)] {
        let association = id(&network, end);
        let notice = Notice::Adaptation { association, value };
        assert!(network.notices[end].contains(&notice));
    }
    let network = self::network([adapting(None), adapting(Some(9))]);
    let tells = |notice: &Notice| matches!(notice, Notice::Adaptation { .. });
    assert!(!network.notices[SERVER].iter().any(tells));
}
