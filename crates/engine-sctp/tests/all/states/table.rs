//! One chunk in each state.

use super::*;

#[test]
fn data_are_taken_where_the_table_says() {
    for state in ALL {
        let mut pair = pair(state);
        let answers = kinds(&pair.client.receive(&pair.data(0, 0, 0, 3, 8)));
        let expected: &[u8] = match state {
            Reach::Established | Reach::ShutdownPending => &[3],
            Reach::ShutdownSent => &[7],
            _ => &[],
        };
        assert_eq!(answers, expected, "{state:?}");
    }
}

#[test]
fn shutdown_moves_every_state_as_the_table_says() {
    for state in ALL {
        let mut pair = pair(state);
        let cumulative = pair.client_tsn.0.wrapping_sub(1).to_be_bytes();
        let answers = kinds(
            &pair
                .client
                .receive(&pair.chunk(ChunkType::SHUTDOWN, 0, &cumulative)),
        );
        let expected: &[u8] = match state {
            Reach::Established | Reach::ShutdownSent => &[8],
            _ => &[],
        };
        assert_eq!(answers, expected, "{state:?}");
        let finished = pair
            .client
            .events()
            .contains(&Event::Finished(pair.client.id));
        let tells = matches!(
            state,
            Reach::Established | Reach::ShutdownPending | Reach::ShutdownSent
        );
        // In the state before, the event came on the way there.
        assert_eq!(
            finished,
            tells || state == Reach::ShutdownReceived,
            "{state:?}"
        );
    }
}

#[test]
fn shutdown_ack_ends_the_states_that_wait_for_it() {
    for state in ALL {
        let mut pair = pair(state);
        let answers = pair
            .client
            .receive(&pair.chunk(ChunkType::SHUTDOWN_ACK, 0, &[]));
        let closed = pair.client.closed();
        match state {
            Reach::ShutdownSent | Reach::ShutdownAckSent => {
                assert_eq!(kinds(&answers), [14], "{state:?}");
                assert_eq!(tag_of(&answers[0]), pair.to_server);
                assert_eq!(closed, Some(CloseReason::Graceful));
            }
            Reach::CookieWait | Reach::CookieEchoed => {
                assert_eq!(kinds(&answers), [14], "{state:?}");
                assert_eq!(answers[0][13], 1, "flag T");
                assert_eq!(closed, None);
            }
            _ => assert_eq!((kinds(&answers).len(), closed), (0, None), "{state:?}"),
        }
    }
}

#[test]
fn shutdown_complete_ends_one_state_alone() {
    for state in ALL {
        let mut pair = pair(state);
        assert!(
            pair.client
                .receive(&pair.chunk(ChunkType::SHUTDOWN_COMPLETE, 0, &[]))
                .is_empty()
        );
        let expected = (state == Reach::ShutdownAckSent).then_some(CloseReason::Graceful);
        assert_eq!(pair.client.closed(), expected, "{state:?}");
    }
}

#[test]
fn abort_ends_every_state_if_its_tag_is_right() {
    for state in ALL {
        let refused = matches!(state, Reach::CookieWait | Reach::CookieEchoed);
        let reason = if refused {
            CloseReason::Refused
        } else {
            CloseReason::Aborted
        };
        let mut one = pair(state);
        assert!(
            one.client
                .receive(&one.chunk(ChunkType::ABORT, 0, &[]))
                .is_empty()
        );
        assert_eq!(one.client.closed(), Some(reason), "{state:?}");
        let mut chunk = Vec::new();
        push_chunk(&mut chunk, ChunkType::ABORT, 1, &[]);
        // Flag T: the peer's own tag, which the client knows from the cookie on.
        let mut other = pair(state);
        let reflected = other.packet(other.to_server, &chunk);
        other.client.receive(&reflected);
        let expected = (state != Reach::CookieWait).then_some(reason);
        assert_eq!(other.client.closed(), expected, "{state:?}");
        let mut third = pair(state);
        for tag in [
            third.to_client,
            Tag(third.to_client.0 ^ 1),
            Tag(third.to_server.0 ^ 1),
        ] {
            let forged = third.packet(tag, &chunk);
            assert!(third.client.receive(&forged).is_empty());
        }
        assert_eq!(third.client.closed(), None, "{state:?}: a spoofed ABORT");
    }
}

#[test]
fn cookie_ack_and_init_ack_out_of_place_change_nothing() {
    for state in ALL {
        let mut pair = pair(state);
        let answers = pair
            .client
            .receive(&pair.chunk(ChunkType::COOKIE_ACK, 0, &[]));
        let connected = pair
            .client
            .events()
            .contains(&Event::Connected(pair.client.id));
        assert_eq!(connected, state == Reach::CookieEchoed, "{state:?}");
        assert!(answers.is_empty());
        if state != Reach::CookieWait {
            let init_ack = pair.chunk(ChunkType::INIT_ACK, 0, &[1; 40]);
            assert!(pair.client.receive(&init_ack).is_empty(), "{state:?}");
            assert_eq!(pair.client.closed(), None);
        }
    }
}

#[test]
fn heartbeat_is_answered_with_its_contents() {
    for state in ALL {
        let mut pair = pair(state);
        let info = [0, 1, 0, 8, 1, 2, 3, 4];
        let answers = pair
            .client
            .receive(&pair.chunk(ChunkType::HEARTBEAT, 0, &info));
        let silent = matches!(state, Reach::CookieWait | Reach::ShutdownAckSent);
        assert_eq!(
            kinds(&answers),
            if silent { vec![] } else { vec![5] },
            "{state:?}"
        );
        if !silent {
            assert_eq!(answers[0][16..], info);
        }
    }
}

#[test]
fn last_sack_leads_from_pending_states_to_the_next() {
    let mut one = pair(Reach::ShutdownPending);
    assert_eq!(kinds(&one.client.receive(&one.sack(1, 10_000, &[]))), [7]);
    let mut other = pair(Reach::ShutdownReceived);
    assert_eq!(
        kinds(&other.client.receive(&other.sack(1, 10_000, &[]))),
        [8]
    );
}

#[test]
fn init_to_an_association_answers_without_changing_it() {
    for state in ALL {
        let mut pair = pair(state);
        let init = Init {
            tag: Tag(77),
            rwnd: 10_000,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(5),
            parameters: Default::default(),
        };
        let mut chunk = Vec::new();
        init.push(&mut chunk, ChunkType::INIT);
        let answers = pair.client.receive(&pair.packet(Tag::NONE, &chunk));
        if state == Reach::ShutdownAckSent {
            assert_eq!(kinds(&answers), [8]);
            continue;
        }
        assert_eq!(kinds(&answers), [2], "{state:?}");
        assert_eq!(tag_of(&answers[0]), Tag(77));
        let keeps_tag = matches!(state, Reach::CookieWait | Reach::CookieEchoed);
        let own = init_of(&answers[0]);
        assert_eq!(own.tag == pair.to_client, keeps_tag, "{state:?}");
        assert_eq!(own.initial_tsn == pair.client_tsn, keeps_tag);
        assert_eq!(pair.client.closed(), None);
    }
}

#[test]
fn init_with_an_address_that_is_new_is_aborted() {
    let mut pair = pair(Reach::Established);
    let mut init = init_of(&pair_init());
    init.parameters.addresses = vec!["192.0.2.1".parse().expect("an address")];
    let mut chunk = Vec::new();
    init.push(&mut chunk, ChunkType::INIT);
    let answers = pair.client.receive(&pair.packet(Tag::NONE, &chunk));
    assert_eq!(kinds(&answers), [6]);
    let abort = Chunks::new(&answers[0]).next().expect("an ABORT");
    let cause = causes(abort.value).next().expect("a cause");
    assert_eq!(cause.code, CauseCode::RESTART_WITH_NEW_ADDRESSES);
    assert_eq!(pair.client.closed(), None);
}

/// The INIT of a client.
fn pair_init() -> Packet {
    pair(Reach::CookieWait).waiting.remove(0)
}

#[test]
fn packets_out_of_the_blue_are_answered_as_the_rules_say() {
    let mut pair = pair(Reach::CookieWait);
    let cases: [(ChunkType, &[u8]); 8] = [
        (ChunkType::ABORT, &[]),
        (ChunkType::SHUTDOWN_COMPLETE, &[]),
        (ChunkType::COOKIE_ACK, &[]),
        (ChunkType::SHUTDOWN_ACK, &[14]),
        (ChunkType::DATA, &[6]),
        (ChunkType::SACK, &[6]),
        (ChunkType::HEARTBEAT, &[6]),
        (ChunkType::SHUTDOWN, &[6]),
    ];
    for (kind, expected) in cases {
        let mut chunk = Vec::new();
        push_chunk(&mut chunk, kind, 0, &[0; 16]);
        let mut packet = pair.packet(Tag(0x5555_5555), &chunk);
        let answers = pair.client.receive(&packet);
        let of_association: &[u8] = match kind {
            ChunkType::SHUTDOWN_ACK => &[14],
            _ => &[],
        };
        assert_eq!(kinds(&answers), of_association, "only the tag is wrong");
        // Another source port: of no association.
        packet[1] ^= 1;
        complete_checksum(&mut packet);
        let answers = pair.client.receive(&packet);
        assert_eq!(kinds(&answers), expected, "{kind:?}");
        if let [answer] = &answers[..] {
            assert_eq!(
                (tag_of(answer), answer[13]),
                (Tag(0x5555_5555), 1),
                "reflected"
            );
        }
    }
    let mut both = Vec::new();
    push_chunk(&mut both, ChunkType::SACK, 0, &[0; 12]);
    push_chunk(&mut both, ChunkType::ABORT, 0, &[]);
    let mut packet = pair.packet(Tag(0x5555_5555), &both);
    packet[1] ^= 1;
    complete_checksum(&mut packet);
    assert!(
        pair.client.receive(&packet).is_empty(),
        "never an ABORT to an ABORT"
    );
}

#[test]
fn server_that_does_not_listen_refuses() {
    let mut pair = pair(Reach::CookieWait);
    pair.server.engine.listen(false);
    let answers = pair.server.receive(&pair.waiting[0]);
    assert_eq!(kinds(&answers), [6]);
    assert!(pair.client.receive(&answers[0]).is_empty());
    assert_eq!(pair.client.closed(), Some(CloseReason::Refused));
}

#[test]
fn duplicate_cookie_is_acknowledged_again() {
    let mut pair = pair(Reach::CookieEchoed);
    let cookie = pair.waiting[0].clone();
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11]);
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11]);
    assert_eq!(pair.server.engine.associations_len(), 1);
    // Even when it came so late that it opens nothing any more.
    pair.server.now = Instant::from_nanos(100_000_000_000);
    assert_eq!(kinds(&pair.server.receive(&cookie)), [11]);
}

#[test]
fn stale_cookie_is_refused_and_asked_for_again() {
    let mut pair = pair(Reach::CookieEchoed);
    pair.server.now = Instant::from_nanos(62_000_000_000);
    pair.client.now = pair.server.now;
    let answers = pair.server.receive(&pair.waiting[0]);
    assert_eq!(kinds(&answers), [9]);
    let again = pair.client.receive(&answers[0]);
    assert_eq!(kinds(&again), [1]);
    assert!(init_of(&again[0]).parameters.preservative_ms >= 1000);
    let init_acks = pair.server.receive(&again[0]);
    let cookie = pair.client.receive(&init_acks[0]);
    let cookie_acks = pair.server.receive(&cookie[0]);
    assert_eq!(kinds(&cookie_acks), [11]);
    pair.client.receive(&cookie_acks[0]);
    assert_eq!(pair.client.events(), [Event::Connected(pair.client.id)]);
}

#[test]
fn restarted_peer_ends_the_old_association_and_opens_a_new_one() {
    let mut old = pair(Reach::Established);
    let first = old.server.id;
    // The same ports and address, another tag: the client forgot everything.
    let mut fresh = End::new(CLIENT, 1);
    let config = SctpConfig {
        seed: 99,
        local_port: Some(old.client_port),
        secret: Secret::from_seed(99),
        ..SctpConfig::default()
    };
    fresh.engine = Sctp::new(config);
    let now = fresh.now;
    fresh.engine.connect(now, &[SERVER]).expect("room");
    let init = fresh.packets();
    let init_acks = old.server.receive(&init[0]);
    assert_eq!(kinds(&init_acks), [2]);
    assert!(
        old.server.events().is_empty(),
        "an INIT alone changes nothing"
    );
    let cookie = fresh.receive(&init_acks[0]);
    assert_eq!(kinds(&old.server.receive(&cookie[0])), [11]);
    let events = old.server.events();
    assert_eq!(events[0], Event::Closed(first, CloseReason::Aborted));
    assert!(matches!(events[1], Event::Accepted(id, CLIENT) if id != first));
    assert_eq!(old.server.engine.associations_len(), 1);
}

#[test]
fn ends_that_open_at_the_same_time_get_one_association() {
    let mut ends =
        [CLIENT, SERVER].map(|address| End::new(address, if address == CLIENT { 1 } else { 2 }));
    for (index, end) in ends.iter_mut().enumerate() {
        end.engine = Sctp::new(SctpConfig {
            seed: index as u64,
            secret: Secret::from_seed(index as u64),
            local_port: Some(Port(5000)),
            heartbeat_interval: core::time::Duration::ZERO,
            ..SctpConfig::default()
        });
        let (to, now) = ([SERVER, CLIENT][index], end.now);
        end.id = end.engine.connect(now, &[to]).expect("room");
    }
    let mut waiting = [ends[0].packets(), ends[1].packets()];
    for _ in 0..8 {
        let sent = std::mem::take(&mut waiting);
        for (index, packets) in sent.iter().enumerate() {
            for packet in packets {
                let answers = ends[1 - index].receive(packet);
                waiting[1 - index].extend(answers);
            }
        }
    }
    for end in &mut ends {
        assert_eq!(end.events(), [Event::Connected(end.id)]);
        assert_eq!(end.engine.associations_len(), 1);
    }
}
