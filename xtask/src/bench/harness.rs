//! harness: the load generator against iperf3 and sockperf, and its own overhead.
//!
//! Ours and a peer run in turn, in alternating order, on the same CPUs with the same call and read
//! sizes and the same congestion control. The median of the ratios within pairs is compared with
//! the target. A missing peer counts as a missed target.

use super::bar::{Bar, BenchTarget};
use super::compare::{Comparison, Measure, metric_of};
use super::peers::{self, Iperf3};
use super::trial_runner::{TrialRequest, TrialRunner};
use super::yardstick::Yardstick;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Pairs of each comparison.
const PAIRS: usize = 9;

/// Pairs of a delay between two CPUs: the time to wake another CPU varies by 10 % and more between
/// trials.
const PAIRS_WOKEN: usize = 15;

/// Seconds of each trial.
const SPAN_S: f64 = 1.0;

/// Messages of the empty loop.
const LOOP_MESSAGES: u64 = 20_000_000;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let mut ours = match TrialRunner::build(root) {
        Ok(ours) => ours,
        Err(error) => return crate::fail(&error),
    };
    let wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|start| name.starts_with(start));
    let mut short = false;
    let mut say = |bar: Bar| {
        println!("{}", bar.line());
        short |= !bar.is_met();
    };
    for comparison in comparisons() {
        if wanted(comparison.name) {
            say(comparison.run(&mut ours));
        }
    }
    for (name, single) in SINGLES {
        if wanted(name) {
            say(single(&mut ours, name));
        }
    }
    if short {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn comparisons() -> Vec<Comparison> {
    let mut all = vec![
        tcp("tcp-64", 64, 1.0),
        tcp("tcp-1k", 1024, 1.0),
        tcp("tcp-16k", 16384, 1.0),
        tcp("tcp-128k", 131_072, 0.97),
        // iperf3 connects its socket, as does udp-connected.
        udp("udp-1400", "udp-connected", 1.0),
        udp("udp-segmented-1400", "udp-segmented", 8.0),
        delay("delay-tcp-1core", "tcp", 0, 1.00),
        delay("delay-udp-1core", "udp", 0, 1.00),
        delay("delay-tcp-2core", "tcp", 1, 1.03),
        delay("delay-udp-2core", "udp", 1, 1.03),
    ];
    for (name, size) in [("bare-64", 64), ("bare-16k", 16384)] {
        all.push(Comparison::of(
            name,
            metric_of(throughput("bare", size, &[]), "messages_per_s"),
            ("", Box::new(move |_| utp2(size))),
            PAIRS,
            BenchTarget::at_least(0.5, 0.9),
        ));
    }
    all
}

/// Messages a second of `utp2`, a windowed, batched sender that shows the capacity of segmented UDP.
fn utp2(size: u64) -> Result<f64, String> {
    let (size, span) = (size.to_string(), SPAN_S.to_string());
    let words = ["-s", &size, "-t", &span, "-a", "0", "-b", "1"];
    Yardstick::build("utp2")?.run(&words, "msgs_s")
}

fn throughput(transport: &'static str, size: u64, more: &[String]) -> TrialRequest {
    let mut all = vec!["--pin".to_owned(), "0,1".to_owned()];
    all.extend_from_slice(more);
    TrialRequest {
        transport,
        workload: "throughput",
        size,
        span_s: SPAN_S,
        more: all,
    }
}

/// iperf3's receiver reads as many bytes per call as its sender writes, so ours does too.
fn tcp(name: &'static str, size: u64, target: f64) -> Comparison {
    Comparison::of(
        name,
        metric_of(
            throughput("tcp", size, &["--read-size".into(), size.to_string()]),
            "messages_per_s",
        ),
        (
            "",
            Box::new(move |_| Iperf3::installed()?.rate(false, size, SPAN_S)),
        ),
        PAIRS,
        BenchTarget::AtLeast(target),
    )
}

fn udp(name: &'static str, transport: &'static str, target: f64) -> Comparison {
    Comparison::of(
        name,
        metric_of(throughput(transport, 1400, &[]), "messages_per_s"),
        (
            "",
            Box::new(|_| Iperf3::installed()?.rate(true, 1400, SPAN_S)),
        ),
        PAIRS,
        BenchTarget::AtLeast(target),
    )
}

fn delay(name: &'static str, transport: &'static str, other: u32, target: f64) -> Comparison {
    Comparison::of(
        name,
        metric_of(
            TrialRequest {
                transport,
                workload: "delay",
                size: 64,
                span_s: SPAN_S,
                more: vec!["--pin".into(), format!("0,{other}")],
            },
            "delay_p50_us",
        ),
        (
            "",
            Box::new(move |_| peers::sockperf(transport == "tcp", 64, SPAN_S, (0, other))),
        ),
        if other == 0 { PAIRS } else { PAIRS_WOKEN },
        BenchTarget::AtMost(target),
    )
}

/// Bars without a peer, or with one that may be absent.
type Single = fn(&mut TrialRunner, &'static str) -> Bar;

const SINGLES: &[(&str, Single)] = &[
    ("udp-segmented-gsro", udp_segmented_gsro),
    ("udp-segmented-gsro-blocking", udp_segmented_gsro_blocking),
    ("record-throughput", record_throughput),
    ("record-delay", record_delay),
    ("first-trial", first_trial),
    ("rss-60s", rss_60s),
];

/// Our segmented UDP against iperf3's, whose receiver polls: with a receiver of ours that polls as well.
fn udp_segmented_gsro(ours: &mut TrialRunner, name: &'static str) -> Bar {
    against_gsro(
        ours,
        name,
        &["--busy-poll".into()],
        BenchTarget::at_least(1.0, 1.1),
    )
}

/// The same with a receiver of ours that sleeps between arrivals, so that the sender wakes it.
fn udp_segmented_gsro_blocking(ours: &mut TrialRunner, name: &'static str) -> Bar {
    against_gsro(ours, name, &[], BenchTarget::at_least(0.85, 1.0))
}

/// Against iperf3 with segmented UDP; without one that has it the line says so at once.
fn against_gsro(
    ours: &mut TrialRunner,
    name: &'static str,
    more: &[String],
    target: BenchTarget,
) -> Bar {
    let iperf3 = match Iperf3::with_gsro() {
        Ok(iperf3) => iperf3,
        Err(absent) => return Bar::of_median(name, Err(absent), "x", target),
    };
    let ask = throughput("udp-segmented", 1400, more);
    let ours_rate = metric_of(ask, "messages_per_s");
    let peer: Measure = Box::new(move |_| iperf3.rate(true, 1400, SPAN_S));
    Comparison::of(name, ours_rate, ("", peer), PAIRS, target).run(ours)
}

fn single(name: &str, values: Result<Vec<f64>, String>, unit: &'static str, most: f64) -> Bar {
    Bar::of_median(name, values, unit, BenchTarget::AtMost(most))
}

/// Overhead of the sending loop per message: the null transport against an empty loop.
fn record_throughput(ours: &mut TrialRunner, name: &str) -> Bar {
    let one = |ours: &mut TrialRunner| {
        let rate = ours.metric(&throughput("null", 64, &[]), "sent_per_s")?;
        Ok(1e9 / rate - bare_loop_ns())
    };
    single(name, (0..PAIRS).map(|_| one(ours)).collect(), "ns", 2.0)
}

fn bare_loop_ns() -> f64 {
    let message = [7u8; 64];
    let began = Instant::now();
    for _ in 0..LOOP_MESSAGES {
        black_box(&message[..]);
    }
    began.elapsed().as_nanos() as f64 / LOOP_MESSAGES as f64
}

/// Overhead of a round trip: the null transport less two clock reads.
fn record_delay(ours: &mut TrialRunner, name: &str) -> Bar {
    let ask = TrialRequest::new("null", "delay", 64, SPAN_S / 2.0, &["--pin", "0,1"]);
    let one = |ours: &mut TrialRunner| {
        let rate = ours.metric(&ask, "messages_per_s")?;
        Ok(1e9 / rate - 2.0 * clock_read_ns())
    };
    single(name, (0..PAIRS).map(|_| one(ours)).collect(), "ns", 15.0)
}

fn clock_read_ns() -> f64 {
    const READS: u32 = 2_000_000;
    let began = Instant::now();
    for _ in 0..READS {
        black_box(Instant::now());
    }
    began.elapsed().as_nanos() as f64 / f64::from(READS)
}

fn first_trial(ours: &mut TrialRunner, name: &str) -> Bar {
    let mut ask = throughput("tcp", 64, &[]);
    ask.span_s = 0.1;
    single(
        name,
        (0..PAIRS).map(|_| ours.first_trial_s(&ask)).collect(),
        "s",
        0.5,
    )
}

/// Peak memory of any process in a trial of one minute: a busy-polling delay trial, which keeps the
/// most samples.
fn rss_60s(ours: &mut TrialRunner, name: &str) -> Bar {
    let ask = TrialRequest {
        transport: "udp",
        workload: "delay",
        size: 64,
        span_s: 60.0,
        more: vec!["--pin".into(), "0,1".into(), "--busy-poll".into()],
    };
    single(name, ours.memory_mb(&ask).map(|mb| vec![mb]), "MB", 100.0)
}
