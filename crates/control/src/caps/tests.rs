//! What each cap refuses.

use super::*;
use crate::{Arrivals, Mix, Side};

/// A job within all caps.
pub(crate) fn job() -> Job {
    let mut job = Job::one_circuit("tcp", Side::Listen, Role::Source);
    job.components[0].circuits = 2;
    job
}

fn unlimited() -> WorkerQuota {
    WorkerQuota {
        bytes: u64::MAX,
        pace_bytes_per_s: None,
    }
}

type Change = fn(&mut Job);

#[test]
fn caps_of_small_host_leave_it_a_quarter_of_its_memory() {
    let large = Caps::for_host_memory(256 << 30, 4);
    assert_eq!((large.memory, large.circuits), (8 << 30, 64));
    for (gib, workers) in [(4, 4), (8, 4), (16, 4), (16, 20)] {
        let caps = Caps::for_host_memory(gib << 30, workers);
        assert!(
            caps.memory * u64::from(caps.workers) <= (gib << 30) / 4 * 3,
            "{gib}"
        );
        assert!(
            u64::from(caps.circuits) * CIRCUIT_MEMORY <= caps.memory,
            "{gib}"
        );
        assert_eq!(caps.threads, threads_for(caps.circuits));
    }
    assert_eq!(Caps::for_host_memory(4 << 30, 4).circuits, 15);
    let tiny = Caps::for_host_memory(64 << 20, 4);
    assert_eq!((tiny.memory, tiny.circuits), (WORKER_MEMORY_MIN, 1));
}

#[test]
fn every_resource_has_its_cap() {
    let caps = Caps::default();
    assert_eq!(caps.check(&job(), unlimited()), Ok(()));
    let too_much: [(&str, Change); 18] = [
        ("reply", |job| job.reply_len = u64::MAX),
        ("reply", |job| job.workload = Workload::Transactions),
        ("service time", |job| job.service_ns = u64::MAX),
        ("circuits", |job| job.components[0].circuits = 65),
        ("circuits", |job| job.components[0].circuits = u32::MAX),
        ("circuits", |job| job.components[0].circuits = 0),
        ("transports at once", |job| job.components.clear()),
        ("transports at once", |job| {
            job.components = vec![job.components[0].clone(); 9]
        }),
        ("text", |job| job.components[0].transport = "x".repeat(9999)),
        ("message", |job| job.message_len = u64::MAX),
        ("message", |job| job.message_len = 0),
        ("message", |job| {
            job.mix = Some(Mix {
                small: 1,
                full: u64::MAX,
                small_percent: 7,
            });
        }),
        ("read", |job| job.circuit_options.read_len = u64::MAX),
        ("socket buffer", |job| {
            job.circuit_options.buffers = Some(1 << 40)
        }),
        ("measured time", |job| job.limits.time_ns = u64::MAX),
        ("slice", |job| job.limits.slice_ns = 0),
        ("interface", |job| {
            job.circuit_options.interface = Some("eth0".into())
        }),
        ("congestion", |job| {
            job.circuit_options.congestion = "../../etc".into()
        }),
    ];
    for (words, change) in too_much {
        let mut job = job();
        change(&mut job);
        let why = caps.check(&job, unlimited()).expect_err(words);
        assert!(why.contains(words), "{why}");
    }
    assert!(
        caps.check(&job(), WorkerQuota::default())
            .expect_err("no bytes")
            .contains("bytes")
    );
}

#[test]
fn loads_are_refused_unless_allowed_and_together_within_the_cap() {
    let load = |copies, time_ns| LoadJob { copies, time_ns };
    let why = Caps::default().check_load(load(1, 1), 0).expect_err("none");
    assert!(why.contains("--max-load 1"), "{why}");
    let caps = Caps {
        load: 3,
        ..Caps::default()
    };
    assert_eq!(caps.check_load(load(3, caps.load_ns()), 0), Ok(()));
    assert_eq!(caps.check_load(load(1, 1), 2), Ok(()));
    for (job, running) in [
        (load(4, 1), 0),
        (load(2, 1), 2),
        (load(u32::MAX, 1), u32::MAX),
        (load(0, 1), 0),
        (load(1, caps.load_ns() + 1), 0),
    ] {
        caps.check_load(job, running).expect_err("too much");
    }
}

#[test]
fn thread_cap_follows_circuits() {
    let caps = Caps {
        threads: 5,
        ..Caps::default()
    };
    let why = caps
        .check(&job(), unlimited())
        .expect_err("two circuits need 8");
    assert!(why.contains("number of threads of 8"), "{why}");
}

fn offered(per_s: f64) -> Job {
    Job {
        rate: Some(Rate {
            per_s,
            arrivals: Arrivals::Fixed,
        }),
        workload: Workload::Offered,
        ..job()
    }
}

#[test]
fn offered_rate_must_be_finite_and_within_quota() {
    let quota = WorkerQuota {
        bytes: 1,
        pace_bytes_per_s: Some(125_000),
    };
    for (per_s, fine) in [
        (10.0, true),
        (62.0, true),
        (63.0, false),
        (1e9, false),
        (f64::NAN, false),
        (f64::INFINITY, false),
        (-1.0, false),
    ] {
        let caps = Caps::default();
        assert_eq!(caps.check(&offered(per_s), quota).is_ok(), fine, "{per_s}");
    }
    let mut mixed = offered(10.0);
    mixed.mix = Some(Mix {
        small: 100,
        full: 64_000,
        small_percent: 50,
    });
    let why = Caps::default().check(&mixed, quota).expect_err("the mix");
    assert!(why.contains("5128000 bit/s are offered"), "{why}");
    let mut short = offered(10.0);
    short.message_len = 15;
    Caps::default().check(&short, quota).expect_err("no stamp");
}

#[test]
fn limit_job_caps_bytes_and_pace() {
    let quota = WorkerQuota {
        bytes: 10_000,
        pace_bytes_per_s: Some(1000),
    };
    let limited = |job: Job| Caps::default().limit_job(job, quota);
    let source = limited(job());
    assert_eq!(source.limits.messages, 5);
    assert_eq!(source.pace_bytes_per_s, Some(1000));
    assert_eq!(source.allowance_bytes, Some(10_000));
    let mut asking = job();
    (asking.role, asking.workload) = (Role::Client, Workload::Delay);
    assert_eq!(limited(asking).limits.messages, 2);
    let mut called = job();
    (called.role, called.workload) = (Role::Client, Workload::Transactions);
    called.reply_len = 4000;
    assert_eq!(limited(called).limits.messages, 1);
    // A mix counts by its longest message, not by `message_len`.
    let mut mixed = job();
    mixed.message_len = 1;
    mixed.mix = Some(Mix {
        small: 1,
        full: 2500,
        small_percent: 99,
    });
    assert_eq!(limited(mixed).limits.messages, 2);
    let mut modest = job();
    (modest.allowance_bytes, modest.pace_bytes_per_s) = (Some(7), Some(9));
    let modest = limited(modest);
    assert_eq!(
        (modest.allowance_bytes, modest.pace_bytes_per_s),
        (Some(7), Some(9))
    );
    let free = Caps::default().limit_job(job(), unlimited());
    assert_eq!(free.pace_bytes_per_s, None);
}
