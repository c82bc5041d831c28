//! The study's figures 1 to 16 as a page.

use report::{Curve, CurveFigure, CurveRow, Curves};
use study::dcruz::{PointRow, Report};

/// Revision, mode, host delays and legend of each curve.
const CURVES: [(&str, &str, bool, &str); 6] = [
    ("3.5", "unicast", false, "3.5 unicast"),
    ("3.5", "unicast", true, "3.5 unicast, host delays"),
    ("3.3", "unicast", false, "3.3 unicast, resend pairs"),
    (
        "3.3",
        "unicast",
        true,
        "3.3 unicast, resend pairs, host delays",
    ),
    ("3.5", "multicast", false, "3.5 multicast"),
    ("3.5", "multicast", true, "3.5 multicast, host delays"),
];

/// Milliseconds per time unit (TU).
const TU_MS: f64 = 1e-4;

/// The page: throughput and delay of each size, without and with multicast.
pub fn page(report: &Report) -> Curves {
    let mut sizes: Vec<u64> = report.rows.iter().map(|row| row.size_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rows = [4, 6].into_iter().enumerate().flat_map(|(part, curves)| {
        let sizes = sizes.iter().enumerate();
        sizes.map(move |(place, &size)| {
            let first = 8 * part + 2 * place + 1;
            row(report, size, first, &CURVES[..curves])
        })
    });
    Curves {
        kind: "Towpath study".to_owned(),
        title: "D'Cruz 1992: multicasting in an XTP simulator".to_owned(),
        lead: vec![
            format!(
                "Lines are ours: {} messages per run, mean over the seeds {:?}. Marks are the values \
                 printed in the study, misprints included. Its multicast tables are not compared \
                 here yet, so the multicast curves of figures 9 to 16 show the model alone.",
                report.messages, report.seeds
            ),
            "Throughput counts packet octets and the offered load user bytes, as the study does, \
             so that short messages have a throughput above the offered load. Delay is the study's message \
             delay: offered load over throughput, times the shortest exchange."
                .to_owned(),
        ],
        names: CURVES.map(|curve| curve.3.to_owned()).to_vec(),
        rows: rows.collect(),
    }
}

fn row(
    report: &Report,
    size: u64,
    first: usize,
    curves: &[(&'static str, &'static str, bool, &'static str)],
) -> CurveRow {
    let mode = match curves.len() {
        4 => "unicast",
        _ => "unicast and multicast",
    };
    let figure =
        |number: usize, y: &str, what: &str, ours: fn(&PointRow) -> f64, name: &str, scale| {
            let lines = curves.iter().enumerate().map(|(place, curve)| Curve {
                name: place,
                line: true,
                marks: false,
                points: points(report, size, curve, ours),
            });
            let printed = curves.iter().enumerate().map(|(place, curve)| Curve {
                name: place,
                line: false,
                marks: true,
                points: printed(report, size, curve, name, scale),
            });
            CurveFigure {
                caption: format!("Figure {number}: {what}, {size} B"),
                x: "offered load, B/s".to_owned(),
                y: y.to_owned(),
                linear: true,
                curves: lines.chain(printed).collect(),
            }
        };
    CurveRow {
        title: format!("Messages of {size} B, {mode}"),
        note: String::new(),
        figures: vec![
            figure(
                first,
                "throughput, B/s",
                "throughput",
                |row| row.throughput_bps,
                "throughput B/s",
                1.0,
            ),
            figure(
                first + 1,
                "message delay, ms",
                "delay",
                |row| row.message_delay_tu * TU_MS,
                "message delay TU",
                TU_MS,
            ),
        ],
    }
}

fn points(
    report: &Report,
    size: u64,
    &(revision, mode, host_delays, _): &(&str, &str, bool, &str),
    figure: fn(&PointRow) -> f64,
) -> Vec<(f64, f64)> {
    let own = report.rows.iter().filter(|row| {
        row.size_bytes == size
            && row.revision == revision
            && row.mode == mode
            && row.host_delays == host_delays
    });
    let mut points: Vec<(f64, f64)> = own.map(|row| (row.offered_bps, figure(row))).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points
}

/// The printed values, at the load of our row.
fn printed(
    report: &Report,
    size: u64,
    &(revision, mode, host_delays, _): &(&str, &str, bool, &str),
    figure: &str,
    scale: f64,
) -> Vec<(f64, f64)> {
    if (revision, mode) != ("3.5", "unicast") {
        return Vec::new();
    }
    let own = report.cells.iter().filter(|cell| {
        cell.size_bytes == size
            && cell.host_delays == host_delays
            && cell.table < 17
            && cell.figure == figure
    });
    let points = own.map(|cell| {
        let offered = size as f64 * 1e7 / cell.interarrival_tu as f64;
        (offered, cell.paper * scale)
    });
    points.collect()
}
