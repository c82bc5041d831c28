//! The result of a race of seven transports, with plausible numbers from a small generator, one
//! invalid trial, one hostile name and one NaN.

#[path = "../../../results/tests/plain/mod.rs"]
mod plain;
pub mod setting;

use results::{
    Cell, CellSummary, Cpu, Crossover, Estimate, Fit, FitPiece, Histogram, Ledger, RunData,
    RunStatus, SCHEMA_VERSION, Series, Status, Summary, Trial, Verdict, VerdictKind, metric,
    new_histogram,
};
use setting::{machine, plan};
use std::collections::BTreeMap;

/// A name that tries to be markup.
pub const HOSTILE: &str = "<script>alert(1)</script>";

/// A contestant: ns per message, ns per byte, round trip us, CPU share of the receiver.
const CONTESTANTS: [(&str, f64, f64, f64, f64); 7] = [
    ("tcp", 740.0, 0.27, 15.2, 0.45),
    ("tcp-batched", 62.0, 0.29, 15.9, 0.40),
    ("udp", 980.0, 0.21, 13.1, 0.50),
    ("unix-stream", 530.0, 0.14, 8.9, 0.48),
    ("quic", 1650.0, 1.9, 38.0, 0.55),
    ("bare", 23.0, 0.20, 14.4, 0.50),
    (HOSTILE, 700.0, 0.30, 15.1, 0.5),
];
const SIZES: [u64; 3] = [64, 1024, 16384];
const WORKLOADS: [&str; 2] = ["throughput", "delay"];
const BLOCKS: u32 = 5;

/// Uniform in [0, 1), the same on every machine.
struct Uniform(u64);

impl Uniform {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// The whole run.
pub fn run() -> RunData {
    let mut noise = Uniform(7);
    let mut trials = Vec::new();
    for block in 1..=BLOCKS {
        for workload in WORKLOADS {
            for size in SIZES {
                for place in 0..CONTESTANTS.len() {
                    let index = trials.len() as u64;
                    trials.push(trial(index, block, workload, size, place, &mut noise));
                }
            }
        }
    }
    spoil(&mut trials);
    let summary = summary(&trials);
    RunData {
        path: "results/2026-11-21-race".into(),
        plan: plan(),
        machine: machine(),
        trials,
        summary: Some(summary),
    }
}

/// An open-loop race: the same contestants offered four rates, two of them beyond their knee.
pub fn offered() -> RunData {
    let mut run = run();
    let mut trials = Vec::new();
    let mut noise = Uniform(11);
    for block in 1..=BLOCKS {
        for percent in [25u64, 50, 100, 150] {
            for (place, contestant) in CONTESTANTS.iter().enumerate() {
                let index = trials.len() as u64;
                let mut trial = trial(index, block, "delay", 1024, place, &mut noise);
                trial.cell = trial
                    .cell
                    .with(Cell::WORKLOAD, "offered")
                    .with("load_percent", percent);
                load(&mut trial, percent as f64 / 100.0, 1e9 / contestant.1);
                trials.push(trial);
            }
        }
    }
    run.plan.workloads = vec!["offered".into()];
    run.trials = trials;
    run.summary = None;
    run
}

/// Three runs, the second with another kernel and label, and the last slower.
#[allow(dead_code, reason = "some test binaries use it")]
pub fn history() -> (Vec<report::HistoryRun>, Vec<stats::CellHistory>) {
    let mut slower = run();
    for trial in &mut slower.trials {
        for value in trial.metrics.values_mut() {
            *value *= 0.7;
        }
    }
    let cells = [&run(), &run(), &slower].map(|run| stats::RunCells::of(&run.plan, &run.trials));
    let named = |number: usize| report::HistoryRun {
        name: format!("results/{number}"),
        started_s: 1.7e9 + 3600.0 * number as f64,
        ..report::HistoryRun::default()
    };
    let mut runs: Vec<report::HistoryRun> = (0..3).map(named).collect();
    runs[1].labels = vec!["commit=1f3a".into()];
    runs[1].changes = vec![results::FactChange {
        group: "kernel".into(),
        name: "release".into(),
        before: Some("6.1.0".into()),
        after: Some("6.8.0".into()),
    }];
    (runs, stats::history(&cells, 0.05, 0.03))
}

/// Transactions of 1, 4 and 16 clients, of which the first contestants gain most.
pub fn clients() -> RunData {
    let mut run = run();
    let mut trials = Vec::new();
    let mut noise = Uniform(13);
    for block in 1..=BLOCKS {
        for clients in [1u64, 4, 16] {
            for (place, contestant) in CONTESTANTS.iter().enumerate() {
                let index = trials.len() as u64;
                let mut trial = trial(index, block, "delay", 1024, place, &mut noise);
                trial.cell = trial
                    .cell
                    .with(Cell::WORKLOAD, "transactions")
                    .with(Cell::CLIENTS, clients);
                trial.metrics.remove(metric::MESSAGES_PER_S);
                let each = 1e6 / contestant.3 / (1.0 + clients as f64 * 0.1);
                let rate = each * clients as f64;
                set(&mut trial, metric::TRANSACTIONS_PER_S, rate);
                set(&mut trial, metric::CLIENT_PER_S, each);
                set(&mut trial, "client_min_per_s", each * 0.9);
                set(&mut trial, "client_max_per_s", each * 1.1);
                set(&mut trial, metric::LINK_SHARE_FRACTION, 0.25);
                trials.push(trial);
            }
        }
    }
    run.plan.workloads = vec!["transactions".into()];
    run.trials = trials;
    run.summary = None;
    run
}

fn load(trial: &mut Trial, share: f64, capacity: f64) {
    let offered = capacity * share;
    let delivered = offered.min(capacity * 0.97);
    set(trial, "offered_per_s", offered);
    set(trial, metric::DELIVERED_PER_S, delivered);
    set(trial, "loss_fraction", 1.0 - delivered / offered);
    set(trial, "delay_p99_us", 20.0 / (1.05 - share.min(1.0)));
}

fn trial(
    index: u64,
    block: u32,
    workload: &str,
    size: u64,
    place: usize,
    noise: &mut Uniform,
) -> Trial {
    let (name, fixed, per_byte, delay, share) = CONTESTANTS[place];
    let factor = 0.97 + 0.06 * noise.next();
    let ns = (fixed + per_byte * size as f64) * factor;
    let sender = Cpu {
        task_s: 0.2,
        ..Cpu::default()
    };
    let mut trial = Trial {
        index,
        started_s: 1_795_269_780.0 + index as f64 * 0.3,
        span_s: 0.25,
        warm_up_s: 0.03,
        cpu: BTreeMap::from([("sender".to_owned(), sender)]),
        effective: BTreeMap::from([("sender.congestion".to_owned(), "bbr".to_owned())]),
        ..plain::trial(block, plain::cell(name, workload, size))
    };
    let cost = if workload == "delay" {
        ns + delay * 700.0
    } else {
        ns
    };
    set(
        &mut trial,
        "sender_cpu_ns_per_message",
        cost * (1.0 - share),
    );
    set(&mut trial, "receiver_cpu_ns_per_message", cost * share);
    trial.evidence.insert(
        "calls_per_message".into(),
        if fixed < 100.0 { 0.02 } else { 1.0 },
    );
    trial
        .evidence
        .insert("wakeups_per_message".into(), 0.9 * factor);
    match workload {
        "delay" => delays(
            &mut trial,
            delay * factor + 2.2 * per_byte * size as f64 / 1e3,
            noise,
        ),
        _ => throughput(&mut trial, 1e9 / ns, size, noise),
    }
    trial
}

fn set(trial: &mut Trial, name: &str, value: f64) {
    trial.metrics.insert(name.to_owned(), value);
}

fn throughput(trial: &mut Trial, rate: f64, size: u64, noise: &mut Uniform) {
    set(trial, metric::MESSAGES_PER_S, rate);
    set(trial, metric::MBIT_PER_S, rate * size as f64 * 8.0 / 1e6);
    let values = (0..50).map(|slice| {
        let rising = if slice < 6 {
            0.6 + 0.06 * f64::from(slice)
        } else {
            1.0
        };
        rate * rising * (0.94 + 0.1 * noise.next())
    });
    let values: Vec<f64> = values.collect();
    let series = Series {
        unit: "/s".into(),
        at_s: (1..=50).map(|slice| f64::from(slice) * 0.005).collect(),
        values,
    };
    trial.series.insert("messages_per_s".into(), series);
    let sent = (rate * 0.22) as u64;
    let lost = if trial.cell.transport() == "udp" {
        sent / 400
    } else {
        0
    };
    trial.ledger = Some(Ledger {
        sent,
        delivered: sent - lost,
        lost_host: lost,
        ..Ledger::default()
    });
    let mut packets = new_histogram();
    for share in 0..100_u64 {
        packets.saturating_record(if share < 10 {
            size.min(600)
        } else {
            (size * 20).min(65_000)
        });
    }
    let encoded = Histogram::encode(&packets, "B").expect("a small histogram");
    trial.histograms.insert("packet_size".into(), encoded);
}

fn delays(trial: &mut Trial, median_us: f64, noise: &mut Uniform) {
    let mut histogram = new_histogram();
    for _ in 0..4000 {
        let tail = -(1.0 - noise.next()).ln();
        let late = if noise.next() > 0.995 {
            6.0 * tail
        } else {
            0.0
        };
        let us = median_us * (0.93 + 0.1 * tail + late);
        histogram.saturating_record((us * 1e3) as u64);
    }
    let quantile = |q: f64| histogram.value_at_quantile(q) as f64 / 1e3;
    set(trial, metric::DELAY_P50_US, quantile(0.5));
    set(trial, metric::MESSAGES_PER_S, 1e6 / quantile(0.5));
    set(trial, "delay_p99_us", quantile(0.99));
    let encoded = Histogram::encode(&histogram, "ns").expect("a small histogram");
    trial.histograms.insert("delay".into(), encoded);
}

/// Adds the faults of a real run.
fn spoil(trials: &mut [Trial]) {
    trials[9].status = Status::Invalid;
    trials[9].reason = "the receiver ran out of ports; wait a minute or widen the range".into();
    trials[17].disturbed = vec!["steal 4.2 % of the span".into()];
    trials[23]
        .metrics
        .insert(metric::MESSAGES_PER_S.into(), f64::NAN);
    trials[30].status = Status::Failed;
    trials[30].reason = "<img src=x onerror=alert(2)> \u{1b}[31m".into();
}

fn summary(trials: &[Trial]) -> Summary {
    let mut cells = Vec::new();
    let mut verdicts = Vec::new();
    for workload in WORKLOADS {
        for size in SIZES {
            for (name, ..) in CONTESTANTS {
                let cell = Cell::default()
                    .with(Cell::TRANSPORT, name)
                    .with(Cell::WORKLOAD, workload)
                    .with(Cell::SIZE, size);
                cells.push(cell_summary(&cell, trials));
            }
        }
    }
    let contests: Vec<Cell> = cells.iter().map(|c| c.cell.clone()).collect();
    for cell in contests {
        verdicts.extend(verdict(&cell, &cells));
    }
    let overall = overall(&verdicts);
    let control = verdicts.iter().take(6).map(|verdict| Verdict {
        contestant: "tcp".into(),
        kind: VerdictKind::Equal,
        ratio: 1.004,
        low: 0.99,
        high: 1.02,
        because: String::new(),
        ..verdict.clone()
    });
    Summary {
        version: SCHEMA_VERSION,
        status: RunStatus::Complete,
        reason: String::new(),
        blocks: BLOCKS,
        elapsed_s: 63.0,
        control: control.collect(),
        cells,
        verdicts,
        overall,
        fits: fits(),
        beside: Vec::new(),
        crossovers: vec![Crossover {
            contest: Cell::default().with(Cell::WORKLOAD, "throughput"),
            metric: "time_per_message_ns".into(),
            below: "tcp".into(),
            above: "udp".into(),
            size: 4000.0,
        }],
        warnings: vec!["quic encrypts, the others do not: its rows cost more for a reason.".into()],
    }
}

fn cell_summary(cell: &Cell, trials: &[Trial]) -> CellSummary {
    let own: Vec<&Trial> = trials.iter().filter(|trial| trial.cell == *cell).collect();
    let good: Vec<&&Trial> = own
        .iter()
        .filter(|trial| trial.status == Status::Ok)
        .collect();
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for trial in &good {
        for (name, value) in trial.metrics.iter().filter(|(_, value)| value.is_finite()) {
            values.entry(name.clone()).or_default().push(*value);
        }
    }
    let metrics = values.into_iter().map(|(name, mut values)| {
        values.sort_by(f64::total_cmp);
        let estimate = Estimate {
            median: values[values.len() / 2],
            low: values[0],
            high: values[values.len() - 1],
            n: values.len() as u32,
        };
        (name, estimate)
    });
    CellSummary {
        cell: cell.clone(),
        trials_ok: good.len() as u32,
        trials_bad: (own.len() - good.len()) as u32,
        metrics: metrics.collect(),
        evidence: good
            .first()
            .map(|trial| trial.evidence.clone())
            .unwrap_or_default(),
        quantiles: BTreeMap::new(),
        samples: BTreeMap::new(),
    }
}

fn verdict(cell: &Cell, cells: &[CellSummary]) -> Option<Verdict> {
    let metric = metric::primary(&cell.workload());
    let find = |cell: &Cell| {
        cells
            .iter()
            .find(|c| c.cell == *cell)?
            .metrics
            .get(metric)
            .copied()
    };
    let base = find(&cell.clone().with(Cell::TRANSPORT, "tcp"))?.median;
    let ratio = find(cell)?.median / base;
    let more_is_better = cell.workload() == "throughput";
    let kind = match ratio {
        r if (0.985..1.015).contains(&r) => VerdictKind::Equal,
        r if (0.93..1.07).contains(&r) => VerdictKind::NotEnoughData,
        r if (r > 1.0) == more_is_better => VerdictKind::Faster,
        _ => VerdictKind::Slower,
    };
    (cell.transport() != "tcp").then(|| Verdict {
        contest: cell.without(Cell::TRANSPORT),
        metric: metric.into(),
        contestant: cell.transport(),
        baseline: "tcp".into(),
        kind,
        ratio,
        low: ratio * 0.97,
        high: ratio * 1.03,
        alpha: 0.0028,
        pairs: BLOCKS,
        blocks_needed: (kind == VerdictKind::NotEnoughData).then_some(14),
        because: match kind {
            VerdictKind::Faster => "0.9 wake-ups a message against 2.1".into(),
            VerdictKind::Slower => "1.0 calls a message against 0.02".into(),
            _ => String::new(),
        },
    })
}

fn overall(verdicts: &[Verdict]) -> Vec<Verdict> {
    let mut found = Vec::new();
    for workload in WORKLOADS {
        for (name, ..) in &CONTESTANTS[1..] {
            let here: Vec<&Verdict> = verdicts
                .iter()
                .filter(|v| v.contestant == *name && v.contest.workload() == workload)
                .collect();
            let mean = here.iter().map(|v| v.ratio.ln()).sum::<f64>() / here.len() as f64;
            found.push(Verdict {
                contest: Cell::default(),
                ratio: mean.exp(),
                low: mean.exp() * 0.96,
                high: mean.exp() * 1.05,
                because: String::new(),
                ..here[0].clone()
            });
        }
    }
    found
}

fn fits() -> Vec<Fit> {
    let fit = |place: usize, workload: &str, metric: &str, fixed: f64, per_byte: f64| Fit {
        cell: Cell::default()
            .with(Cell::TRANSPORT, CONTESTANTS[place].0)
            .with(Cell::WORKLOAD, workload),
        metric: metric.into(),
        pieces: vec![
            FitPiece {
                from: 64.0,
                to: 1024.0,
                fixed,
                per_byte: per_byte * 1.02,
            },
            FitPiece {
                from: 1024.0,
                to: 16384.0,
                fixed,
                per_byte,
            },
        ],
        deviation_max: 0.03,
    };
    let mut fits = Vec::new();
    for (place, (_, fixed, per_byte, delay, _)) in CONTESTANTS.iter().enumerate() {
        fits.push(fit(
            place,
            "throughput",
            "time_per_message_ns",
            *fixed,
            *per_byte,
        ));
        fits.push(fit(
            place,
            "delay",
            metric::DELAY_P50_US,
            *delay,
            2.2 * per_byte / 1e3,
        ));
    }
    fits
}
