//! Addresses that come and go while an association lives (RFC 5061).

use crate::paths::network::{CLIENT, DELAY_MS, Network, SERVER, Sent, config, path_by};
use engine::{CommandError, LocalAddress};
use engine_sctp::pdu::asconf::{AddressAction, Serial, push_asconf};
use engine_sctp::pdu::cause::{CauseCode, causes};
use engine_sctp::pdu::{Asconf, AsconfAck, ChunkType, Chunks, Init};
use engine_sctp::{
    AddressChange, Authentication, DiscardReason, Notice, PathStatus, ReconfigOutcome, Sctp,
    SctpConfig,
};
use std::net::IpAddr;

/// Two media, with addresses that may change.
fn dynamic() -> SctpConfig {
    SctpConfig {
        authentication: Some(Authentication::default()),
        dynamic_addresses: true,
        ..config()
    }
}

/// An association with two paths that answer.
fn network() -> Network {
    let mut network = Network::new(dynamic());
    network.open();
    network.run_until(1000);
    for end in [CLIENT, SERVER] {
        let statuses: Vec<PathStatus> = network.paths(end).iter().map(|path| path.status).collect();
        assert_eq!(statuses, [PathStatus::Active; 2]);
    }
    network
}

/// What an end asks the engine for.
type Ask =
    fn(&mut Sctp, engine::Instant, engine::AssociationId, LocalAddress) -> Result<(), CommandError>;

fn ask(network: &mut Network, end: usize, ask: Ask, medium: u16) -> Result<(), CommandError> {
    let id = network.ids[end].expect("an association");
    let now = network.now;
    ask(&mut network.ends[end], now, id, LocalAddress(medium))
}

fn media(network: &Network, end: usize) -> Vec<u16> {
    let mut media: Vec<u16> = network
        .paths(end)
        .iter()
        .map(|path| path.path.local.0)
        .collect();
    media.sort_unstable();
    media
}

fn address(medium: u16) -> IpAddr {
    IpAddr::from([240, 0, 0, medium as u8])
}

fn peer_changes(network: &Network, end: usize) -> Vec<(IpAddr, AddressChange)> {
    let notices = network.notices[end].iter();
    notices
        .filter_map(|notice| match notice {
            Notice::PeerAddress {
                address, change, ..
            } => Some((*address, *change)),
            _ => None,
        })
        .collect()
}

fn outcomes(network: &Network, end: usize) -> Vec<(AddressChange, ReconfigOutcome)> {
    let notices = network.notices[end].iter();
    notices
        .filter_map(|notice| match notice {
            Notice::OwnAddress {
                change, outcome, ..
            } => Some((*change, *outcome)),
            _ => None,
        })
        .collect()
}

#[test]
fn deleted_address_is_no_path_and_comes_back_as_one() {
    let mut network = network();
    ask(&mut network, CLIENT, Sctp::delete_address, 0).expect("another is left");
    assert_eq!(media(&network, CLIENT), [1], "no source of packets at once");
    network.send(CLIENT, 3000);
    network.send(SERVER, 3000);
    network.run_until(2000);
    assert_eq!(network.received, [3000; 2]);
    assert_eq!(media(&network, SERVER), [1]);
    let sent = network.trace.len();
    ask(&mut network, CLIENT, Sctp::add_address, 0).expect("it was deleted");
    network.run_until(2001);
    assert_eq!(media(&network, CLIENT), [1], "not before the peer agrees");
    network.run_until(4000);
    for end in [CLIENT, SERVER] {
        assert_eq!(media(&network, end), [0, 1]);
        let paths = network.paths(end);
        assert!(paths.iter().all(|path| path.status == PathStatus::Active));
    }
    let early = network.trace[sent..].iter().filter(|sent| {
        sent.path == 0 && !sent.has(ChunkType::HEARTBEAT) && !sent.has(ChunkType::HEARTBEAT_ACK)
    });
    assert_eq!(early.count(), 0, "an address is verified first");
    let done = ReconfigOutcome::Done;
    let (added, deleted) = (AddressChange::Added, AddressChange::Deleted);
    assert_eq!(outcomes(&network, CLIENT), [(deleted, done), (added, done)]);
    let expected = [(address(0), deleted), (address(0), added)];
    assert_eq!(peer_changes(&network, SERVER), expected);
    // And it carries data when the other one fails.
    network.cut[1] = true;
    network.send(CLIENT, 2000);
    network.run_until(6000);
    assert_eq!(network.received[SERVER], 5000);
}

#[test]
fn data_in_flight_on_a_deleted_address_arrive_by_another() {
    let mut network = network();
    network.cut[0] = true;
    network.send(CLIENT, 20_000);
    network.run_until(1001);
    let lost: u64 = network.paths(CLIENT).iter().map(|path| path.flight).sum();
    assert!(lost > 0);
    ask(&mut network, CLIENT, Sctp::delete_address, 0).expect("another is left");
    // No timeout: what was in flight goes at once.
    network.run_until(1001 + 8 * DELAY_MS);
    assert_eq!(network.received[SERVER], 20_000);
    network.run_until(5000);
    assert_eq!(media(&network, SERVER), [1]);
    assert_eq!(network.closed, [None; 2]);
}

#[test]
fn peer_sends_to_the_address_that_it_was_asked_to_prefer() {
    let mut network = network();
    ask(&mut network, SERVER, Sctp::request_peer_primary, 1).expect("it is known");
    network.run_until(1500);
    let sent = network.trace.len();
    network.send(CLIENT, 5000);
    network.run_until(2500);
    let data = |sent: &&Sent| sent.from == CLIENT && sent.has(ChunkType::DATA);
    let paths: Vec<u16> = network.trace[sent..]
        .iter()
        .filter(data)
        .map(|sent| sent.path)
        .collect();
    assert!(
        !paths.is_empty() && paths.iter().all(|path| *path == 1),
        "{paths:?}"
    );
    let expected = [(address(1), AddressChange::Preferred)];
    assert_eq!(peer_changes(&network, CLIENT), expected);
}

#[test]
fn preferred_address_that_is_not_confirmed_is_preferred_once_it_is() {
    let mut network = network();
    ask(&mut network, SERVER, Sctp::delete_address, 1).expect("another is left");
    network.run_until(1200);
    network.cut[1] = true;
    ask(&mut network, SERVER, Sctp::add_address, 1).expect("it was deleted");
    network.run_until(1250);
    ask(&mut network, SERVER, Sctp::request_peer_primary, 1).expect("it is known");
    network.run_until(1300);
    let primary = |network: &Network| {
        let paths = network.paths(CLIENT);
        let primary = paths.iter().find(|path| path.is_primary);
        primary.expect("there is one").path.local.0
    };
    assert_eq!(primary(&network), 0);
    network.cut[1] = false;
    network.run_until(5000);
    assert_eq!(primary(&network), 1);
}

#[test]
fn requests_that_cannot_be_are_refused_here() {
    let mut network = network();
    let unsupported = Err(CommandError::Unsupported);
    assert_eq!(
        ask(&mut network, CLIENT, Sctp::add_address, 0),
        unsupported,
        "it is known"
    );
    assert_eq!(
        ask(&mut network, CLIENT, Sctp::delete_address, 2),
        unsupported,
        "no medium"
    );
    ask(&mut network, CLIENT, Sctp::delete_address, 0).expect("another is left");
    assert_eq!(
        ask(&mut network, CLIENT, Sctp::delete_address, 1),
        unsupported,
        "the last"
    );
    assert_eq!(
        ask(&mut network, CLIENT, Sctp::request_peer_primary, 0),
        unsupported
    );
    network.run_until(1500);
    assert_eq!(media(&network, CLIENT), [1]);
    let mut plain = Network::of([dynamic(), config()]);
    plain.open();
    plain.run_until(1000);
    assert_eq!(
        ask(&mut plain, CLIENT, Sctp::delete_address, 0),
        unsupported
    );
    assert_eq!(
        ask(&mut plain, SERVER, Sctp::delete_address, 0),
        unsupported
    );
}

#[test]
fn lost_request_is_repeated_with_its_number_and_done_once() {
    let mut network = network();
    network.cut = [true; 8];
    ask(&mut network, CLIENT, Sctp::delete_address, 0).expect("another is left");
    network.run_until(1030);
    network.cut = [false; 8];
    network.run_until(1060);
    // The answer is lost, too.
    network.cut = [true; 8];
    network.run_until(1120);
    network.cut = [false; 8];
    network.run_until(5000);
    let deleted = AddressChange::Deleted;
    assert_eq!(
        outcomes(&network, CLIENT),
        [(deleted, ReconfigOutcome::Done)]
    );
    assert_eq!(peer_changes(&network, SERVER), [(address(0), deleted)]);
    let serials: Vec<Serial> = network
        .trace
        .iter()
        .flat_map(|sent| Chunks::new(&sent.packet).collect::<Vec<_>>())
        .filter(|chunk| chunk.kind == ChunkType::ASCONF)
        .map(|chunk| Asconf::parse(chunk.value).expect("well formed").serial)
        .collect();
    assert!(serials.len() >= 2 && serials.iter().all(|serial| *serial == serials[0]));
}

/// What the server answers to an ASCONF of the client, made here with the client's keys.
fn answer(
    network: &mut Network,
    (action, address): (AddressAction, IpAddr),
    medium: u16,
) -> Option<CauseCode> {
    let serial = Serial(network.serial);
    network.serial = network.serial.wrapping_add(1);
    let mut chunk = Vec::new();
    let own = IpAddr::from([240, 0, 0, 0]);
    push_asconf(&mut chunk, (serial, own), 77, (action, address));
    let packet = network.sealed(CLIENT, &chunk);
    let sent = network.trace.len();
    // The client did not ask, and must not get the answer.
    network.cut = [true; 8];
    network.arrive(SERVER, path_by(medium, CLIENT), &packet);
    network.run_until(network.now_ms() + 1);
    network.cut = [false; 8];
    let acks = network.trace[sent..]
        .iter()
        .filter(|sent| sent.from == SERVER);
    let acks: Vec<Option<CauseCode>> = acks
        .flat_map(|sent| Chunks::new(&sent.packet).collect::<Vec<_>>())
        .filter(|chunk| chunk.kind == ChunkType::ASCONF_ACK)
        .map(|chunk| {
            let ack = AsconfAck::parse(chunk.value).expect("well formed");
            assert_eq!(ack.serial, serial);
            ack.fault(77)
        })
        .collect();
    assert_eq!(acks.len(), 1, "one answer");
    acks[0]
}

#[test]
fn impossible_requests_of_the_peer_get_their_causes() {
    let mut network = network();
    network.serial = initial_tsn(&network, CLIENT);
    let delete = AddressAction::Delete;
    let source = answer(&mut network, (delete, address(0)), 0);
    assert_eq!(source, Some(CauseCode::DELETE_SOURCE_ADDRESS));
    let unknown = answer(&mut network, (delete, address(9)), 0);
    assert_eq!(unknown, Some(CauseCode::UNRESOLVABLE_ADDRESS));
    let multicast = IpAddr::from([224, 0, 0, 1]);
    let added = answer(&mut network, (AddressAction::Add, multicast), 0);
    assert_eq!(added, Some(CauseCode::UNRESOLVABLE_ADDRESS));
    let primary = answer(&mut network, (AddressAction::SetPrimary, address(9)), 0);
    assert_eq!(primary, Some(CauseCode::UNRESOLVABLE_ADDRESS));
    assert_eq!(answer(&mut network, (delete, address(1)), 0), None);
    let last = answer(&mut network, (delete, address(0)), 1);
    assert_eq!(last, Some(CauseCode::DELETE_LAST_ADDRESS));
    assert_eq!(media(&network, SERVER), [0]);
    // An unspecified address is that of the packet.
    let any = IpAddr::from([0; 4]);
    assert_eq!(answer(&mut network, (AddressAction::Add, any), 1), None);
    assert_eq!(media(&network, SERVER), [0, 1]);
    assert_eq!(network.closed, [None; 2]);
}

fn initial_tsn(network: &Network, end: usize) -> u32 {
    let handshake = [ChunkType::INIT, ChunkType::INIT_ACK];
    let mut sent = network.trace.iter().filter(|sent| sent.from == end);
    let init = sent.find_map(|sent| {
        let chunk = Chunks::new(&sent.packet).next()?;
        let is_init = handshake.contains(&chunk.kind);
        is_init.then(|| Init::parse(chunk.value).expect("well formed"))
    });
    init.expect("an INIT").initial_tsn.0
}

#[test]
fn requests_without_an_auth_or_out_of_turn_change_nothing() {
    let mut network = network();
    let serial = initial_tsn(&network, CLIENT);
    let before = network.ends[SERVER].discards();
    for (turn, is_sealed) in [(0, false), (1, true), (5, true)] {
        let mut chunk = Vec::new();
        let serial = Serial(serial.wrapping_add(turn));
        let request = (AddressAction::Delete, address(1));
        push_asconf(&mut chunk, (serial, address(0)), 1, request);
        let packet = match is_sealed {
            true => network.sealed(CLIENT, &chunk),
            false => network.forge(CLIENT, ChunkType::ASCONF, &chunk[4..]),
        };
        network.inject(SERVER, path_by(0, CLIENT), &packet);
    }
    let after = network.ends[SERVER].discards();
    let more = |reason| after.count(reason) - before.count(reason);
    assert_eq!(more(DiscardReason::Authentication), 1);
    assert_eq!(more(DiscardReason::State), 2);
    assert_eq!(media(&network, SERVER), [0, 1]);
    assert!(peer_changes(&network, SERVER).is_empty());
}

#[test]
fn answer_to_a_request_that_was_not_sent_ends_the_association() {
    let mut network = network();
    let serial = initial_tsn(&network, CLIENT).wrapping_add(3);
    let mut chunk = vec![ChunkType::ASCONF_ACK.0, 0, 0, 8];
    chunk.extend(serial.to_be_bytes());
    let packet = network.sealed(SERVER, &chunk);
    network.arrive(CLIENT, path_by(0, SERVER), &packet);
    network.run_until(1200);
    assert!(network.closed.iter().all(Option::is_some));
    let aborts = network
        .trace
        .iter()
        .filter(|sent| sent.has(ChunkType::ABORT));
    let cause = aborts.into_iter().next_back().and_then(|sent| {
        let chunk = Chunks::new(&sent.packet).find(|chunk| chunk.kind == ChunkType::ABORT)?;
        causes(chunk.value).next().map(|cause| cause.code)
    });
    assert_eq!(cause, Some(CauseCode::ILLEGAL_ASCONF_ACK));
}

/// Eight addresses are kept, however many a peer adds, and a place that went is free again.
#[test]
fn addresses_of_a_peer_have_a_limit() {
    let mut network = Network::new(SctpConfig {
        local_addresses: engine_sctp::LocalAddresses::Stations(8),
        ..dynamic()
    });
    network.open();
    network.run_until(3000);
    network.serial = initial_tsn(&network, CLIENT);
    assert_eq!(media(&network, SERVER).len(), 8);
    for round in 0..40 {
        let medium = 1 + round % 7;
        let gone = answer(&mut network, (AddressAction::Delete, address(medium)), 0);
        assert_eq!(gone, None);
        assert_eq!(media(&network, SERVER).len(), 7);
        let back = answer(&mut network, (AddressAction::Add, address(medium)), 0);
        assert_eq!(back, None);
        assert_eq!(media(&network, SERVER).len(), 8);
    }
    network.run_until(network.now_ms() + 3000);
    network.send(SERVER, 3000);
    network.run_until(network.now_ms() + 1000);
    assert_eq!(network.received[CLIENT], 3000);
}

#[test]
fn address_that_an_endpoint_gets_while_it_runs_becomes_a_path() {
    let mut network = network();
    for (end, ms) in [(CLIENT, 1500), (SERVER, 2000)] {
        let now = network.now;
        let gained = network.ends[end].gain_address(now, address(2));
        assert_eq!(gained, Ok(LocalAddress(2)));
        network.run_until(ms);
    }
    // The client's peer did not have the medium yet, and takes the address for later.
    network.run_until(4000);
    let done = (AddressChange::Added, ReconfigOutcome::Done);
    for end in [CLIENT, SERVER] {
        assert_eq!(media(&network, end), [0, 1, 2]);
        let paths = network.paths(end);
        assert!(paths.iter().all(|path| path.status == PathStatus::Active));
        assert_eq!(outcomes(&network, end), [done]);
    }
    // It carries data when the others fail.
    network.cut[..2].fill(true);
    network.send(CLIENT, 4000);
    network.run_until(9000);
    assert_eq!(network.received[SERVER], 4000);
}

#[test]
fn address_that_an_endpoint_loses_is_listed_to_no_new_peer() {
    let mut network = network();
    let now = network.now;
    network.ends[CLIENT]
        .lose_address(now, LocalAddress(1))
        .expect("another is left");
    network.run_until(2000);
    assert_eq!(media(&network, CLIENT), [0]);
    assert_eq!(media(&network, SERVER), [0]);
    let last = network.ends[CLIENT].lose_address(now, LocalAddress(0));
    assert_eq!(last, Err(CommandError::Unsupported));
    let now = network.now;
    let known = network.ends[CLIENT].gain_address(now, address(0));
    assert_eq!(known, Err(CommandError::Unsupported), "it has that one");
    let back = network.ends[CLIENT].gain_address(now, address(1));
    assert_eq!(back, Ok(LocalAddress(1)), "the same wire as before");
    network.run_until(4000);
    assert_eq!(media(&network, SERVER), [0, 1]);

    let mut fresh = Network::new(dynamic());
    let now = fresh.now;
    fresh.ends[CLIENT]
        .lose_address(now, LocalAddress(1))
        .expect("another is left");
    fresh.open();
    fresh.run_until(1000);
    assert_eq!(media(&fresh, CLIENT), [0]);
    assert_eq!(media(&fresh, SERVER), [0]);
}

#[test]
fn endpoint_that_does_not_know_its_addresses_gets_none() {
    let now = engine::Instant::from_nanos(1);
    let mut one = Sctp::new(SctpConfig::default());
    let refused = one.gain_address(now, address(1));
    assert_eq!(refused, Err(CommandError::Unsupported));
    let mut network = network();
    for odd in [IpAddr::from([0, 0, 0, 0]), address(7)] {
        let refused = network.ends[CLIENT].gain_address(now, odd);
        assert_eq!(refused, Err(CommandError::Unsupported));
    }
}
