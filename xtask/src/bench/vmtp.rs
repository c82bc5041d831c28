//! vmtp: VMTP's calls against UDP round trips, XTP transactions, gRPC and `bare` on the loopback, one CPU
//! per side.
//!
//! Ours and the peer run in turn, in alternating order; ratios are taken within rounds.

use super::bar::{Bar, BenchTarget};
use super::compare::{Comparison, Measure, example, metric_of};
use super::helper_programs::{ExampleProgram, Tonic};
use super::suite::Suite;
use super::trial_runner::TrialRequest;
use std::path::Path;
use std::process::ExitCode;

/// Rounds of each comparison.
const ROUNDS: usize = 7;

/// Seconds of each trial.
const SPAN: &str = "0.7";
const SPAN_S: f64 = 0.7;

/// Seconds of a trial over a link: some hundred round trips.
const LINK_SPAN_S: f64 = 3.0;

/// The emulated link. Its queue takes what eight clients have outstanding.
const LINK: &str = "rate=100mbit,delay=1ms,queue=500kB";

/// Bytes of a call that lies in the header of its packet, and of a datagram as long as that packet.
const CALL: u64 = 20;
const PACKET: u64 = 68;

/// Bytes of a request of one packet group.
const GROUP: u64 = 16 << 10;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        suite.comparisons(comparisons(root));
        suite.bar("vmtp-entities", |_| entities(root));
        for (name, unit, measure) in rows(root) {
            suite.row(name, unit, &measure);
        }
    })
}

fn comparisons(root: &Path) -> Vec<Comparison> {
    let (at_most, at_least) = (BenchTarget::at_most, BenchTarget::at_least);
    let one_core = ["--pin", "0,0"];
    let busy = ["--pin", "0,1", "--busy-poll"];
    let lossless = LINK.to_owned();
    let lossy = format!("{LINK},loss=1%");
    let all = [
        (
            "vmtp-call-1core",
            delay("vmtp", CALL, &one_core),
            delay("udp", PACKET, &one_core),
            at_most(1.35, 1.15),
        ),
        (
            "vmtp-call-busy",
            delay("vmtp", CALL, &busy),
            delay("udp", PACKET, &busy),
            at_most(1.35, 1.15),
        ),
        (
            "vmtp-call-xtp",
            vmtp(root, &["call", "20", SPAN, "0", "0"]),
            xtp(
                root,
                &["transactions", "xtp", SPAN, "0", "0", "sleepy", "20"],
            ),
            at_most(1.0, 0.85),
        ),
        (
            "vmtp-rate-64",
            vmtp(root, &["rate", "tasks", "64", SPAN, "0", "1"]),
            tonic(root, &["64", "20", SPAN, "0", "1"]),
            at_least(4.0, 8.0),
        ),
        (
            "vmtp-16k",
            vmtp(root, &["requests", "tasks", "8", "16384", SPAN, "0", "1"]),
            bare(),
            at_least(0.4, 0.7),
        ),
        (
            "vmtp-lossy",
            requests(&["--link", &lossy, "--no-calibration"], LINK_SPAN_S),
            requests(&["--link", &lossless, "--no-calibration"], LINK_SPAN_S),
            at_least(0.7, 0.9),
        ),
    ];
    let comparison = |(name, ours, peer, target)| Comparison {
        name,
        ours,
        peers: vec![("", peer)],
        rounds: ROUNDS,
        target,
    };
    all.into_iter().map(comparison).collect()
}

/// Rows without a target.
fn rows(root: &Path) -> Vec<(&'static str, &'static str, Measure)> {
    let threads = ["rate", "threads", "64", SPAN, "0", "1"];
    let clients = ["--clients", "64", "--pin", "0,1"];
    let race = |transport| {
        let question = TrialRequest::new(transport, "transactions", CALL, SPAN_S, &clients);
        metric_of(question, "transactions_per_s")
    };
    vec![
        ("vmtp-rate-64-threads", "calls/s", vmtp(root, &threads)),
        ("vmtp-race-64", "calls/s", race("vmtp")),
        (
            "vmtp-16k-threads",
            "Mbit/s",
            requests(&["--pin", "0,1"], SPAN_S),
        ),
        ("tcp-race-64", "calls/s", race("tcp")),
        ("udp-race-64", "calls/s", race("udp")),
    ]
}

/// The median round trip of messages of `size` bytes, us.
fn delay(transport: &'static str, size: u64, more: &[&str]) -> Measure {
    metric_of(
        TrialRequest::new(transport, "delay", size, SPAN_S, more),
        "delay_p50_us",
    )
}

/// Mbit/s of requests of a packet group each, of eight clients with a thread each.
fn requests(more: &[&str], span_s: f64) -> Measure {
    let mut words = vec!["--clients", "8", "--reply", "20"];
    words.extend(more);
    metric_of(
        TrialRequest::new("vmtp", "transactions", GROUP, span_s, &words),
        "request_mbit_per_s",
    )
}

fn bare() -> Measure {
    let question = TrialRequest::new("bare", "throughput", GROUP, SPAN_S, &["--pin", "0,1"]);
    metric_of(question, "mbit_per_s")
}

fn vmtp(root: &Path, words: &[&'static str]) -> Measure {
    example(root, "towpath", "vmtp_endpoint_bench", words)
}

fn xtp(root: &Path, words: &[&'static str]) -> Measure {
    example(root, "towpath", "xtp_endpoint_bench", words)
}

fn tonic(root: &Path, words: &[&'static str]) -> Measure {
    let (root, words) = (root.to_owned(), words.to_vec());
    Box::new(move |_| Tonic::build(&root)?.run(&words))
}

fn entities(root: &Path) -> Bar {
    let mb = ExampleProgram::build(root, "towpath", "vmtp_endpoint_bench")
        .and_then(|bench| bench.run(&["entities", "10000"]));
    let figure = mb.map(|mb| (mb, "resident, the larger of two processes".to_owned()));
    Bar::of_figure(
        "vmtp-entities",
        figure,
        "MB",
        BenchTarget::at_most(80.0, 50.0),
    )
}
