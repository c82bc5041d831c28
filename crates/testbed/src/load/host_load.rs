//! Copies of the artificial workload in a host.

use super::task::LoadTask;
use crate::host::Host;
use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Copies in a host at most: each is a process with a folder.
pub const COPIES_MAX: u32 = 64;

/// How long a copy may take to end once its input has: the part it is at.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// How far a load is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadProgress {
    /// Processor seconds of all copies and the programs they ran.
    pub cpu_s: f64,
    /// How often each part was done, all copies together.
    pub done: BTreeMap<String, u64>,
}

impl LoadProgress {
    /// What was done since `earlier`.
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

/// A load at work. It ends with this value.
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
    /// Starts `copies` in `host` (None for the host this process is in), all at once, and waits
    /// until all work. `program arguments... PART...` must call [`super::worker::main`].
    ///
    /// # Errors
    ///
    /// When a copy cannot be started.
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
        // The first answer comes from a copy that has begun.
        load.progress()?;
        Ok(load)
    }

    /// How far it is.
    ///
    /// # Errors
    ///
    /// When a copy has ended.
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

    /// Adds what this copy has done.
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
        // It may be gone by now; then there is nothing to kill and it is reaped just the same.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
