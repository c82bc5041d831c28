//! Calibration of links with known parameters.

use crate::common::up;
use testbed::calibrate;

#[test]
fn calibration_measures_configured_link() {
    let text = "rate=20mbit/10mbit,delay=3ms,loss=2%/0%";
    let Some(testbed) = up(text) else {
        return;
    };
    let found = calibrate(&testbed, 0, 5).expect("it is measured");
    let trip = found.round_trip;
    // 50 octets at both rates and 3 ms each way. No packet is early, but for what each direction takes
    // off for its own waking up, at most 200 us.
    assert!((trip.configured_us - 6060.0).abs() < 0.1, "{trip:?}");
    assert!(trip.low_us >= trip.configured_us - 2.0 * 200.0, "{trip:?}");
    let [there, back] = found.rates;
    assert_eq!(
        (there.configured_bps, back.configured_bps),
        (Some(2e7), Some(1e7))
    );
    // A link is never too fast, except for frames queued before the first reading; how slow it
    // seems depends on the machine's load.
    assert!(
        there.measured_bps > 1e6 && there.measured_bps < 2.2e7,
        "{there:?}"
    );
    let losses = found.losses[0].expect("this direction loses");
    assert_eq!(losses.counted, losses.missing);
    assert_eq!(losses.sent, 2000);
    assert_eq!(found.losses[1], None);
    assert!(found.facts().len() >= 4);
}

#[test]
fn calibration_measures_unlimited_link() {
    let Some(testbed) = up("super") else {
        return;
    };
    let found = calibrate(&testbed, 0, 5).expect("it is measured");
    assert!(
        found
            .rates
            .iter()
            .all(|rate| rate.configured_bps.is_none() && rate.measured_bps > 0.0)
    );
    assert_eq!(found.losses, [None, None]);
}
