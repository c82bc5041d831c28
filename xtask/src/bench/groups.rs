//! XTP multicast against plain multicast UDP, and against unicast on a link.

use super::bar::BenchTarget;
use super::compare::{Comparison, Measure, metric_of};
use super::helper_programs::ExampleProgram;
use super::trial_runner::TrialRequest;
use std::path::{Path, PathBuf};

/// Rounds of each comparison.
const ROUNDS: usize = 5;

/// Seconds of each trial.
const SPAN_S: f64 = 1.0;

/// The multicast comparisons.
pub fn comparisons(root: &Path) -> Vec<Comparison> {
    let eight = "xtp-multicast,receivers=8";
    let against_bare = |name, transport, receivers, (floor, goal)| {
        Comparison::of(
            name,
            rate(transport, &["--pin", "0,1"]),
            (
                "bare multicast UDP, mean of its receivers",
                bare(root, receivers),
            ),
            ROUNDS,
            BenchTarget::at_least(floor, goal),
        )
    };
    vec![
        against_bare("xtp-multicast-8", eight, "8", (0.6, 0.85)),
        against_bare(
            "xtp-multicast-32",
            "xtp-multicast,receivers=32",
            "32",
            (0.5, 0.8),
        ),
        Comparison::of(
            "xtp-multicast-link",
            rate(eight, &["--link", "rate=100mbit"]),
            ("xtp to one", rate("xtp", &["--link", "rate=100mbit"])),
            ROUNDS,
            BenchTarget::at_least(0.9, 0.95),
        ),
    ]
}

/// Mbit/s of user bytes received by all receivers.
fn rate(transport: &'static str, more: &[&str]) -> Measure {
    let question = TrialRequest::new(transport, "throughput", 16 << 10, SPAN_S, more);
    metric_of(question, "mbit_per_s")
}

/// Mbit/s of user bytes that a receiver of plain multicast gets, the mean of `receivers`.
fn bare(root: &Path, receivers: &'static str) -> Measure {
    let root: PathBuf = root.to_owned();
    Box::new(move |_| {
        let groups = ExampleProgram::build(&root, "towpath", "multicast_udp_bench")?;
        let mb_per_s = groups.run(&["bare", receivers, &SPAN_S.to_string(), "0", "1"])?;
        Ok(mb_per_s * 8.0)
    })
}
