//! The effect of options, and that they are stored in the result.

use crate::support::{Scratch, assert_has, is_valid_trial, race, trials_of};
use results::RunData;

fn quick(arguments: &[&str]) -> RunData {
    let scratch = Scratch::new();
    let mut all = arguments.to_vec();
    all.extend(["--sizes", "1KiB", "--no-control"]);
    race(&scratch, "run", &all)
}

#[track_caller]
fn assert_all_valid(run: &RunData, names: &[&str]) {
    for name in names {
        let trials = trials_of(run, name);
        assert!(!trials.is_empty(), "{name} did not run");
        for trial in trials {
            is_valid_trial(trial);
        }
    }
}

#[track_caller]
fn assert_effective(run: &RunData, key: &str, value: &str) {
    for trial in run.trials.iter().filter(|trial| trial.block > 0) {
        assert_eq!(
            trial.effective.get(key).map(String::as_str),
            Some(value),
            "{key}"
        );
    }
}

#[test]
fn duplicate_cells_are_measured_once() {
    let run = quick(&["tcp", "udp", "tcp", "-w", "delay,delay"]);
    // A contestant given twice races against itself; a workload given twice is one.
    assert_eq!(run.plan.transports, ["tcp", "udp", "tcp#2"]);
    assert_eq!(trials_of(&run, "tcp#2").len(), 1);
    assert_eq!(run.plan.workloads, ["delay"]);
}

#[test]
fn option_6_races_over_ipv6() {
    let names = ["tcp", "udp", "udp-segmented", "quic", "bare"];
    let mut arguments = names.to_vec();
    arguments.extend(["-6", "-w", "throughput,delay"]);
    let run = quick(&arguments);
    assert_all_valid(&run, &names);
    assert_eq!(run.plan.options["family"], "IPv6");
}

#[test]
fn reverse_and_bidir_change_senders() {
    let names = ["tcp", "unix-stream", "udp"];
    for (flag, name) in [("--reverse", "reverse"), ("--bidir", "both")] {
        let mut arguments = names.to_vec();
        arguments.extend([flag, "-w", "throughput,delay"]);
        let run = quick(&arguments);
        assert_all_valid(&run, &names);
        assert_eq!(run.plan.options["direction"], name);
    }
}

#[test]
fn circuit_shares_add_up_to_one() {
    let run = quick(&words!("tcp unix-stream --circuits 3 -w throughput,delay"));
    assert_all_valid(&run, &["tcp", "unix-stream"]);
    for trial in trials_of(&run, "tcp") {
        assert_eq!(trial.cell.integer("circuits"), Some(3));
        if trial.cell.workload() == "throughput" {
            let fairness = trial.metrics["fairness"];
            assert!(
                (1.0 / 3.0 - 1e-9..=1.0 + 1e-9).contains(&fairness),
                "{fairness}"
            );
        }
    }
}

#[test]
fn numbers_of_circuits_are_cells_of_their_own() {
    let run = quick(&["tcp", "--circuits", "1,3", "-w", "throughput"]);
    assert_eq!(run.plan.options["circuits"], "1,3");
    let counts = trials_of(&run, "tcp").into_iter().map(|trial| {
        // A share for each circuit, where there are several.
        let several = trial.metrics.contains_key("fairness");
        (trial.cell.integer("circuits"), several)
    });
    let mut counts: Vec<_> = counts.collect();
    counts.sort_unstable();
    counts.dedup();
    assert_eq!(counts, [(Some(1), false), (Some(3), true)]);
}

#[test]
fn joined_transports_share_one_trial() {
    let run = quick(&["tcp+udp", "tcp", "-w", "throughput"]);
    assert_all_valid(&run, &["tcp+udp", "tcp"]);
    let metrics = &trials_of(&run, "tcp+udp")[0].metrics;
    let sum = metrics["share.tcp"] + metrics["share.udp"];
    assert!((sum - 1.0).abs() < 1e-9, "{sum}");
    assert!((0.5 - 1e-9..=1.0 + 1e-9).contains(&metrics["fairness"]));
}

#[test]
fn size_mix_is_measured_beside_single_sizes() {
    let run = quick(&["tcp", "udp", "--mix", "64,1400,70%", "-w", "throughput"]);
    assert_all_valid(&run, &["tcp", "udp"]);
    let mixes = run.trials.iter().map(|trial| trial.cell.text("mix"));
    let mixes: Vec<String> = mixes.filter(|mix| !mix.is_empty()).collect();
    assert!(!mixes.is_empty());
    assert!(
        mixes.iter().all(|mix| mix == "70 % 64 B, rest 1400 B"),
        "{mixes:?}"
    );
    assert_eq!(run.plan.options["mix"], mixes[0]);
}

#[test]
fn packet_sizes_are_sampled_in_pilots() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: watching packets needs root");
        return;
    }
    let scratch = Scratch::new();
    let arguments = words!("udp --mix 64,1400 --packet-sizes -w throughput");
    let mut all = arguments.to_vec();
    all.extend(["--sizes", "64", "--no-control"]);
    let run = race(&scratch, "run", &all);
    let mixed = run
        .trials
        .iter()
        .find(|trial| !trial.cell.text("mix").is_empty());
    let histogram = &mixed.expect("a mix").histograms["packet_size"];
    let sizes = histogram.decode().expect("it can be read");
    for size in [64 + 28, 1400 + 28] {
        assert!(sizes.count_at(size) > 0, "no packet of {size} B");
    }
    let counting = run.trials.iter().filter(|trial| trial.block > 0);
    assert!(
        counting
            .flat_map(|trial| trial.histograms.keys())
            .all(|name| name != "packet_size")
    );
    let shown = crate::support::towpath(&["show", &scratch.text("run")]);
    assert_has(&shown.out, "packets of throughput udp");
}

#[test]
fn buffer_sweep_is_effective_and_recorded() {
    let run = quick(&["udp", "--buffers", "32KiB,64KiB", "-w", "throughput"]);
    assert_all_valid(&run, &["udp"]);
    for trial in trials_of(&run, "udp") {
        let asked = trial.cell.integer("buffers").expect("a factor");
        let granted: i64 = trial.effective["receiver.receive_buffer"]
            .parse()
            .expect("bytes");
        assert_eq!(granted, 2 * asked, "the kernel doubles what is asked for");
    }
}

#[test]
fn pinned_workers_run_on_given_cpus() {
    let run = quick(&["tcp", "--pin", "0", "-w", "delay"]);
    assert_effective(&run, "sender.cpus", "0");
    assert_effective(&run, "receiver.cpus", "0");
    let free = quick(&["tcp", "--pin", "none", "-w", "delay"]);
    assert_eq!(free.plan.options["pin.sender"], "none");
    let cpus = &free.trials[0].effective["sender.cpus"];
    let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    assert_eq!(cpus != "0", several, "{cpus}");
}

#[test]
fn swap_exchanges_cpus() {
    let several = std::thread::available_parallelism().is_ok_and(|count| count.get() > 1);
    if !several {
        eprintln!("SKIPPED: swapping needs two processors");
        return;
    }
    let run = quick(&["tcp", "--pin", "0,1", "--swap", "-w", "throughput"]);
    assert_effective(&run, "sender.cpus", "1");
    assert_effective(&run, "receiver.cpus", "0");
}

#[test]
fn tcp_options_are_effective() {
    let on = words!("tcp --nodelay on --congestion reno -w throughput");
    let run = quick(&on);
    assert_effective(&run, "sender.nodelay", "true");
    assert_effective(&run, "sender.congestion", "reno");
    assert_effective(&run, "receiver.congestion", "reno");
    assert_eq!(run.plan.options["congestion"], "reno");
    let off = quick(&["tcp", "--nodelay", "off", "-w", "delay"]);
    assert_effective(&off, "sender.nodelay", "false");
}

/// The three configurations of the study of 1992 in one race.
#[test]
fn options_of_xtp_race_side_by_side() {
    let labels = [
        "xtp,checksum=on,queue=study",
        "xtp,checksum=off,queue=study",
        "xtp,checksum=off,queue=32k",
    ];
    let run = quick(&[&labels[..], &["-w", "throughput"]].concat());
    assert_eq!(run.plan.transports, labels);
    assert_all_valid(&run, &labels);
    for (label, checksum, window) in [
        (labels[0], "on", "16384"),
        (labels[1], "off", "16384"),
        (labels[2], "off", "32768"),
    ] {
        for trial in trials_of(&run, label) {
            let of_sender = |name: &str| trial.effective[&format!("sender.{name}")].clone();
            assert!(of_sender("checksum").starts_with(checksum), "{label}");
            assert_eq!(of_sender("window"), window, "{label}");
        }
    }
}

#[test]
fn contestant_options_are_effective_per_contestant() {
    let own = "tcp,nodelay=on,buffers=64k";
    let label = "tcp,buffers=64k,nodelay=on";
    let arguments = ["tcp", own, "--nodelay", "off", "--baseline", own];
    let run = quick(&[&arguments[..], &["-w", "throughput,connect"]].concat());
    assert_eq!(run.plan.transports, ["tcp", label]);
    assert_eq!(run.plan.baseline, label);
    assert_all_valid(&run, &["tcp", label]);
    for (name, nodelay) in [("tcp", "false"), (label, "true")] {
        let trials = trials_of(&run, name);
        let moved = trials
            .iter()
            .filter(|trial| trial.cell.workload() == "throughput");
        for trial in moved {
            assert_eq!(trial.effective["sender.nodelay"], nodelay, "{name}");
            let granted = &trial.effective["receiver.receive_buffer"];
            assert_eq!(granted == "131072", name == label, "{name}: {granted}");
        }
    }
    let class = &run.plan.options["class.tcp"];
    assert_eq!(run.plan.options[&format!("class.{label}")], *class);
    let summary = run.summary.expect("a summary");
    let against = |name: &str| {
        summary
            .verdicts
            .iter()
            .any(|verdict| verdict.contestant == name)
    };
    assert!(against("tcp") && !against(label));
}

#[test]
fn congestion_option_applies_to_one_contestant() {
    let allowed = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    let allowed = allowed.expect("every Linux has it");
    let Some(other) = allowed.split_whitespace().find(|name| *name != "cubic") else {
        eprintln!("SKIPPED: this kernel allows no congestion control but cubic");
        return;
    };
    let own = format!("tcp,congestion={other}");
    let default = [
        "--congestion",
        allowed
            .split_whitespace()
            .find(|name| *name != other)
            .unwrap_or(other),
    ];
    let run = quick(
        &[
            &["tcp", &own, "tcp-batched"],
            &default[..],
            &["-w", "throughput"],
        ]
        .concat(),
    );
    for (name, wanted) in [
        ("tcp", default[1]),
        (&*own, other),
        ("tcp-batched", default[1]),
    ] {
        for trial in trials_of(&run, name) {
            for side in ["sender", "receiver"] {
                assert_eq!(
                    trial.effective[&format!("{side}.congestion")],
                    wanted,
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn same_transport_with_different_options_shares_one_trial() {
    let label = "tcp,nodelay=off+tcp,nodelay=on";
    let run = quick(&["tcp", label, "-w", "throughput,delay"]);
    assert_all_valid(&run, &["tcp", label]);
    for trial in trials_of(&run, label) {
        let names = match trial.cell.workload().as_str() {
            "throughput" => ["share.tcp,nodelay=off", "share.tcp,nodelay=on"],
            _ => [
                "delay_p50_us.tcp,nodelay=off",
                "delay_p50_us.tcp,nodelay=on",
            ],
        };
        for name in names {
            assert!(trial.metrics[name] > 0.0, "{name}");
        }
    }
}

/// Addresses of other formats than the Internet's, at both ends of circuits over UDP.
#[test]
fn xtp_races_under_addresses_of_each_format() {
    let names = ["iso:490001", "xns:1.020304050607.5", "direct:010203"];
    let names = names.map(|name| format!("xtp,address={name}"));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let run = quick(&[&names[..], &["-w", "throughput,delay,connect"]].concat());
    assert_all_valid(&run, &names);
}

#[test]
fn labels_with_options_are_printed_and_exported_whole() {
    let scratch = Scratch::new();
    let label = "tcp,buffers=64k,nodelay=on";
    let run = words!("tcp", label, "--sizes 1KiB --no-control -w throughput");
    race(&scratch, "run", &run);
    let folder = scratch.text("run");
    let shown = crate::support::towpath(&["show", &folder]);
    assert_has(&shown.out, label);
    let exported = crate::support::towpath(&["export", &folder]);
    let quoted = format!("\"{label}\"");
    assert_has(&exported.out, &quoted);
    let written = crate::support::towpath(&["report", &folder]);
    assert_eq!(written.code, 0, "{}", written.err);
    let page = std::fs::read_to_string(scratch.path("run/report.html")).expect("a page");
    assert!(page.contains(label));
}

#[test]
fn nice_values_are_effective() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: raising a priority needs root");
        return;
    }
    let run = quick(&words!("tcp --priority sender=-5,receiver=7 -w throughput"));
    assert_effective(&run, "sender.priority", "-5");
    assert_effective(&run, "receiver.priority", "7");
}

#[test]
fn plan_suffices_to_repeat_race() {
    let arguments = words!("udp tcp --seed 7 -w throughput --blocks 2");
    let order = |run: &RunData| -> Vec<String> {
        let trials = run.trials.iter();
        trials.map(|trial| trial.cell.transport()).collect()
    };
    let (first, second) = (quick(&arguments), quick(&arguments));
    assert_eq!(first.plan.seed, 7);
    assert_eq!(order(&first), order(&second));
    let words = &first.plan.command[1..];
    assert_eq!(
        words[..arguments.len() + 1],
        [&["race"], &arguments[..]].concat()
    );
    assert!(first.plan.options["class.udp"].contains("may lose"));
}
