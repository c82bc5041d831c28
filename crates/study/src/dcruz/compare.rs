//! Our figures beside the paper's.

use super::expected::{Expected, column};
use super::plan::Variant;
use super::printed;
use super::run::PointResult;
use crate::protocol::Revision;
use serde::Serialize;

/// A point of the plan, as in the JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointRow {
    /// Version of the protocol.
    pub revision: &'static str,
    /// `unicast` or `multicast`.
    pub mode: &'static str,
    /// Control packets carry resend pairs.
    pub resend_pairs: bool,
    /// User bytes of a message.
    pub size_bytes: u64,
    /// Mean time between messages, time units of 100 ns.
    pub interarrival_tu: u64,
    /// User bytes a second offered on average.
    pub offered_bps: f64,
    /// Hosts take time.
    pub host_delays: bool,
    /// The study's effective throughput: octets of data packets a second.
    pub throughput_bps: f64,
    /// User bytes a second.
    pub user_throughput_bps: f64,
    /// Octets of data packets a second that the produced messages would make.
    pub generated_bps: f64,
    /// Shortest time from the (last) data frame to the end of its control packet, time units.
    pub min_delay_tu: f64,
    /// Mean of the same.
    pub mean_exchange_tu: f64,
    /// The study's message delay, time units.
    pub message_delay_tu: f64,
    /// From production to the receiving user, mean, time units.
    pub user_delay_tu: f64,
    /// Collided transmissions a run.
    pub collisions: f64,
    /// Share of the time the cable carried frames.
    pub utilisation: f64,
    /// Share of the time the sender's main processor worked.
    pub sender_busy: f64,
    /// Runs that were complete.
    pub complete: usize,
    /// Runs.
    pub runs: usize,
}

/// Agreement of our figure with the paper's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// Within the limit.
    Within,
    /// Beyond the limit.
    Beyond,
    /// The printed figure disagrees with its own row.
    Misprint,
}

/// A figure of the paper and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cell {
    /// Number of the table.
    pub table: u32,
    /// Name of the figure.
    pub figure: &'static str,
    /// User bytes of a message.
    pub size_bytes: u64,
    /// Mean time between messages, time units; 0 for tables 17 to 21.
    pub interarrival_tu: u64,
    /// Hosts take time.
    pub host_delays: bool,
    /// The model's figure.
    pub ours: f64,
    /// The printed figure.
    pub paper: f64,
    /// Ours over the paper's, less 1.
    pub difference: f64,
    /// The largest difference expected.
    pub limit: f64,
    /// Agreement of the two.
    pub standing: Standing,
    /// Explanation of a misprint.
    pub note: Option<&'static str>,
}

/// The row of a point.
pub fn row(result: &PointResult) -> PointRow {
    let point = &result.point;
    PointRow {
        revision: point.variant.revision_name(),
        mode: mode(point.variant),
        resend_pairs: point.variant.resend_pairs,
        size_bytes: point.size_plan().bytes,
        interarrival_tu: point.interarrival_tu(),
        offered_bps: point.offered_bps(),
        host_delays: point.with_delays,
        throughput_bps: result.mean(|run| run.throughput_bps),
        user_throughput_bps: result.mean(|run| run.user_bps),
        generated_bps: result.mean(|run| run.generated_bps),
        min_delay_tu: result.mean(|run| run.min_delay_tu),
        mean_exchange_tu: result.mean(|run| run.mean_exchange_tu),
        message_delay_tu: result.message_delay_tu(),
        user_delay_tu: result.mean(|run| run.user_delay_tu),
        collisions: result.mean(|run| run.collisions as f64),
        utilisation: result.mean(|run| run.utilisation),
        sender_busy: result.mean(|run| run.sender_busy),
        complete: result.runs.iter().filter(|run| run.complete).count(),
        runs: result.runs.len(),
    }
}

fn mode(variant: Variant) -> &'static str {
    if variant.multicast {
        "multicast"
    } else {
        "unicast"
    }
}

/// Whether the paper prints figures for a point: 3.5 unicast without resend pairs.
fn is_printed(variant: Variant) -> bool {
    variant.revision == Revision::V35 && !variant.multicast && !variant.resend_pairs
}

/// The cells of tables 1 to 8 that belong to a point; none for other variants.
pub fn cells(result: &PointResult) -> Vec<Cell> {
    let point = &result.point;
    if !is_printed(point.variant) {
        return Vec::new();
    }
    let Some(printed) = printed::point(point.size, point.load, point.with_delays) else {
        return Vec::new();
    };
    let row = row(result);
    let packet_bps = row.offered_bps * row.throughput_bps / row.user_throughput_bps.max(1.0);
    let table = 1 + 2 * point.size as u32;
    let cell = |table, figure, ours: f64, paper: f64, limit, fault: Option<&'static str>| {
        let difference = ours / paper - 1.0;
        let standing = match fault {
            Some(_) => Standing::Misprint,
            None if difference.abs() <= limit => Standing::Within,
            None => Standing::Beyond,
        };
        Cell {
            table,
            figure,
            size_bytes: row.size_bytes,
            interarrival_tu: row.interarrival_tu,
            host_delays: row.host_delays,
            ours,
            paper,
            difference,
            limit,
            standing,
            note: fault,
        }
    };
    let (ours, paper) = (row.throughput_bps, printed.throughput_bps);
    let fault = printed.throughput_fault(packet_bps);
    let limit = throughput_limit(&row);
    let delay_fault = printed.delay_fault(packet_bps);
    let min = (row.min_delay_tu, printed.min_delay_tu);
    let message = (row.message_delay_tu, printed.message_delay_tu);
    vec![
        cell(table, "throughput B/s", ours, paper, limit, fault),
        cell(
            table + 1,
            "minimum delay TU",
            min.0,
            min.1,
            0.03,
            delay_fault,
        ),
        cell(
            table + 1,
            "message delay TU",
            message.0,
            message.1,
            0.03,
            delay_fault,
        ),
    ]
}

/// 0.5 % where the medium alone limits, 2 % where the load or a host does.
fn throughput_limit(row: &PointRow) -> f64 {
    let saturated = row.generated_bps > row.throughput_bps * 1.03;
    if saturated && !row.host_delays {
        0.005
    } else {
        0.02
    }
}

/// Tables 17 to 21.
pub fn expected_cells() -> (Vec<Expected>, Vec<Cell>) {
    let columns = [
        column(Revision::V33, false, true),
        column(Revision::V33, false, false),
        column(Revision::V35, false, true),
        column(Revision::V35, false, false),
        column(Revision::V35, true, true),
        column(Revision::V35, true, false),
    ];
    let tables: [(u32, usize, usize, bool); 5] = [
        (17, 0, 1, false),
        (18, 2, 3, false),
        (19, 4, 5, false),
        (20, 2, 4, true),
        (21, 3, 5, true),
    ];
    let mut cells = Vec::new();
    for (table, left, right, is_share) in tables {
        let rows = columns[left].iter().zip(&columns[right]);
        for (size, (left, right)) in rows.enumerate() {
            cells.extend(expected_row(table, size, [left, right], is_share));
        }
    }
    (columns.into_iter().flatten().collect(), cells)
}

/// The three cells of a row of tables 17 to 21: two throughputs, and their ratio in percent.
fn expected_row(table: u32, size: usize, figures: [&Expected; 2], is_share: bool) -> Vec<Cell> {
    let Some([size_bytes, left, right, percent]) = printed::expected(table as usize, size) else {
        return Vec::new();
    };
    let rounded = figures.map(|figure| figure.throughput_bps.round());
    let ratio = rounded[1] / rounded[0];
    let (ours, digits, of_row) = if is_share {
        (ratio * 100.0, 100.0, right / left * 100.0)
    } else {
        ((ratio - 1.0) * 100.0, 10.0, (right / left - 1.0) * 100.0)
    };
    let to_digit = |value: f64| (value * digits).round() / digits;
    let cell = |figure, ours: f64, paper: f64, note: Option<&'static str>| Cell {
        table,
        figure,
        size_bytes: size_bytes as u64,
        interarrival_tu: 0,
        host_delays: false,
        ours,
        paper,
        difference: ours / paper - 1.0,
        limit: 0.0,
        standing: match note {
            Some(_) => Standing::Misprint,
            None if (ours - paper).abs() < 1e-9 => Standing::Within,
            None => Standing::Beyond,
        },
        note,
    };
    let faults = if is_share {
        let column = if table == 20 { 1 } else { 2 };
        [18, 19].map(|table| printed::expected_fault(table, size, column))
    } else {
        [1, 2].map(|column| printed::expected_fault(table as usize, size, column))
    };
    let right_percent = (to_digit(of_row) - percent).abs() < 1e-9;
    let own = (!right_percent).then_some("it is not the ratio of the row's own figures");
    let inherited = faults.iter().flatten().next();
    let note = own.or(inherited.map(|_| "it is made from a misprint"));
    let names = if is_share {
        ["unicast B/s", "multicast B/s", "percent of unicast"]
    } else {
        [
            "resend pairs B/s",
            "no resend pairs B/s",
            "improvement percent",
        ]
    };
    vec![
        cell(names[0], rounded[0], left, faults[0]),
        cell(names[1], rounded[1], right, faults[1]),
        cell(names[2], to_digit(ours), percent, note),
    ]
}
