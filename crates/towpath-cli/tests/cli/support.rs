//! Runs the program and reads its results.

use results::{RunData, Status, Trial};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Timeout of a command.
const HANG_TIMEOUT: Duration = Duration::from_secs(90);

/// A temporary folder of a test, removed on drop.
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new() -> Scratch {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("cli-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("a folder to work in");
        Scratch(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A shell script; returns its path. A shell writes it: a file that this process has open for writing
    /// while another thread starts a program cannot be run (ETXTBSY, execve(2)).
    pub fn script(&self, name: &str, lines: &str) -> String {
        let path = self.text(name);
        let mut writer = Command::new("sh");
        writer.args([
            "-c",
            "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\"",
        ]);
        let written = writer.args([&path, lines]).status().expect("sh is there");
        assert!(written.success(), "{path}: {written}");
        path
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder left in the build folder does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.env_remove("NO_COLOR").env_remove("COLUMNS");
    // Tests race side by side: none of them is about how fast anything is.
    command.env("TOWPATH_RACE_LOCK", "none");
    command
}

/// Exit code and output of a finished command.
pub struct CommandOutput {
    /// Its arguments, as failed tests print them; empty if they are not known.
    arguments: String,
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl CommandOutput {
    /// The output of a command that must have ended with this code.
    #[track_caller]
    pub fn exited(self, code: i32) -> CommandOutput {
        assert_eq!(
            self.code, code,
            "{}: {}\n{}",
            self.arguments, self.err, self.out
        );
        self
    }

    /// The output of a command that must have failed with this code, and with `part` in what it says of it.
    #[track_caller]
    pub fn failed(self, code: i32, part: &str) -> CommandOutput {
        assert!(
            self.code == code && self.err.contains(part),
            "{}: not {code} with '{part}': {}: {}\n{}",
            self.arguments,
            self.code,
            self.err,
            self.out
        );
        self
    }
}

#[track_caller]
pub fn assert_has(text: &str, part: &str) {
    assert!(text.contains(part), "'{part}' is not in: {text}");
}

#[track_caller]
pub fn assert_lacks(text: &str, part: &str) {
    assert!(!text.contains(part), "'{part}' is in: {text}");
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> CommandOutput {
        CommandOutput {
            arguments: String::new(),
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Starts the program with its output piped.
pub fn start(arguments: &[&str]) -> Child {
    let mut command = program();
    let command = command.args(arguments).stdin(Stdio::null());
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Waits for the program; on timeout it is killed and the test fails. The output is read meanwhile,
/// because it may exceed the pipe's capacity.
#[track_caller]
pub fn finish(child: Child) -> CommandOutput {
    let id = child.id();
    let waiting = std::thread::spawn(move || child.wait_with_output());
    let end = Instant::now() + HANG_TIMEOUT;
    while !waiting.is_finished() {
        if Instant::now() > end {
            signal(id, rustix::process::Signal::KILL);
            panic!("the program hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = waiting.join().expect("the waiting thread lives");
    output.expect("the program was waited for").into()
}

#[track_caller]
pub fn towpath(arguments: &[&str]) -> CommandOutput {
    CommandOutput {
        arguments: format!("{arguments:?}"),
        ..finish(start(arguments))
    }
}

/// The JSON document that a command prints, which must succeed.
#[track_caller]
pub fn json(arguments: &[&str]) -> serde_json::Value {
    let said = towpath(arguments).exited(0);
    serde_json::from_str(&said.out).expect("one JSON document")
}

pub fn signal(process: u32, signal: rustix::process::Signal) {
    let id = i32::try_from(process)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    // The process may have ended.
    let _ = id.map(|id| rustix::process::kill_process(id, signal));
}

/// A short race that must succeed; its result is read and checked against the schemas.
#[track_caller]
pub fn race(scratch: &Scratch, name: &str, arguments: &[&str]) -> RunData {
    let out = scratch.text(name);
    let mut all = vec!["race"];
    all.extend(arguments);
    all.extend(["--out", &out, "--no-report"]);
    let ends_trials = ["--trial", "--messages", "--total", "--pairs"];
    if !arguments.iter().any(|word| ends_trials.contains(word)) {
        all.extend(["--trial", "20ms"]);
    }
    if !arguments.contains(&"--blocks") {
        all.extend(["--blocks", "1"]);
    }
    towpath(&all).exited(0);
    crate::schema::accepts_folder(&scratch.path(name));
    RunData::read(&scratch.path(name)).expect("the result can be read")
}

/// Trials of one transport without pilots.
pub fn trials_of<'a>(run: &'a RunData, transport: &str) -> Vec<&'a Trial> {
    let trials = run.trials.iter().filter(|trial| trial.block > 0);
    trials
        .filter(|trial| trial.cell.transport() == transport)
        .collect()
}

/// Whether the trial is valid. Only a schedule that a loaded machine missed is excused; any other
/// failure panics.
pub fn is_valid_trial(trial: &Trial) -> bool {
    let excused = trial.status == Status::Invalid && trial.reason.starts_with("the generator");
    assert!(
        trial.status == Status::Ok || excused,
        "{:?}: {}",
        trial.cell,
        trial.reason
    );
    trial.status == Status::Ok
}

/// The running child processes of a process.
pub fn children(process: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc is there");
    let ids = entries.flatten().filter_map(|entry| {
        let name = entry.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    ids.filter(|&id| parent_of(id) == Some(process)).collect()
}

fn parent_of(process: u32) -> Option<u32> {
    let (state, parent) = state_of(process)?;
    (state != 'Z').then_some(parent)
}

/// Whether a process runs; zombies do not.
pub fn is_running(process: u32) -> bool {
    state_of(process).is_some_and(|(state, _)| state != 'Z' && state != 'X')
}

fn state_of(process: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// Waits until `done`, or fails the test with `what`.
#[track_caller]
pub fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + HANG_TIMEOUT;
    while !done() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The first value of each of `fields` of each packet of a capture, as tshark reads it with `arguments`; None without
/// tshark.
pub fn tshark_fields<const N: usize>(
    file: &Path,
    arguments: &[&str],
    fields: [&str; N],
) -> Option<Vec<[String; N]>> {
    let mut tshark = Command::new("tshark");
    let tshark = tshark.arg("-r").arg(file).args(arguments);
    let tshark = tshark.args(["-T", "fields", "-E", "occurrence=f"]);
    let tshark = tshark.args(fields.iter().flat_map(|field| ["-e", field]));
    let Ok(output) = tshark.output() else {
        eprintln!("SKIPPED: tshark is absent: apt-get install tshark");
        return None;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("Lua"), "{said}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text.lines().map(|line| {
        let mut fields = line.split('\t').map(str::to_owned);
        [(); N].map(|()| fields.next().unwrap_or_default())
    });
    Some(lines.collect())
}

/// The argument by which tshark reads packets with the dissector `name` of `packaging/wireshark`.
pub fn dissector(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/wireshark/");
    format!("lua_script:{folder}{name}")
}
