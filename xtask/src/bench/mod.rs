//! Benchmarks by name. Each has a file here and a line in [`BENCHES`].

mod agent;
mod atm;
mod bar;
mod builds;
mod compare;
mod cp_tree;
mod ecosystem;
mod groups;
mod harness;
mod helper_programs;
mod interleave;
mod link;
mod lossy;
mod peers;
mod redis;
mod sctp;
mod sctp_peers;
mod shm;
mod shortcut;
mod sim;
mod streams;
mod study;
mod suite;
mod trial_runner;
mod verdict;
mod vmtp;
mod xtp;
mod yardstick;

use crate::fail;
use std::path::Path;
use std::process::ExitCode;

/// Runs in the workspace's folder with the rest of the command line.
type Bench = fn(root: &Path, arguments: &[&str]) -> ExitCode;

/// Name, summary and function of each benchmark.
const BENCHES: &[(&str, &str, Bench)] = &[
    (
        "agent",
        "a race through an agent on the loopback against the local one",
        agent::run,
    ),
    (
        "atm",
        "cells against a copy with CRC-10 by crate crc, and aal34 against bare",
        atm::run,
    ),
    (
        "compare",
        "two builds against each other: OLD NEW, folders such as target/release",
        builds::run,
    ),
    (
        "ecosystem",
        "reading, Python, Ray, Parquet and watching, against without",
        ecosystem::run,
    ),
    (
        "harness",
        "the load generator against iperf3 and sockperf, and its overhead",
        harness::run,
    ),
    (
        "link",
        "the emulated link against a minimal relay and a kernel link",
        link::run,
    ),
    (
        "sctp",
        "SCTP against TCP, UDP and other stacks of SCTP",
        sctp::run,
    ),
    (
        "shm",
        "rings of shared memory against C programs that check nothing",
        shm::run,
    ),
    (
        "sim",
        "the simulator: events, packets, scaling, and against ns-3",
        sim::run,
    ),
    (
        "streams",
        "STREAMS and XTI against sockets, pipes, and without modules",
        streams::run,
    ),
    (
        "study",
        "the simulated study: printed figures met, and seconds",
        study::run,
    ),
    (
        "verdict",
        "how sure and how soon: planted differences, false verdicts, turns; --races N",
        verdict::run,
    ),
    (
        "vmtp",
        "VMTP's calls against UDP, XTP, gRPC and bare",
        vmtp::run,
    ),
    ("xtp", "XTP against TCP, QUIC, UDP and bare", xtp::run),
];

/// Runs the named benchmark, or lists all.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    let Some((name, rest)) = arguments.split_first() else {
        for (name, summary, _) in BENCHES {
            println!("{name:12} {summary}");
        }
        return ExitCode::SUCCESS;
    };
    match BENCHES.iter().find(|(known, _, _)| known == name) {
        Some((_, _, bench)) => bench(root, rest),
        None => fail(&format!("no benchmark is called '{name}'")),
    }
}
