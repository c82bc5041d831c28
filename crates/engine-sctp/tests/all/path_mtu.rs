//! Path MTU discovery between two endpoints in virtual time: what probes find, routes that change in
//! mid-transfer, black holes, and reports that lie. Lengths are those of SCTP packets, which are 28 octets
//! shorter than IPv4's.

use crate::drawn::seeds;
use crate::support::{MS, Message, Reader, RunOutcome, run_with};
use engine::{Address, Note, Path, PathError, PathFault, Protocol};
use engine_sctp::pdu::{ChunkType, Chunks};
use engine_sctp::{Sctp, SctpConfig};
use link::LinkConfig;
use sim::World;

const AT_ONCE: Reader = Reader { from_ms: 0 };

/// How far below what a path carries a search may end.
const GRANULARITY: usize = 20;

fn configs(seed: u64) -> [SctpConfig; 2] {
    [0, 1].map(|station| SctpConfig {
        probes_path_mtu: true,
        seed: 2 * seed + station,
        secret: engine::Secret::from_seed(2 * seed + station),
        ..SctpConfig::default()
    })
}

fn link(rate_bps: u64, loss_ppm: u32) -> LinkConfig {
    LinkConfig {
        rate_bps: Some(rate_bps),
        delay_ps: 5 * MS,
        loss_ppm,
        ..LinkConfig::default()
    }
}

fn messages(count: usize, len: usize) -> Vec<Message> {
    let message = |index: usize| Message {
        bytes: (0..len).map(|at| (index * 31 + at) as u8).collect(),
        note: Note::default(),
    };
    (0..count).map(message).collect()
}

/// Sends `sent` over a route of which `happens` says how it changes; all of it arrives.
fn transfer(
    sent: &[Message],
    link: LinkConfig,
    seed: u64,
    happens: impl FnMut(&mut World<Sctp>, u64),
) -> RunOutcome {
    let outcome = run_with(configs(seed), sent, (link, seed), AT_ONCE, happens);
    assert!(outcome.received == sent, "{} came", outcome.received.len());
    assert_eq!(outcome.closed, [true, true]);
    outcome
}

/// Whether a packet is a probe: a HEARTBEAT and PAD.
fn is_probe(packet: &[u8]) -> bool {
    Chunks::new(packet).any(|chunk| chunk.kind == ChunkType::HEARTBEAT)
        && Chunks::new(packet).any(|chunk| chunk.kind == ChunkType::PAD)
}

/// Octets of the longest packet with user data sent from `from_ms` on.
fn longest_data(outcome: &RunOutcome, from_ms: u64) -> usize {
    let has_data = |packet: &[u8]| Chunks::new(packet).any(|chunk| chunk.kind == ChunkType::DATA);
    let data = outcome.trace.iter().filter(|line| {
        line.at_ps >= from_ms * MS && !is_probe(&line.packet) && has_data(&line.packet)
    });
    data.map(|line| line.packet.len()).max().unwrap_or(0)
}

#[test]
fn probes_find_what_the_path_carries_and_no_data_are_lost_for_it() {
    for ip_mtu in [1280, 1400, 1500, 9000] {
        let carried = ip_mtu - 28;
        let sent = messages(1500, 5000);
        let outcome = transfer(&sent, link(10_000_000, 0), 1, |world, _| {
            world.set_path_mtu(carried);
        });
        let expected = carried.min(1472);
        let [mtu, unasked] = outcome.path_mtus;
        assert!(
            mtu <= expected && mtu + GRANULARITY > expected,
            "{ip_mtu}: {mtu}"
        );
        assert_eq!(unasked, 1200, "who sends no data asks nothing");
        assert_eq!(outcome.retransmissions, 0, "{ip_mtu}");
        assert!(longest_data(&outcome, 0) <= expected);
        assert!(
            longest_data(&outcome, 3000) + GRANULARITY > expected,
            "{ip_mtu}"
        );
    }
}

#[test]
fn first_packets_have_the_base_length_and_a_probe_takes_one_round_trip() {
    let sent = messages(100, 5000);
    let outcome = transfer(&sent, link(10_000_000, 0), 1, |_, _| {});
    let (first, probes): (Vec<_>, Vec<_>) = (outcome.trace.iter())
        .filter(|line| line.at_ps < 30 * MS)
        .partition(|line| !is_probe(&line.packet));
    assert!(first.iter().all(|line| line.packet.len() <= 1200));
    assert!(probes.iter().all(|line| line.packet.len() == 1472));
    assert_eq!(probes.len(), 1, "of the end that sends");
    assert_eq!(outcome.path_mtus, [1472, 1200]);
    assert_eq!(longest_data(&outcome, 0), 1472);
}

#[test]
fn association_that_fills_no_packet_sends_no_probe() {
    let sent = messages(1, 1000);
    let outcome = transfer(&sent, link(10_000_000, 0), 1, |_, _| {});
    assert!(outcome.trace.iter().all(|line| !is_probe(&line.packet)));
    assert_eq!(outcome.path_mtus, [1200, 1200]);
}

#[test]
fn route_that_shrinks_in_mid_transfer_loses_nothing_and_is_found_wide_again() {
    let sent = messages(3500, 5000);
    let mut narrow = 0;
    let outcome = transfer(&sent, link(200_000, 0), 3, |world, at_ms| {
        match at_ms {
            0..20_000 => world.set_path_mtu(1472),
            20_000..200_000 => world.set_path_mtu(1300),
            _ => world.set_path_mtu(1472),
        }
        if (150_000..200_000).contains(&at_ms) {
            let views = world.pump(0).engine().association_views(1);
            narrow = views[0].paths[0].path_mtu;
        }
    });
    assert!(narrow <= 1300 && narrow + GRANULARITY > 1300, "{narrow}");
    assert!(
        outcome.elapsed_ms > 630_000,
        "the search is raised meanwhile"
    );
    assert_eq!(outcome.path_mtus[0], 1472, "the route is wide again");
}

/// What had its TSN before the route shrank is longer than the route, and never cut again: it goes in
/// fragments, whatever else is sent.
#[test]
fn chunks_cut_too_long_leave_alone_and_in_fragments() {
    let sent = messages(400, 5000);
    let outcome = transfer(&sent, link(2_000_000, 0), 4, |world, at_ms| {
        world.set_path_mtu(if at_ms < 1000 { 1472 } else { 1252 });
    });
    let long = outcome
        .trace
        .iter()
        .filter(|line| line.at_ps > 1000 * MS && line.packet.len() > 1252 && line.arrives);
    let long: Vec<_> = long.collect();
    assert!(!long.is_empty());
    for line in long {
        let data = Chunks::new(&line.packet).filter(|chunk| chunk.kind == ChunkType::DATA);
        assert_eq!(data.count(), 1);
        assert!(!is_probe(&line.packet));
    }
    assert!(
        longest_data(&outcome, 6000) <= 1252,
        "what is cut later fits"
    );
}

#[test]
fn path_below_the_base_is_a_black_hole_that_ends() {
    let outcome = transfer(&messages(800, 3000), link(1_000_000, 0), 5, |world, _| {
        world.set_path_mtu(700);
    });
    let mtu = outcome.path_mtus[0];
    assert!(
        (548..=700).contains(&mtu) && mtu + GRANULARITY > 700,
        "{mtu}"
    );
}

/// Lost probes say nothing of the path's errors nor of congestion: the window of an association that
/// sends nothing else stays, and its path is active.
#[test]
fn lost_probe_is_no_error_of_the_path() {
    let mut checked = 0;
    transfer(
        &messages(300, 5000),
        link(2_000_000, 0),
        6,
        |world, at_ms| {
            world.set_path_mtu(1300);
            if at_ms > 100 {
                for view in world.pump(0).engine().association_views(1) {
                    assert_eq!((view.errors, view.paths[0].errors), (0, 0));
                    assert!(view.paths[0].congestion_window >= 4344);
                    checked += 1;
                }
            }
        },
    );
    assert!(checked > 100);
}

#[test]
fn lossy_paths_deliver_all_and_never_use_more_than_they_carry() {
    for seed in seeds(12) {
        let carried = 1100 + 37 * (seed as usize % 11);
        let lossy = LinkConfig {
            duplicate_ppm: 20_000,
            reorder_ppm: 20_000,
            reorder_ps: 3 * MS,
            ..link(5_000_000, 40_000)
        };
        let outcome = transfer(&messages(200, 3000), lossy, seed, |world, _| {
            world.set_path_mtu(carried);
        });
        for mtu in outcome.path_mtus {
            assert!(mtu <= carried.max(1200), "{seed}: {mtu} of {carried}");
        }
    }
}

/// A path that is cut for a while is not taken for a narrow one.
#[test]
fn path_that_was_down_keeps_its_length() {
    let outcome = transfer(
        &messages(400, 5000),
        link(2_000_000, 0),
        7,
        |world, at_ms| {
            world.set_path_mtu(if (1000..4000).contains(&at_ms) {
                0
            } else {
                1472
            });
        },
    );
    assert_eq!(outcome.path_mtus[0], 1472);
}

/// A report that a packet was too big, as the network or a liar sends it.
fn report(world: &mut World<Sctp>, octets: u16, quoted: &[u8]) {
    let now = world.now();
    let fault = PathFault {
        path: Path::to(Address::Station(1)),
        error: PathError::TooBig(octets),
        quoted,
    };
    world.pump(0).engine().handle_path_error(now, fault);
}

#[test]
fn lying_reports_cost_probes_and_no_octet_of_the_path_mtu() {
    let mut random = engine::SplitMix64::new(8);
    let outcome = transfer(
        &messages(200, 5000),
        link(2_000_000, 0),
        8,
        |world, at_ms| {
            let octets = [0, 68, 548, 1200, 1400, 1471, 9000, 65_535][random.below(8) as usize];
            // Of a packet with another tag, and without one as from a host that believed a forged one.
            report(world, octets, &[7; 20]);
            report(world, octets, &[]);
            for view in world.pump(0).engine().association_views(1) {
                let found = view.paths[0].path_mtu;
                assert!(at_ms < 100 || found == 1472, "{at_ms} ms: {found}");
            }
        },
    );
    assert_eq!(outcome.path_mtus[0], 1472);
    assert_eq!(outcome.retransmissions, 0);
}

#[test]
fn true_report_is_asked_first() {
    let mut is_reported = false;
    let outcome = transfer(
        &messages(400, 5000),
        link(2_000_000, 0),
        9,
        |world, at_ms| {
            world.set_path_mtu(if at_ms < 1000 { 1472 } else { 1372 });
            if at_ms >= 1000 && !is_reported {
                is_reported = true;
                report(world, 1372, &[]);
            }
        },
    );
    assert_eq!(outcome.path_mtus[0], 1372, "exactly what was said");
}

#[test]
fn fixed_length_sends_no_probe() {
    let fixed = configs(1).map(|config| SctpConfig {
        probes_path_mtu: false,
        ..config
    });
    let sent = messages(50, 5000);
    let outcome = run_with(fixed, &sent, (link(2_000_000, 0), 1), AT_ONCE, |_, _| {});
    assert!(outcome.received == sent);
    assert!(!outcome.trace.iter().any(|line| is_probe(&line.packet)));
    assert_eq!(longest_data(&outcome, 0), 1472);
}
