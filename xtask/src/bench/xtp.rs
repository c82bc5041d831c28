//! xtp: XTP against TCP, QUIC, UDP and `bare` on the loopback, one CPU per side.
//!
//! Ours and the peers run in turn, in alternating order; ratios are taken within rounds. TCP is the
//! better of cubic and bbr in each round; both medians are printed. XTP's own checksum over user
//! data is off, because UDP has one; a separate row has it on.

use super::bar::{Bar, BenchTarget};
use super::compare::{Comparison, Measure, example, metric_of};
use super::helper_programs::{ExampleProgram, Quinn};
use super::lossy;
use super::suite::Suite;
use super::trial_runner::TrialRequest;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rounds of each comparison.
pub(super) const ROUNDS: usize = 7;

/// Seconds of each trial.
pub(super) const SPAN_S: f64 = 0.7;

/// Minimum throughput of quinn on this machine to count as a peer, Mbit/s.
const QUINN_LEAST_MBPS: f64 = 6000.0;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        suite.comparisons(comparisons(root));
        suite.comparisons(super::groups::comparisons(root));
        suite.comparisons([super::cp_tree::comparison()]);
        suite.bar("xtp-idle", |_| idle(root));
        suite.bar("xtp-lossy", lossy::bar);
        for (name, measure) in rows(root).into_iter().chain(lossy::rows()) {
            suite.row(name, "Mbit/s", &measure);
        }
    })
}

fn comparisons(root: &Path) -> Vec<Comparison> {
    let mut all = vec![
        against_tcp("xtp-tcp-1", 1, 20.0, 40.0),
        against_tcp("xtp-tcp-64", 64, 10.0, 20.0),
        against_tcp("xtp-tcp-1k", 1024, 2.5, 3.2),
        against_tcp("xtp-tcp-16k", 16 << 10, 1.1, 1.5),
        against_tcp("xtp-tcp-32k", 32 << 10, 1.0, 1.5),
        against_tcp("xtp-tcp-128k", 128 << 10, 1.0, 1.5),
        Comparison {
            ours: throughput("xtp-lent", 16 << 10),
            ..against_tcp("xtp-lent-16k", 16 << 10, 1.4, 2.0)
        },
        against_batched("xtp-batched-64", 64, 0.3, 0.6),
        against_batched("xtp-batched-1k", 1024, 0.5, 0.8),
        against_batched("xtp-batched-16k", 16 << 10, 0.7, 1.0),
        Comparison {
            ours: throughput("xtp-message", 64),
            ..against_tcp("xtp-message-64", 64, 3.0, 5.0)
        },
        pair(
            "xtp-bare-16k",
            throughput("xtp", 16 << 10),
            throughput("bare", 16 << 10),
            0.6,
            0.85,
        ),
        pair(
            "xtp-quinn-16k",
            throughput("xtp", 16 << 10),
            quinn(root, "plain"),
            3.5,
            6.0,
        ),
        pair(
            "xtp-checksum-1k",
            throughput("xtp,checksum=on", 1024),
            throughput("xtp", 1024),
            0.6,
            0.75,
        ),
        delay("xtp-delay-1core", &["--pin", "0,0"]),
        delay("xtp-delay-busy", &["--pin", "0,1", "--busy-poll"]),
    ];
    all.extend(exchanges(root));
    all.push(pair(
        "xtp-connect",
        connections("xtp-transaction"),
        connections("tcp"),
        2.0,
        4.0,
    ));
    all.push(pair(
        "xtp-many",
        role(root, &["many", "1000", "1.5", "0", "1"]),
        role(root, &["many", "1", "1.5", "0", "1"]),
        0.8,
        0.95,
    ));
    all.extend(carriers(root));
    all
}

/// Rows without a target: throughput with other options.
fn rows(root: &Path) -> Vec<(&'static str, Measure)> {
    let mbps = |transport: &'static str| -> Measure {
        let measure = throughput(transport, 16 << 10);
        Box::new(move |ours| Ok(measure(ours)? * f64::from(8 * (16 << 10)) / 1e6))
    };
    let aes = quinn(root, "aes");
    vec![
        ("xtp-16k", mbps("xtp")),
        ("xtp-nosegmentation-16k", mbps("xtp,segmentation=off")),
        ("xtp-pathmtu-16k", mbps("xtp,packet=65507")),
        ("xtp-lent-ethernet-16k", mbps("xtp-lent,packet=1472")),
        ("xtp-driver-16k", mbps("xtp-driver")),
        ("xtp-checksum-16k", mbps("xtp,checksum=on")),
        ("quic-16k", mbps("quic")),
        (
            "quinn-encrypted-16k",
            Box::new(move |ours| Ok(aes(ours)? * f64::from(8 * (16 << 10)) / 1e6)),
        ),
    ]
}

/// The median time of a transaction, us; `how` is the server's CPU and whether both sides
/// busy-poll.
fn transactions(root: &Path, kind: &'static str, how: [&'static str; 2]) -> Measure {
    role(root, &["transactions", kind, "0.7", "0", how[0], how[1]])
}

/// Messages per second that arrived; one processor each side.
pub(super) fn throughput(transport: &'static str, size: u64) -> Measure {
    let question = TrialRequest::new(transport, "throughput", size, SPAN_S, &["--pin", "0,1"]);
    // Of a byte stream: received bytes in units of messages.
    metric_of(question, "messages_per_s")
}

/// Connections per second: set-up, a message of 64 bytes each way, end.
fn connections(transport: &'static str) -> Measure {
    let question = TrialRequest::new(transport, "connect", 64, SPAN_S, &["--pin", "0,1"]);
    metric_of(question, "connections_per_s")
}

fn against_tcp(name: &'static str, size: u64, floor: f64, goal: f64) -> Comparison {
    Comparison {
        name,
        ours: throughput("xtp", size),
        peers: vec![
            ("cubic", throughput("tcp,congestion=cubic", size)),
            ("bbr", throughput("tcp,congestion=bbr", size)),
        ],
        rounds: ROUNDS,
        target: BenchTarget::at_least(floor, goal),
    }
}

fn against_batched(name: &'static str, size: u64, floor: f64, goal: f64) -> Comparison {
    Comparison {
        peers: vec![
            ("cubic", throughput("tcp-batched,congestion=cubic", size)),
            ("bbr", throughput("tcp-batched,congestion=bbr", size)),
        ],
        ..against_tcp(name, size, floor, goal)
    }
}

/// Ours against one peer, with a floor and a goal of the ratio.
pub(super) fn pair(
    name: &'static str,
    ours: Measure,
    peer: Measure,
    floor: f64,
    goal: f64,
) -> Comparison {
    let target = BenchTarget::at_least(floor, goal);
    Comparison::of(name, ours, ("", peer), ROUNDS, target)
}

fn delay(name: &'static str, more: &'static [&'static str]) -> Comparison {
    let of = |transport: &'static str| {
        let question = TrialRequest::new(transport, "delay", 64, SPAN_S, more);
        metric_of(question, "delay_p50_us")
    };
    Comparison::of(
        name,
        of("xtp"),
        ("udp", of("udp")),
        ROUNDS,
        BenchTarget::at_most(1.15, 1.05),
    )
}

/// Transactions, set-up and close included, against UDP and TCP.
fn exchanges(root: &Path) -> Vec<Comparison> {
    let mut all = Vec::new();
    for (place, how) in [
        ("1core", ["0", "sleepy"]),
        ("2core", ["1", "sleepy"]),
        ("busy", ["1", "busy"]),
    ] {
        for (peer, most, goal) in [("udp", 1.4, 1.2), ("tcp", 0.6, 0.5)] {
            let name = match (peer, place) {
                ("udp", "1core") => "xtp-transaction-udp-1core",
                ("udp", "2core") => "xtp-transaction-udp-2core",
                ("udp", _) => "xtp-transaction-udp-busy",
                (_, "1core") => "xtp-transaction-tcp-1core",
                (_, "2core") => "xtp-transaction-tcp-2core",
                _ => "xtp-transaction-tcp-busy",
            };
            all.push(Comparison::of(
                name,
                transactions(root, "xtp", how),
                (peer, transactions(root, peer, how)),
                ROUNDS,
                BenchTarget::GoalAtMost { floor: most, goal },
            ));
        }
    }
    all
}

/// XTP over Ethernet frames, and the TCP tunnel over XTP, each against the same without XTP.
fn carriers(root: &Path) -> [Comparison; 2] {
    let carried = |what, how| carrier(root, &[what, how, "0.7"]);
    let ether = (carried("ether", "xtp"), carried("ether", "bare"));
    let forward = (carried("forward", "through"), carried("forward", "bare"));
    [
        pair("xtp-ether-1400", ether.0, ether.1, 0.6, 0.85),
        pair("xtp-forward-16k", forward.0, forward.1, 0.38, 0.5),
    ]
}

fn carrier(root: &Path, words: &[&'static str]) -> Measure {
    example(root, "towpath", "tunnel_ether_bench", words)
}

fn role(root: &Path, words: &[&'static str]) -> Measure {
    example(root, "towpath", "xtp_endpoint_bench", words)
}

/// Messages of 16 KiB per second of crate quinn; a slow build is noted.
fn quinn(root: &Path, kind: &'static str) -> Measure {
    let root: PathBuf = root.to_owned();
    Box::new(move |_| {
        let rate = Quinn::build(&root)?.run(kind, 16 << 10, SPAN_S)?;
        let mbps = rate * f64::from(8 * (16 << 10)) / 1e6;
        if kind == "plain" && mbps < QUINN_LEAST_MBPS {
            eprintln!("quinn without packet protection reached {mbps:.0} Mbit/s, not 6000");
        }
        Ok(rate)
    })
}

fn idle(root: &Path) -> Bar {
    let mb = ExampleProgram::build(root, "towpath", "xtp_endpoint_bench")
        .and_then(|roles| roles.run(&["idle", "10000"]));
    let figure = mb.map(|mb| (mb, "resident, the larger of two processes".to_owned()));
    Bar::of_figure("xtp-idle", figure, "MB", BenchTarget::at_most(60.0, 40.0))
}
