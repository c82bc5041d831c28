//! streams: the runtime's own costs, XTI over the kernel's TCP against sockets on it, pipes, loop-back
//! connections, and what an empty module costs a transport.

use super::bar::{Bar, BenchTarget};
use super::compare::{self, Comparison, Measure, metric_of};
use super::helper_programs::ExampleProgram;
use super::suite::Suite;
use super::trial_runner::TrialRequest;
use std::path::Path;
use std::process::ExitCode;

/// Rounds of each comparison.
const ROUNDS: usize = 7;

/// Seconds of each trial.
const TRIAL_S: f64 = 0.5;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        let hop = BenchTarget::at_most(60.0, 30.0);
        suite.bar("streams-hop-ns", |_| {
            absolute(root, "streams-hop-ns", "ns", &["hop"], hop)
        });
        let thousand = BenchTarget::at_least(1e6, 2e6);
        suite.bar("streams-1000x5", |_| {
            absolute(
                root,
                "streams-1000x5",
                "messages/s",
                &["thousand"],
                thousand,
            )
        });
        suite.comparisons(comparisons(root));
        for (name, ours) in [
            ("xti-crossing-64", "xti-tcp,crossing=on"),
            ("xti-at-once-64", "xti-tcp,deferred=off"),
            ("push-meter-64", "tcp-batched,push=meter"),
            ("xti-xtp-64", "xti-xtp"),
            ("xti-sctp-more-64", "xti-sctp,framing=stream,more=on"),
            ("udp-64", "udp"),
            ("udp-streams-64", "udp-streams"),
            ("loop-clts-64", "loop-clts"),
            ("loop-cots-64", "loop-cots"),
        ] {
            let measure = metric_of(throughput(ours, 64), "messages_per_s");
            suite.row(name, "messages/s", &measure);
        }
    })
}

/// The median of what the example prints, as it is.
fn absolute(
    root: &Path,
    name: &str,
    unit: &'static str,
    words: &[&str],
    target: BenchTarget,
) -> Bar {
    let program = ExampleProgram::build(root, "towpath-streams", "streams_bench");
    let runs = program.and_then(|program| {
        let runs = (0..ROUNDS).map(|_| program.run(words));
        runs.collect::<Result<Vec<f64>, String>>()
    });
    Bar::of_median(name, runs, unit, target)
}

fn comparisons(root: &Path) -> Vec<Comparison> {
    let xti = |name, size, peer, floor, goal| {
        let ours = metric_of(throughput("xti-tcp", size), "messages_per_s");
        let peers = vec![(peer, metric_of(throughput(peer, size), "messages_per_s"))];
        at_least(name, ours, peers, floor, goal)
    };
    let pipe = |name, size, floor, goal| {
        let ours = example(root, &["pipe", size]);
        let peers = vec![("kernel pipe", example(root, &["kernel-pipe", size]))];
        at_least(name, ours, peers, floor, goal)
    };
    vec![
        xti("xti-tcp-1", 1, "tcp", 4.0, 8.0),
        xti("xti-tcp-64", 64, "tcp", 4.0, 8.0),
        xti("xti-tcp-1k", 1 << 10, "tcp", 1.3, 2.0),
        xti("xti-tcp-16k", 16 << 10, "tcp", 0.6, 0.85),
        xti("xti-batched-64", 64, "tcp-batched", 0.25, 0.5),
        pipe("pipe-64", "64", 3.0, 8.0),
        pipe("pipe-4k", "4096", 0.8, 1.2),
        xti_sctp("xti-sctp-64", 64, 0.5, 0.7),
        xti_sctp("xti-sctp-16k", 16 << 10, 0.7, 0.9),
        loop_back(),
        push_empty(),
        delay_on_one_core(),
    ]
}

/// SCTP under XTI against SCTP without STREAMS.
fn xti_sctp(name: &'static str, size: u64, floor: f64, goal: f64) -> Comparison {
    let of = |transport| metric_of(throughput(transport, size), "messages_per_s");
    at_least(
        name,
        of("xti-sctp"),
        vec![("sctp", of("sctp"))],
        floor,
        goal,
    )
}

/// Connections of `ticotsord` against sockets within the host, 64 octets.
fn loop_back() -> Comparison {
    let of = |transport| metric_of(throughput(transport, 64), "messages_per_s");
    let peers = vec![("unix-stream", of("unix-stream"))];
    at_least("loop-64", of("loop-cotsord"), peers, 3.0, 6.0)
}

/// `tcp-batched` with an empty module against without, 1 KiB.
fn push_empty() -> Comparison {
    let of = |transport| metric_of(throughput(transport, 1 << 10), "messages_per_s");
    let peers = vec![("tcp-batched", of("tcp-batched"))];
    let ours = of("tcp-batched,push=pass");
    at_least("push-empty-1k", ours, peers, 0.8, 0.9)
}

/// Median round trips of 64 octets on one processor.
fn delay_on_one_core() -> Comparison {
    let of = |transport| {
        let request = TrialRequest {
            workload: "delay",
            more: vec!["--pin".into(), "0,0".into()],
            ..throughput(transport, 64)
        };
        metric_of(request, "delay_p50_us")
    };
    Comparison::of(
        "xti-delay-1core",
        of("xti-tcp"),
        ("tcp", of("tcp")),
        ROUNDS,
        BenchTarget::at_most(1.3, 1.1),
    )
}

fn at_least(
    name: &'static str,
    ours: Measure,
    peers: Vec<(&'static str, Measure)>,
    floor: f64,
    goal: f64,
) -> Comparison {
    Comparison {
        name,
        ours,
        peers,
        rounds: ROUNDS,
        target: BenchTarget::at_least(floor, goal),
    }
}

fn throughput(transport: &'static str, size: u64) -> TrialRequest {
    TrialRequest::new(transport, "throughput", size, TRIAL_S, &["--pin", "0,1"])
}

fn example(root: &Path, words: &[&'static str]) -> Measure {
    compare::example(root, "towpath-streams", "streams_bench", words)
}
