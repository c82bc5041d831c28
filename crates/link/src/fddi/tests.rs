//! Rings: a lone frame, saturation, frames to all.

use super::*;

const US: u64 = 1_000_000;

fn frame(tag: u64, octets: u32, to: usize) -> EtherFrame {
    EtherFrame {
        tag,
        octets,
        to: EtherDestination::Station(to),
    }
}

fn ring(stations: u64, ttrt_ps: u64) -> Fddi {
    let config = FddiConfig {
        ttrt_ps,
        ..FddiConfig::standard()
    };
    let positions: Vec<u64> = (0..stations).map(|station| station * 5 * US).collect();
    Fddi::new(config, &positions, 5 * US)
}

fn run_until(ring: &mut Fddi, end_ps: u64) -> Vec<EtherEvent> {
    let mut events = Vec::new();
    while let Some(at_ps) = ring.deadline().filter(|at| *at <= end_ps) {
        ring.advance(at_ps);
        events.extend(std::iter::from_fn(|| ring.poll_event()));
    }
    events
}

#[test]
fn lone_frame_waits_for_token_and_arrives_after_distance() {
    // Stations at 0, 5, 10, 15 us; each adds 0.6: once around is 22.4 us.
    let mut ring = ring(4, 8_000 * US);
    ring.offer(6 * US, 1, frame(1, 1000, 3));
    let events = run_until(&mut ring, 1_000 * US);
    // The token left station 0 at 0 and passed station 1 at 5.6 us, just before.
    let started_ps = 5_600_000 + 22_400_000;
    let sent_ps = started_ps + (1000 + 11) * 8 * 10_000;
    assert!(matches!(events[0], EtherEvent::Started { at_ps, .. } if at_ps == started_ps));
    assert!(matches!(events[1], EtherEvent::Sent { at_ps, from: 1, .. } if at_ps == sent_ps));
    let arrived_ps = sent_ps + 2 * 5_600_000;
    assert!(
        matches!(events[2], EtherEvent::Delivered { at_ps, station: 3, .. } if at_ps == arrived_ps)
    );
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(ring.deadline(), None, "an idle ring has nothing to do");
}

/// Share of the time that frames take when `active` of `stations` always have some.
fn efficiency(stations: u64, active: usize, ttrt_ps: u64) -> (f64, Fddi) {
    let mut ring = ring(stations, ttrt_ps);
    let end_ps = 400 * ttrt_ps;
    let mut tag = 0;
    let mut offer = |ring: &mut Fddi, at_ps, station: usize| {
        tag += 1;
        ring.offer(
            at_ps,
            station,
            frame(tag, 89, (station + 1) % stations as usize),
        );
    };
    for station in 0..active {
        (0..2).for_each(|_| offer(&mut ring, 0, station));
    }
    while let Some(at_ps) = ring.deadline().filter(|at| *at <= end_ps) {
        ring.advance(at_ps);
        while let Some(event) = ring.poll_event() {
            if let EtherEvent::Sent { from, .. } = event {
                offer(&mut ring, at_ps, from);
            }
        }
    }
    let share = ring.medium_until(end_ps).carrying_ps as f64 / end_ps as f64;
    (share, ring)
}

#[test]
fn saturated_ring_has_the_published_efficiency() {
    // Jain (1991): n (T - D) / (n T + D), D the rotation time of a ring whose active stations pass
    // on a token of 0.88 us each. Frames of 8 us end beyond their time, which changes little.
    for (stations, active, ttrt_us) in [(20, 1, 1000), (20, 4, 1000), (20, 20, 1000), (50, 8, 4000)]
    {
        let (found, _) = efficiency(stations, active, ttrt_us * US);
        let (n, t, d) = (
            active as f64,
            ttrt_us as f64,
            stations as f64 * 5.6 + active as f64 * 0.88,
        );
        let published = n * (t - d) / (n * t + d);
        assert!(
            (found / published - 1.0).abs() < 0.003,
            "{stations} {active} {ttrt_us}: {found} {published}"
        );
    }
}

#[test]
fn saturated_stations_have_equal_shares_and_see_late_tokens() {
    let (_, ring) = efficiency(20, 4, 1000 * US);
    assert!(ring.late_tokens() > 0, "each holder makes the others late");
    let counters = ring.counters();
    assert!(counters.delivered <= counters.sent && counters.sent + 8 >= counters.delivered);
}

#[test]
fn frame_to_all_passes_every_other_station_once() {
    let mut ring = ring(5, 8_000 * US);
    let to_all = EtherFrame {
        to: EtherDestination::All,
        ..frame(7, 100, 0)
    };
    ring.offer(0, 2, to_all);
    let stations: Vec<usize> = run_until(&mut ring, 1_000 * US)
        .into_iter()
        .filter_map(|event| match event {
            EtherEvent::Delivered { station, .. } => Some(station),
            _ => None,
        })
        .collect();
    assert_eq!(stations, [3, 4, 0, 1]);
}

#[test]
fn frame_longer_than_the_standard_allows_is_dropped() {
    let mut ring = ring(2, 8_000 * US);
    ring.offer(0, 0, frame(1, FRAME_OCTETS_MAX + 1, 1));
    ring.offer(0, 0, frame(2, FRAME_OCTETS_MAX, 1));
    let events = run_until(&mut ring, 10_000 * US);
    assert!(matches!(events[0], EtherEvent::Dropped { frame, .. } if frame.tag == 1));
    assert!(matches!(events.last(), Some(EtherEvent::Delivered { frame, .. }) if frame.tag == 2));
    assert_eq!((ring.counters().dropped, ring.counters().sent), (1, 1));
}
