//! Streams and messages over faulty links: exact delivery, repeatable runs, no state left.

use crate::drawn::seeds;
use crate::pair::{MS, Narrowing, Outcome, Path, both, clean, joined, messages, packet_log, run};
use crate::user::Plan;
use core::time::Duration;
use engine::{Address, CloseReason, Framing, Secret, SplitMix64};
use engine_xtp::config::{Congestion, RateLimit};
use engine_xtp::pdu::{NamedAddress, Service, Version};
use engine_xtp::{Config, ErrorControl, FlowControl, Holdings, SpanMeaning, StatusRequestKind};
use link::LinkConfig;
use std::collections::{BTreeMap, BTreeSet};

/// A path with faults of all kinds, some of them far longer than a round trip.
fn faulty(random: &mut SplitMix64) -> Path {
    let mut ppm = |most: u64| {
        if random.below(3) == 0 {
            0
        } else {
            random.below(most) as u32
        }
    };
    let link = LinkConfig {
        loss_ppm: ppm(80_000),
        duplicate_ppm: ppm(50_000),
        reorder_ppm: ppm(80_000),
        corrupt_ppm: ppm(20_000),
        reorder_ps: random.below(5) * MS,
        delay_ps: random.below(20) * MS / 4,
        rate_bps: Some(1_000_000 << random.below(10)),
        ..clean()
    };
    let mut path = Path {
        segments_max: [1, 2, 46][random.below(3) as usize],
        ..Path::from(link)
    };
    // From a clone, which leaves the later draws as they were.
    let mut narrow = random.clone();
    if narrow.below(4) == 0 {
        path.narrows = Some(Narrowing {
            at_ps: narrow.below(100) * MS,
            mtu: 548 + narrow.below(900) as usize,
            is_notified: true,
        });
    }
    match random.below(8) {
        0 => {
            let start = random.below(1000) * MS;
            path.partition_ps = start..start + random.below(4000) * MS;
        }
        // Longer than any quarantine.
        1 => (path.delayed_copy_ppm, path.delayed_copy_ps) = (50_000, random.below(5000) * MS),
        // Overtaken by whole windows of packets.
        2 => path.link.reorder_ps = random.below(300) * MS,
        _ => {}
    }
    path
}

fn any<T: Clone>(random: &mut SplitMix64, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize].clone()
}

/// Versions to draw from; 4.0 is as likely as two others together.
const VERSIONS: [Version; 5] = [
    Version::V40,
    Version::V40,
    Version::V36,
    Version::V35,
    Version::V33,
];

const ERRORS: [ErrorControl; 5] = [
    ErrorControl::Selective,
    ErrorControl::Selective,
    ErrorControl::GoBackN,
    ErrorControl::GoBackN,
    ErrorControl::None,
];

/// Draws every option. Both peers share those they must agree on.
fn options(random: &mut SplitMix64) -> Config {
    let ms = Duration::from_millis;
    let rate = RateLimit {
        rate_bytes_per_s: 1_000_000,
        burst_bytes: 1000 << random.below(6),
    };
    let (flow, service) = (flow(random), service(random));
    let mut config = Config {
        packet_len: any(random, &[128, 256, 576, 1472, 9000]),
        black_hole_detection: any(random, &[true, false]),
        window: 8192 << random.below(8),
        initial_window: any(random, &[0, 1000, 64 << 10]),
        checksum: any(random, &[true, false]),
        framing: any(random, &[Framing::Stream, Framing::Messages]),
        error: any(random, &ERRORS),
        fastnak: any(random, &[true, false]),
        flow,
        service,
        explicit: any(random, &[true, false]),
        supervised: any(random, &[true, false, false]),
        rate: any(random, &[None, None, None, Some(rate)]),
        congestion: any(random, &Congestion::ALL),
        spans: any(random, &[SpanMeaning::Received, SpanMeaning::Missing]),
        sort: any(random, &[None, Some(7)]),
        port: any(random, &[1, 5000]),
        source_port: any(random, &[0, 6000]),
        shared_address: any(random, &[false, true]),
        status_interval_bytes: 4096 << random.below(6),
        status_delay: any(random, &[Duration::ZERO, ms(1), ms(5)]),
        reply_delay: any(random, &[Duration::ZERO, ms(10), ms(100)]),
        wtimer_initial: any(random, &[ms(100), ms(500)]),
        wtimer_min: any(random, &[ms(20), ms(50), ms(200)]),
        wtimer_max: any(random, &[ms(2000), ms(10_000)]),
        retries_max: any(random, &[12, 16]),
        handshake_max: any(random, &[ms(20_000), ms(30_000)]),
        keepalive: any(random, &[Duration::ZERO, ms(100), ms(60_000)]),
        quarantine: any(random, &[Duration::ZERO, ms(100), ms(2000)]),
        quarantine_max: any(random, &[0, 1, 65_536]),
        associations_max: any(random, &[4, 65_536]),
        unvalidated_max: any(random, &[2, 1024]),
        low_water: any(random, &[0, 0, 100, 5000]),
        high_water: any(random, &[None, None, Some(0), Some(200), Some(20_000)]),
        coalesce_delay: any(random, &[Duration::ZERO, ms(1), ms(20)]),
        initial_rtt: any(random, &[None, Some(ms(10)), Some(ms(100))]),
        oqmax: any(random, &[None, None, Some(5000), Some(16 << 10)]),
        iqmax: any(random, &[None, None, Some(5000), Some(16 << 10)]),
        null_data: any(random, &[true, false]),
        status_request_kind: any(
            random,
            &[StatusRequestKind::Received, StatusRequestKind::Delivered],
        ),
        version: any(random, &VERSIONS),
        initial_seq: any(random, &[None, Some(u32::MAX - 20_000), Some(0x7fff_ff00)]),
        fixed_pairs: any(random, &[true, false]),
        routes: any(random, &[true, false]),
        gateway: any(random, &[None, Some(Address::Station(1))]),
        hop_limit: any(random, &[1, 16]),
        seed: random.next_u64() >> 1,
        // From clones, which leave the later draws as they were.
        input_rate: any(&mut random.clone(), &[None, None, Some(rate)]),
        output_rate: any(&mut random.clone(), &[None, Some(rate), None]),
        secret: Secret::from_seed(random.clone().next_u64()),
        // The rest is drawn below.
        ..Config::default()
    };
    // Drawn with another field: what follows stays as it was.
    let managers = usize::from(config.hop_limit == 1);
    config.managers = vec![core::net::Ipv4Addr::LOCALHOST.into(); managers];
    config
}

/// Sometimes no opening is accepted early, which datagrams without acknowledgement need. From a
/// clone, as the secret.
fn with_validation(config: Config, random: &SplitMix64) -> Config {
    let possible = config.service != Service::Datagram;
    Config {
        early_accept: !possible || random.clone().below(3) > 0,
        address: NamedAddress::parse(any(&mut random.clone(), &["", "direct:01", "iso:49"])),
        ..config
    }
}

fn flow(random: &mut SplitMix64) -> FlowControl {
    let all = [
        FlowControl::Allocation,
        FlowControl::Reservation,
        FlowControl::Off,
    ];
    any(random, &all)
}

fn service(random: &mut SplitMix64) -> Service {
    let rare = [
        Service::Unspecified,
        Service::Transaction,
        Service::AckedDatagram,
        Service::Datagram,
    ];
    let all = [
        Service::Stream,
        Service::Stream,
        Service::Bulk,
        Service::Isochronous,
    ];
    any(random, &[all, rare].concat())
}

/// The case of a run: configuration and path.
struct Case {
    config: Config,
    path: Path,
    sent: [Vec<Vec<u8>>; 2],
}

fn case(seed: u64) -> (Case, [Plan; 2]) {
    let mut random = SplitMix64::new(seed);
    let path = faulty(&mut random);
    let config = with_validation(options(&mut random), &random);
    let one_way = matches!(config.service, Service::AckedDatagram | Service::Datagram);
    let counts = [60, if one_way { 0 } else { 20 }];
    let sent = counts.map(|count| messages(&mut random, count));
    let pauses = [0, 0, 3, 40].map(Duration::from_millis);
    let plans = sent.clone().map(|sends| Plan {
        sends,
        answers: seed.is_multiple_of(3),
        never_pushes: random.below(2) == 0,
        pause: any(&mut random, &pauses),
        ..Plan::default()
    });
    let [opener, other] = plans;
    let opener = Plan {
        answers: false,
        ..opener
    };
    let case = Case { config, path, sent };
    (case, [opener, other])
}

/// Runs `seed`: both sides send, if the service allows.
fn one(seed: u64) -> (Case, Outcome) {
    let (case, plans) = case(seed);
    let outcome = run(both(&case.config, seed), plans, case.path.clone(), seed);
    (case, outcome)
}

/// Checks what one user received of what the other sent.
fn assert_received(case: &Case, outcome: &Outcome, from: usize, about: &str) {
    let (got, sent) = (&outcome.received[1 - from], &case.sent[from]);
    let no_error_control = matches!(
        case.config.service,
        Service::Datagram | Service::Isochronous
    );
    let lossy = case.config.error == ErrorControl::None || no_error_control;
    let damage = if case.config.checksum {
        0
    } else {
        outcome.damaged
    };
    let counters = outcome.counters[1 - from];
    if !lossy {
        assert_eq!(outcome.gaps[1 - from], 0, "{about}: a gap");
        assert_eq!(counters.bytes_lost, 0, "{about}: bytes lost");
        if case.config.framing == Framing::Messages {
            let lens = |list: &[Vec<u8>]| list.iter().map(Vec::len).collect::<Vec<_>>();
            assert_eq!(lens(got), lens(sent), "{about}: messages of {from}");
        }
        let (got, sent) = (joined(got), joined(sent));
        assert_eq!(got.len(), sent.len(), "{about}: bytes of {from}");
        let wrong = got.iter().zip(&sent).filter(|(one, other)| one != other);
        assert!(wrong.count() as u64 <= damage, "{about}: bytes of {from}");
        return;
    }
    let total = joined(sent).len() as u64;
    let seen = joined(got).len() as u64;
    assert!(seen <= total, "{about}: {seen} of {total} bytes");
    if case.config.framing == Framing::Messages && damage == 0 {
        let mut rest = sent.iter();
        let known = got.iter().all(|message| rest.any(|sent| sent == message));
        assert!(known, "{about}: not sent, twice, partial or out of order");
    }
}

#[test]
fn faulty_link_delivers_every_byte_once_in_order() {
    let mut repaired = 0;
    for seed in seeds(400) {
        let (case, outcome) = one(seed);
        let about = format!("seed {seed}, {:?}, {:?}", case.config, case.path);
        for side in [0, 1] {
            assert_received(&case, &outcome, side, &about);
        }
        if case.config.service != Service::Datagram {
            assert_eq!(outcome.finished, [true; 2], "{about}");
            let ended = outcome.closed.iter().all(Option::is_some);
            let end = packet_log(&outcome.trace[outcome.trace.len().saturating_sub(30)..]);
            assert!(ended, "{about}: {:?}\n{end}", outcome.closed);
        }
        assert_eq!(outcome.holdings, [Holdings::default(); 2], "{about}");
        repaired += outcome.counters[0].retransmissions;
    }
    assert!(
        repaired > 100 || seeds(400).count() == 1,
        "only {repaired} retransmissions: the links lost too little"
    );
}

#[test]
fn random_config_varies_every_field() {
    let mut seen: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for seed in 0..200 {
        let config = case(seed).0.config;
        let text = format!("{config:#?}");
        let fields = text
            .lines()
            .filter(|line| line.starts_with("    ") && !line.starts_with("     "));
        for (name, value) in fields.filter_map(|line| line.trim().split_once(": ")) {
            let value = match name {
                // Its text does not show it.
                "secret" => format!("{:?}", config.secret.octets()),
                _ => value.to_owned(),
            };
            seen.entry(name.to_owned()).or_default().insert(value);
        }
    }
    assert!(seen.len() > 30, "{} fields", seen.len());
    for (name, values) in seen {
        assert!(values.len() > 1, "{name} is always {values:?}");
    }
}

#[test]
fn same_seed_gives_same_trace() {
    assert!(one(21).1.trace == one(21).1.trace);
    assert!(one(21).1.trace != one(22).1.trace);
}

#[test]
fn loss_shown_by_later_data_repaired_without_timeout() {
    let sent = messages(&mut SplitMix64::new(1), 1000);
    let config = Config {
        wtimer_initial: core::time::Duration::from_secs(9),
        wtimer_min: core::time::Duration::from_secs(9),
        ..Config::default()
    };
    let link = LinkConfig {
        loss_ppm: 2_000,
        ..clean()
    };
    let plans = [sent.clone(), Vec::new()].map(|sends| Plan {
        sends,
        answers: false,
        ..Plan::default()
    });
    let outcome = run(both(&config, 5), plans, link, 12);
    assert!(joined(&outcome.received[1]) == joined(&sent));
    assert!(outcome.counters[0].retransmissions > 0, "nothing was lost");
    assert!(
        outcome.counters[0].retransmissions < 20,
        "more retransmissions than losses"
    );
}

#[test]
fn no_error_control_reports_gaps_without_retransmission() {
    for seed in seeds(40) {
        let sent = messages(&mut SplitMix64::new(seed), 200);
        let config = Config {
            error: ErrorControl::None,
            framing: Framing::Messages,
            explicit: seed.is_multiple_of(2),
            ..Config::default()
        };
        let link = LinkConfig {
            loss_ppm: 20_000,
            duplicate_ppm: 10_000,
            ..clean()
        };
        let plans = [sent.clone(), Vec::new()].map(|sends| Plan {
            sends,
            answers: false,
            ..Plan::default()
        });
        let outcome = run(both(&config, seed), plans, link, seed);
        let mut rest = sent.iter();
        for message in &outcome.received[1] {
            assert!(
                rest.any(|sent| sent == message),
                "seed {seed}: not sent, twice or damaged"
            );
        }
        let counters = outcome.counters[1];
        let total = joined(&sent).len() as u64;
        assert_eq!(
            counters.bytes_delivered + counters.bytes_lost,
            total,
            "seed {seed}"
        );
        assert!(outcome.received[1].len() > 100, "seed {seed}");
        outcome.assert_ended(&format!("seed {seed}"));
    }
}

#[test]
fn partition_survived_with_quick_recovery() {
    let sent = messages(&mut SplitMix64::new(3), 3000);
    let plans = [sent.clone(), sent.clone()].map(|sends| Plan {
        sends,
        ..Plan::default()
    });
    let path = Path {
        partition_ps: 50 * MS..4050 * MS,
        ..Path::from(clean())
    };
    let outcome = run(both(&Config::default(), 2), plans, path, 3);
    for side in [0, 1] {
        assert!(joined(&outcome.received[side]) == joined(&sent), "{side}");
    }
    assert_eq!(outcome.closed, [Some(CloseReason::Graceful); 2]);
    // At worst, the last try began halfway through the partition.
    assert!(outcome.end_ps < 12_000 * MS, "{} ms", outcome.end_ps / MS);
}

/// A copy of FIRST that outlives the quarantine opens another association, whose address is never
/// validated.
#[test]
fn duplicates_after_quarantine_are_harmless() {
    let sent = messages(&mut SplitMix64::new(3), 50);
    let plans = [sent.clone(), Vec::new()].map(|sends| Plan {
        sends,
        ..Plan::default()
    });
    let path = Path {
        delayed_copy_ppm: 1_000_000,
        delayed_copy_ps: 5_000 * MS,
        ..Path::from(clean())
    };
    let config = Config {
        explicit: false,
        ..Config::default()
    };
    let outcome = run(both(&config, 2), plans, path, 3);
    assert!(joined(&outcome.received[1]) == joined(&sent));
    outcome.assert_ended("");
    assert!(outcome.end_ps > 30_000 * MS, "no copy opened anew");
}

#[test]
fn silent_peer_times_out() {
    let config = Config::default();
    let dead = LinkConfig {
        loss_ppm: 1_000_000,
        ..clean()
    };
    let plans = [vec![vec![1; 5000]], Vec::new()].map(|sends| Plan {
        sends,
        answers: false,
        ..Plan::default()
    });
    let outcome = run(both(&config, 1), plans, dead, 1);
    assert_eq!(outcome.closed[0], Some(CloseReason::TimedOut));
    let retries = outcome.counters[0].retransmissions;
    assert!(
        (4..=u64::from(config.retries_max)).contains(&retries),
        "{retries} retries"
    );
    assert!(
        outcome.end_ps < 60_000 * MS,
        "it took {} ms",
        outcome.end_ps / MS
    );
    assert_eq!(outcome.holdings, [Holdings::default(); 2]);
}
