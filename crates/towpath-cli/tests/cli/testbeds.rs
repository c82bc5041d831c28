//! Hosts, links and loads: races over them, persistent testbeds, and their removal.

use crate::support::{
    CommandOutput, Scratch, assert_has, children, finish, is_running, program, race, signal, start,
    towpath, trials_of, wait_until,
};
use results::{RunData, Status, Trial};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Whether this user may create testbeds; prints a SKIPPED line if not.
pub fn can_create_hosts() -> bool {
    let scratch = Scratch::new();
    let said = towpath_in(&scratch, &["testbed", "up", "--name", "probe"]);
    if said.code != 0 {
        eprintln!("SKIPPED: {}", said.err);
        return false;
    }
    assert_eq!(
        towpath_in(&scratch, &["testbed", "down", "--name", "probe"]).code,
        0
    );
    true
}

/// Runs the program with the sockets of its testbeds in the test's folder.
pub fn towpath_in(scratch: &Scratch, arguments: &[&str]) -> CommandOutput {
    let mut command = program();
    command.env("XDG_RUNTIME_DIR", &scratch.0).args(arguments);
    let output = command.stdin(Stdio::null()).output();
    output.expect("the program starts").into()
}

pub fn linked(scratch: &Scratch, link: &str, arguments: &[&str]) -> RunData {
    let mut all = vec!["--link", link, "--sizes", "1000", "--no-control"];
    all.extend(arguments);
    if !arguments.contains(&"--trial") {
        all.extend(["--trial", "100ms"]);
    }
    race(scratch, "run", &all)
}

pub fn evidence(trial: &Trial, name: &str) -> f64 {
    trial.evidence.get(name).copied().unwrap_or(0.0)
}

#[test]
fn link_loss_equals_ledger_loss() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let link = "loss=5%";
    let arguments = ["udp", "-w", "throughput,delay", "--trial", "500ms"];
    let run = linked(&scratch, link, &arguments);
    for trial in trials_of(&run, "udp") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert_eq!(trial.cell.text("link"), link);
        let ledger = trial.ledger.expect("a ledger");
        let lost = evidence(trial, "link_lost");
        assert_eq!(ledger.lost_link as f64, lost);
        assert_eq!(ledger.unaccounted, 0);
        if trial.cell.text("workload") == "delay" {
            // A lost request or reply leaves its exchange incomplete. There may be too few
            // exchanges for a loss.
            assert_eq!(ledger.sent, ledger.delivered + ledger.lost_link);
        } else {
            assert!(ledger.sent > 300 && lost > 0.0, "{ledger:?}");
        }
        assert!(evidence(trial, "mean_packet_bytes") > 1000.0);
        assert!(trial.cpu.contains_key("link"));
    }
    let facts = run.machine.facts.iter().filter(|fact| fact.group == "link");
    let names: Vec<&str> = facts.map(|fact| fact.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "frames",
            "round trip",
            "rate there",
            "rate back",
            "loss there",
            "loss back"
        ]
    );
    assert!(run.plan.options["processors"].contains("link"));
}

#[test]
fn opening_messages_that_a_link_loses_are_sent_again() {
    if !can_create_hosts() {
        return;
    }
    let arguments = ["udp", "-w", "throughput", "--no-calibration"];
    let run = linked(&Scratch::new(), "loss=60%", &arguments);
    for trial in trials_of(&run, "udp") {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
    }
}

#[test]
fn reliable_transports_survive_lossy_link() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let link = "rate=20mbit,delay=1ms,loss=2%,reorder=1%,duplicate=1%";
    let names = ["tcp", "xtp", "quic", "xtp-transaction", "vmtp"];
    let mut arguments = names.to_vec();
    arguments.extend(words!("--no-calibration -w throughput,delay --trial 200ms"));
    let run = linked(&scratch, link, &arguments);
    for name in names {
        for trial in trials_of(&run, name) {
            assert_eq!(trial.status, Status::Ok, "{name}: {}", trial.reason);
            let ledger = trial.ledger.expect("a ledger");
            assert_eq!(
                (ledger.sent, ledger.duplicates),
                (ledger.delivered, 0),
                "{name}"
            );
        }
    }
}

/// A frame that is lost or damaged holds parts of many messages, and the ledger accounts for each of them.
#[test]
fn ledgers_of_engines_that_pack_messages_close_over_links_with_faults() {
    if !can_create_hosts() {
        return;
    }
    let names = ["bare", "aal34", "aal5"];
    let mut arguments = names.to_vec();
    let more = words!("--no-calibration -w throughput --trial 200ms --blocks 1");
    arguments.extend(more);
    for (link, is_lost) in [
        ("loss=2%,reorder=1%,duplicate=2%", true),
        ("corrupt=2%", false),
    ] {
        let link = format!("rate=100mbit,delay=1ms,{link}");
        let run = linked(&Scratch::new(), &link, &arguments);
        for trial in names.iter().flat_map(|name| trials_of(&run, name)) {
            assert_eq!(
                trial.status,
                Status::Ok,
                "{:?}: {}",
                trial.cell,
                trial.reason
            );
            let ledger = trial.ledger.expect("a ledger");
            let open = (ledger.unaccounted, ledger.duplicates);
            assert_eq!(open, (0, 0), "{:?}: {ledger:?}", trial.cell);
            let explained = match is_lost {
                true => ledger.lost_link,
                false => ledger.corrupt,
            };
            assert!(explained > 0, "{:?}: {ledger:?}", trial.cell);
        }
    }
}

#[test]
fn links_and_loads_become_factors_of_cells() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let more = words!(
        "udp -w delay --link ether10 --link-load 0..1@4mbit --host-load 1@sender --load-parts cpu,calls"
    );
    let run = linked(&scratch, "kernel,rate=100mbit", &more[..5]);
    let links: Vec<String> = trials_of(&run, "udp")
        .iter()
        .map(|trial| trial.cell.text("link"))
        .collect();
    assert_eq!(links.len(), 2);
    assert!(
        links.contains(&"ether10".to_owned()) && links.contains(&"kernel,rate=100mbit".to_owned())
    );
    let run = linked(
        &Scratch::new(),
        "ether10",
        &[&more[..3], &more[5..]].concat(),
    );
    let trials = trials_of(&run, "udp");
    assert_eq!(trials.len(), 2);
    for trial in trials {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        assert_eq!(trial.cell.integer("sender_load"), Some(1));
        assert_eq!(trial.cell.integer("receiver_load"), Some(0));
        assert!(trial.evidence.contains_key("load_cpu_per_s"));
        assert_eq!(trial.cell.integer("link_load_bps"), Some(4_000_000));
        let loaded = trial.cell.integer("link_load") == Some(1);
        // A busy machine may move none of it within so short a trial, but what did arrive made
        // the trial begin.
        let named = trial.evidence.contains_key("link_load_bits_per_s");
        assert_eq!(named, loaded);
    }
}

#[test]
fn capture_file_is_readable_by_tshark() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let file = scratch.text("packets.pcapng");
    linked(
        &scratch,
        "delay=1ms",
        &["udp", "-w", "delay", "--no-calibration", "--capture", &file],
    );
    let tshark = std::process::Command::new("tshark")
        .args(["-r", &file, "-Y", "udp.length == 1008", "-T", "fields"])
        .args(["-e", "frame.time_epoch", "-e", "ip.src", "-e", "ip.dst"])
        .output();
    let Ok(output) = tshark else {
        eprintln!("SKIPPED: tshark is absent: apt-get install tshark");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let there = text
        .lines()
        .filter(|line| line.contains("10.77.0.1\t10.77.0.2"));
    let back = text
        .lines()
        .filter(|line| line.contains("10.77.0.2\t10.77.0.1"));
    assert!(there.count() >= 10 && back.count() >= 10, "{text}");
}

#[test]
fn killed_race_leaves_no_namespaces_or_processes() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let temporary = scratch.path("tmp");
    fs::create_dir(&temporary).expect("a folder");
    let begin = |out: &str| {
        let mut command = program();
        command
            .env("TMPDIR", &temporary)
            .args(words!("race tcp --link delay=1ms --host-load 1@sender"))
            .args(["--load-parts", "cpu", "--sizes", "64", "--trial", "200ms"])
            .args(["--blocks", "100", "--no-calibration", "--out", out])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().expect("the program starts")
    };
    let mut race = begin(&out);
    let trials = Path::new(&out).join("trials.jsonl");
    wait_until("no trial ends", || {
        fs::metadata(&trials).is_ok_and(|file| file.len() > 0)
    });
    // Two workers and a unit of load, in namespaces of their own.
    let mut all = Vec::new();
    wait_until("there are no workers", || {
        all = children(race.id());
        all.len() == 3
    });
    let spaces: Vec<_> = all.iter().filter_map(|&id| namespace(id)).collect();
    let ours = namespace(std::process::id());
    assert!(spaces.iter().all(|space| Some(space) != ours.as_ref()));
    signal(race.id(), Signal::KILL);
    race.wait().expect("it was waited for");
    wait_until("a process was left", || {
        !all.iter().any(|&id| is_running(id))
    });
    let left = || fs::read_dir(&temporary).expect("a folder").count();
    // A unit of load may have had the time to remove its folder; this one of a process that never
    // was had not.
    assert!(left() <= 1, "the load's folder is what can be left");
    fs::create_dir(temporary.join("towpath-load-4194400-17-0")).expect("a folder");
    // The next run sweeps them, and leaves nothing itself.
    let again = scratch.text("again");
    let mut race = begin(&again);
    let trials = Path::new(&again).join("trials.jsonl");
    wait_until("no trial ends", || {
        fs::metadata(&trials).is_ok_and(|file| file.len() > 0)
    });
    signal(race.id(), Signal::INT);
    race.wait().expect("it was waited for");
    assert_eq!(left(), 0);
}

/// Runs a command of `towpath testbed`.
pub fn in_testbeds(scratch: &Scratch, arguments: &[&str]) -> CommandOutput {
    towpath_in(scratch, &[&["testbed"], arguments].concat())
}

/// The network namespace of a process, by its number.
fn namespace(process: u32) -> Option<std::path::PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

#[test]
fn testbed_stays_up_until_down() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| in_testbeds(&scratch, arguments);
    let up = run(&words!("up --name lab --link delay=1ms --hosts 3 -6")).exited(0);
    assert_has(&up.out, "c 10.77.0.3 fd77::3");
    let twice = run(&["up", "--name", "lab"]);
    assert!(
        twice.code == 1 && twice.err.contains("is already up"),
        "{}",
        twice.err
    );
    let seen = run(&["exec", "--name", "lab", "b", "--", "cat", "/proc/net/dev"]);
    assert!(seen.out.contains("eth0:"), "{}{}", seen.out, seen.err);
    let nobody = run(&["exec", "--name", "lab", "z", "true"]);
    assert_has(&nobody.err, "no host 'z'; choose from a, b, c");
    let listed = run(&["list"]);
    assert_has(&listed.out, "lab: link delay=1ms");
    assert_eq!(run(&["down", "--name", "lab"]).code, 0);
    let gone = run(&["down", "--name", "lab"]);
    assert!(
        gone.code == 1 && gone.err.contains("testbed up --name lab"),
        "{}",
        gone.err
    );
    assert!(run(&["list"]).out.contains("no testbed is up"));
}

#[test]
fn concurrent_races_over_links_are_isolated() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let outs = ["one", "two"].map(|name| scratch.text(name));
    let both = outs.each_ref().map(|out| {
        start(&words!("race udp --link delay=1ms --no-calibration --sizes 64 -w delay --trial 100ms --blocks 2 --no-control --no-report --out", out))
    });
    for (child, out) in both.into_iter().zip(&outs) {
        finish(child).exited(0);
        let run = RunData::read(Path::new(out)).expect("a result");
        for trial in trials_of(&run, "udp") {
            // Each request and each answer is a frame: none of the other race's are counted.
            let ledger = trial.ledger.expect("a ledger");
            assert_eq!(
                evidence(trial, "link_frames"),
                (ledger.sent + ledger.delivered) as f64
            );
        }
    }
}

#[test]
fn invalid_testbed_options_are_refused_in_one_line() {
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let scratch = Scratch::new();
        let out = scratch.text("run");
        let mut all = vec!["race", "udp", "--out", &out];
        all.extend(arguments);
        let said = towpath(&all).exited(code);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        assert_has(&said.err, words);
    };
    refused(&["--link", "rate=10"], 2, "'10' is no rate");
    refused(&["--link", "rate=9999gbit"], 2, "impossible");
    refused(&["--link", "speed=1"], 2, "has no 'speed'");
    refused(&["--link", "kernel,delay=5ms"], 2, "leave out 'kernel'");
    refused(&["--link", "super,loss=1%"], 2, "leave out 'super'");
    refused(&["--link-load", "1"], 2, "--link");
    refused(&["--host-load", "lots"], 2, "is no load");
    refused(&["--host-load", "1@nobody"], 2, "sender, receiver or both");
    refused(
        &["--host-load", "1", "--load-parts", "tea"],
        2,
        "no part of a load",
    );
    refused(&["--capture", "x.pcapng@nobody"], 2, "sender or receiver");
    if can_create_hosts() {
        refused(
            &["unix-stream", "--link", "delay=1ms"],
            2,
            "crosses no link",
        );
    }
}

/// As many hosts as a testbed has, one of them in the middle.
#[test]
fn star_has_sixty_four_hosts() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| towpath_in(&scratch, &[&["testbed"], arguments].concat());
    let up = ["up", "--name", "many", "--hosts", "64", "--star"];
    let up = run(&up).exited(0);
    assert_has(&up.out, "bl 10.77.0.64");
    let ping = ["bl", "--", "ping", "-c", "1", "-w", "20", "10.77.0.1"];
    let ping = run(&[&["exec", "--name", "many"], &ping[..]].concat());
    assert_eq!(run(&["down", "--name", "many"]).code, 0);
    let refused = run(&["up", "--name", "many", "--hosts", "65"]);
    assert_has(&refused.err, "from 2 to 64");
    assert_eq!(ping.code, 0, "{}{}", ping.out, ping.err);
}

/// No host has a route for groups: each joins on the interface by which it was asked.
#[test]
fn copy_to_a_group_needs_no_routes() {
    if !can_create_hosts() {
        return;
    }
    let scratch = Scratch::new();
    let run = |arguments: &[&str]| towpath_in(&scratch, arguments);
    let up = ["testbed", "up", "--name", "group", "--hosts", "3", "--star"];
    run(&up).exited(0);
    fs::write(scratch.path("file"), [7; 100_000]).expect("room");
    let exe = env!("CARGO_BIN_EXE_towpath");
    let exec = |host| ["testbed", "exec", "--name", "group", host, "--", exe];
    let receivers = ["b", "c"].map(|host| {
        let inbox = scratch.text(host);
        fs::create_dir(&inbox).expect("a folder");
        let receive = ["cp", "--receive", &inbox, "--groups", "239.1.0.0/16"];
        let mut command = program();
        let command = command.env("XDG_RUNTIME_DIR", &scratch.0);
        let command = command.args(exec(host)).args(receive);
        let command = command.args(["--listen", "0.0.0.0:4036"]);
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        let said = child.stderr.as_mut().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("text");
        assert!(line.contains("receiving"), "{line}");
        child
    });
    let to = ["10.77.0.2", "10.77.0.3", "--group", "239.1.2.3:5000"];
    let file = scratch.text("file");
    let copied = run(&[&exec("a")[..], &["cp", &file], &to].concat());
    for child in receivers {
        signal(child.id(), Signal::INT);
        finish(child);
    }
    run(&["testbed", "down", "--name", "group"]);
    assert_eq!(copied.code, 0, "{}{}", copied.out, copied.err);
    for host in ["b", "c"] {
        let received = fs::read(scratch.path(host).join("file")).expect("the file");
        assert_eq!(received, [7; 100_000], "{host}");
    }
}
