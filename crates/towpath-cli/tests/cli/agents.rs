//! Keys, agents, and races against agents.

use crate::support::{Scratch, assert_has, children, finish, program, signal, towpath, wait_until};
use results::{RunData, Status};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running agent with the keys in `keys`, and its first output lines.
pub struct Agent {
    child: Child,
    lines: Vec<String>,
}

impl Agent {
    /// Starts an agent on the loopback.
    pub fn start(keys: &str, more: &[&str], lines: usize) -> Agent {
        let start = |mut command: Command| command.spawn().expect("the program starts");
        let listen = ["--listen", "127.0.0.1:0"];
        Agent::start_by(start, keys, &[&listen, more].concat(), lines)
    }

    /// Starts an agent by `start`.
    pub fn start_by(
        start: impl FnOnce(Command) -> Child,
        keys: &str,
        arguments: &[&str],
        lines: usize,
    ) -> Agent {
        let mut command = program();
        command
            .env("TOWPATH_KEYS", keys)
            .arg("agent")
            .args(arguments);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = start(command);
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines = out
            .lines()
            .take(lines)
            .map(|line| line.expect("a line"))
            .collect();
        Agent { child, lines }
    }

    pub fn address(&self) -> &str {
        self.lines[0]
            .strip_prefix("listening on ")
            .expect("its address")
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    pub fn status(&self, name: &str) -> String {
        status(self.process(), name)
    }
}

/// A line of a process's status.
pub fn status(process: u32, name: &str) -> String {
    let path = format!("/proc/{process}/status");
    let text = std::fs::read_to_string(path).expect("it runs");
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.expect(name).trim_start_matches(':').trim().to_owned()
}

impl Drop for Agent {
    fn drop(&mut self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

pub fn with_keys(keys: &str, arguments: &[&str]) -> crate::support::CommandOutput {
    let mut command = program();
    command.env("TOWPATH_KEYS", keys).args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command.spawn().expect("the program starts"))
}

/// Creates keys that trust each other; gives the agent's public key.
pub fn exchange_keys(near: &str, far: &str) -> String {
    let key_of = |keys: &str| {
        let made = with_keys(keys, &["key", "new"]).exited(0);
        assert_eq!(with_keys(keys, &["key", "show"]).out, made.out);
        made.out.trim().to_owned()
    };
    let (near_key, far_key) = (key_of(near), key_of(far));
    let trusts = |keys: &str, key: &str, name: &str| {
        assert_eq!(with_keys(keys, &["key", "trust", key, name]).code, 0);
    };
    trusts(far, &near_key, "near");
    trusts(near, &far_key, "127.0.0.1");
    far_key
}

/// The agent serves its counters over HTTP.
fn assert_metrics_served(agent: &Agent) {
    let metrics = agent.lines[2]
        .strip_prefix("metrics on http://")
        .and_then(|rest| rest.split_once('/'));
    let mut asker = TcpStream::connect(metrics.expect("an address").0).expect("it listens");
    asker
        .write_all(b"GET /metrics HTTP/1.0\r\n\r\n")
        .expect("it hears");
    let mut counts = String::new();
    asker.read_to_string(&mut counts).expect("it says");
    assert!(
        counts.contains("towpath_agent_sessions_total 1\n"),
        "{counts}"
    );
}

#[test]
fn race_between_two_hosts_takes_five_commands() {
    let scratch = Scratch::new();
    let (near, far) = (scratch.text("near"), scratch.text("far"));
    let far_key = exchange_keys(&near, &far);
    let agent = Agent::start(&far, &["--metrics", "127.0.0.1:0"], 3);
    assert_eq!(agent.lines[1], format!("key {far_key}"));
    // It has dropped all capabilities.
    assert_eq!(
        (agent.status("CapEff"), agent.status("CapBnd")),
        ("0".repeat(16), "0".repeat(16))
    );
    assert_eq!(agent.status("NoNewPrivs"), "1");
    let out = scratch.text("run");
    let said = with_keys(
        &near,
        &words!(
            "race udp tcp --to",
            agent.address(),
            "--sizes 64 --trial 20ms --blocks 1 --no-control --out",
            &out
        ),
    )
    .exited(0);
    crate::schema::accepts_folder(&scratch.path("run"));
    let page = std::fs::read_to_string(scratch.path("run/report.html")).expect("a page");
    let way = format!("from here to {}. The baseline", agent.address());
    assert!(page.contains(&way), "the page does not name the path");
    let run = RunData::read(&scratch.path("run")).expect("a result");
    assert!(
        run.trials.iter().all(|trial| trial.status == Status::Ok),
        "{}",
        said.err
    );
    let groups: Vec<&str> = run
        .machine
        .facts
        .iter()
        .map(|fact| fact.group.as_str())
        .collect();
    let theirs = format!("{}: cpu", agent.address());
    assert!(
        groups.contains(&"cpu") && groups.contains(&theirs.as_str()),
        "{groups:?}"
    );
    assert_metrics_served(&agent);
    let trusted = with_keys(&near, &["key", "show", "--trusted"]);
    assert_eq!(trusted.out, format!("127.0.0.1 {far_key}\n"));
}

#[test]
fn together_races_against_several_agents_at_once() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let agents = [0; 4].map(|_| Agent::start(&none, &[], 1));
    let all = agents.each_ref().map(Agent::address);
    let both = all[..2].join(",");
    let out = scratch.text("run");
    let race = |more: &[&str]| {
        let start = ["race", "tcp", "udp", "--sizes", "64", "--trial", "20ms"];
        let rest = words!("--blocks 1 --no-control --no-report --to", &both);
        with_keys(&none, &[&start[..], &rest, more].concat())
    };
    let said = race(&["--together", "--out", &out]).exited(0);
    crate::schema::accepts_folder(&scratch.path("run"));
    let run = RunData::read(&scratch.path("run")).expect("a result");
    // Pilots and one block of two transports and two workloads.
    assert_eq!(run.trials.len(), 8);
    for trial in &run.trials {
        assert_eq!(trial.status, Status::Ok, "{}", trial.reason);
        for host in &all[..2] {
            let name = format!("messages_per_s@{host}");
            assert!(trial.metrics[&name] > 0.0);
        }
    }
    let first = all[..2].iter().min().expect("two");
    let named = said.out.contains(&format!("by host {first} "));
    assert!(named, "{}", said.out);
    // Without --together each host is a cell of its own.
    let alone = scratch.text("alone");
    assert_eq!(race(&["--out", &alone]).code, 0);
    let run = RunData::read(&scratch.path("alone")).expect("a result");
    assert_eq!(run.trials.len(), 16);
    let no_parts = |name: &String| !name.contains('@');
    assert!(
        run.trials
            .iter()
            .all(|one| one.metrics.keys().all(no_parts))
    );
    // The limit of workers of an agent.
    let from = ["race", "tcp", "--from", all[0], "--together"];
    let said = with_keys(&none, &[&from[..], &["--to", &all.join(",")]].concat());
    let words = "allows 4 workers per client, and 5 are needed";
    assert!(said.code == 1 && said.err.contains(words), "{}", said.err);
    let said = race(&["--to", all[0]]);
    let words = "was given twice";
    assert!(said.code == 2 && said.err.contains(words), "{}", said.err);
}

/// A race that runs until it is interrupted, after its first trials.
fn long_race(scratch: &Scratch, name: &str, agent: &Agent) -> Child {
    let (none, out) = (scratch.text("none"), scratch.text(name));
    let race = ["race", "tcp", "--workload", "throughput", "--sizes", "64"];
    let plan = ["--trial", "200ms", "--blocks", "1000", "--time", "1h"];
    let rest = ["--no-control", "--no-report", "--to", agent.address()];
    let mut command = program();
    command.env("TOWPATH_KEYS", none).args(race).args(plan);
    command.args(rest).args(["--out", &out]);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the program starts");
    let trials = scratch.path(name).join("trials.jsonl");
    wait_until("nothing is measured", || {
        std::fs::read_to_string(&trials).is_ok_and(|text| text.lines().count() > 2)
    });
    child
}

/// User IDs of an agent and of a worker of its: real, effective, saved, of files.
fn users_of_agent_and_worker(more: &[&str]) -> [String; 2] {
    let scratch = Scratch::new();
    let agent = Agent::start(&scratch.text("none"), more, 1);
    let race = long_race(&scratch, "run", &agent);
    let mut worker = None;
    wait_until("there is no worker", || {
        let mut children = children(agent.child.id()).into_iter();
        worker = children.find(|&child| runs_worker(child));
        worker.is_some()
    });
    let users = status(worker.expect("one was found"), "Uid");
    signal(race.id(), rustix::process::Signal::INT);
    finish(race);
    [agent.status("Uid"), users].map(|ids| ids.replace('\t', " "))
}

/// Whether a child has become a worker: until execve(2) it is a copy of the agent, with the agent's saved user.
fn runs_worker(process: u32) -> bool {
    let words = std::fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    words
        .split(|&octet| octet == 0)
        .any(|word| word == b"worker")
}

#[test]
fn agent_of_root_runs_workers_as_nobody_unless_asked() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root's agent becomes another user");
        return;
    }
    let [agent, worker] = users_of_agent_and_worker(&[]);
    // Root stays the saved user of the agent, which reads root's key files; not of the worker.
    assert_eq!(agent, "65534 65534 0 65534");
    assert_eq!(worker, "65534 65534 65534 65534");
    let [agent, worker] = users_of_agent_and_worker(&["--as-root"]);
    assert_eq!((agent.as_str(), worker.as_str()), ("0 0 0 0", "0 0 0 0"));
}

#[test]
fn key_without_home_is_refused() {
    let scratch = Scratch::new();
    let mut command = program();
    for name in ["HOME", "XDG_CONFIG_HOME", "TOWPATH_KEYS"] {
        command.env_remove(name);
    }
    command.args(["key", "new"]).current_dir(&scratch.0);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("the program starts")).failed(1, "set HOME");
    let left = std::fs::read_dir(&scratch.0).expect("a folder").count();
    assert_eq!(left, 0, "a key lies in the current folder");
}

/// The race ended with these words in its error line, and its finished trials were kept.
#[track_caller]
fn assert_trials_kept(scratch: &Scratch, name: &str, race: Child, words: &[&str]) {
    let said = finish(race);
    let lines = said
        .err
        .lines()
        .filter(|line| line.starts_with("towpath: "));
    let lines: Vec<&str> = lines.collect();
    assert!(said.code == 1 && lines.len() == 1, "{}", said.err);
    assert!(
        words.iter().all(|word| lines[0].contains(word)),
        "{lines:?}"
    );
    let run = RunData::read(&scratch.path(name)).expect("a result");
    let good = run.trials.iter().filter(|trial| trial.status == Status::Ok);
    assert!(good.count() > 0);
}

#[test]
fn interrupted_remote_race_keeps_finished_trials() {
    let scratch = Scratch::new();
    let agent = Agent::start(&scratch.text("none"), &[], 1);
    let interrupt = |race: &Child| signal(race.id(), rustix::process::Signal::INT);
    let first = long_race(&scratch, "first", &agent);
    // A second client sees that it waits, and can leave the queue.
    let mut command = program();
    command.env("TOWPATH_KEYS", scratch.text("none"));
    command.args(["doctor", "--to", agent.address()]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut second = command.spawn().expect("the program starts");
    let mut lines = BufReader::new(second.stderr.take().expect("it is piped")).lines();
    let mut line = || lines.next().expect("a line").expect("a line");
    assert!(line().contains("1 client ahead; waiting, Ctrl-C leaves the queue"));
    interrupt(&second);
    assert!(line().contains("stopped by the user while waiting for it"));
    assert_eq!(second.wait().expect("it ends").code(), Some(1));
    interrupt(&first);
    assert_trials_kept(
        &scratch,
        "first",
        first,
        &["the race was stopped", "kept in"],
    );
    // The agent is free again; now the agent is killed.
    let third = long_race(&scratch, "third", &agent);
    signal(agent.child.id(), rustix::process::Signal::KILL);
    let words = [
        "was lost during the race",
        "check that it still runs",
        "kept in",
    ];
    assert_trials_kept(&scratch, "third", third, &words);
}

#[test]
fn agent_given_by_two_names_is_one_session() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let agent = Agent::start(&none, &[], 1);
    let port = agent.address().rsplit_once(':').expect("a port").1;
    let both = format!("127.0.0.1:{port},localhost:{port}");
    for command in [
        &["race", "tcp", "--to", &both][..],
        &["doctor", "--to", &both],
    ] {
        let said = with_keys(&none, command);
        let words = "takes part already by another name; give each agent once";
        assert!(said.code == 1 && said.err.contains(words), "{}", said.err);
    }
}

#[test]
fn systemd_unit_file_is_valid() {
    let scratch = Scratch::new();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/towpath-agent.service"
    );
    let unit = std::fs::read_to_string(path).expect("the unit");
    let unit = unit.replace("/usr/bin/towpath", env!("CARGO_BIN_EXE_towpath"));
    let copy = scratch.path("towpath-agent.service");
    std::fs::write(&copy, &unit).expect("a file");
    let mut command = Command::new("systemd-analyze");
    match command.args(["--man=no", "verify"]).arg(&copy).output() {
        Err(error) => eprintln!("SKIPPED: systemd-analyze: {error}"),
        Ok(said) => {
            // It may complain about other units of this system, or fail here.
            let text = String::from_utf8_lossy(&said.stderr);
            assert!(!text.contains("towpath-agent.service"), "{text}");
        }
    }
    // The unit's command line is valid.
    let line = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let arguments = line.expect("a command").split_whitespace().skip(1);
    let mut arguments: Vec<&str> = arguments.collect();
    arguments.extend(["--listen", "somewhere"]);
    let said = with_keys(&scratch.text("none"), &arguments);
    assert_has(&said.err, "'somewhere' is no address");
}

#[test]
fn agent_without_keys_accepts_loopback_only() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let agent = Agent::start(&none, &["--max-circuits", "2"], 1);
    let race = |more: &[&str]| {
        let mut all = vec!["race", "--to", agent.address(), "--out"];
        let out = scratch.text("refused");
        all.push(&out);
        all.extend(more);
        with_keys(&none, &all)
    };
    let refused = |more: &[&str], words: &str| {
        let said = race(more);
        assert!(said.code != 0 && said.err.contains(words), "{}", said.err);
        assert_eq!(
            said.err
                .lines()
                .filter(|line| line.starts_with("towpath:"))
                .count(),
            1,
            "{}",
            said.err
        );
    };
    refused(&["udp", "--circuits", "3"], "allows circuits up to 2");
    refused(&["unix-stream"], "reaches no agent");
    refused(&["null"], "reaches no agent");
    refused(
        &["udp", "--pin", "4000"],
        "there is no CPU 4000 on that host",
    );
    refused(&["udp", "--trial", "10m"], "allows trials up to 30 s");
    let said = with_keys(&none, &["agent", "--listen", "0.0.0.0:0"]);
    assert!(
        said.code == 1 && said.err.contains("towpath key new"),
        "{}",
        said.err
    );
}

#[test]
fn invalid_remote_options_are_refused_in_one_line() {
    let scratch = Scratch::new();
    let keys = scratch.text("keys");
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let said = with_keys(&keys, arguments).exited(code);
        assert!(
            said.err.lines().count() == 1 && said.err.contains(words),
            "{}",
            said.err
        );
    };
    refused(&["key", "show"], 1, "make one with `towpath key new`");
    refused(&["key", "trust", "rosebud"], 2, "'rosebud' is no key");
    refused(&["race", "--to", "not a host"], 2, "is no host");
    refused(&["race", "--to", "[fe80::1%eth0]:1"], 2, "is link-local");
    refused(
        &["race", "tcp", "--to", "x", "--link", "delay=1ms"],
        2,
        "--link",
    );
    refused(
        &["race", "tcp", "--to", "127.0.0.1:1"],
        1,
        "is `towpath agent` running there",
    );
    refused(&["agent", "--max-rate", "fast"], 2, "'fast' is no rate");
    refused(&["agent", "--listen", "somewhere"], 2, "is no address");
    assert_eq!(with_keys(&keys, &["key", "new"]).code, 0);
    refused(&["key", "new"], 1, "already exists");
    let help = towpath(&["agent", "--help"]);
    assert!(
        help.out.contains("Examples:") && help.out.contains("--max-rate"),
        "{}",
        help.out
    );
}
