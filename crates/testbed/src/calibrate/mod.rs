//! Measures the empty link, to compare it with its configuration.
//!
//! * `ping` - RTT, with replies by the other host's kernel.
//! * `rate` - the rate, with more load than it carries.
//! * `loss` - missing datagrams, compared with the emulator's counters.

mod loss;
mod ping;
mod rate;

pub use loss::MeasuredLoss;
pub use ping::MeasuredRtt;
pub use rate::MeasuredRate;

use crate::host::Host;
use crate::plan::LinkPlan;
use crate::testbed::Testbed;
use link::LinkConfig;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// Allowed deviation of the RTT, as a part of the configured one ...
const ROUND_TRIP_PART: f64 = 0.02;

/// ... or in us, whichever is more.
const ROUND_TRIP_US: f64 = 50.0;

/// Allowed deviation of a rate, as a part.
const RATE_PART: f64 = 0.01;

/// Measurements of an empty link.
#[derive(Clone, Debug, PartialEq)]
pub struct Calibration {
    /// RTT between the first two hosts.
    pub round_trip: MeasuredRtt,
    /// Rate of each direction.
    pub rates: [MeasuredRate; 2],
    /// Loss of each direction; None if the link is to lose nothing.
    pub losses: [Option<MeasuredLoss>; 2],
}

/// Measures link number `link`, from 0, between the first two hosts of `testbed`, in a few seconds at
/// most.
///
/// # Errors
///
/// When a socket cannot be opened, or nothing arrives at all.
pub fn calibrate(testbed: &Testbed, link: usize, seed: u64) -> io::Result<Calibration> {
    let one = MeasuredLink { testbed, link };
    let round_trip = ping::measure(one)?;
    let rates = [rate::measure(one, 0)?, rate::measure(one, 1)?];
    let losses = [0, 1].map(|direction| loss::measure(one, direction, seed));
    let [there, back] = losses;
    Ok(Calibration {
        round_trip,
        rates,
        losses: [there?, back?],
    })
}

impl Calibration {
    /// Deviations from the configuration, one sentence each.
    pub fn deviations(&self) -> Vec<String> {
        let trip = &self.round_trip;
        let mut found = Vec::new();
        let allowed = (trip.configured_us * ROUND_TRIP_PART).max(ROUND_TRIP_US);
        if (trip.median_us - trip.configured_us).abs() > allowed {
            found.push(format!(
                "the empty link's round trip is {:.0} us, configured {:.0} us; is the machine busy?",
                trip.median_us, trip.configured_us
            ));
        }
        for (rate, way) in self.rates.iter().zip(DIRECTION_NAMES) {
            let Some(wanted) = rate.configured_bps else {
                continue;
            };
            if (rate.measured_bps / wanted - 1.0).abs() > RATE_PART {
                found.push(format!(
                    "the link carries {} {way}, configured {}; configure less, or leave more of the CPUs to it",
                    rate_text(rate.measured_bps),
                    rate_text(wanted)
                ));
            }
        }
        for (losses, way) in self.losses.iter().zip(DIRECTION_NAMES) {
            let faults = losses.iter().filter_map(MeasuredLoss::deviation);
            found.extend(faults.map(|fault| format!("{fault} {way}")));
        }
        found
    }

    /// Names and values of all measurements, for the results.
    pub fn facts(&self) -> Vec<(String, String)> {
        let trip = &self.round_trip;
        let mut facts = vec![(
            "round trip".to_owned(),
            format!(
                "median {:.0} us of {} (5 to 95 %: {:.0} to {:.0}), configured {:.0} us",
                trip.median_us, trip.samples, trip.low_us, trip.high_us, trip.configured_us
            ),
        )];
        for (rate, way) in self.rates.iter().zip(DIRECTION_NAMES) {
            let configured = rate
                .configured_bps
                .map_or("without a limit".to_owned(), |bps| {
                    format!("configured {}", rate_text(bps))
                });
            let value = format!("{}, {configured}", rate_text(rate.measured_bps));
            facts.push((format!("rate {way}"), value));
        }
        for (losses, way) in self.losses.iter().zip(DIRECTION_NAMES) {
            let value = losses.as_ref().map(MeasuredLoss::text);
            facts.extend(value.map(|value| (format!("loss {way}"), value)));
        }
        facts
    }
}

/// Names of the directions.
const DIRECTION_NAMES: [&str; 2] = ["there", "back"];

/// A rate in the unit that fits.
pub fn rate_text(bps: f64) -> String {
    let (value, unit) = match bps {
        large if large >= 1e9 => (large / 1e9, "Gbit/s"),
        middle if middle >= 1e6 => (middle / 1e6, "Mbit/s"),
        small => (small / 1e3, "kbit/s"),
    };
    format!("{value:.3} {unit}")
}

/// The link that is measured.
#[derive(Clone, Copy)]
struct MeasuredLink<'a> {
    testbed: &'a Testbed,
    link: usize,
}

impl MeasuredLink<'_> {
    fn plan(&self) -> &LinkPlan {
        &self.testbed.plan().links[self.link]
    }

    /// Both directions of the empty link.
    fn directions(&self) -> [LinkConfig; 2] {
        self.plan().uncontended(self.testbed.plan().mtu)
    }

    /// The sending and the receiving host of a direction.
    fn sender_and_receiver(&self, direction: usize) -> [&Host; 2] {
        [direction, 1 - direction].map(|at| &self.testbed.hosts()[at])
    }

    /// The address of a host on this link.
    fn address(&self, host: &Host) -> IpAddr {
        host.address_on(self.link)
    }

    /// Maximum delay of a frame on the empty link, both directions together.
    fn max_delay(&self) -> Duration {
        let directions = self.directions();
        let ps: u64 = directions
            .iter()
            .map(|config| config.delay_ps + config.jitter_ps + config.reorder_ps)
            .sum();
        Duration::from_nanos(ps / 1000)
    }
}
