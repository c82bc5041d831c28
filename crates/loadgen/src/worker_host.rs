//! Hosts that run workers.

use crate::worker_program::{has_exited, kill_group};
use control::Channel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A host that can run workers: this one, a host of a testbed, or that of an agent.
pub trait WorkerHost {
    /// Its name in results.
    fn name(&self) -> &str;

    /// Starts a fresh worker.
    ///
    /// # Errors
    ///
    /// When none can be started.
    fn spawn(&self) -> io::Result<WorkerHandle>;

    /// Starts a fresh worker of another program, which speaks the same protocol; see
    /// [`crate::worker_program`].
    ///
    /// # Errors
    ///
    /// When it cannot be started, or this host runs no programs but its own.
    fn spawn_program(&self, program: &Path) -> io::Result<WorkerHandle>;

    /// Its addresses, one a link between the hosts; empty for the loopback. Listeners of
    /// transports with one path bind to the first.
    fn addresses(&self, _ipv6: bool) -> Vec<IpAddr> {
        Vec::new()
    }

    /// The only peer address its workers accept; None for any.
    fn allowed_peer(&self) -> Option<IpAddr> {
        None
    }

    /// The current offset of its clock; None where it is this process's clock.
    ///
    /// # Errors
    ///
    /// When the offset cannot be measured.
    fn clock_offset(&self) -> io::Result<Option<ClockOffset>> {
        Ok(None)
    }

    /// Largest deviation of its clock from the offset `first` since that reading, ns.
    ///
    /// # Errors
    ///
    /// A sentence when the deviation is unknown; its times then cannot be compared with another
    /// clock's.
    fn clock_error_since(&self, _first: ClockOffset) -> Result<u64, String> {
        Ok(0)
    }
}

/// Offset of another host's CLOCK_MONOTONIC from this one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// Time of the reading by this process's clock, ns.
    pub at_ns: u64,
    /// The other clock minus this one, ns.
    pub offset_ns: i64,
    /// Error bound of the offset, ns.
    pub bound_ns: u64,
}

/// Runs workers as child processes, each with a socket pair as standard input.
#[derive(Clone, Debug)]
pub struct LocalHost {
    program: PathBuf,
    arguments: Vec<String>,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerHandle {
    /// Its control channel.
    pub channel: Channel,
    process: WorkerProcess,
}

/// The process of a worker.
enum WorkerProcess {
    /// A child of this one.
    Child(Child),
    /// A child that another program runs, the leader of a process group.
    Program(Child),
    /// On another host. The function is called once the channel is closed, and waits for the
    /// worker's exit.
    Remote(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for WorkerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkerProcess::Child(child) | WorkerProcess::Program(child) => {
                write!(f, "process {}", child.id())
            }
            WorkerProcess::Remote(_) => f.write_str("a remote process"),
        }
    }
}

/// How long a worker may take to exit once its channel is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

impl LocalHost {
    /// Workers that run `program arguments...`, which must call [`crate::worker::main`].
    pub fn new(program: PathBuf, arguments: Vec<String>) -> LocalHost {
        LocalHost { program, arguments }
    }
}

impl WorkerHost for LocalHost {
    fn name(&self) -> &str {
        "this host"
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        spawn_worker(&self.program, &self.arguments, |mut command| {
            command.spawn()
        })
    }

    fn spawn_program(&self, program: &Path) -> io::Result<WorkerHandle> {
        let worker = spawn_worker(program, &self.arguments, |mut command| {
            command.process_group(0).spawn()
        });
        worker.map(WorkerHandle::of_program)
    }
}

/// Starts `program arguments...` as a worker, by `start`, which places the process.
///
/// # Errors
///
/// When it cannot be started.
pub fn spawn_worker(
    program: &Path,
    arguments: &[String],
    start: impl FnOnce(Command) -> io::Result<Child>,
) -> io::Result<WorkerHandle> {
    let (parent_end, worker_end) = UnixStream::pair()?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::from(OwnedFd::from(worker_end)))
        .stdout(Stdio::null());
    let child = start(command).map_err(|error| {
        let text = format!("cannot start {}: {error}", program.display());
        io::Error::new(error.kind(), text)
    })?;
    Ok(WorkerHandle {
        channel: Channel::new(parent_end.into()),
        process: WorkerProcess::Child(child),
    })
}

impl WorkerHandle {
    /// A worker on another host, controlled through `channel`. `end` waits for its exit.
    pub fn remote(channel: Channel, end: Box<dyn FnOnce() + Send>) -> WorkerHandle {
        WorkerHandle {
            channel,
            process: WorkerProcess::Remote(end),
        }
    }

    /// The same worker, as the leader of a process group that is to end with it.
    pub fn of_program(self) -> WorkerHandle {
        let process = match self.process {
            WorkerProcess::Child(child) => WorkerProcess::Program(child),
            other => other,
        };
        WorkerHandle { process, ..self }
    }

    /// Whether another program runs it, whose reports are to be checked.
    pub fn is_other_program(&self) -> bool {
        matches!(self.process, WorkerProcess::Program(_))
    }

    /// Its process ID; 0 on another host.
    pub fn pid(&self) -> u32 {
        match &self.process {
            WorkerProcess::Child(child) | WorkerProcess::Program(child) => child.id(),
            WorkerProcess::Remote(_) => 0,
        }
    }

    /// Whether it runs on another host.
    pub fn is_remote(&self) -> bool {
        matches!(self.process, WorkerProcess::Remote(_))
    }

    /// Waits up to `limit` for a message of the worker, or its exit.
    pub fn is_readable(&self, limit: Duration) -> bool {
        let socket = self.channel.descriptor();
        let span = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&span)).is_ok_and(|ready| ready > 0)
    }

    /// Kills a worker whose messages are no longer needed.
    pub fn kill(mut self) {
        if let WorkerProcess::Child(child) | WorkerProcess::Program(child) = &mut self.process {
            // It may have exited already; `end` reaps it in any case.
            let _ = child.kill();
        }
        self.end();
    }

    /// Closes the channel and waits for the worker's exit; kills it after a timeout.
    pub fn end(self) {
        let WorkerHandle { channel, process } = self;
        drop(channel);
        let (mut child, has_group) = match process {
            WorkerProcess::Child(child) => (child, false),
            WorkerProcess::Program(child) => (child, true),
            WorkerProcess::Remote(end) => return end(),
        };
        let end = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < end && !has_exited(&child) {
            std::thread::sleep(Duration::from_micros(200));
        }
        if has_group {
            // Its children too. The number is its own until it is reaped.
            kill_group(&child);
        }
        // It may have exited by now; `wait` reaps it in any case.
        let _ = child.kill();
        let _ = child.wait();
    }
}
