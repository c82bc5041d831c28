//! The artificial workload in a host.

use super::task::LoadTask;
use crate::host::Host;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Processes of the load in a host at most.
pub const COPIES_MAX: u32 = 64;

/// How long a process may take to end after its input: its current task.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Progress of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadProgress {
    /// CPU time of all processes and their children, s.
    pub cpu_s: f64,
    /// Completions of each task, all processes together.
    pub done: BTreeMap<String, u64>,
}

impl LoadProgress {
    /// The progress since `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &LoadProgress) -> LoadProgress {
        let done = self.done.iter().map(|(part, count)| {
            let before = earlier.done.get(part).copied().unwrap_or(0);
            (part.clone(), count - before.min(*count))
        });
        LoadProgress {
            cpu_s: (self.cpu_s - earlier.cpu_s).max(0.0),
            done: done.collect(),
        }
    }
}

/// A running load; dropping it ends it.
#[derive(Debug)]
pub struct HostLoad {
    copies: Vec<LoadProcess>,
}

#[derive(Debug)]
struct LoadProcess {
    child: Child,
    queries: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl HostLoad {
    /// Starts `copies` processes in `host` (None for this host) and waits until all run. `program
    /// arguments... TASK...` must call [`super::worker::main`].
    ///
    /// # Errors
    ///
    /// When a process cannot be started.
    pub fn start(
        host: Option<&Host>,
        copies: u32,
        program: &Path,
        arguments: &[String],
        parts: &[LoadTask],
    ) -> io::Result<HostLoad> {
        let mut load = HostLoad { copies: Vec::new() };
        for _ in 0..copies.min(COPIES_MAX) {
            let mut command = Command::new(program);
            command
                .args(arguments)
                .args(parts.iter().map(|part| part.name()))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped());
            let child = match host {
                Some(host) => host.spawn(command),
                None => command.spawn(),
            };
            load.copies.push(LoadProcess::new(child?)?);
        }
        // A process answers only once it runs.
        load.progress()?;
        Ok(load)
    }

    /// Queries the progress.
    ///
    /// # Errors
    ///
    /// When a process has ended.
    pub fn progress(&mut self) -> io::Result<LoadProgress> {
        let mut progress = LoadProgress::default();
        for copy in &mut self.copies {
            copy.query(&mut progress)?;
        }
        Ok(progress)
    }
}

impl Drop for HostLoad {
    fn drop(&mut self) {
        for copy in &mut self.copies {
            copy.queries = None;
        }
        for copy in &mut self.copies {
            copy.end();
        }
    }
}

impl LoadProcess {
    fn new(mut child: Child) -> io::Result<LoadProcess> {
        let questions = child.stdin.take();
        let answers = child.stdout.take();
        let answers =
            answers.ok_or_else(|| io::Error::other("a copy of the load cannot answer"))?;
        Ok(LoadProcess {
            child,
            queries: questions,
            answers: BufReader::new(answers),
        })
    }

    /// Adds the progress of this process.
    fn query(&mut self, into: &mut LoadProgress) -> io::Result<()> {
        let gone = |_| io::Error::other("a copy of the host load has ended");
        if let Some(questions) = &mut self.queries {
            questions.write_all(b"?\n").map_err(gone)?;
        }
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            return Err(io::Error::other("a copy of the host load has ended"));
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        for pair in words.chunks_exact(2) {
            match pair {
                ["cpu_s", seconds] => into.cpu_s += seconds.parse().unwrap_or(0.0),
                [part, count] => {
                    *into.done.entry((*part).to_owned()).or_default() +=
                        count.parse::<u64>().unwrap_or(0);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn end(&mut self) {
        let end = Instant::now() + END_TIMEOUT;
        while Instant::now() < end {
            match self.child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
                _ => return,
            }
        }
        // It may have ended already; reap it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
