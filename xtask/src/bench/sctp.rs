//! sctp: SCTP against TCP, UDP and other stacks of SCTP, on the loopback and over emulated links.
//!
//! Ours and the peers run in turn, in alternating order; ratios are taken within rounds. TCP is the
//! better of cubic and bbr in each round. The CRC-32c is on, and so is UDP's checksum, which the
//! loopback does not compute. A peer that is not there leaves its line empty, with the reason.

use super::bar::{Bar, BenchTarget};
use super::compare::{Comparison, Measure, example, metric_of};
use super::helper_programs::ExampleProgram;
use super::sctp_peers::{MemoryPeers, Usrsctp};
use super::suite::Suite;
use super::trial_runner::{TrialRequest, TrialRunner};
use super::xtp::{ROUNDS, SPAN_S, pair, throughput};
use std::path::Path;
use std::process::ExitCode;

/// The lossy link; its queue absorbs the bursts of a paced sender.
const LOSSY: &str = "rate=100mbit,delay=20ms,loss=1%,queue=500kB";

/// A long link whose queue holds one product of rate and round trip: 100 Mbit/s x 100 ms = 1.25 MB.
const LONG: &str = "rate=100mbit,delay=50ms,queue=1250kB";

/// Where a loss holds up what is behind it.
const BLOCKING: &str = "rate=100mbit,delay=10ms,loss=1%,queue=500kB";

/// 1 KiB at half of 100 Mbit/s: 50e6 / 8192 messages a second.
const BLOCKING_RATE: &str = "6100";

/// Seconds of a trial over a link: a hundred round trips and the start of the connection.
const LINK_SPAN_S: f64 = 6.0;

/// Rounds over links.
const LINK_ROUNDS: usize = 3;

/// Cuts whose median is taken.
const CUTS: &str = "9";

/// Associations of one endpoint.
const ASSOCIATIONS: [&str; 3] = ["1", "100", "1000"];

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        suite.comparisons(comparisons(root));
        suite.bar("sctp-lossy", lossy);
        suite.bar("sctp-failover-ms", |_| failover(root));
        for (name, unit, measure) in rows(root) {
            suite.row(&name, unit, &measure);
        }
    })
}

fn comparisons(root: &Path) -> Vec<Comparison> {
    let mut all = vec![
        against_tcp("sctp-tcp-1", "sctp", 1, (5.0, 12.0)),
        against_tcp("sctp-tcp-64", "sctp", 64, (4.0, 10.0)),
        against_tcp("sctp-tcp-256", "sctp", 256, (3.0, 5.0)),
        against_tcp("sctp-tcp-1k", "sctp", 1024, (1.2, 1.8)),
        against_tcp("sctp-tcp-16k", "sctp", 16 << 10, (0.6, 0.85)),
        against_tcp("sctp-stream-64", "sctp,framing=stream", 64, (8.0, 20.0)),
        against_tcp(
            "sctp-tcp-16k-nocrc",
            "sctp,checksum=off",
            16 << 10,
            (0.75, 1.0),
        ),
    ];
    all.extend(against_stacks(root));
    all.push(delay());
    all.push(pair(
        "sctp-connect",
        connects("sctp"),
        connects("tcp"),
        0.5,
        0.8,
    ));
    let flood = |kind| {
        example(
            root,
            "towpath",
            "sctp_flood_bench",
            &[kind, "0.7", "0", "1"],
        )
    };
    all.push(pair("sctp-flood", flood("sctp"), flood("udp"), 0.25, 0.5));
    all.push(Comparison {
        rounds: LINK_ROUNDS,
        ..pair(
            "sctp-bdp",
            over_link("sctp,queue=4M", LONG),
            over_link("tcp,congestion=reno", LONG),
            0.8,
            0.95,
        )
    });
    // Of one stream over eight: how much a loss holds up what is behind it.
    all.push(Comparison {
        rounds: LINK_ROUNDS,
        ..pair(
            "sctp-hol",
            blocked_p99("sctp,congestion=bbr,queue=4M"),
            blocked_p99("sctp,congestion=bbr,queue=4M,streams=8"),
            2.0,
            4.0,
        )
    });
    all
}

fn against_tcp(
    name: &'static str,
    transport: &'static str,
    size: u64,
    (floor, goal): (f64, f64),
) -> Comparison {
    Comparison {
        name,
        ours: throughput(transport, size),
        peers: vec![
            ("cubic", throughput("tcp,congestion=cubic", size)),
            ("bbr", throughput("tcp,congestion=bbr", size)),
        ],
        rounds: ROUNDS,
        target: BenchTarget::at_least(floor, goal),
    }
}

/// usrsctp over UDP on two processors; the others, which have no I/O, in memory in one thread.
fn against_stacks(root: &Path) -> Vec<Comparison> {
    let usrsctp = |size: u64| -> Measure {
        let root = root.to_owned();
        Box::new(move |_| Usrsctp::build(&root)?.run(size, SPAN_S))
    };
    let memory = |stack: &'static str| -> Measure {
        let root = root.to_owned();
        Box::new(move |_| MemoryPeers::build(&root)?.run(stack, 1024, SPAN_S))
    };
    let over_udp = |name, size| pair(name, throughput("sctp", size), usrsctp(size), 4.0, 10.0);
    let in_memory = |name, stack| pair(name, memory("engine-sctp"), memory(stack), 3.0, 10.0);
    vec![
        over_udp("sctp-usrsctp-64", 64),
        over_udp("sctp-usrsctp-1k", 1024),
        over_udp("sctp-usrsctp-16k", 16 << 10),
        in_memory("sctp-proto-1k", "sctp-proto"),
        in_memory("sctp-dcsctp-1k", "dcsctp"),
    ]
}

fn delay() -> Comparison {
    let of = |transport| {
        let ask = TrialRequest::new(transport, "delay", 64, SPAN_S, &["--pin", "0,0"]);
        metric_of(ask, "delay_p50_us")
    };
    Comparison::of(
        "sctp-delay-1core",
        of("sctp"),
        ("udp", of("udp")),
        ROUNDS,
        BenchTarget::at_most(1.4, 1.2),
    )
}

/// Connections a second: opened, one request and reply, closed.
fn connects(transport: &'static str) -> Measure {
    let ask = TrialRequest::new(transport, "connect", 64, SPAN_S, &["--pin", "0,1"]);
    metric_of(ask, "connections_per_s")
}

/// Mbit/s of messages of 16 KiB over an emulated link.
fn over_link(transport: &'static str, link: &'static str) -> Measure {
    let more = ["--link", link, "--no-calibration"];
    let ask = TrialRequest::new(transport, "throughput", 16 << 10, LINK_SPAN_S, &more);
    metric_of(ask, "mbit_per_s")
}

/// The delay that one message of 1 KiB in a hundred exceeds, us, at half the rate of the link.
fn blocked_p99(transport: &'static str) -> Measure {
    let more = [
        "--link",
        BLOCKING,
        "--no-calibration",
        "--rate",
        BLOCKING_RATE,
    ];
    let ask = TrialRequest::new(transport, "offered", 1024, LINK_SPAN_S, &more);
    metric_of(ask, "delay_p99_us")
}

/// Mbit/s on the lossy link with BBR.
fn lossy(ours: &mut TrialRunner) -> Bar {
    let measure = over_link("sctp,congestion=bbr,queue=4M", LOSSY);
    let found: Result<Vec<f64>, String> = (0..LINK_ROUNDS).map(|_| measure(ours)).collect();
    Bar::of_median(
        "sctp-lossy",
        found,
        "Mbit/s",
        BenchTarget::at_least(80.0, 85.0),
    )
}

/// From the cut of the path of data to the first delivery of what was sent after it; RTO.Min is 50 ms.
fn failover(root: &Path) -> Bar {
    let found = ExampleProgram::build(root, "towpath", "sctp_endpoint_bench")
        .and_then(|bench| bench.run(&["failover", CUTS]));
    let figure = found.map(|ms| (ms, format!("median of {CUTS} cuts")));
    Bar::of_figure(
        "sctp-failover-ms",
        figure,
        "ms",
        BenchTarget::at_most(1000.0, 250.0),
    )
}

/// Rows without a target: other options and media, many associations, TCP and SCTP under loss.
fn rows(root: &Path) -> Vec<(String, &'static str, Measure)> {
    let mut all: Vec<(String, &'static str, Measure)> = Vec::new();
    for (name, transport) in [
        ("sctp-16k", "sctp"),
        ("sctp-packet-1472-16k", "sctp,packet=1472"),
        ("sctp-nosegmentation-16k", "sctp,segmentation=off"),
        ("sctp-nobundle-16k", "sctp,bundle=off"),
        ("sctp-rawip-16k", "sctp-rawip"),
        ("tcp-16k", "tcp"),
    ] {
        let more = ["--pin", "0,1"];
        let ask = TrialRequest::new(transport, "throughput", 16 << 10, SPAN_S, &more);
        all.push((name.into(), "Mbit/s", metric_of(ask, "mbit_per_s")));
    }
    let single = throughput("sctp,bundle=off", 64);
    all.push(("sctp-nobundle-64".into(), "messages/s", single));
    for count in ASSOCIATIONS {
        let words = ["associations", count, "0.7", "0", "1"];
        let measure = example(root, "towpath", "sctp_endpoint_bench", &words);
        all.push((format!("sctp-associations-{count}"), "Mbit/s", measure));
    }
    let losses = [
        ("0.1", "rate=100mbit,delay=20ms,loss=0.1%,queue=500kB"),
        ("1", "rate=100mbit,delay=20ms,loss=1%,queue=500kB"),
        ("3", "rate=100mbit,delay=20ms,loss=3%,queue=500kB"),
    ];
    for (percent, link) in losses {
        for transport in ["tcp,congestion=reno", "sctp,queue=1M"] {
            let kind = transport.split(',').next().unwrap_or(transport);
            let name = format!("{kind}-loss-{percent}");
            all.push((name, "Mbit/s", over_link(transport, link)));
        }
    }
    all
}
