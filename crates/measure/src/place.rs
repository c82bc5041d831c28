//! Where workers run.

use control::Channel;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A place that can run workers: this process's host, and later a testbed host or an agent.
pub trait Place {
    /// Its name in results.
    fn name(&self) -> &str;

    /// Starts a fresh worker.
    ///
    /// # Errors
    ///
    /// When none can be started.
    fn spawn(&self) -> io::Result<WorkerHandle>;
}

/// Workers as child processes of this one, each with a socket pair for its standard input.
#[derive(Clone, Debug)]
pub struct ThisHost {
    program: PathBuf,
    arguments: Vec<String>,
}

/// A running worker.
#[derive(Debug)]
pub struct WorkerHandle {
    /// How to talk to it.
    pub channel: Channel,
    child: Child,
}

/// How long a worker may take to end once its channel is closed.
const END_LIMIT: Duration = Duration::from_secs(2);

impl ThisHost {
    /// Workers that run `program arguments...`, which must call [`crate::worker::main`].
    pub fn new(program: PathBuf, arguments: Vec<String>) -> ThisHost {
        ThisHost { program, arguments }
    }
}

impl Place for ThisHost {
    fn name(&self) -> &str {
        "this host"
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| {
                io::Error::new(
                    error.kind(),
                    format!("cannot start {}: {error}", self.program.display()),
                )
            })?;
        Ok(WorkerHandle {
            channel: Channel::new(ours.into()),
            child,
        })
    }
}

impl WorkerHandle {
    /// Waits up to `limit` for the worker to say something, or to be gone.
    pub fn is_readable(&self, limit: Duration) -> bool {
        let socket = self.channel.descriptor();
        let span = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&span)).is_ok_and(|ready| ready > 0)
    }

    /// Closes the channel and waits for the worker; one that does not end is killed.
    pub fn end(self) {
        let WorkerHandle { channel, mut child } = self;
        drop(channel);
        let end = Instant::now() + END_LIMIT;
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
