//! Keys, agents, and races against them, as a user meets them.

use crate::support::{Scratch, finish, program, signal, towpath};
use results::{RunData, Status};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// An agent with the keys in `keys`; what it listens on.
struct Agent {
    child: Child,
    lines: Vec<String>,
}

impl Agent {
    fn start(keys: &str, more: &[&str], lines: usize) -> Agent {
        let mut command = program();
        command
            .env("TOWPATH_KEYS", keys)
            .args(["agent", "--listen", "127.0.0.1:0"])
            .args(more);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("the program starts");
        let out = BufReader::new(child.stdout.take().expect("it is piped"));
        let lines = out
            .lines()
            .take(lines)
            .map(|line| line.expect("a line"))
            .collect();
        Agent { child, lines }
    }

    fn address(&self) -> &str {
        self.lines[0]
            .strip_prefix("listening on ")
            .expect("its address")
    }

    fn status(&self, name: &str) -> String {
        let path = format!("/proc/{}/status", self.child.id());
        let text = std::fs::read_to_string(path).expect("it runs");
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect(name);
        line.trim_start_matches(':').trim().to_owned()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn with_keys(keys: &str, arguments: &[&str]) -> crate::support::Said {
    let mut command = program();
    command.env("TOWPATH_KEYS", keys).args(arguments);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    finish(command.spawn().expect("the program starts"))
}

/// Makes keys that trust each other; the far one.
fn friends(near: &str, far: &str) -> String {
    let key_of = |keys: &str| {
        let made = with_keys(keys, &["key", "new"]);
        assert_eq!(made.code, 0, "{}", made.err);
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

/// The agent tells its counts to whoever asks.
fn told(agent: &Agent) {
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
fn two_machines_in_five_lines() {
    let scratch = Scratch::new();
    let (near, far) = (scratch.text("near"), scratch.text("far"));
    let far_key = friends(&near, &far);
    let agent = Agent::start(&far, &["--metrics", "127.0.0.1:0"], 3);
    assert_eq!(agent.lines[1], format!("key {far_key}"));
    // It has given up what it was started with.
    assert_eq!(
        (agent.status("CapEff"), agent.status("CapBnd")),
        ("0".repeat(16), "0".repeat(16))
    );
    assert_eq!(agent.status("NoNewPrivs"), "1");
    let out = scratch.text("run");
    let said = with_keys(
        &near,
        &[
            "race",
            "udp",
            "tcp",
            "--to",
            agent.address(),
            "--sizes",
            "64",
            "--trial",
            "20ms",
            "--blocks",
            "1",
            "--no-control",
            "--out",
            &out,
        ],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    crate::schema::accepts_folder(&scratch.path("run"));
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
    told(&agent);
    let trusted = with_keys(&near, &["key", "show", "--trusted"]);
    assert_eq!(trusted.out, format!("127.0.0.1 {far_key}\n"));
}

#[test]
fn without_keys_a_host_races_with_itself_only() {
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
fn what_makes_no_sense_is_refused_in_a_line() {
    let scratch = Scratch::new();
    let keys = scratch.text("keys");
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let said = with_keys(&keys, arguments);
        assert_eq!(said.code, code, "{}", said.err);
        assert!(
            said.err.lines().count() == 1 && said.err.contains(words),
            "{}",
            said.err
        );
    };
    refused(&["key", "show"], 1, "make one with `towpath key new`");
    refused(&["key", "trust", "rosebud"], 2, "'rosebud' is no key");
    refused(&["race", "--to", "not a host"], 2, "is no host");
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
    refused(&["key", "new"], 1, "is there already");
    let help = towpath(&["agent", "--help"]);
    assert!(
        help.out.contains("Examples:") && help.out.contains("--max-rate"),
        "{}",
        help.out
    );
}
