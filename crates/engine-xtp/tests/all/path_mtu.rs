//! Paths that carry no long packets: told by the host, or found out by losses.

use crate::pair::{MS, Narrowing, Outcome, Path, TraceLine, both, clean, joined, messages, run};
use crate::user::Plan;
use engine::{
    Address, AssociationId, Associations, Batch, CloseReason, Framing, Instant, PathError,
    PathFault, Protocol, SendFlags, SplitMix64,
};
use engine_xtp::config::Holdings;
use engine_xtp::pdu::Version;
use engine_xtp::{Config, Xtp};
use link::LinkConfig;

const VERSIONS: [Version; 4] = [Version::V40, Version::V33, Version::V35, Version::V36];

fn config(version: Version, framing: Framing, explicit: bool) -> Config {
    Config {
        version,
        framing,
        explicit,
        black_hole_detection: true,
        ..Config::default()
    }
}

/// Every combination of dialect, framing and kind of opening.
fn configs() -> impl Iterator<Item = Config> {
    VERSIONS.into_iter().flat_map(|version| {
        [Framing::Stream, Framing::Messages]
            .into_iter()
            .flat_map(move |framing| {
                [true, false].map(|explicit| config(version, framing, explicit))
            })
    })
}

fn narrow(at_ps: u64, mtu: usize, is_notified: bool) -> Path {
    Path {
        narrows: Some(Narrowing {
            at_ps,
            mtu,
            is_notified,
        }),
        segments_max: 8,
        ..Path::from(clean())
    }
}

/// Both sides send messages, and each must get all of them.
fn transfer(config: &Config, path: Path, seed: u64) -> Outcome {
    let mut random = SplitMix64::new(seed);
    let sent = [messages(&mut random, 60), messages(&mut random, 20)];
    let plans = sent.clone().map(|sends| Plan {
        sends,
        answers: false,
        ..Plan::default()
    });
    let about = format!("{config:?} {path:?}");
    let outcome = run(both(config, seed), plans, path, seed);
    for side in [0, 1] {
        let (got, sent) = (&outcome.received[1 - side], &sent[side]);
        assert!(joined(got) == joined(sent), "{side} of {about}");
    }
    assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2], "{about}");
    assert_eq!(outcome.holdings, [Holdings::default(); 2], "{about}");
    outcome
}

fn longest(trace: &[TraceLine]) -> usize {
    let lens = trace.iter().map(|line| line.packet.len());
    lens.max().expect("packets were sent")
}

#[test]
fn black_hole_for_long_packets_is_passed_by_shorter_ones() {
    for (at, config) in configs().enumerate() {
        for mtu in [600, 1232, 1300, 1392] {
            transfer(&config, narrow(0, mtu, false), at as u64);
        }
    }
}

#[test]
fn black_hole_that_opens_in_mid_stream_is_passed() {
    for (at, config) in configs().enumerate() {
        for mtu in [560, 1250] {
            transfer(&config, narrow(6 * MS, mtu, false), at as u64);
        }
    }
}

#[test]
fn path_that_is_said_to_be_narrow_gets_no_longer_packet() {
    for (at, config) in configs().enumerate() {
        for mtu in [548, 1232, 1301, 1451] {
            let notified_at = 8 * MS;
            let outcome = transfer(&config, narrow(notified_at, mtu, true), at as u64);
            let long = |line: &&TraceLine| line.packet.len() > mtu;
            for side in [0, 1] {
                let own = outcome.trace.iter().filter(|line| line.from == side);
                let late = own.filter(|line| line.at_ps >= notified_at).filter(long);
                // What a batch held, and what was cut when the first of it was refused.
                assert!(late.count() <= 8, "side {side}, {mtu}, {config:?}");
            }
            // Not a black hole: the repair takes round trips, not tens of timeouts.
            assert!(outcome.end_ps < 3_000 * MS, "{} ms", outcome.end_ps / MS);
        }
    }
}

#[test]
fn random_loss_is_no_black_hole() {
    let lossy = LinkConfig {
        loss_ppm: 30_000,
        ..clean()
    };
    let config = config(Version::V40, Framing::Stream, true);
    let sends = messages(&mut SplitMix64::new(4), 6000);
    let plans = [sends, Vec::new()].map(|sends| Plan {
        sends,
        answers: false,
        ..Plan::default()
    });
    let outcome = run(both(&config, 7), plans, lossy, 7);
    assert!(outcome.counters[0].retransmissions > 100);
    let last = &outcome.trace[outcome.trace.len() - 500..];
    assert_eq!(longest(last), config.packet_len);
}

/// What an endpoint sends of 100,000 bytes to `peer` before an answer, after its host said `mtus` and
/// a network, or an attacker, `forged`.
fn lens_after(peer: Address, mtus: &[u16], forged: &[u16]) -> Vec<usize> {
    let mut xtp = Xtp::new(Config {
        explicit: false,
        ..Config::default()
    });
    let id = xtp.connect(Instant::ZERO, &[peer]).expect("room");
    let quoted = [0x45; 28];
    let all = mtus.iter().map(|mtu| (*mtu, &quoted[..0]));
    for (mtu, quoted) in all.chain(forged.iter().map(|mtu| (*mtu, &quoted[..]))) {
        let fault = PathFault {
            path: peer.into(),
            error: PathError::TooBig(mtu),
            quoted,
        };
        xtp.handle_path_error(Instant::ZERO, fault);
    }
    let flags = SendFlags::PUSH;
    xtp.submit(Instant::ZERO, id, 100_000, flags, &engine::Note::default());
    let mut lens = Vec::new();
    loop {
        let mut batch = Batch::new(46);
        xtp.poll_transmit(Instant::ZERO, &mut batch);
        if batch.is_empty() {
            return lens;
        }
        lens.extend(batch.packets().iter().map(|packet| packet.len()));
    }
}

#[test]
fn packets_are_never_shorter_than_every_path_carries() {
    let v4: Address = Address::Socket(([10, 0, 0, 1], 9000).into());
    let v6 = Address::Socket(([0xfd00, 0, 0, 0, 0, 0, 0, 1], 9000).into());
    for (peer, least) in [(v4, 548), (v6, 1232)] {
        for lie in [0, 68, 100, 547] {
            let lens = lens_after(peer, &[lie], &[]);
            assert_eq!(lens.iter().max(), Some(&least), "{peer:?} {lie}");
        }
        // A longer path than before, and one longer than packets may be.
        let lens = lens_after(peer, &[1300, 1400, 9000], &[]);
        assert_eq!(lens.iter().max(), Some(&1300));
    }
}

#[test]
fn report_from_the_network_changes_nothing() {
    let peer = Address::Socket(([10, 0, 0, 1], 9000).into());
    assert_eq!(
        lens_after(peer, &[], &[68, 600]),
        lens_after(peer, &[], &[])
    );
}

#[test]
fn layout_follows_the_path_until_data_are_submitted() {
    let peer = Address::Socket(([10, 0, 0, 1], 9000).into());
    let mut xtp = Xtp::new(Config::default());
    let id: AssociationId = xtp.connect(Instant::ZERO, &[peer]).expect("room");
    let usual = xtp.layout(None);
    assert_eq!(xtp.layout(Some(id)), usual);
    xtp.set_path_mtu(Instant::ZERO, id, 1400);
    assert_eq!(xtp.layout(Some(id)).packet(), 1400);
    assert_eq!(xtp.layout(None), usual);
    let flags = SendFlags::NONE;
    xtp.submit(Instant::ZERO, id, 10, flags, &engine::Note::default());
    xtp.set_path_mtu(Instant::ZERO, id, 1300);
    assert_eq!(xtp.layout(Some(id)).packet(), 1400);
}
