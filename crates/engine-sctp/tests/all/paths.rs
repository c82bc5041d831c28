//! Several paths between two endpoints in virtual time: verification, fail-over, the way back, and what
//! spoofed packets change.

pub mod network;

use core::time::Duration;
use engine::{Address, Associations, Path, PathError, PathFault, Protocol, SplitMix64};
use engine_sctp::numbers::Tag;
use engine_sctp::pdu::header::complete_checksum;
use engine_sctp::pdu::{ChunkType, Chunks, CommonHeader, chunk::push_chunk};
use engine_sctp::{DiscardReason, Notice, PathStatus, PathSummary, Sctp, SctpConfig};
use network::{CLIENT, DELAY_MS, Network, RTO_MIN_MS, SERVER, config, path_by};

/// How the two paths of an end stand.
fn statuses(reports: &[PathSummary]) -> Vec<PathStatus> {
    reports.iter().map(|report| report.status).collect()
}

/// The number of the path that data leave by.
fn data_path(reports: &[PathSummary]) -> u16 {
    let used = reports.iter().find(|report| report.carries_data);
    used.expect("one carries data").path.local.0
}

#[test]
fn listed_address_is_verified_before_it_counts_as_a_path() {
    let mut network = Network::new(config());
    network.cut[1] = true;
    network.open();
    network.run_until(1000);
    let expected = [PathStatus::Active, PathStatus::Unconfirmed];
    assert_eq!(statuses(&network.paths(SERVER)), expected);
    network.cut[1] = false;
    network.run_until(8000);
    assert_eq!(statuses(&network.paths(SERVER)), [PathStatus::Active; 2]);
    let confirmed = Notice::PathStatus {
        association: network.ids[SERVER].expect("it was accepted"),
        path: path_by(1, CLIENT),
        status: PathStatus::Active,
    };
    assert!(network.notices[SERVER].contains(&confirmed));
}

#[test]
fn unconfirmed_path_carries_heartbeats_alone() {
    let mut network = Network::new(config());
    network.cut[1] = true;
    network.open();
    network.run_until(500);
    // The server's only confirmed path fails: data wait for it, and do not go elsewhere.
    network.cut[0] = true;
    network.send(SERVER, 1000);
    network.run_until(3000);
    let is_probe = |kind| [ChunkType::HEARTBEAT, ChunkType::HEARTBEAT_ACK].contains(&kind);
    let by_other = network.trace.iter().filter(|sent| {
        sent.from == SERVER
            && sent.path == 1
            && !Chunks::new(&sent.packet).all(|c| is_probe(c.kind))
    });
    assert_eq!(by_other.count(), 0);
    network.cut[0] = false;
    network.run_until(20_000);
    assert_eq!(network.received[CLIENT], 1000);
}

/// The timer runs from the last acknowledgement, which came a round trip after the cut at the latest.
/// The data that it sends again take one way.
#[test]
fn cut_path_holds_up_data_for_one_timeout() {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    for round in 0..50 {
        network.send(CLIENT, 1000);
        network.run_until(1000 + 10 * round);
    }
    assert_eq!(data_path(&network.paths(CLIENT)), 0);
    let cut_at = network.now_ms();
    network.cut[0] = true;
    let before = network.received[SERVER];
    let limit = cut_at + RTO_MIN_MS + 3 * DELAY_MS;
    while network.received[SERVER] == before && network.now_ms() < 10_000 {
        network.send(CLIENT, 1000);
        network.run_until(network.now_ms() + 1);
    }
    assert!(
        network.now_ms() <= limit,
        "{} ms for {limit}",
        network.now_ms()
    );
    let expected = [PathStatus::PotentiallyFailed, PathStatus::Active];
    assert_eq!(statuses(&network.paths(CLIENT)), expected);
    assert_eq!(data_path(&network.paths(CLIENT)), 1);
    network.run_until(network.now_ms() + 200);
    assert_eq!(network.received[SERVER], network.sent[CLIENT]);
}

/// The data arrive, and their SACK is lost with the path. They come again by the other one, as duplicates,
/// to a server that sends nothing itself and does not know that the first one is gone.
#[test]
fn acknowledgements_of_duplicates_do_not_leave_by_the_path_that_was_cut() {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    network.send(CLIENT, 1000);
    network.run_until(1001);
    network.cut[0] = true;
    network.run_until(1000 + RTO_MIN_MS + 5 * DELAY_MS);
    assert_eq!(network.received[SERVER], 1000);
    let paths = network.paths(CLIENT);
    assert!(paths.iter().all(|path| path.flight == 0), "{paths:?}");
    let expected = [PathStatus::PotentiallyFailed, PathStatus::Active];
    assert_eq!(statuses(&paths), expected);
}

#[test]
fn path_that_answers_again_carries_data_again() {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    network.cut[0] = true;
    network.send(CLIENT, 5000);
    network.run_until(1500);
    assert_eq!(data_path(&network.paths(CLIENT)), 1);
    network.cut[0] = false;
    // Its HEARTBEATs leave an RTO apart, which doubles from 50 ms.
    network.run_until(3000);
    assert_eq!(statuses(&network.paths(CLIENT)), [PathStatus::Active; 2]);
    assert_eq!(data_path(&network.paths(CLIENT)), 0, "the primary again");
    let sent = network.trace.len();
    network.send(CLIENT, 1000);
    network.run_until(3500);
    let data = network.trace[sent..]
        .iter()
        .filter(|sent| sent.has(ChunkType::DATA));
    assert!(data.into_iter().all(|sent| sent.path == 0));
    assert_eq!(network.received[SERVER], 6000);
}

#[test]
fn without_intervals_paths_are_verified_once_and_asked_after_a_failure() {
    let mut network = Network::new(SctpConfig {
        heartbeat_interval: Duration::ZERO,
        ..config()
    });
    network.open();
    network.run_until(2000);
    assert_eq!(statuses(&network.paths(SERVER)), [PathStatus::Active; 2]);
    let heartbeats = |network: &Network| {
        let sent = network.trace.iter();
        sent.filter(|sent| sent.has(ChunkType::HEARTBEAT)).count()
    };
    let before = heartbeats(&network);
    network.run_until(60_000);
    assert_eq!(heartbeats(&network), before, "nothing is asked in silence");
    network.cut[0] = true;
    network.send(CLIENT, 1000);
    network.run_until(90_000);
    assert_eq!(network.paths(CLIENT)[0].status, PathStatus::Inactive);
    network.cut[0] = false;
    network.run_until(95_000);
    assert_eq!(statuses(&network.paths(CLIENT)), [PathStatus::Active; 2]);
    let before = heartbeats(&network);
    network.run_until(150_000);
    assert_eq!(heartbeats(&network), before);
}

#[test]
fn path_that_stays_cut_is_inactive_and_the_association_lives() {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    network.cut[0] = true;
    for round in 1..=100 {
        network.send(CLIENT, 1000);
        network.run_until(1000 + 1000 * round);
    }
    let expected = [PathStatus::Inactive, PathStatus::Active];
    assert_eq!(statuses(&network.paths(CLIENT)), expected);
    assert_eq!(network.received[SERVER], 100_000);
    network.cut[0] = false;
    network.run_until(network.now_ms() + 10_000);
    assert_eq!(statuses(&network.paths(CLIENT)), [PathStatus::Active; 2]);
    let notified: Vec<PathStatus> = network.notices[CLIENT]
        .iter()
        .filter_map(|notice| match notice {
            Notice::PathStatus { path, status, .. } if path.local.0 == 0 => Some(*status),
            _ => None,
        })
        .collect();
    let expected = [
        PathStatus::PotentiallyFailed,
        PathStatus::Inactive,
        PathStatus::Active,
    ];
    assert_eq!(notified, expected);
}

#[test]
fn association_survives_a_cut_of_all_paths_and_ends_when_it_lasts() {
    for (cut_ms, survives) in [(2000, true), (60_000, false)] {
        let mut network = Network::new(config());
        network.open();
        network.run_until(1000);
        network.cut = [true; 8];
        network.send(CLIENT, 3000);
        network.run_until(1000 + cut_ms);
        network.cut = [false; 8];
        network.run_until(1000 + cut_ms + 10_000);
        assert_eq!(network.received[SERVER] == 3000, survives, "{cut_ms} ms");
        assert_eq!(network.closed[CLIENT].is_none(), survives, "{cut_ms} ms");
    }
}

#[test]
fn handshake_goes_on_by_the_second_path() {
    let mut network = Network::new(config());
    network.cut[0] = true;
    network.open();
    network.send(CLIENT, 700);
    network.run_until(4000);
    assert_eq!(network.received[SERVER], 700);
    network.send(SERVER, 300);
    network.run_until(4500);
    assert_eq!(network.received[CLIENT], 300);
}

#[test]
fn heartbeats_and_acknowledgements_are_answered_where_they_came_from() {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    let before = network.trace.len();
    network.set_primary(CLIENT, 1).expect("it has the path");
    for medium in [0, 1] {
        let requested = network.request_heartbeat(CLIENT, medium);
        requested.expect("it has the path");
    }
    network.send(CLIENT, 1000);
    network.run_until(1200);
    let paths_of = |from, kind| -> Vec<u16> {
        let of = network.trace[before..].iter();
        let of = of.filter(|sent| sent.from == from && sent.has(kind));
        of.map(|sent| sent.path).collect()
    };
    let asked = paths_of(CLIENT, ChunkType::HEARTBEAT);
    assert!(asked.contains(&0) && asked.contains(&1), "{asked:?}");
    assert_eq!(paths_of(SERVER, ChunkType::HEARTBEAT_ACK), asked);
    assert_eq!(paths_of(CLIENT, ChunkType::DATA), [1], "the new primary");
    assert_eq!(paths_of(SERVER, ChunkType::SACK), [1]);
    let unknown = network.set_primary(CLIENT, 5);
    assert!(unknown.is_err(), "there is no such path");
}

#[test]
fn spoofed_heartbeat_ack_with_a_wrong_nonce_verifies_nothing() {
    let mut network = Network::new(config());
    network.cut[1] = true;
    network.open();
    network.run_until(300);
    let mut probes = network
        .trace
        .iter()
        .filter(|sent| sent.from == SERVER && sent.path == 1 && sent.has(ChunkType::HEARTBEAT));
    let probe = probes
        .next_back()
        .expect("the path is looked at")
        .packet
        .clone();
    let heartbeat = Chunks::new(&probe)
        .find(|chunk| chunk.kind == ChunkType::HEARTBEAT)
        .expect("it was selected by it");
    let refused = |network: &Network| network.ends[SERVER].discards().count(DiscardReason::State);
    let before = refused(&network);
    for changed in 0..heartbeat.value.len() {
        let mut answer = heartbeat.value.to_vec();
        answer[changed] ^= 0x10;
        let is_nonce = (4..12).contains(&changed);
        let packet = network.forge(CLIENT, ChunkType::HEARTBEAT_ACK, &answer);
        if is_nonce {
            network.inject(SERVER, path_by(1, CLIENT), &packet);
            assert_eq!(network.paths(SERVER)[1].status, PathStatus::Unconfirmed);
        }
    }
    assert_eq!(refused(&network), before + 8, "each was refused");
    // The right one, so that the test would see a verification.
    let answer = heartbeat.value.to_vec();
    let packet = network.forge(CLIENT, ChunkType::HEARTBEAT_ACK, &answer);
    network.inject(SERVER, path_by(1, CLIENT), &packet);
    assert_eq!(network.paths(SERVER)[1].status, PathStatus::Active);
}

#[test]
fn spoofed_packets_without_the_tag_change_nothing() {
    let mut network = Network::new(config());
    network.open();
    network.send(CLIENT, 2000);
    network.run_until(1000);
    let genuine = network.trace.clone();
    let state = |network: &Network| {
        let paths = [CLIENT, SERVER].map(|end| format!("{:?}", network.paths(end)));
        (paths, network.received, network.closed)
    };
    let before = state(&network);
    let mut random = SplitMix64::new(9);
    for sent in &genuine {
        let mut packet = sent.packet.clone();
        packet[4..8].copy_from_slice(&(random.next_u64() as u32 | 1).to_be_bytes());
        complete_checksum(&mut packet);
        for from in [path_by(0, sent.from), path_by(1, sent.from), path_by(0, 77)] {
            network.inject(1 - sent.from, from, &packet);
            assert_eq!(state(&network), before);
        }
    }
    for kind in 0..=255 {
        let mut packet = CommonHeader {
            tag: Tag(random.next_u64() as u32 | 1),
            ..CommonHeader::parse(&genuine[2].packet).expect("a packet")
        }
        .emit()
        .to_vec();
        push_chunk(&mut packet, ChunkType(kind), 0, &[0; 16]);
        complete_checksum(&mut packet);
        network.inject(SERVER, path_by(1, CLIENT), &packet);
        assert_eq!(state(&network), before, "chunk {kind}");
    }
    network.send(CLIENT, 500);
    network.run_until(1500);
    assert_eq!(network.received[SERVER], 2500);
}

#[test]
fn interface_that_is_down_moves_data_without_a_timeout() {
    let mut network = Network::new(config());
    network.open();
    network.run_until(1000);
    let now = network.now;
    network.ends[CLIENT].handle_path_error(
        now,
        PathFault {
            path: path_by(0, SERVER),
            error: PathError::Local(100),
            quoted: &[],
        },
    );
    assert_eq!(data_path(&network.paths(CLIENT)), 1);
    network.cut[0] = true;
    let at = network.now_ms();
    network.send(CLIENT, 1000);
    network.run_until(at + DELAY_MS + 1);
    assert_eq!(network.received[SERVER], 1000);
}

#[test]
fn refused_address_is_left_for_the_next_and_the_last_one_refuses() {
    let socket = |port: u16| Address::Socket(([127, 0, 0, 1], port).into());
    let mut engine = Sctp::new(config());
    let now = engine::Instant::from_nanos(1);
    let opened = engine.connect(now, &[socket(1), socket(2)]);
    let id = opened.expect("room for one");
    let mut asked = Vec::new();
    for port in [1, 2] {
        let sent = network::packets(&mut engine, now);
        let (path, init) = sent.last().expect("an INIT");
        asked.push(path.remote);
        let fault = PathFault {
            path: Path::to(socket(port)),
            error: PathError::Unreachable,
            quoted: init,
        };
        engine.handle_path_error(now, fault);
    }
    assert_eq!(asked, [socket(1), socket(2)]);
    let closed = engine::Event::Closed(id, engine::CloseReason::Refused);
    assert_eq!(engine.poll_event(), Some(closed));
}
