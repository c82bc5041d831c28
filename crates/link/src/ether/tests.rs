//! The ether against arithmetic and theory.

use super::*;

fn frame(octets: u32, to: EtherDestination) -> EtherFrame {
    EtherFrame { tag: 0, octets, to }
}

fn cable(config: EtherConfig, stations: usize, seed: u64) -> Ether {
    let mut ether = Ether::new(config, seed);
    for _ in 0..stations {
        ether.attach(0);
    }
    ether
}

/// Keeps the queues of `senders` stations filled until `until_ps`, and passes each event to `see`.
fn saturate(
    ether: &mut Ether,
    senders: usize,
    octets: u32,
    until_ps: u64,
    mut see: impl FnMut(EtherEvent),
) {
    for station in 0..senders {
        ether.offer(0, station, frame(octets, EtherDestination::All));
        ether.offer(0, station, frame(octets, EtherDestination::All));
    }
    while let Some(at_ps) = ether.deadline().filter(|at| *at <= until_ps) {
        ether.advance(at_ps);
        while let Some(event) = ether.poll_event() {
            if let EtherEvent::Sent { from, frame, .. }
            | EtherEvent::Dropped {
                station: from,
                frame,
                ..
            } = event
            {
                ether.offer(at_ps, from, frame);
            }
            see(event);
        }
    }
    ether.advance(until_ps);
}

const SECOND: u64 = 1_000_000_000_000;

#[test]
fn single_station_reaches_standard_frame_rates() {
    // Frames a second at 10 Mbit/s: 10^7 / (8 * (octets + 8 preamble + 12 gap)).
    let rates = [
        (64, 14_880),
        (128, 8_445),
        (256, 4_528),
        (512, 2_349),
        (1024, 1_197),
        (1280, 961),
        (1518, 812),
    ];
    for (octets, whole) in rates {
        let mut ether = cable(EtherConfig::ten_megabit(), 2, 1);
        saturate(&mut ether, 1, octets, SECOND, |_| {});
        // The first frame needs no gap in front.
        let exact =
            1 + (SECOND - (u64::from(octets) + 8) * 800_000) / ((u64::from(octets) + 20) * 800_000);
        assert_eq!(ether.counters().sent, exact, "{octets} octets");
        assert!(
            exact.abs_diff(whole) <= 1,
            "{octets} octets: {exact} of {whole}"
        );
        assert_eq!(ether.counters().collisions, 0);
    }
}

#[test]
fn transmission_starts_follow_lindley_recursion() {
    let mut random = SplitMix64::new(7);
    let mut ether = cable(EtherConfig::ten_megabit(), 2, 1);
    let (mut arrival, mut free, mut expected) = (0u64, 0u64, Vec::new());
    let mut arrivals = Vec::new();
    for _ in 0..2_000 {
        arrival += random.below(1_500_000_000);
        let octets = 64 + random.below(1455) as u32;
        arrivals.push((arrival, octets));
        let start = arrival.max(free);
        expected.push(start);
        free = start + (u64::from(octets) + 20) * 800_000;
    }
    let mut starts = Vec::new();
    let mut take = |ether: &mut Ether| {
        while let Some(event) = ether.poll_event() {
            if let EtherEvent::Started { at_ps, .. } = event {
                starts.push(at_ps);
            }
        }
    };
    for (at_ps, octets) in arrivals {
        ether.offer(at_ps, 0, frame(octets, EtherDestination::Station(1)));
        take(&mut ether);
    }
    ether.advance(u64::MAX >> 1);
    take(&mut ether);
    assert_eq!(starts, expected);
}

#[test]
fn arrival_time_is_transmission_plus_propagation() {
    let mut ether = Ether::new(EtherConfig::ten_megabit(), 1);
    ether.attach(0);
    let far = ether.attach(1_150_000);
    ether.offer(5, 0, frame(20, EtherDestination::Station(far)));
    ether.advance(SECOND);
    let mut delivered = None;
    while let Some(event) = ether.poll_event() {
        if let EtherEvent::Delivered { at_ps, station, .. } = event {
            delivered = Some((at_ps, station));
        }
    }
    // Padded to 64 octets, 8 of preamble: 57.6 us.
    assert_eq!(delivered, Some((5 + 57_600_000 + 1_150_000, far)));
}

#[test]
fn collision_is_detected_when_signals_meet_the_sender() {
    let mut ether = Ether::new(EtherConfig::ten_megabit(), 1);
    let near = ether.attach(0);
    let far = ether.attach(10_000_000);
    ether.offer(0, near, frame(1000, EtherDestination::All));
    ether.offer(4_000_000, far, frame(1000, EtherDestination::All));
    ether.advance(30_000_000);
    let mut seen = Vec::new();
    while let Some(event) = ether.poll_event() {
        if let EtherEvent::Collided { at_ps, station, .. } = event {
            seen.push((at_ps, station));
        }
    }
    assert_eq!(seen, [(10_000_000, far), (14_000_000, near)]);
}

#[test]
fn undetected_collision_damages_frames_at_the_receiver() {
    let config = EtherConfig {
        frame_min: 0,
        ..EtherConfig::ten_megabit()
    };
    let mut ether = Ether::new(config, 1);
    ether.attach(0);
    ether.attach(config.position_ps(50_000));
    ether.attach(config.position_ps(25_000));
    ether.offer(0, 0, frame(20, EtherDestination::Station(2)));
    ether.offer(0, 1, frame(20, EtherDestination::Station(2)));
    ether.advance(SECOND);
    let counters = ether.counters();
    assert_eq!(
        (counters.sent, counters.damaged, counters.delivered),
        (2, 2, 0)
    );
}

#[test]
fn carrier_in_second_part_of_gap_is_ignored() {
    let begin = |offset: u64| {
        let mut ether = cable(EtherConfig::ten_megabit(), 3, 1);
        ether.offer(0, 0, frame(64, EtherDestination::All));
        ether.offer(1, 1, frame(64, EtherDestination::All));
        // Station 2 violates the gap: it starts `offset` after the end of the first frame.
        let end = 57_600_000;
        ether.advance(end + offset - 1);
        ether.stations[2]
            .frames
            .push_back(frame(64, EtherDestination::All));
        ether.send(end + offset, 2);
        ether.advance(end + 9_600_000);
        matches!(
            ether.stations[1].state,
            MacState::Sending { .. } | MacState::Jamming { .. }
        )
    };
    assert!(!begin(6_400_000));
    assert!(begin(6_400_001));
}

#[test]
fn mean_collisions_of_two_stations_match_theory() {
    // Sum over n of the product of 2^-k up to n.
    let expected = 1.641_633;
    let trials = 20_000;
    let (mut sum, mut squares) = (0.0, 0.0);
    for seed in 0..trials {
        let mut ether = cable(EtherConfig::ten_megabit(), 2, seed);
        ether.offer(0, 0, frame(1518, EtherDestination::All));
        ether.offer(0, 1, frame(1518, EtherDestination::All));
        while ether.counters().sent == 0 {
            let at_ps = ether.deadline().expect("a frame is on its way");
            ether.advance(at_ps);
        }
        // Both stations are at one position, so each collision counts for both.
        let collisions = ether.counters().collisions as f64 / 2.0;
        sum += collisions;
        squares += collisions * collisions;
    }
    let mean = sum / trials as f64;
    let error = ((squares / trials as f64 - mean * mean) / trials as f64).sqrt();
    assert!((mean - expected).abs() < 4.0 * error, "{mean} +- {error}");
}

#[test]
fn backoff_is_bounded_by_7151_slots_over_a_frame() {
    let mut random = SplitMix64::new(3);
    let backoff = EtherConfig::ten_megabit().backoff;
    let (mut largest, mut mean) = (0, 0.0);
    for collisions in 1..16 {
        let draws: Vec<u64> = (0..40_000)
            .map(|_| backoff.slots(collisions, &mut random))
            .collect();
        largest += draws.iter().max().copied().unwrap_or(0);
        mean += draws.iter().sum::<u64>() as f64 / draws.len() as f64;
    }
    assert_eq!(largest, 7151);
    // 183.07 ms on average; the deviation of the sum of means is below 4 slots.
    assert!((mean - 3575.5).abs() < 16.0, "{mean}");
}

#[test]
fn frame_is_dropped_after_16_attempts() {
    let config = EtherConfig {
        backoff: Backoff::Binary { limit: 0 },
        ..EtherConfig::ten_megabit()
    };
    let mut ether = cable(config, 2, 1);
    ether.offer(0, 0, frame(64, EtherDestination::All));
    ether.offer(0, 1, frame(64, EtherDestination::All));
    ether.advance(SECOND);
    let counters = ether.counters();
    assert_eq!(
        (counters.collisions, counters.dropped, counters.sent),
        (32, 2, 0)
    );
    assert_eq!(ether.deadline(), None);
}

#[test]
fn capture_effect_probabilities_match_theory() {
    // (winner, tie, loser) of a frame's first attempt against the other's n-th, counted by n.
    let mut outcomes = [[0u32; 3]; 4];
    let mut reports: [Option<u32>; 2] = [None; 2];
    let mut open: Option<(usize, u32)> = None;
    let mut ether = cable(EtherConfig::ten_megabit(), 2, 11);
    saturate(&mut ether, 2, 1518, 600 * SECOND, |event| match event {
        EtherEvent::Collided {
            station, attempt, ..
        } => {
            reports[station] = Some(attempt);
            let [Some(first), Some(second)] = reports else {
                return;
            };
            reports = [None; 2];
            if let Some((_, n)) = open.take() {
                outcomes[n as usize][1] += 1;
            }
            let fresh = usize::from(second == 1);
            let (least, n) = (first.min(second), first.max(second));
            open = (least == 1 && (2..4).contains(&n)).then_some((fresh, n));
        }
        EtherEvent::Sent { from, .. } => {
            if let Some((fresh, n)) = open.take() {
                outcomes[n as usize][if from == fresh { 0 } else { 2 }] += 1;
            }
        }
        _ => {}
    });
    for n in [2, 3] {
        let shares = [
            1.0 - 3.0 / f64::from(2 << n),
            1.0 / f64::from(1 << n),
            1.0 / f64::from(2 << n),
        ];
        let total: u32 = outcomes[n].iter().sum();
        assert!(total > 500, "{outcomes:?}");
        for (count, share) in outcomes[n].iter().zip(shares) {
            let off = f64::from(*count) - share * f64::from(total);
            let deviation = (f64::from(total) * share * (1.0 - share)).sqrt();
            assert!(off.abs() < 4.5 * deviation, "n {n}: {outcomes:?}");
        }
    }
}

#[test]
fn efficiency_matches_metcalfe_and_boggs() {
    // Collisions and empty slots both take 16 us, 48 bits; frames take their bits only.
    let slot_ps = 48 * 333_333;
    for (stations, bits, expected) in [
        (2, 512, 0.9143),
        (5, 512, 0.8810),
        (10, 1024, 0.9310),
        (32, 4096, 0.9807),
        (10, 48, 0.3874),
    ] {
        let config = EtherConfig {
            slot_ps,
            preamble_bits: 0,
            jam_bits: 48,
            destination_gap_ps: 0,
            attempts_max: u32::MAX,
            backoff: Backoff::Oracle {
                stations: stations as u64,
            },
            ..EtherConfig::three_megabit()
        };
        let mut ether = cable(config, stations, 5);
        saturate(&mut ether, stations, bits / 8, 10 * SECOND, |_| {});
        let medium = ether.medium();
        let share = medium.carrying_ps as f64 / (10 * SECOND) as f64;
        // Wasted slots a frame are geometric: deviation about 2 slots a frame.
        let frames = ether.counters().sent as f64;
        let error = 2.0 * slot_ps as f64 * frames.sqrt() / (10.0 * SECOND as f64);
        assert!(
            (share - expected).abs() < 4.0 * error + 5e-5,
            "{stations} {bits}: {share}"
        );
    }
}

#[test]
fn counters_account_for_every_frame_and_picosecond() {
    for stations in [2, 9, 40] {
        let mut ether = Ether::new(EtherConfig::ten_megabit(), 3);
        for station in 0..stations {
            ether.attach(ether.config().position_ps(station * 12));
        }
        saturate(&mut ether, stations as usize, 1000, 3 * SECOND, |_| {});
        let (counters, medium) = (ether.counters(), ether.medium());
        let waiting: usize = (0..stations as usize).map(|s| ether.queued(s)).sum();
        assert_eq!(
            counters.offered,
            counters.sent + counters.dropped + waiting as u64
        );
        assert_eq!(
            medium.carrying_ps + medium.collided_ps + medium.idle_ps,
            3 * SECOND
        );
        let whole = medium.carrying_ps / ether.config().frame_ps(1000);
        assert!(whole.abs_diff(counters.sent) <= 1, "{whole} {counters:?}");
        assert_eq!(counters.damaged, 0);
        assert_eq!(counters.late_collisions, 0);
    }
}

#[test]
fn saturated_throughput_matches_inet() {
    // Eight nodes and a controller on 25 m, 1518 octets: 9.56 to 9.59 Mbit/s of payload in INET.
    let mut ether = Ether::new(EtherConfig::ten_megabit(), 1);
    for station in 0..9 {
        ether.attach(ether.config().position_ps(station * 3));
    }
    saturate(&mut ether, 9, 1518, 10 * SECOND, |_| {});
    let rate = ether.counters().sent as f64 * 1500.0 * 8.0 / 10.0 / 1e6;
    assert!((9.4..9.7).contains(&rate), "{rate} Mbit/s");
}

#[test]
fn three_megabit_interface_keeps_destination_gap() {
    let mut ether = cable(EtherConfig::three_megabit(), 3, 1);
    for to in [1, 1, 2] {
        ether.offer(0, 0, frame(106, EtherDestination::Station(to)));
    }
    ether.advance(SECOND);
    let mut starts = Vec::new();
    while let Some(event) = ether.poll_event() {
        if let EtherEvent::Started { at_ps, .. } = event {
            starts.push(at_ps);
        }
    }
    // One bit of synchronisation and 848 bits.
    let length = 849 * 333_333;
    let second = length + 1_000_000_000;
    assert_eq!(starts, [0, second, second + length]);
}

#[test]
fn equal_seeds_give_equal_events() {
    let run = |seed| {
        let mut events = Vec::new();
        let mut ether = cable(EtherConfig::ten_megabit(), 10, seed);
        saturate(&mut ether, 10, 200, SECOND / 10, |event| events.push(event));
        events
    };
    assert_eq!(run(4), run(4));
    assert_ne!(run(4), run(5));
}

/// Random arrivals of 1518-octet frames at one station: mean wait over service time, sum of
/// sojourn times, integral of the number present.
fn random_arrivals(share: f64, frames: u64) -> (f64, u128, u128) {
    let service = 1_230_400_000u64;
    let mut random = SplitMix64::new(9);
    let mut ether = cable(EtherConfig::ten_megabit(), 2, 1);
    let (mut at, mut present_since, mut present) = (0u64, 0u64, 0u128);
    let (mut waits, mut sojourns, mut integral) = (0.0, 0u128, 0u128);
    let mut arrivals = VecDeque::new();
    let mut see = |ether: &mut Ether, arrivals: &mut VecDeque<u64>, arrival: Option<u64>| {
        let mut change = |at_ps: u64, more: bool| {
            integral += present * u128::from(at_ps - present_since);
            present_since = at_ps;
            present = if more { present + 1 } else { present - 1 };
        };
        while let Some(event) = ether.poll_event() {
            match event {
                EtherEvent::Started { at_ps, .. } => {
                    let arrived: u64 = arrivals.front().copied().expect("it arrived");
                    waits += (at_ps - arrived) as f64;
                }
                EtherEvent::Sent { at_ps, .. } => {
                    let arrived: u64 = arrivals.pop_front().expect("it arrived");
                    sojourns += u128::from(at_ps - arrived);
                    change(at_ps, false);
                }
                _ => {}
            }
        }
        if let Some(at_ps) = arrival {
            arrivals.push_back(at_ps);
            change(at_ps, true);
        }
    };
    for _ in 0..frames {
        at += (-(1.0 - random.unit()).ln() * service as f64 / share) as u64;
        ether.advance(at);
        see(&mut ether, &mut arrivals, Some(at));
        ether.offer(at, 0, frame(1518, EtherDestination::Station(1)));
        see(&mut ether, &mut arrivals, None);
    }
    ether.advance(u64::MAX >> 1);
    see(&mut ether, &mut arrivals, None);
    (waits / frames as f64 / service as f64, sojourns, integral)
}

#[test]
fn single_sender_is_m_d_1_and_obeys_littles_law() {
    for (share, expected, tolerance) in [(0.3, 0.2143, 0.004), (0.5, 0.5, 0.01), (0.8, 2.0, 0.1)] {
        let (wait, sojourns, integral) = random_arrivals(share, 200_000);
        assert!((wait - expected).abs() < tolerance, "{share}: {wait}");
        // Little: the number present, summed over time, is the time present, summed over frames.
        assert_eq!(sojourns, integral);
    }
}
