//! Hosts of the study of XTP in a UNIX kernel (taler-1992): costs fitted to its round trips, and what they predict.

use scenario::sweep::apply_changes;
use scenario::{RunOutcome, run};
use std::collections::BTreeMap;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/taler-1992/");

/// The costs of a machine, in the order of `fitted.toml`.
const COSTS: [&str; 5] = [
    "call_us",
    "byte_ns",
    "sum_byte_ns",
    "xtp_packet_us",
    "udp_packet_us",
];

/// No cost falls below this, in its unit: what a fit pushes there, the figures do not show.
const LEAST: f64 = 1.0;

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
    2e-3 * delay.p50_us.expect("two dozen of them")
}

/// Throughput of a size, Mibit/s: what the sender is rid of, as the study counts UDP. XTP has one message under way.
fn throughput(machine: &str, way: Way, costs: &[f64; 5], size: u64) -> f64 {
    let outstanding = if way.protocol == "xtp" { 1 } else { 100 };
    let changes = [
        format!("traffic.0.length.fixed={size}"),
        "traffic.0.interarrival.fixed=0 s".to_owned(),
        "traffic.0.messages=100".to_owned(),
        "messages=100".to_owned(),
        format!("traffic.0.outstanding={outstanding}"),
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
    let line = |row: usize| {
        std::array::from_fn(|column| match column {
            5 => -dot(&slopes[row], &here),
            _ if column == row => dot(&slopes[row], &slopes[row]) + 1e-4,
            _ => dot(&slopes[row], &slopes[column]),
        })
    };
    let change = solved(std::array::from_fn(line));
    let sum = |misfits: &[f64]| -> f64 { misfits.iter().map(|misfit| misfit * misfit).sum() };
    // Shorter and shorter, until it is a step down.
    let scales = (0..6).map(|halvings| 0.5f64.powi(halvings));
    let mut nexts = scales.map(|scale| {
        let moved = |cost: usize| at[cost] * (scale * change[cost]).clamp(-0.7, 0.7).exp();
        std::array::from_fn(|cost| moved(cost).max(LEAST))
    });
    let down = nexts.find(|next| sum(&flat(next)) < sum(&here));
    down.unwrap_or(*at)
}

/// Solves five equations; the last column is the right side.
fn solved(mut system: [[f64; 6]; 5]) -> [f64; 5] {
    for pivot in 0..5 {
        let own = system[pivot];
        let others = system
            .iter_mut()
            .enumerate()
            .filter(|(row, _)| *row != pivot);
        for (_, line) in others {
            let factor = line[pivot] / own[pivot];
            line.iter_mut()
                .zip(&own)
                .for_each(|(value, of_pivot)| *value -= factor * of_pivot);
        }
    }
    std::array::from_fn(|row| system[row][5] / system[row][row])
}

/// The costs that the study keeps.
fn kept(machine: &str) -> [f64; 5] {
    let text = std::fs::read_to_string(format!("{FOLDER}fitted.toml")).expect("the costs");
    let table: toml::Table = toml::from_str(&text).expect("TOML");
    COSTS.map(|cost| table[machine][cost].as_integer().expect("a whole number") as f64)
}

/// Steps of a fit: half of them suffice.
const STEPS: usize = 20;

/// The costs that fit the round trips of a machine best, from a start of their own.
fn fitted(machine: &str) -> [f64; 5] {
    let mut costs = [300.0, 300.0, 50.0, 300.0, 300.0];
    for _ in 0..STEPS {
        costs = step(machine, &costs);
    }
    costs
}

#[test]
fn costs_are_those_that_fit_the_round_trips_best() {
    if std::env::var_os("TOWPATH_RECORD").is_some() {
        return record();
    }
    for machine in ["sun3", "sun4"] {
        let (costs, kept) = (fitted(machine), kept(machine));
        // Kept are whole numbers.
        let near = |(fitted, kept): (&f64, &f64)| (fitted - kept).abs() <= (0.02 * kept).max(0.5);
        let all = costs.iter().zip(&kept).all(near);
        assert!(
            all,
            "{machine}: {COSTS:?} are {costs:.1?}, and {kept:.1?} are kept"
        );
    }
    let stated = std::fs::read_to_string(format!("{FOLDER}fitted.toml")).expect("the file");
    assert_eq!(file(kept), stated);
}

/// Writes the file of the study anew.
fn record() {
    let text = file(|machine| fitted(machine).map(f64::round));
    std::fs::write(format!("{FOLDER}fitted.toml"), text).expect("the file is written");
}

/// The file of the study: costs, and what they leave of each column.
fn file(costs_of: impl Fn(&str) -> [f64; 5]) -> String {
    let mut text = "# Costs of the hosts in virtual time, fitted to their round trips, and the errors of each column of the paper's\n\
                    # tables: the root of the mean square, and the median of ours over the printed figure. Throughput is predicted.\n\
                    # crates/scenario/tests/all/fitted_hosts.rs fits them again.\n"
        .to_owned();
    for machine in ["sun3", "sun4"] {
        let costs = costs_of(machine);
        let lines = COSTS
            .iter()
            .zip(&costs)
            .map(|(name, cost)| format!("{name} = {cost:.0}\n"));
        text.push_str(&format!("\n[{machine}]\n{}", lines.collect::<String>()));
        text.push_str("errors = [\n");
        for (list, ours) in [
            (FITTED, round_trip_ms as Measure),
            (PREDICTED, throughput as Measure),
        ] {
            for column in list {
                text.push_str(&error_line(machine, &column, ours, &costs));
            }
        }
        text.push_str("]\n");
    }
    text
}

/// The error of a column.
fn error_line(
    machine: &str,
    column: &(&str, &str, Way),
    ours: Measure,
    costs: &[f64; 5],
) -> String {
    let figures = printed(machine, column).into_iter();
    let misfit = |(size, figure): (u64, f64)| (ours(machine, column.2, costs, size) / figure).ln();
    let mut misfits: Vec<f64> = figures.map(misfit).collect();
    let rms = 100.0 * rms(&misfits);
    misfits.sort_by(f64::total_cmp);
    let median = misfits[misfits.len() / 2].exp();
    let table = column.0.replace("_MACHINE", "");
    format!(
        "  {{ table = \"{table}\", column = \"{}\", rms_percent = {rms:.0}, median_ratio = {median:.2} }},\n",
        column.1
    )
}

/// Ours for a machine, a way, costs and a size.
type Measure = fn(&str, Way, &[f64; 5], u64) -> f64;

/// The scenarios of the study have the kept costs: what its runs use is what was fitted.
#[test]
fn scenarios_of_the_study_have_the_costs_that_are_kept() {
    for machine in ["sun3", "sun4"] {
        for (way, changes) in [(Way::XTP, 1024), (Way::UDP, 8192)] {
            let text = std::fs::read_to_string(format!("{FOLDER}{machine}-{}.toml", way.protocol));
            let changes = [format!("traffic.0.length.fixed={changes}")];
            let own =
                apply_changes(&text.expect("the scenario"), &changes).expect("it can be changed");
            let own = run(&own, &[], 1, |_| {}).expect("it builds");
            let kept = outcome(machine, way, &kept(machine), &changes);
            assert_eq!(own.circuits, kept.circuits, "{machine} {}", way.protocol);
        }
    }
}
