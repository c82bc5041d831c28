//! Effects of links of each kind on transports.

use crate::support::{
    Scratch, assert_has, is_running, is_valid_trial, program, signal, trials_of, wait_until,
};
use crate::testbeds::{can_create_hosts, evidence, in_testbeds, linked, towpath_in};
use results::{Status, Trial};
use rustix::process::Signal;
use std::process::Stdio;

fn metric(trial: &Trial, name: &str) -> f64 {
    trial.metrics.get(name).copied().unwrap_or(0.0)
}

#[test]
fn link_falls_back_to_packet_sockets_without_tap() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let arguments = ["tcp", "xtp", "--no-calibration", "-w", "throughput"];
    let run = linked(&scratch, "sockets,rate=100mbit,loss=0.1%", &arguments);
    for name in ["tcp", "xtp"] {
        for trial in trials_of(&run, name) {
            assert_eq!(trial.status, Status::Ok, "{name}: {}", trial.reason);
            // Frames cross one by one: none is larger than the MTU allows.
            let mean = evidence(trial, "mean_packet_bytes");
            assert!(mean > 200.0 && mean <= 1514.0, "{name}: {mean}");
            // The rate of the link bounds it. What waited in a receiver that was kept off its
            // processor arrives at once, which a short trial sees as up to twice that rate; without
            // the link's rate these transports carry several times as much.
            assert!(metric(trial, "mbit_per_s") < 200.0, "{name}");
        }
    }
}

#[test]
fn raw_xtp_crosses_lossy_link() {
    if !can_create_hosts() {
        return;
    }
    let transports = ["xtp-rawip", "xtp-ether", "xtp-ether,llc=on"];
    let options = ["--no-calibration", "-w", "throughput"];
    // Between IPv6 hosts too: frames need no address of a network.
    let families = [&[][..], &["-6"]];
    let runs = families.map(|family| {
        let words = [&transports[..], &options, family].concat();
        linked(&Scratch::new(), "rate=100mbit,loss=1%", &words)
    });
    for (name, run) in transports
        .iter()
        .flat_map(|name| runs.each_ref().map(|run| (*name, run)))
    {
        for trial in trials_of(run, name) {
            assert_eq!(trial.status, Status::Ok, "{name}: {}", trial.reason);
            let mean = evidence(trial, "mean_packet_bytes");
            assert!(mean > 200.0 && mean <= 1514.0, "{name}: {mean}");
        }
    }
}

#[test]
fn super_frames_carry_many_segments_true_frames_one() {
    if !can_create_hosts() {
        return;
    }
    let mean = |link: &str| {
        let scratch = Scratch::new();
        let arguments = words!("tcp --no-calibration -w throughput --sizes 64KiB");
        let mut all = vec!["--link", link, "--no-control", "--trial", "200ms"];
        all.extend(arguments);
        let run = crate::support::race(&scratch, "run", &all);
        let trials = trials_of(&run, "tcp");
        evidence(trials[0], "mean_packet_bytes")
    };
    let (single, many) = (mean("true"), mean("super"));
    assert!(single <= 1514.0, "{single}");
    assert!(many > 1514.0, "{many}");
}

#[test]
fn asymmetric_link_rates_apply_per_direction() {
    if !can_create_hosts() {
        return;
    }
    let rate = |more: &[&str]| {
        let scratch = Scratch::new();
        let mut arguments = vec!["udp", "--no-calibration", "-w", "throughput"];
        arguments.extend(more);
        let run = linked(&scratch, "rate=40mbit/10mbit,queue=30kB", &arguments);
        let trials = trials_of(&run, "udp");
        assert_eq!(trials[0].status, Status::Ok, "{}", trials[0].reason);
        metric(trials[0], "mbit_per_s")
    };
    // UDP fills the link; 1000 B of 1042 are user data. On a busy machine the emulator drops late
    // frames, so that only the upper limits hold everywhere.
    let (there, back) = (
        rate(&["--trial", "300ms"]),
        rate(&["--trial", "300ms", "--reverse"]),
    );
    assert!(there < 41.0 && there > 10.5, "{there}");
    assert!(back < 10.5 && back > 1.0, "{back}");
}

#[test]
fn race_survives_scheduled_link_cut() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let link = "rate=20mbit,delay=1ms;100ms:cut;250ms:up,rate=10mbit";
    let arguments = words!("tcp xtp --no-calibration -w throughput --trial 600ms");
    let run = linked(&scratch, link, &arguments);
    for name in ["tcp", "xtp"] {
        for trial in trials_of(&run, name) {
            assert_eq!(trial.status, Status::Ok, "{name}: {}", trial.reason);
            assert!(evidence(trial, "link_cut") > 0.0, "{name}");
            let ledger = trial.ledger.expect("a ledger");
            assert_eq!(ledger.sent, ledger.delivered, "{name}");
        }
    }
}

#[test]
fn cpu_quota_slows_its_host() {
    if !can_create_hosts() {
        return;
    }
    let rate = |more: &[&str]| {
        let scratch = Scratch::new();
        let out = scratch.text("run");
        let mut command = program();
        command.args(words!("race udp --link true --no-calibration --sizes 1000"));
        command.args(words!(
            "-w throughput --trial 400ms --blocks 1 --no-control"
        ));
        command.args(["--no-report", "--out", &out]).args(more);
        let output = command
            .stdin(Stdio::null())
            .output()
            .expect("the program starts");
        let said: crate::support::CommandOutput = output.into();
        if said.err.contains("control groups") {
            eprintln!("SKIPPED: {}", said.err);
            return None;
        }
        assert_eq!(said.code, 0, "{}", said.err);
        let run = results::RunData::read(&scratch.path("run")).expect("a result");
        let trials = trials_of(&run, "udp");
        let words = run.plan.options["processors"].clone();
        let cpu_s = trials[0].cpu["sender"].task_s / trials[0].span_s;
        Some((words, cpu_s))
    };
    let Some((words, cpu_s)) = rate(&["--quota", "20%/100%"]) else {
        return;
    };
    assert!(words.contains("the sender gets 20 % of a CPU"), "{words}");
    // A fifth, and a period of 10 ms at either end.
    assert!(cpu_s < 0.3, "{cpu_s}");
}

#[test]
fn host_loopback_works_and_killed_testbed_is_swept() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| in_testbeds(&scratch, arguments);
    run(&["up", "--name", "self"]).exited(0);
    // A race within a host, over its own loopback.
    let program = env!("CARGO_BIN_EXE_towpath");
    let out = scratch.text("run");
    let inside = words!(
        "exec --name self a --",
        program,
        "race tcp --sizes 64 -w delay --trial 50ms --blocks 1 --no-control --no-report --out",
        &out
    );
    run(&inside).exited(0);
    // With its holder killed, the testbed is gone.
    let holder = holder_of("self").expect("a holder process");
    signal(holder, Signal::KILL);
    wait_until("the holder lives", || !is_running(holder));
    let listed = run(&["list"]);
    assert_has(&listed.out, "no testbed is up");
    run(&["up", "--name", "self"]).exited(0);
    assert_eq!(run(&["down", "--name", "self"]).code, 0);
}

/// The holder process of a testbed of this test, by its arguments.
fn holder_of(name: &str) -> Option<u32> {
    let own = env!("CARGO_BIN_EXE_towpath");
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    let mut ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|id| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|&octet| octet == 0).collect();
        let wanted: [&[u8]; 5] = [
            own.as_bytes(),
            b"testbed",
            b"hold",
            b"--name",
            name.as_bytes(),
        ];
        words.starts_with(&wanted)
    })
}

/// Frames of 1042 octets: the link carries 2,399 a second. What is offered beyond that is lost at the link, and counted there.
#[test]
fn udp_loses_what_a_link_cannot_carry_and_nothing_below_its_rate() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let loads = ["-w", "offered", "--rate", "500,5k", "--arrivals", "fixed"];
    let options = ["udp", "--no-calibration", "--trial", "1s"];
    // A sender that had no processor for a while makes up for it at once; the queue holds half a second of the lower load.
    let link = "rate=20mbit,queue=256k";
    let run = linked(&scratch, link, &[&options[..], &loads].concat());
    let trials = trials_of(&run, "udp");
    assert_eq!(trials.len(), 2);
    for trial in trials.into_iter().filter(|trial| is_valid_trial(trial)) {
        let ledger = trial.ledger.expect("a ledger");
        let beyond = trial.cell.text("rate_per_s") == "5000";
        assert_eq!(ledger.lost_link > 0, beyond, "{ledger:?}");
        // A receiver without a processor drops some of it too.
        let lost = ledger.lost_link + ledger.lost_host;
        assert_eq!(ledger.delivered + lost, ledger.sent, "{ledger:?}");
        let lost = lost as f64 / ledger.sent as f64;
        assert!((metric(trial, "loss_fraction") - lost).abs() < 1e-9);
        if beyond {
            // What the link carries in a second and what its queue held then, 2,650, and what a late sender had more time for.
            assert!(ledger.delivered < 3500, "{ledger:?}");
            assert!(metric(trial, "delivered_per_s") < metric(trial, "offered_per_s"));
        }
    }
    let table = towpath_in(&scratch, &["show", &scratch.text("run")]);
    let says_loss = table
        .out
        .lines()
        .any(|line| line.trim().ends_with("% lost"));
    assert!(says_loss, "{}", table.out);
}
