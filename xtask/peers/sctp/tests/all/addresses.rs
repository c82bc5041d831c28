//! Addresses that come and go in mid-association (RFC 5061).

use crate::interop::{LOSSY, messages};
use crate::peers::{Peer, config, theirs};
use engine_sctp::pdu::asconf::AddressAction;
use engine_sctp::pdu::{Asconf, AsconfAck, ChunkType, Chunks};
use engine_sctp::{AddressSchedule, Authentication, LocalAddresses, SctpConfig};
use sctp_peers::capture::Captured;
use sctp_peers::exchange::{Faults, Outcome, mistake, run};
use sctp_peers::stack::{Ours, Stack};
use std::collections::BTreeMap;
use std::time::Duration;

/// Our end, which gets an address after 40 ms, and changes it every 40 ms: another one comes, is deleted,
/// comes back, is to be preferred.
fn ours(seed: u64) -> Ours {
    Ours::new(SctpConfig {
        authentication: Some(Authentication::default()),
        dynamic_addresses: true,
        local_addresses: LocalAddresses::Stations(1),
        address_changes: Some(AddressSchedule {
            interval: Duration::from_millis(40),
            gains: 1,
        }),
        ..config(seed)
    })
}

/// Chunks of one type in packets.
fn chunks(captured: &[Captured], kind: ChunkType) -> Vec<&[u8]> {
    let all = captured.iter().flat_map(|(_, packet)| Chunks::new(packet));
    let of_kind = all.filter(|chunk| chunk.kind == kind);
    of_kind.map(|chunk| chunk.value).collect()
}

/// What our end asked for, by the number of its ASCONF.
fn asked(captured: &[Captured]) -> BTreeMap<u32, AddressAction> {
    let asconfs = chunks(captured, ChunkType::ASCONF).into_iter();
    let asconfs = asconfs.map(|value| Asconf::parse(value).expect("well formed"));
    let first = asconfs.map(|asconf| {
        let action = asconf.requests().next().and_then(|request| request.action);
        (asconf.serial.0, action.expect("one of three"))
    });
    first.collect()
}

/// Lets both ends exchange messages, and checks them.
fn exchange(peer: Peer, faults: Faults, seed: u64) -> Option<(usize, Outcome)> {
    let sent = [messages(seed, 120), messages(seed + 1000, 120)];
    let our_role = (seed % 2) as usize;
    let mut theirs = theirs(peer, our_role == 0)?;
    let mut ours = ours(seed);
    let ends: [&mut dyn Stack; 2] = match our_role {
        0 => [&mut ours, &mut *theirs],
        _ => [&mut *theirs, &mut ours],
    };
    let outcome = match run(ends, [&sent[0], &sent[1]], faults, seed) {
        Ok(outcome) => outcome,
        Err(error) => panic!("{peer:?}, seed {seed}: {error}"),
    };
    for end in [0, 1] {
        let mistake = mistake(&sent[end], &outcome.received[1 - end]);
        assert_eq!(mistake, None, "{peer:?}, seed {seed}, from {end}");
    }
    Some((our_role, outcome))
}

#[test]
fn usrsctp_adds_deletes_and_prefers_addresses_of_our_end() {
    let mut done = BTreeMap::new();
    for (seed, faults) in (0..8).zip([Faults::NONE, Faults::NONE].into_iter().chain([LOSSY; 6])) {
        let Some((our_role, outcome)) = exchange(Peer::Usrsctp, faults, seed) else {
            return;
        };
        let asked = asked(&outcome.captured[our_role]);
        for value in chunks(&outcome.captured[1 - our_role], ChunkType::ASCONF_ACK) {
            let answer = AsconfAck::parse(value).expect("well formed");
            let action = asked
                .get(&answer.serial.0)
                .expect("it answers what was asked");
            assert_eq!(answer.fault(answer.serial.0), None, "{action:?}");
            *done.entry(format!("{action:?}")).or_insert(0) += 1;
        }
    }
    assert_eq!(done.len(), 3, "all three: {done:?}");
}

#[test]
fn peers_that_know_no_asconf_are_not_asked() {
    for peer in [Peer::Dcsctp, Peer::SctpProto] {
        for seed in 0..2 {
            let Some((our_role, outcome)) = exchange(peer, Faults::NONE, seed) else {
                return;
            };
            assert!(asked(&outcome.captured[our_role]).is_empty(), "{peer:?}");
        }
    }
}
