//! Where workers run.

use control::Channel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use testbed::Testbed;

/// A place that can run workers: this process's host, a host of a testbed, and later an agent.
pub trait WorkerHost {
    /// Its name in results.
    fn name(&self) -> &str;

    /// Starts a fresh worker.
    ///
    /// # Errors
    ///
    /// When none can be started.
    fn spawn(&self) -> io::Result<WorkerHandle>;

    /// The address listeners there bind to; None for the loopback.
    fn bind_address(&self, _ipv6: bool) -> Option<IpAddr> {
        None
    }

    /// The only address workers there speak with; None for any.
    fn allowed_peer(&self) -> Option<IpAddr> {
        None
    }

    /// How its clock compares with this process's, as known right now; None where it is the same.
    ///
    /// # Errors
    ///
    /// When it cannot be found out.
    fn clock_offset(&self) -> io::Result<Option<ClockOffset>> {
        Ok(None)
    }

    /// How far its clock was from what `first` says of it, at the most and ever since then, ns.
    ///
    /// # Errors
    ///
    /// A sentence when nobody can say: times of that clock cannot be held against another's.
    fn clock_error_since(&self, _first: ClockOffset) -> Result<u64, String> {
        Ok(0)
    }
}

/// How another host's CLOCK_MONOTONIC compares with this one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// When it was so, ns of this process's clock.
    pub at_ns: u64,
    /// The other's less this one's, ns.
    pub offset_ns: i64,
    /// How far it may be off on either side, ns.
    pub bound_ns: u64,
}

/// Workers as child processes of this one, each with a socket pair for its standard input.
#[derive(Clone, Debug)]
pub struct LocalHost {
    program: PathBuf,
    arguments: Vec<String>,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerHandle {
    /// How to talk to it.
    pub channel: Channel,
    process: WorkerProcess,
}

/// The worker's process.
enum WorkerProcess {
    /// A child of this one.
    Child(Child),
    /// On another host; called once the channel is closed, it waits until the worker is gone.
    Remote(Box<dyn FnOnce() + Send>),
}

impl std::fmt::Debug for WorkerProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkerProcess::Child(child) => write!(f, "process {}", child.id()),
            WorkerProcess::Remote(_) => f.write_str("a process elsewhere"),
        }
    }
}

/// How long a worker may take to end once its channel is closed.
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
}

/// Workers in a host of a testbed, started like those of [`ThisHost`].
#[derive(Clone, Debug)]
pub struct TestbedHost {
    testbed: Arc<Testbed>,
    number: usize,
    program: PathBuf,
    arguments: Vec<String>,
}

impl TestbedHost {
    /// Workers in host `number` of `testbed` that run `program arguments...`.
    pub fn new(
        testbed: Arc<Testbed>,
        number: usize,
        program: &Path,
        arguments: &[String],
    ) -> TestbedHost {
        TestbedHost {
            testbed,
            number,
            program: program.to_owned(),
            arguments: arguments.to_vec(),
        }
    }

    fn host(&self) -> &testbed::Host {
        &self.testbed.hosts()[self.number]
    }
}

impl WorkerHost for TestbedHost {
    fn name(&self) -> &str {
        self.host().name()
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        spawn_worker(&self.program, &self.arguments, |command| {
            self.host().spawn(command)
        })
    }

    fn bind_address(&self, ipv6: bool) -> Option<IpAddr> {
        let host = self.host();
        Some(if ipv6 {
            host.address6()
        } else {
            host.address()
        })
    }
}

fn spawn_worker(
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
    /// A worker on another host, spoken to through `channel`. `end` waits until it is gone.
    pub fn remote(channel: Channel, end: Box<dyn FnOnce() + Send>) -> WorkerHandle {
        WorkerHandle {
            channel,
            process: WorkerProcess::Remote(end),
        }
    }

    /// The number of its process; 0 on another host.
    pub fn pid(&self) -> u32 {
        match &self.process {
            WorkerProcess::Child(child) => child.id(),
            WorkerProcess::Remote(_) => 0,
        }
    }

    /// Whether it runs on another host.
    pub fn is_remote(&self) -> bool {
        matches!(self.process, WorkerProcess::Remote(_))
    }

    /// Waits up to `limit` for the worker to say something, or to be gone.
    pub fn is_readable(&self, limit: Duration) -> bool {
        let socket = self.channel.descriptor();
        let span = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&span)).is_ok_and(|ready| ready > 0)
    }

    /// Ends a worker that has nothing more to say, or nothing that anybody wants to hear, at once.
    pub fn kill(mut self) {
        if let WorkerProcess::Child(child) = &mut self.process {
            // One that has just ended needs no killing; it is waited for all the same.
            let _ = child.kill();
        }
        self.end();
    }

    /// Closes the channel and waits for the worker; one that does not end is killed.
    pub fn end(self) {
        let WorkerHandle { channel, process } = self;
        drop(channel);
        let mut child = match process {
            WorkerProcess::Child(child) => child,
            WorkerProcess::Remote(end) => return end(),
        };
        let end = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < end {
            match child.try_wait() {
                Ok(None) => std::thread::sleep(Duration::from_micros(200)),
                _ => return,
            }
        }
        // It may be gone by now; then there is nothing to kill and it is reaped just the same.
        let _ = child.kill();
        let _ = child.wait();
    }
}
