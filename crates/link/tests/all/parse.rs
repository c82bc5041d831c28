//! Paths as users write them.

use link::Path;

fn path(text: &str) -> Path {
    text.parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn fault(text: &str) -> String {
    match text.parse::<Path>() {
        Ok(path) => panic!("{text} is {path:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_key_sets_its_field() {
    let text = "rate=10mbit,delay=5ms,jitter=1ms,loss=1%,duplicate=0.1%,reorder=2%,hold=3ms,corrupt=0.01%,queue=100kB";
    let [there, back] = path(text).directions;
    assert_eq!(there, back);
    assert_eq!(there.rate_bps, Some(10_000_000));
    assert_eq!(there.delay_ps, 5_000_000_000);
    assert_eq!(there.jitter_ps, 1_000_000_000);
    assert_eq!(there.loss_ppm, 10_000);
    assert_eq!(there.duplicate_ppm, 1000);
    assert_eq!(there.reorder_ppm, 20_000);
    assert_eq!(there.reorder_ps, 3_000_000_000);
    assert_eq!(there.corrupt_ppm, 100);
    assert_eq!(there.queue_bytes, 100_000);
}

#[test]
fn defaults_follow_from_the_rate() {
    let [there, _] = path("rate=10mbit,reorder=1%").directions;
    // 100 ms at 10 Mbit/s, and four full frames.
    assert_eq!(there.queue_bytes, 125_000);
    assert_eq!(there.reorder_ps, 4 * 1514 * 8 * 100_000);
    let [there, _] = path("rate=64kbit").directions;
    assert_eq!(there.queue_bytes, 20 * 1514);
    let [there, _] = path("").directions;
    assert_eq!(there.rate_bps, None);
    assert!(!there.has_faults());
}

#[test]
fn slash_separates_the_two_directions() {
    let [there, back] = path("rate=20mbit/1mbit,delay=0/5ms,loss=1%/0%").directions;
    assert_eq!(
        (there.rate_bps, back.rate_bps),
        (Some(20_000_000), Some(1_000_000))
    );
    assert_eq!((there.delay_ps, back.delay_ps), (0, 5_000_000_000));
    assert!(there.has_faults() && !back.has_faults());
}

#[test]
fn burst_and_gilbert_set_the_loss_chain() {
    let [there, _] = path("loss=1%,burst=10").directions;
    let bursts = there.bursts.expect("runs");
    assert_eq!(there.loss_ppm, 0);
    assert_eq!(bursts.to_good_ppm, 100_000);
    assert!((there.loss_mean() - 0.01).abs() < 1e-5);
    let [there, _] = path("gilbert=1%:25%:90%").directions;
    assert_eq!(there.bursts.expect("runs").loss_bad_ppm, 900_000);
}

#[test]
fn later_stages_change_only_named_keys() {
    let path = path("rate=10mbit,delay=5ms;2s:rate=1mbit;3s:cut;4s:up");
    assert_eq!(path.schedule.len(), 3);
    let [there, _] = path.at(2_500_000_000_000);
    assert_eq!(
        (there.rate_bps, there.delay_ps),
        (Some(1_000_000), 5_000_000_000)
    );
    assert!(path.at(3_000_000_000_000)[1].cut);
    assert!(!path.at(4_000_000_000_000)[1].cut);
    assert_eq!(path.all().count(), 8);
}

#[test]
fn errors_name_the_fault_and_the_remedy() {
    let faults = [
        ("rate=10", "'10' is no rate"),
        ("rate=fast", "such as 10mbit"),
        ("rate=0mbit", "impossible"),
        ("rate=5000gbit", "impossible"),
        ("delay=5", "'5' is no time"),
        (
            "delay=5min",
            "a delay of 5min is too long; give 60s at most",
        ),
        ("delay=5days", "one of ps, ns, us, ms, s"),
        ("delay=2000s", "too long"),
        ("delay=-1ms", "'-1ms' is no time"),
        ("jitter=1ms", "larger than the delay"),
        ("loss=1", "give loss=1%"),
        ("loss=101%", "more than all frames"),
        ("loss=0.00001%", "less than a frame in a million"),
        ("burst=10", "loss above 0"),
        ("loss=60%,burst=1", "longer bursts"),
        ("gilbert=1%", "no chain"),
        ("queue=10", "'10' is no size"),
        ("queue=10B", "does not hold a frame"),
        ("speed=1", "has no 'speed'"),
        ("fast", "has no 'fast'"),
        ("rate=1mbit;cut", "has no time"),
        ("rate=1mbit;2s:cut;1s:up", "ascending"),
        ("rate=nanmbit", "is no rate"),
    ];
    for (text, wanted) in faults {
        let said = fault(text);
        assert!(said.contains(wanted), "{text}: {said}");
        assert!(!said.contains('\n'));
    }
}
