//! Each model against its formula.

use engine::SplitMix64;
use link::{GilbertElliott, Link, LinkConfig, Path};

const FRAMES: usize = 200_000;

fn arrivals(config: LinkConfig, seed: u64) -> Vec<bool> {
    let mut link = Link::new(config, seed, 0);
    let frames = 0..FRAMES;
    frames
        .map(|_| link.offer(0, 100).arrival_ps.is_some())
        .collect()
}

/// Lengths of the runs of lost frames.
fn runs(arrived: &[bool]) -> Vec<usize> {
    let pieces = arrived.split(|arrived| *arrived);
    pieces.map(<[bool]>::len).filter(|&len| len > 0).collect()
}

fn assert_near(value: f64, wanted: f64, tolerance: f64) {
    assert!(
        (value - wanted).abs() <= tolerance,
        "{value} is not within {tolerance} of {wanted}"
    );
}

#[test]
fn arrival_is_serialization_plus_delay() {
    let config = LinkConfig {
        rate_bps: Some(10_000_000),
        delay_ps: 5_000,
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1, 0);
    // 1250 octets are 10,000 bits: 1 ms at 10 Mbit/s.
    assert_eq!(link.offer(0, 1250).arrival_ps, Some(1_000_005_000));
    // The second waits for the first.
    assert_eq!(link.offer(0, 1250).arrival_ps, Some(2_000_005_000));
}

#[test]
fn full_queue_drops_the_tail() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        queue_bytes: 2000,
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1, 0);
    let arrived = (0..5).filter(|_| link.offer(0, 1000).arrival_ps.is_some());
    assert_eq!(arrived.count(), 2);
    let counters = link.counters();
    assert_eq!(counters.dropped, 3);
    assert_eq!(counters.delivered_bytes, 2000);
    // A millisecond later one has gone.
    assert!(link.offer(1_000_000_000, 1000).arrival_ps.is_some());
}

#[test]
fn random_loss_matches_rate_and_repeats_by_seed() {
    let config = LinkConfig {
        loss_ppm: 100_000,
        ..LinkConfig::default()
    };
    let first = arrivals(config, 3);
    assert_eq!(first, arrivals(config, 3));
    assert_ne!(first, arrivals(config, 4));
    let lost = first.iter().filter(|arrived| !**arrived).count() as f64;
    // Standard deviation sqrt(n p (1 - p)) = 134; five of them.
    assert_near(lost, 20_000.0, 670.0);
    // Independent losses come in runs of 1 / (1 - p) = 1.111 in the mean.
    let runs = runs(&first);
    let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
    assert_near(mean, 1.111, 0.02);
}

#[test]
fn burst_loss_matches_rate_and_burst_length() {
    let config = LinkConfig {
        bursts: GilbertElliott::from_burst_len(20_000, 8.0),
        ..LinkConfig::default()
    };
    let arrived = arrivals(config, 11);
    let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
    // Runs of mean b make the variance about (2 b - 1) times the independent one: 242; five.
    assert_near(lost, 4000.0, 1210.0);
    let runs = runs(&arrived);
    let mean = runs.iter().sum::<usize>() as f64 / runs.len() as f64;
    // About 500 geometric runs: standard error 7.5 / sqrt(500) = 0.34; five.
    assert_near(mean, 8.0, 1.7);
}

#[test]
fn gilbert_elliott_loses_in_both_states() {
    let bursts = GilbertElliott {
        to_bad_ppm: 100_000,
        to_good_ppm: 300_000,
        loss_bad_ppm: 500_000,
        loss_good_ppm: 10_000,
    };
    // A quarter of the time bad: 0.25 * 0.5 + 0.75 * 0.01.
    assert_near(bursts.loss_mean(), 0.1325, 1e-9);
    let config = LinkConfig {
        bursts: Some(bursts),
        ..LinkConfig::default()
    };
    let arrived = arrivals(config, 5);
    let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
    assert_near(lost / FRAMES as f64, 0.1325, 0.006);
}

#[test]
fn mean_queueing_delay_matches_m_d_1() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 1, 0);
    let mut random = SplitMix64::new(9);
    // 1000 octets take 1 ms; at a load of 0.7 the mean wait is 0.7 / (2 (1 - 0.7)) = 1.1667 ms.
    let (service, load) = (1e9, 0.7);
    let (mut now, mut waited) = (0.0, 0.0);
    for _ in 0..FRAMES {
        now += -(1.0 - random.unit()).ln() * service / load;
        let arrival = link.offer(now as u64, 1000).arrival_ps.expect("no loss");
        waited += arrival as f64 - now - service;
    }
    assert_near(waited / FRAMES as f64 / service, 1.1667, 0.06);
}

#[test]
fn reordered_frames_are_overtaken_by_the_expected_number() {
    let config = LinkConfig {
        rate_bps: Some(8_000_000),
        reorder_ppm: 10_000,
        reorder_ps: 3_500_000_000,
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 2, 0);
    let arrivals: Vec<u64> = (0..20_000)
        .map(|_| link.offer(0, 1000).arrival_ps.expect("no loss"))
        .collect();
    // Frames take 1 ms each, so three overtake one delayed by 3.5 ms, unless delayed too.
    let overtaken = |at: usize| {
        let later = arrivals[at + 1..].iter().take(10);
        later.filter(|&&other| other < arrivals[at]).count()
    };
    let counts: Vec<usize> = (0..19_000)
        .map(overtaken)
        .filter(|&count| count > 0)
        .collect();
    assert!(counts.len() > 100, "{}", counts.len());
    assert!(counts.iter().all(|&count| count <= 3));
    let full = counts.iter().filter(|&&count| count == 3).count();
    assert!(full * 10 > counts.len() * 9);
}

#[test]
fn jitter_is_uniform_and_preserves_order() {
    let config = LinkConfig {
        delay_ps: 5_000_000,
        jitter_ps: 1_000_000,
        ..LinkConfig::default()
    };
    let mut link = Link::new(config, 2, 0);
    let mut last = 0;
    let (mut sum, mut least, mut most) = (0.0, u64::MAX, 0);
    for index in 0..50_000u64 {
        // Far enough apart that no frame waits for another.
        let sent = index * 10_000_000;
        let arrival = link.offer(sent, 100).arrival_ps.expect("no loss");
        assert!(arrival >= last);
        last = arrival;
        let delay = arrival - sent;
        sum += delay as f64;
        (least, most) = (least.min(delay), most.max(delay));
    }
    assert!(least >= 4_000_000 && most <= 6_000_000 && most - least > 1_990_000);
    assert_near(sum / 50_000.0, 5_000_000.0, 13_000.0);
    // Close together they arrive in order all the same.
    let close = (0..1000).map(|_| link.offer(1_000_000_000_000, 100).arrival_ps);
    assert!(close.collect::<Vec<_>>().is_sorted());
}

#[test]
fn directions_draw_independent_losses() {
    let config = LinkConfig {
        loss_ppm: 500_000,
        ..LinkConfig::default()
    };
    let fate = |direction| {
        let mut link = Link::new(config, 1, direction);
        let fates = (0..64).map(|_| link.offer(0, 1).arrival_ps.is_some());
        fates.collect::<Vec<_>>()
    };
    assert_ne!(fate(0), fate(1));
}

#[test]
fn loss_draws_do_not_depend_on_other_impairments() {
    let plain = LinkConfig {
        loss_ppm: 100_000,
        ..LinkConfig::default()
    };
    let busy = LinkConfig {
        rate_bps: Some(1_000_000_000),
        delay_ps: 77,
        jitter_ps: 50,
        duplicate_ppm: 300_000,
        reorder_ppm: 300_000,
        corrupt_ppm: 300_000,
        ..plain
    };
    assert_eq!(arrivals(plain, 8), arrivals(busy, 8));
}

#[test]
fn cut_link_delivers_nothing_and_counts_it() {
    let path: Path = "rate=10mbit;1s:cut;2s:up,rate=20mbit"
        .parse()
        .expect("a path");
    let mut link = Link::new(path.at(1_500_000_000_000)[0], 1, 0);
    assert_eq!(link.offer(0, 100).arrival_ps, None);
    assert_eq!(link.counters().cut, 1);
    link.change(path.at(2_000_000_000_000)[0]);
    assert!(link.offer(0, 100).arrival_ps.is_some());
    assert_eq!(link.config().rate_bps, Some(20_000_000));
    assert_eq!(path.next_change_ps(0), Some(1_000_000_000_000));
    assert_eq!(path.next_change_ps(2_000_000_000_000), None);
}
