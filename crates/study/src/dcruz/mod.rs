//! D'Cruz (1992): XTP 3.3 and 3.5, unicast and multicast, over a simulated CSMA/CD Ethernet.
//!
//! * [`plan`] - sizes, loads, hosts, modes.
//! * [`mod@run`] - the runs.
//! * [`expected`] - tables 17 to 21, computed from packets.
//! * [`printed`] - the figures printed in the study.
//! * [`compare`] - our figures beside the paper's.
//!
//! The study's program is lost. What its text leaves open was inferred from its own figures, and
//! each of these findings is a property of the model, not a fitted number:
//!
//! * The propagation from one station to the other takes 11.5 time units ([`plan`]).
//! * The main processor serves its processes in the order in which they are queued, and a control
//!   packet's receiver and the sender it wakes are two services. That gives the plateaus with host
//!   delays and their fall with the load within 0.2 %.
//! * A message is copied in parts, and sent when all of it is copied.
//! * The receiver sends its control packet after its user has copied the data; the gap between
//!   frames hides 96 time units of that.
//! * Users go on producing until 10,000 messages are sent.
//!
//! Not explained: with host delays the study's 6-byte messages take 15 time units longer although
//! the gap hides all of the 17 that copy and checksum take, and with 8192-byte messages 97 less
//! than the copy of the last fragment.

pub mod compare;
pub mod expected;
pub mod plan;
pub mod printed;
pub mod run;

pub use compare::{Cell, PointRow, Standing};
pub use expected::Expected;

use serde::Serialize;

/// The whole study as run here.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Its key.
    pub study: &'static str,
    /// Messages sent in a run.
    pub messages: u64,
    /// Seeds of every point; none was selected.
    pub seeds: Vec<u64>,
    /// Every point of the plan.
    pub rows: Vec<PointRow>,
    /// The figures behind tables 17 to 21.
    pub expected: Vec<Expected>,
    /// Every figure the paper prints, beside ours.
    pub cells: Vec<Cell>,
    /// Events handled.
    pub events: u64,
}

/// Runs the study with `messages` messages a run on `jobs` threads.
pub fn study(
    messages: u64,
    seeds: &[u64],
    jobs: usize,
    progress: impl Fn(usize, usize) + Sync,
) -> Report {
    let results = run::run(&run::points(), messages, seeds, jobs, progress);
    let (expected, expected_cells) = compare::expected_cells();
    let mut cells: Vec<Cell> = results.iter().flat_map(compare::cells).collect();
    cells.sort_by_key(|cell| (cell.table, cell.size_bytes, cell.host_delays));
    cells.extend(expected_cells);
    Report {
        study: "dcruz-1992",
        messages,
        seeds: seeds.to_vec(),
        rows: results.iter().map(compare::row).collect(),
        expected,
        cells,
        events: results
            .iter()
            .flat_map(|result| &result.runs)
            .map(|run| run.events)
            .sum(),
    }
}
