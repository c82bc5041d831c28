//! Workload transactions: clients, replies, services; and what is refused.

use crate::support::{Scratch, assert_has, is_valid_trial, race, towpath, trials_of};
use crate::testbeds::{can_create_hosts, linked};
use results::{RunData, Trial};

/// Short trials of transactions of 64 bytes without control.
fn transactions(scratch: &Scratch, arguments: &[&str]) -> RunData {
    let mut all = arguments.to_vec();
    all.extend(["-w", "transactions", "--no-control"]);
    if !arguments.contains(&"--sizes") {
        all.extend(["--sizes", "64"]);
    }
    race(scratch, "run", &all)
}

/// The only trial of a transport, which must be valid.
#[track_caller]
fn only_trial<'a>(run: &'a RunData, name: &str) -> &'a Trial {
    let trials = trials_of(run, name);
    assert_eq!(trials.len(), 1, "{name}");
    assert!(is_valid_trial(trials[0]), "{name}");
    trials[0]
}

#[test]
fn reply_and_service_are_as_asked() {
    let scratch = Scratch::new();
    let names = ["tcp", "udp", "vmtp", "xtp"];
    let mut arguments = names.to_vec();
    arguments.extend(["--clients", "4", "--reply", "2000", "--service", "2ms"]);
    // Long enough for replies on a busy machine.
    arguments.extend(["--trial", "300ms"]);
    let run = transactions(&scratch, &arguments);
    for name in names {
        let trial = only_trial(&run, name);
        let metric = |key: &str| trial.metrics[key];
        assert_eq!(trial.cell.integer("clients"), Some(4), "{name}");
        assert_eq!(trial.cell.integer("reply"), Some(2000), "{name}");
        assert_eq!(trial.cell.integer("service_us"), Some(2000), "{name}");
        assert!(metric("service_mean_us") >= 2000.0, "{name}");
        assert!(metric("delay_p50_us") >= 2000.0, "{name}");
        // Four clients that wait for 2 ms each time.
        assert!(metric("transactions_per_s") <= 2000.0, "{name}");
        let ratio = metric("reply_mbit_per_s") / metric("request_mbit_per_s");
        assert!((ratio - 2000.0 / 64.0).abs() < 1e-6, "{name}: {ratio}");
        let both = metric("reply_mbit_per_s") + metric("request_mbit_per_s");
        assert!((metric("mbit_per_s") / both - 1.0).abs() < 1e-9, "{name}");
        let (slowest, fastest) = (metric("client_min_per_s"), metric("client_max_per_s"));
        assert!(slowest > 0.0 && slowest <= metric("client_per_s"), "{name}");
        assert!(metric("client_per_s") <= fastest, "{name}");
        assert!(metric("fairness") > 0.2, "{name}");
        assert!(trial.histograms.contains_key("delay"), "{name}");
        assert!(
            !trial.series["transactions_per_s"].values.is_empty(),
            "{name}"
        );
    }
    assert_eq!(run.plan.options["reply"], "2000 B");
    assert_eq!(run.plan.options["service"], "2000 us");
}

#[test]
fn many_clients_of_vmtp_are_entities_of_one_endpoint() {
    let scratch = Scratch::new();
    // As many threads at each end: with fewer, what grows with the square of clients does not show.
    let run = transactions(&scratch, &["vmtp", "tcp", "--clients", "1000"]);
    for name in ["vmtp", "tcp"] {
        let trial = only_trial(&run, name);
        assert_eq!(trial.cell.integer("clients"), Some(1000), "{name}");
        assert!(trial.metrics["client_min_per_s"] > 0.0, "{name}");
    }
}

/// With `TOWPATH_CLIENTS=10000`, as many as a race may have, with as many threads at each end.
#[test]
fn as_many_clients_of_vmtp_as_asked_are_all_served() {
    let Some(clients) = std::env::var("TOWPATH_CLIENTS").ok() else {
        eprintln!("SKIPPED: set TOWPATH_CLIENTS=10000 to race as many clients of vmtp");
        return;
    };
    let scratch = Scratch::new();
    let run = transactions(
        &scratch,
        &words!("vmtp --clients", &clients, "--trial 3s --sizes 20"),
    );
    let trial = only_trial(&run, "vmtp");
    assert_eq!(trial.cell.integer("clients"), clients.parse().ok());
    assert!(trial.metrics["client_min_per_s"] > 0.0, "one is not served");
    let rate = trial.metrics["transactions_per_s"];
    let retransmissions = trial.metrics.get("retransmissions");
    eprintln!("{clients} clients: {rate:.0} transactions/s, retransmissions {retransmissions:?}");
}

#[test]
fn sweep_of_clients_is_a_matrix_with_verdicts() {
    let scratch = Scratch::new();
    let run = transactions(
        &scratch,
        &["tcp", "vmtp", "--clients", "1,2", "--blocks", "3"],
    );
    assert_eq!(trials_of(&run, "vmtp").len(), 6);
    let verdicts = run.summary.expect("a summary").verdicts;
    let asked = |clients: i64| {
        verdicts.iter().any(|verdict| {
            let cell = &verdict.contest;
            cell.integer("clients") == Some(clients) && verdict.metric == "transactions_per_s"
        })
    };
    assert!(asked(1) && asked(2), "{verdicts:?}");
    let shown = towpath(&["show", &scratch.text("run"), "--show", "clients"]);
    assert!(
        shown
            .out
            .contains("transactions at 64 B: transactions by clients"),
        "{}",
        shown.out
    );
    assert_has(&shown.out, "each ");
    towpath(&["report", &scratch.text("run")]).exited(0);
    let page = std::fs::read_to_string(scratch.path("run").join("report.html"));
    let page = page.expect("the report");
    assert!(page.contains("Against the number of clients"));
    let run = scratch.text("run");
    let compared = towpath(&["compare", &run, &run]).exited(0);
    assert_has(&compared.out, "clients");
}

#[test]
fn share_of_the_link_is_reported() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let arguments = words!("vmtp --no-calibration -w transactions --clients 8 --reply 4KiB");
    let run = linked(&scratch, "rate=20mbit,delay=1ms", &arguments);
    for trial in trials_of(&run, "vmtp") {
        assert!(is_valid_trial(trial));
        let share = trial.metrics["link_share_fraction"];
        let back = trial.metrics["reply_mbit_per_s"] / 20.0;
        assert!((share / back - 1.0).abs() < 1e-9, "{share}, {back}");
        assert!(share > 0.05 && share < 1.0, "{share}");
    }
}

#[test]
fn wrong_options_of_transactions_are_refused_before_the_start() {
    for (arguments, words) in [
        (
            &["tcp", "-w", "transactions", "--clients", "0"][..],
            &["--clients", "1 to 10000"][..],
        ),
        (
            &["tcp", "-w", "transactions", "--clients", "10001"],
            &["10001", "1 to 10000"],
        ),
        (
            &["tcp", "-w", "throughput", "--reply", "64"],
            &["--reply", "add -w transactions"],
        ),
        (&["tcp", "--clients", "4"], &["--clients", "omit it"]),
        (&["tcp", "--service", "1ms"], &["--service", "omit it"]),
        (
            &["tcp", "-w", "transactions", "--reply", "0"],
            &["0 bytes", "begin at 1"],
        ),
        (
            &["tcp", "-w", "transactions", "--reply", "long"],
            &["'long' is no size", "such as 16KiB"],
        ),
        (
            &["tcp", "-w", "transactions", "--service", "11s"],
            &["11s", "1us to 10s"],
        ),
        (
            &["tcp", "-w", "transactions", "--circuits", "2"],
            &["--circuits", "--clients instead"],
        ),
        (
            &["tcp", "vmtp", "-w", "transactions", "--sizes", "5MiB"],
            &["5242880 B", "vmtp carries, 4194304 B", "smaller --sizes"],
        ),
        (
            &["vmtp", "-w", "transactions", "--reply", "5MiB"],
            &["a reply of 5242880 B", "smaller --reply"],
        ),
    ] {
        crate::refusals::assert_refused_before_start(arguments, 2, words);
    }
}
