//! atm: cells against a copy with CRC-10 by crate crc, and `aal34` against `bare` on the loopback.

use super::bar::BenchTarget;
use super::compare::{Comparison, Measure, metric_of};
use super::helper_programs::CellsPeer;
use super::suite::Suite;
use super::trial_runner::TrialRequest;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rounds of each comparison.
const ROUNDS: usize = 9;

/// Seconds of each measurement of the procedures alone.
const PROCEDURE_S: f64 = 0.2;

/// Seconds of each trial.
const TRIAL_S: f64 = 0.7;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        suite.comparisons(comparisons(root));
    })
}

fn comparisons(root: &Path) -> Vec<Comparison> {
    let against = |name, work, floor, goal| {
        Comparison::of(
            name,
            procedure(root.to_owned(), work, "ours"),
            ("", procedure(root.to_owned(), work, "peer")),
            ROUNDS,
            BenchTarget::at_least(floor, goal),
        )
    };
    vec![
        against("atm-crc10", "crc10", 1.0, 2.0),
        against("atm-segment", "segment", 1.0, 1.5),
        against("atm-reassemble", "reassemble", 1.0, 1.5),
        Comparison::of(
            "aal34-16k",
            throughput("aal34"),
            ("bare", throughput("bare")),
            ROUNDS,
            BenchTarget::at_least(0.2, 0.4),
        ),
    ]
}

/// How often a second a piece of work is done.
fn procedure(root: PathBuf, work: &'static str, side: &'static str) -> Measure {
    let built = std::cell::OnceCell::new();
    Box::new(move |_| {
        let peer = built.get_or_init(|| CellsPeer::build(&root)).as_ref();
        peer.map_err(Clone::clone)?.run(work, side, PROCEDURE_S)
    })
}

fn throughput(transport: &'static str) -> Measure {
    let request = TrialRequest::new(transport, "throughput", 16_384, TRIAL_S, &["--pin", "0,1"]);
    metric_of(request, "messages_per_s")
}
