//! The process of a program: its start, its end, and the end of all that it started.

use super::output::OutputReader;
use crate::worker_program::{has_exited, kill_group};
use control::{
    Channel, CpuUse, HostTraffic, PROGRAM_ERRORS_MAX, PROGRAM_OUTPUT_MAX, ProgramExit,
    ProgramReport,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, kill_process, kill_process_group, pidfd_open, wait,
};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rounds in which what a program left is ended: each ends a generation of its processes.
const ROUNDS_MAX: u32 = 2000;

/// Commands of processes left behind that are named.
const NAMED_MAX: usize = 8;

/// Characters of such a command.
const COMMAND_MAX: usize = 60;

/// A program that runs, the leader of a process group.
pub(super) struct RunningProgram {
    child: Child,
    watch: OwnedFd,
    output: OutputReader,
    errors: OutputReader,
    began: Instant,
    before: host::Snapshot,
}

/// What a wait for a program ends with.
pub(super) enum Event {
    /// The program has ended.
    Exited(ProgramExit),
    /// The controller said something, or is gone.
    Message,
    /// The time is over.
    Late,
}

impl RunningProgram {
    /// Starts `words`.
    pub(super) fn start(words: &[String]) -> Result<RunningProgram, String> {
        let (program, arguments) = words.split_first().ok_or("a program without a name")?;
        let failed = |error: std::io::Error| format!("cannot start {program}: {error}");
        let before = host::Snapshot::take_in_thread();
        let began = Instant::now();
        let mut child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let watch = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
        let pipes = child.stdout.take().zip(child.stderr.take());
        match (watch, pipes) {
            (Ok(watch), Some((output, errors))) => Ok(RunningProgram {
                child,
                watch,
                output: OutputReader::new(output, PROGRAM_OUTPUT_MAX),
                errors: OutputReader::new(errors, PROGRAM_ERRORS_MAX),
                began,
                before,
            }),
            (watch, _) => {
                kill_group(&child);
                let why = watch.map_or_else(|errno| errno.to_string(), |_| "no pipes".into());
                Err(format!("cannot watch {program}: {why}"))
            }
        }
    }

    /// Counts traffic and time from now on.
    pub(super) fn mark(&mut self) {
        self.before = host::Snapshot::take_in_thread();
        self.began = Instant::now();
    }

    /// Waits for its end, a word of the controller, or `end`.
    pub(super) fn wait(&mut self, channel: &Channel, end: Instant) -> Event {
        let control = channel.descriptor();
        loop {
            if let Some(exit) = self.exited() {
                return Event::Exited(exit);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Event::Late;
            }
            let mut ready = [
                PollFd::new(&self.watch, PollFlags::IN),
                PollFd::new(&control, PollFlags::IN),
            ];
            // An interrupted poll looks again.
            let _ = poll(&mut ready, Some(&timespec(left)));
            if !ready[1].revents().is_empty() {
                return Event::Message;
            }
        }
    }

    /// Waits up to `limit` for its end.
    pub(super) fn await_exit(&mut self, limit: Duration) {
        let end = Instant::now() + limit;
        while self.exited().is_none() && Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now());
            let mut ready = [PollFd::new(&self.watch, PollFlags::IN)];
            // An interrupted poll looks again.
            let _ = poll(&mut ready, Some(&timespec(left)));
        }
    }

    /// How it ended; None while it runs. It is not reaped yet, so that its number stays its own.
    pub(super) fn exited(&self) -> Option<ProgramExit> {
        use rustix::process::{WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(Pid::from_child(&self.child)), options).ok()??;
        let code = status.exit_status().map(ProgramExit::Code);
        code.or(status.terminating_signal().map(ProgramExit::Signal))
    }

    /// Whether its output has this text so far.
    pub(super) fn said(&self, text: &str) -> bool {
        self.output.text().contains(text) || self.errors.text().contains(text)
    }

    /// Asks it to end, and waits up to `limit`.
    pub(super) fn terminate(&mut self, limit: Duration) {
        if !has_exited(&self.child) {
            // It may have ended just now.
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::TERM);
            self.await_exit(limit);
        }
    }

    /// Ends it and all that it started, and reports. A program that is stopped may have children; one
    /// that ended by itself left them behind.
    pub(super) fn end(mut self, exit: ProgramExit) -> ProgramReport {
        let span = self.began.elapsed();
        let traffic = traffic_since(&self.before);
        let by_itself = matches!(exit, ProgramExit::Code(_) | ProgramExit::Signal(_));
        let mut left = Vec::new();
        if by_itself {
            left = descendants();
            left.retain(|pid| *pid != self.child.id());
        }
        let named = left.iter().take(NAMED_MAX).map(|pid| command_of(*pid));
        let left: Vec<String> = named.collect();
        kill_group(&self.child);
        let status = self.child.wait();
        let exit = match (
            exit,
            status.map(|status| status.code().ok_or(status.signal())),
        ) {
            // A server that was asked to end may say by its code that it could not.
            (ProgramExit::Stopped, Ok(Ok(code))) => ProgramExit::Code(code),
            _ => exit,
        };
        end_all_children();
        ProgramReport {
            exit,
            output: self.output.finish(),
            errors: self.errors.finish(),
            span_ns: span.as_nanos() as u64,
            cpu: cpu_of_children(),
            left,
            traffic,
        }
    }
}

fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

/// Processes below this one that have not ended.
fn descendants() -> Vec<u32> {
    let all = process_parents();
    let mut found = vec![std::process::id()];
    let mut at = 0;
    while at < found.len() {
        let parent = found[at];
        found.extend(
            all.iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    found.split_off(1)
}

/// Every process that has not ended, with its parent.
fn process_parents() -> Vec<(u32, u32)> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    let parent_of = |path: &Path| {
        let stat = std::fs::read_to_string(path.join("stat")).ok()?;
        // The name may hold blanks and parentheses.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let has_ended = matches!(fields.next()?, "Z" | "X");
        let parent = fields.next()?.parse().ok()?;
        (!has_ended).then_some(parent)
    };
    let one = |entry: std::fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        Some((pid, parent_of(&entry.path())?))
    };
    entries.flatten().filter_map(one).collect()
}

fn command_of(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).replace('\0', " ");
    control::validate::printable(words.trim(), COMMAND_MAX)
}

/// Kills and reaps children, those that become this process's meanwhile too, until there are none.
fn end_all_children() {
    for _ in 0..ROUNDS_MAX {
        for pid in descendants() {
            if let Some(pid) = Pid::from_raw(pid as i32) {
                // It may have ended just now.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// CPU of all children that have ended and were reaped, theirs included, by ticks.
fn cpu_of_children() -> CpuUse {
    let used = host::TaskCpu::of_ended_children();
    let ns = |seconds: f64| (seconds * 1e9) as u64;
    CpuUse {
        task_ns: ns(used.task_s),
        user_ns: ns(used.user_s),
        system_ns: ns(used.system_s),
        ..CpuUse::default()
    }
}

/// What each interface of this host has carried since `before`.
fn traffic_since(before: &host::Snapshot) -> BTreeMap<String, HostTraffic> {
    let seen = before.until(&host::Snapshot::take_in_thread()).interfaces;
    let one = |counted: host::InterfaceCounters| HostTraffic {
        sent_octets: counted.send_bytes,
        sent_packets: counted.send_packets,
        received_octets: counted.receive_bytes,
        received_packets: counted.receive_packets,
    };
    let all = seen.into_iter();
    all.map(|(name, counted)| (name, one(counted))).collect()
}
