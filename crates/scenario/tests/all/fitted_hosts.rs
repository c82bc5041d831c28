//! Hosts of the study of XTP in a UNIX kernel (taler-1992): costs fitted to its round trips, and what they predict.

use scenario::sweep::apply_changes;
use scenario::{RunOutcome, run};
use std::collections::BTreeMap;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/taler-1992/");

/// The costs of a machine, in the order of `fitted-costs.csv`.
const COSTS: [&str; 5] = [
    "call_us",
    "byte_ns",
    "sum_byte_ns",
    "xtp_packet_us",
    "udp_packet_us",
];

/// Files of round trips by size, and their columns that the costs are fitted to: how they are run.
const FITTED: [(&str, &str, Way); 4] = [
    ("delay_ms_MACHINE_xtp", "xtp_socket_default", Way::XTP),
    (
        "delay_ms_MACHINE_xtp",
        "xtp_socket_checksum_off",
        Way::UNSUMMED,
    ),
    ("delay_ms_MACHINE_xtp", "xtp_socket_queue_32k", Way::LONG),
    ("delay_ms_MACHINE_protocols", "udp", Way::UDP),
];

/// The same of throughput, which they predict.
const PREDICTED: [(&str, &str, Way); 4] = [
    (
        "throughput_mbps_MACHINE_xtp",
        "xtp_socket_default",
        Way::XTP,
    ),
    (
        "throughput_mbps_MACHINE_xtp",
        "xtp_socket_checksum_off",
        Way::UNSUMMED,
    ),
    (
        "throughput_mbps_MACHINE_xtp",
        "xtp_socket_queue_32k",
        Way::LONG,
    ),
    ("throughput_mbps_MACHINE_protocols", "udp", Way::UDP),
];

/// How a column is run.
#[derive(Clone, Copy)]
struct Way {
    protocol: &'static str,
    changes: &'static [&'static str],
}

impl Way {
    const XTP: Way = Way {
        protocol: "xtp",
        changes: &[],
    };
    const UNSUMMED: Way = Way {
        protocol: "xtp",
        changes: &["station.0.engine.checksum=false"],
    };
    const LONG: Way = Way {
        protocol: "xtp",
        changes: &["station.0.engine.window=32 KiB"],
    };
    const UDP: Way = Way {
        protocol: "udp",
        changes: &[],
    };
}

/// A CSV file of the study: its rows by the names of their columns.
fn rows(file: &str) -> Vec<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(format!("{FOLDER}{file}")).expect(file);
    let mut lines = text.lines();
    let heads: Vec<&str> = lines.next().expect(file).split(',').collect();
    let row = |line: &str| {
        let cells = heads.iter().zip(line.split(','));
        cells
            .map(|(head, cell)| ((*head).to_owned(), cell.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

/// The printed figures of a column, by size. One is left out: 0.84 ms for 16 bytes of UDP between Sun-4, half of what 32
/// bytes take.
fn printed(machine: &str, (file, column, _): &(&str, &str, Way)) -> Vec<(u64, f64)> {
    let name = file.replace("MACHINE", machine);
    let entries = std::fs::read_dir(FOLDER).expect("the study");
    let files = entries.map(|entry| {
        entry
            .expect("a file")
            .file_name()
            .into_string()
            .expect("a name")
    });
    let file = files
        .into_iter()
        .find(|file| file.contains(&name))
        .expect("a table");
    let figures = rows(&file).into_iter().filter_map(|row| {
        let figure = row[*column].parse().ok()?;
        Some((row["message_bytes"].parse().ok()?, figure))
    });
    figures
        .filter(|figure| (machine, *column, *figure) != ("sun4", "udp", (16, 0.84)))
        .collect()
}

/// The outcome of a machine's scenario with these costs and changes.
fn outcome(machine: &str, way: Way, costs: &[f64; 5], changes: &[String]) -> RunOutcome {
    let text = std::fs::read_to_string(format!("{FOLDER}{machine}-{}.toml", way.protocol));
    let [call, byte, sum, xtp, udp] = costs;
    let packet = if way.protocol == "xtp" { xtp } else { udp };
    let mut all: Vec<String> = vec![
        format!("station.0.chips.copy_fixed={:.0} ns", call * 1e3),
        format!("station.0.chips.copy_delay={:.0} ps", byte * 1e3),
        format!("station.0.chips.checksum_byte={:.0} ps", sum * 1e3),
        format!("station.0.chips.packet={:.0} ns", packet * 1e3),
    ];
    all.extend(way.changes.iter().map(|change| (*change).to_owned()));
    all.extend_from_slice(changes);
    let scenario = apply_changes(&text.expect("the scenario"), &all).expect("it can be changed");
    let outcome = run(&scenario, &[], 1, |_| {}).expect("it builds");
    assert_eq!(outcome.ending, "complete", "{machine} {}", way.protocol);
    outcome
}

/// Round trip of a size, ms: twice the way of a message, both hosts being alike.
fn round_trip_ms(machine: &str, way: Way, costs: &[f64; 5], size: u64) -> f64 {
    let changes = [format!("traffic.0.length.fixed={size}")];
    let outcome = outcome(machine, way, costs, &changes);
    let delay = outcome.circuits[0].receivers[0]
        .delay
        .as_ref()
        .expect("messages");
    2e-3 * delay.p50_us.expect("twelve of them")
}

/// Throughput of a size, Mibit/s: what the sender is rid of, as the study counts UDP; the same for XTP.
fn throughput(machine: &str, way: Way, costs: &[f64; 5], size: u64) -> f64 {
    let changes = [
        format!("traffic.0.length.fixed={size}"),
        "traffic.0.interarrival.fixed=0 s".to_owned(),
        "traffic.0.messages=100".to_owned(),
        "messages=100".to_owned(),
    ];
    let outcome = outcome(machine, way, costs, &changes);
    100.0 * size as f64 * 8.0 / outcome.elapsed_s / 1_048_576.0
}

/// Logarithms of ours over the printed round trips.
fn misfits(machine: &str, costs: &[f64; 5]) -> Vec<Vec<f64>> {
    let of = |column: &(&str, &str, Way)| {
        let figures = printed(machine, column).into_iter();
        let misfit =
            |(size, ms): (u64, f64)| (round_trip_ms(machine, column.2, costs, size) / ms).ln();
        figures.map(misfit).collect()
    };
    FITTED.iter().map(of).collect()
}

/// The root of the mean square, as a share.
fn rms(misfits: &[f64]) -> f64 {
    let squares: f64 = misfits.iter().map(|misfit| misfit * misfit).sum();
    (squares / misfits.len() as f64).sqrt()
}

/// Costs, as logarithms, after a step of Gauss and Newton from `at`.
fn step(machine: &str, at: &[f64; 5]) -> [f64; 5] {
    const DIFFERENCE: f64 = 0.02;
    let flat = |costs: &[f64; 5]| misfits(machine, costs).concat();
    let here = flat(at);
    let slopes: Vec<Vec<f64>> = (0..5)
        .map(|cost| {
            let mut there = *at;
            there[cost] *= DIFFERENCE.exp();
            let there = flat(&there);
            let slope = |(a, b): (&f64, &f64)| (b - a) / DIFFERENCE;
            here.iter().zip(&there).map(slope).collect()
        })
        .collect();
    let dot = |a: &[f64], b: &[f64]| -> f64 { a.iter().zip(b).map(|(a, b)| a * b).sum() };
    let mut system = [[0.0; 6]; 5];
    for row in 0..5 {
        for column in 0..5 {
            system[row][column] = dot(&slopes[row], &slopes[column]);
        }
        system[row][row] += 1e-4;
        system[row][5] = -dot(&slopes[row], &here);
    }
    let change = solved(system);
    let mut next = *at;
    for (cost, change) in next.iter_mut().zip(change) {
        *cost *= change.clamp(-0.7, 0.7).exp();
    }
    next
}

/// Solves five equations; the last column is the right side.
fn solved(mut system: [[f64; 6]; 5]) -> [f64; 5] {
    for pivot in 0..5 {
        for row in 0..5 {
            let factor = system[row][pivot] / system[pivot][pivot];
            if row != pivot {
                for column in pivot..6 {
                    system[row][column] -= factor * system[pivot][column];
                }
            }
        }
    }
    std::array::from_fn(|row| system[row][5] / system[row][row])
}

/// The costs that the study keeps.
fn kept(machine: &str) -> [f64; 5] {
    let rows = rows("fitted-costs.csv");
    let row = rows
        .iter()
        .find(|row| row["machine"] == machine)
        .expect("the machine");
    COSTS.map(|cost| row[cost].parse().expect("a number"))
}

#[test]
fn costs_are_those_that_fit_the_round_trips_best() {
    for machine in ["sun3", "sun4"] {
        let mut costs = [1000.0, 1000.0, 100.0, 1000.0, 1000.0];
        for _ in 0..12 {
            costs = step(machine, &costs);
        }
        let kept = kept(machine);
        let near = costs
            .iter()
            .zip(&kept)
            .all(|(fitted, kept)| (fitted / kept).ln().abs() < 0.02);
        assert!(
            near,
            "{machine}: {COSTS:?} are {costs:.1?}, and {kept:.1?} are kept"
        );
    }
}
