//! Runs of a sweep elsewhere, `--on`: a command takes jobs as lines of JSON and gives rows back.
//!
//! The first line is a [`Header`], each further one a [`JobLine`]. The command answers with [`Answer`]s in any
//! order; its input stays open until every row is here, so that its end means that this process is gone.
//! `ray` is `python3 -m towpath.on_ray`.

use crate::CliError;
use crate::print;
use results::bounded_file::BoundedLines;
use rustix::process::{Pid, Signal, kill_process_group};
use scenario::sweep::{self, BUILD, SweepJob};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Most octets of an answer; a row has about 1 KiB for two stations.
const ANSWER_OCTETS_MAX: usize = 16 << 20;

/// Where runs go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Elsewhere {
    /// `ray`, `ray:ADDRESS`, or a command for the shell.
    pub place: String,
    /// Give this wheel to nodes that have none or another.
    pub send: bool,
}

/// What the command is told first.
#[derive(Serialize)]
struct Header<'a> {
    /// Version of this protocol.
    towpath_jobs: u32,
    build: &'a str,
    scenario: &'a str,
    jobs: usize,
}

/// A job.
#[derive(Serialize)]
struct JobLine<'a> {
    key: &'a str,
    changes: &'a [String],
    seed: u64,
}

/// What the command says.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    /// It is ready, and this is its build.
    Ready(String),
    /// A row of a node, as the sweep writes it.
    Row { node: String, text: String },
    /// A sentence for the user.
    Note(String),
    /// Why it cannot go on.
    Error(String),
}

/// Runs jobs of the scenario `text` there, and passes each row to `write`, once.
///
/// # Errors
///
/// The command cannot run, refuses, gives a row that nobody asked for or that this machine does not
/// reproduce, or ends too soon.
pub fn run_all(
    place: &Elsewhere,
    text: &str,
    jobs: &[&SweepJob],
    mut write: impl FnMut(&str) -> Result<(), String>,
) -> Result<(), CliError> {
    if jobs.is_empty() {
        return Ok(());
    }
    let mut child = place.start()?;
    let input = child.stdin.take();
    let output = child
        .stdout
        .take()
        .ok_or_else(|| CliError::failed("the command has no output"))?;
    let result = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_jobs(input, text, jobs));
        let mut rows = Rows::new(jobs);
        let received = receive(
            place,
            BoundedLines::new(output, ANSWER_OCTETS_MAX),
            |node, row| {
                if rows.take(node, row).map_err(CliError::failed)? {
                    write(row).map_err(CliError::failed)?;
                }
                Ok(rows.left.is_empty())
            },
        );
        if received.is_err() {
            kill(&child);
        }
        // The input is closed here, which asks the command to end. It may have stopped reading.
        drop(sender.join());
        received.map(|()| rows.left.len())
    });
    let status = child.wait().map_err(CliError::failed)?;
    match result? {
        0 => Ok(()),
        left => Err(CliError::failed(format!(
            "{} ended ({status}) with {left} of {} rows missing; the same command with --out FILE does the rest",
            place.place,
            jobs.len()
        ))),
    }
}

/// Kills the command and what it started; when it has ended by itself, nothing is left to kill.
fn kill(child: &Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let _ = group.map(|group| kill_process_group(group, Signal::KILL));
}

impl Elsewhere {
    fn start(&self) -> Result<Child, CliError> {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // A Ctrl-C ends this process, and the end of its input the command.
        command.process_group(0);
        command.spawn().map_err(|error| {
            CliError::usage(format!(
                "cannot start {:?} for --on: {error}; for Ray install Python, and: pip install 'ray>=2.9' and this wheel",
                command.get_program()
            ))
        })
    }

    fn command(&self) -> Command {
        let address = match self.place.split_once(':') {
            Some(("ray", address)) => Some(address),
            _ => None,
        };
        if self.place != "ray" && address.is_none() {
            let mut command = Command::new("sh");
            command.args(["-c", &self.place]);
            return command;
        }
        let mut command = Command::new(python());
        command.args(["-m", "towpath.on_ray"]);
        if let Some(address) = address {
            command.args(["--address", address]);
        }
        if self.send {
            command.arg("--send");
        }
        command
    }
}

/// The interpreter beside this program, whose environment has the same wheel, or that of the PATH.
fn python() -> PathBuf {
    let beside = std::env::current_exe()
        .ok()
        .map(|own| own.with_file_name("python3"));
    beside
        .filter(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("python3"))
}

/// Sends all jobs; gives the input back, which must stay open.
fn send_jobs(
    input: Option<ChildStdin>,
    text: &str,
    jobs: &[&SweepJob],
) -> io::Result<Option<ChildStdin>> {
    let Some(mut input) = input else {
        return Ok(None);
    };
    let header = Header {
        towpath_jobs: 1,
        build: BUILD,
        scenario: text,
        jobs: jobs.len(),
    };
    write_line(&mut input, &header)?;
    for job in jobs {
        let line = JobLine {
            key: &job.key,
            changes: &job.changes,
            seed: job.seed,
        };
        write_line(&mut input, &line)?;
    }
    Ok(Some(input))
}

fn write_line(to: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads answers until `on_row` says that its row was the last one, or the command ends.
fn receive(
    place: &Elsewhere,
    mut lines: BoundedLines<impl io::Read>,
    mut on_row: impl FnMut(&str, &str) -> Result<bool, CliError>,
) -> Result<(), CliError> {
    let mut is_ready = false;
    while let Some(line) = lines.next_line().map_err(CliError::failed)? {
        let answer: Answer = serde_json::from_slice(line).map_err(|error| {
            let shown: String = String::from_utf8_lossy(line).chars().take(80).collect();
            CliError::failed(format!(
                "{} said {shown:?}, which is no answer: {error}",
                place.place
            ))
        })?;
        match answer {
            Answer::Ready(build) if build == BUILD => is_ready = true,
            Answer::Ready(build) => {
                return Err(CliError::usage(format!(
                    "{} is of build {}, and this program is {BUILD}; install one wheel",
                    place.place,
                    print_safe(&build)
                )));
            }
            Answer::Note(text) => print::note(print_safe(&text)),
            Answer::Error(text) => return Err(CliError::failed(print_safe(&text))),
            Answer::Row { node, text } => {
                if on_row(&node, &text)? {
                    return Ok(());
                }
            }
        }
    }
    match is_ready {
        true => Ok(()),
        false => Err(CliError::usage(format!(
            "{} ended before it was ready; for Ray: pip install 'ray>=2.9' and this wheel",
            place.place
        ))),
    }
}

/// Text of another program for a terminal: one line without control characters.
fn print_safe(text: &str) -> String {
    text.chars()
        .filter(|c| !c.is_control())
        .take(1000)
        .collect()
}

/// The rows that are to come.
struct Rows<'a> {
    left: BTreeMap<&'a str, &'a SweepJob>,
    done: BTreeSet<&'a str>,
    /// Nodes of which a row was compared.
    compared: BTreeSet<String>,
}

impl<'a> Rows<'a> {
    fn new(jobs: &[&'a SweepJob]) -> Rows<'a> {
        Rows {
            left: jobs.iter().map(|job| (job.key.as_str(), *job)).collect(),
            done: BTreeSet::new(),
            compared: BTreeSet::new(),
        }
    }

    /// Whether the row is to be written: not when it came before.
    fn take(&mut self, node: &str, row: &str) -> Result<bool, String> {
        let node = print_safe(node);
        let parsed: Option<serde_json::Value> = serde_json::from_str(row).ok();
        let field = |name: &str| Some(parsed.as_ref()?.get(name)?.as_str()?.to_owned());
        let (Some(key), Some(build)) = (field("key"), field("build")) else {
            return Err(format!("node {node} gave a line that is no row"));
        };
        if build != BUILD {
            return Err(format!(
                "node {node} is of build {}, and this program is {BUILD}; install one wheel, or give --send",
                print_safe(&build)
            ));
        }
        if self.done.contains(key.as_str()) {
            return Ok(false);
        }
        let Some((key, job)) = self.left.remove_entry(key.as_str()) else {
            return Err(format!(
                "node {node} gave the row {}, which nobody asked for",
                print_safe(&key)
            ));
        };
        if row.contains('\n') {
            return Err(format!("node {node} gave a row of several lines"));
        }
        if self.compared.insert(node.clone()) && own_row(job)? != row {
            return Err(format!(
                "node {node} gave a row for key {key} that is not the row of this machine; its rows cannot be used"
            ));
        }
        self.done.insert(key);
        Ok(true)
    }
}

/// The row of a job, run here.
fn own_row(job: &SweepJob) -> Result<String, String> {
    let outcome = scenario::run(&job.scenario, &job.changes, job.seed, |_| {})?;
    let row = sweep::Row {
        key: job.key.clone(),
        build: BUILD,
        outcome,
    };
    serde_json::to_string(&row).map_err(|error| error.to_string())
}
