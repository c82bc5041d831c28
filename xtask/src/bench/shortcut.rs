//! The bars of `shm` that are the shortcut of XTP's: packets through shared memory against TCP of the kernel.

use super::bar::BenchTarget;
use super::compare::{Comparison, example, metric_of};
use super::redis::{Carrier, Load, RedisLab};
use super::shm::{ROUNDS, TRIAL, ask};
use super::suite::Suite;
use std::path::Path;

/// Measures those that were asked for.
pub fn run(suite: &mut Suite<'_>, root: &Path) {
    suite.comparisons([
        throughput("shortcut-16k", 16 << 10, (2.0, 3.0)),
        throughput("shortcut-128k", 128 << 10, (1.5, 2.3)),
        delay(),
        forward(root),
    ]);
    let lab = RedisLab::default();
    suite.comparisons([redis(&lab, root)]);
    for (load, name) in [(ONE_CLIENT, "one-client"), (LONG_VALUES, "16k")] {
        for (carrier, by) in [(Carrier::Shortcut, "shortcut"), (Carrier::Tcp, "tcp")] {
            let measure = lab.measure(root, carrier, load);
            suite.row(&format!("redis-{name}-{by}"), "requests/s", &measure);
        }
    }
}

/// What redis-benchmark does when it is told nothing, of its commands the one that only reads.
const USUAL: Load = Load {
    test: "get",
    clients: 50,
    value_len: 3,
    requests: 50_000,
};

/// A request waits for the answer of the one before.
const ONE_CLIENT: Load = Load {
    clients: 1,
    requests: 20_000,
    ..USUAL
};

/// Values of 16 KiB, which are written.
const LONG_VALUES: Load = Load {
    test: "set",
    value_len: 16 << 10,
    requests: 20_000,
    ..USUAL
};

/// Requests a second of redis-benchmark, which is unmodified as its server is, in two network namespaces.
fn redis(lab: &RedisLab, root: &Path) -> Comparison {
    Comparison::of(
        "shortcut-redis",
        lab.measure(root, Carrier::Shortcut, USUAL),
        ("tcp", lab.measure(root, Carrier::Tcp, USUAL)),
        ROUNDS,
        BenchTarget::at_least(1.1, 1.35),
    )
}

/// XTP whose packets go through shared memory.
const SHORTCUT: &str = "xtp,shortcut=on";

/// Messages a second through the shortcut against those of the kernel's TCP.
fn throughput(name: &'static str, size: u64, (floor, goal): (f64, f64)) -> Comparison {
    let of = |transport| metric_of(ask(transport, "throughput", size, "0,1"), "messages_per_s");
    Comparison::of(
        name,
        of(SHORTCUT),
        ("tcp", of("tcp")),
        ROUNDS,
        BenchTarget::at_least(floor, goal),
    )
}

/// Median round trips of 64 bytes while both ends busy-poll, against those of the kernel's TCP.
fn delay() -> Comparison {
    let of = |transport| {
        let mut request = ask(transport, "delay", 64, "0,1");
        request.more.push("--busy-poll".into());
        metric_of(request, "delay_p50_us")
    };
    Comparison::of(
        "shortcut-delay-busy",
        of(SHORTCUT),
        ("tcp", of("tcp")),
        ROUNDS,
        BenchTarget::at_most(0.3, 0.1),
    )
}

/// Bytes of a TCP connection through a tunnel whose ends are on this host, against the connection itself.
fn forward(root: &Path) -> Comparison {
    let of = |how| {
        example(
            root,
            "towpath",
            "tunnel_ether_bench",
            &["forward", how, TRIAL],
        )
    };
    Comparison::of(
        "shortcut-forward",
        of("shortcut"),
        ("bare", of("bare")),
        ROUNDS,
        BenchTarget::at_least(0.6, 0.8),
    )
}
