//! shm: rings of shared memory against C programs that do no more than a ring needs.
//!
//! The yardsticks know their peer and trust it: they check nothing, notice no death, and their rings are made
//! before the processes part.

use super::bar::BenchTarget;
use super::compare::{Comparison, Measure, example, metric_of};
use super::helper_programs::Iceoryx2;
use super::shortcut;
use super::suite::Suite;
use super::trial_runner::TrialRequest;
use super::yardstick::Yardstick;
use std::path::Path;
use std::process::ExitCode;

/// Rounds of each comparison.
pub(super) const ROUNDS: usize = 9;

/// Seconds of each trial.
pub(super) const TRIAL: &str = "0.7";
const TRIAL_S: f64 = 0.7;

/// Runs the benchmark; `arguments` may select bars by prefix.
pub fn run(root: &Path, arguments: &[&str]) -> ExitCode {
    Suite::run(root, arguments, |suite| {
        suite.comparisons(comparisons());
        suite.comparisons([forward(root), remote()]);
        suite.comparisons(iceoryx2(root));
        shortcut::run(suite, root);
        suite.row(
            "shm-forward-whole",
            "messages/s",
            &passed_on(root, "arena", "whole"),
        );
        suite.row(
            "shm-copy-whole",
            "messages/s",
            &passed_on(root, "copy", "whole"),
        );
        for transport in ["shm", "shm-spin", "unix-seqpacket"] {
            let calls = ask(transport, "transactions", 64, "0,1");
            let measure = metric_of(calls, "transactions_per_s");
            suite.row(&format!("{transport}-transactions"), "calls/s", &measure);
        }
    })
}

fn comparisons() -> Vec<Comparison> {
    vec![
        delay("shm-spin", "shm-spin", "spin", ("0", "1")),
        delay("shm-futex-1core", "shm", "futex", ("0", "0")),
        throughput("shm-64", 64, "64"),
        throughput("shm-16k", 16 << 10, "16384"),
    ]
}

/// Median round trips of 64 bytes against those of `pingpong`.
fn delay(
    name: &'static str,
    transport: &'static str,
    kind: &'static str,
    cpus: (&'static str, &'static str),
) -> Comparison {
    let pin = format!("{},{}", cpus.0, cpus.1);
    let words = [
        "-k", kind, "-s", "64", "-t", TRIAL, "-a", cpus.0, "-b", cpus.1,
    ];
    Comparison::of(
        name,
        metric_of(ask(transport, "delay", 64, &pin), "delay_p50_us"),
        ("pingpong", yardstick("pingpong", &words, "p50_ns", 1e-3)),
        ROUNDS,
        BenchTarget::at_most(1.5, 1.2),
    )
}

/// Messages a second against those of `shmring`, with a ring of 1 MiB as ours.
fn throughput(name: &'static str, size: u64, size_word: &'static str) -> Comparison {
    let words = [
        "-s", size_word, "-q", "20", "-t", TRIAL, "-a", "0", "-b", "1",
    ];
    Comparison::of(
        name,
        metric_of(ask("shm-spin", "throughput", size, "0,1"), "messages_per_s"),
        ("shmring", yardstick("shmring", &words, "msgs_s", 1.0)),
        ROUNDS,
        BenchTarget::at_least(0.5, 0.9),
    )
}

/// Messages of 16 KiB a second through a process in the middle: by their slots' numbers against by
/// copying them out of one ring into the next. The ends touch the first octets only; the rows have them
/// touch all.
fn forward(root: &Path) -> Comparison {
    Comparison::of(
        "shm-forward",
        passed_on(root, "arena", "ends"),
        ("copying", passed_on(root, "copy", "ends")),
        ROUNDS,
        BenchTarget::at_least(2.0, 4.0),
    )
}

/// Messages of 16 KiB a second through a proxy on each side against those of the transport between them.
fn remote() -> Comparison {
    let of = |transport| {
        metric_of(
            ask(transport, "throughput", 16 << 10, "0,1"),
            "messages_per_s",
        )
    };
    Comparison {
        name: "shm-remote-16k",
        ours: of("shm-remote"),
        peers: vec![("xtp-message", of("xtp-message")), ("xtp", of("xtp"))],
        rounds: ROUNDS,
        target: BenchTarget::at_least(0.3, 0.6),
    }
}

/// Round trips of 64 octets and messages of 64 octets a second against those of crate iceoryx2, publishers and
/// subscribers of which poll, since it has no wait of less than an event.
fn iceoryx2(root: &Path) -> [Comparison; 2] {
    let of = |what: &'static str| -> Measure {
        let root = root.to_path_buf();
        Box::new(move |_| Iceoryx2::build(&root)?.run(what, TRIAL_S))
    };
    [
        Comparison::of(
            "shm-iceoryx2",
            metric_of(ask("shm-spin", "delay", 64, "0,1"), "delay_p50_us"),
            ("iceoryx2", of("delay")),
            ROUNDS,
            BenchTarget::at_most(1.2, 1.0),
        ),
        Comparison::of(
            "shm-iceoryx2-64",
            metric_of(ask("shm-spin", "throughput", 64, "0,1"), "messages_per_s"),
            ("iceoryx2", of("throughput")),
            ROUNDS,
            BenchTarget::at_least(0.8, 1.0),
        ),
    ]
}

fn passed_on(root: &Path, kind: &'static str, part: &'static str) -> Measure {
    let words = [kind, part, "16384", TRIAL];
    example(root, "towpath-channel", "forward_bench", &words)
}

pub(super) fn ask(
    transport: &'static str,
    workload: &'static str,
    size: u64,
    pin: &str,
) -> TrialRequest {
    TrialRequest {
        transport,
        workload,
        size,
        span_s: TRIAL_S,
        more: vec!["--pin".into(), pin.into()],
    }
}

/// What a yardstick prints as `key`, times `factor`.
fn yardstick(
    name: &'static str,
    words: &[&'static str],
    key: &'static str,
    factor: f64,
) -> Measure {
    let words = words.to_vec();
    Box::new(move |_| Ok(Yardstick::build(name)?.run(&words, key)? * factor))
}
