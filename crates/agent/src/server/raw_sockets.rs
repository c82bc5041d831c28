//! The one process that keeps the right to raw sockets (CAP_NET_RAW) when the agent drops its own.
//!
//! The agent starts it before it drops its rights. It has no other right, opens no file and listens nowhere; it
//! answers the agent over a socket pair, each question with one socket, which `towpath::raw_sockets` binds to the
//! interface and restricts to the peer permanently. It ends when the agent closes the pair.

use super::privilege;
use control::{Channel, ChannelError, Job, RawSocketGrant, RendezvousFrame, ToWorker};
use loadgen::contestant::Component;
use loadgen::{WorkerHandle, worker_host};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use towpath::raw_sockets::{RawSocketKind, RawSocketRequest, with_hardware};

pub use towpath::raw_sockets::hardware_of;

/// How long an answer may take: some system calls.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the process waits for a question before it waits again.
const QUESTION_TIMEOUT: Duration = Duration::from_secs(3600);

/// What the process says: first that it is ready, or why it cannot be; then of each question.
#[derive(Debug, Serialize, Deserialize)]
struct RawAnswer(Result<(), String>);

/// Whether a transport works with an agent only if the operator allows raw sockets.
pub fn needs_raw_sockets(transport: &str) -> bool {
    RawSocketKind::of(transport, 0).is_some()
}

/// The process, as the agent sees it.
pub struct RawSocketSource {
    /// One question at a time; None once an answer was missing, or the next one would be taken for it.
    process: Mutex<Option<WorkerHandle>>,
}

impl Drop for RawSocketSource {
    fn drop(&mut self) {
        let process = self.process.get_mut();
        if let Some(process) = process.unwrap_or_else(PoisonError::into_inner).take() {
            process.end();
        }
    }
}

impl RawSocketSource {
    /// Starts the process: `program` with `arguments`, which has to call [`run`].
    ///
    /// # Errors
    ///
    /// A sentence with the remedy, where it cannot open raw sockets.
    pub fn start(program: &Path, arguments: &[String]) -> Result<RawSocketSource, String> {
        let start = worker_host::spawn_worker(program, arguments, |mut command| command.spawn());
        let mut process = start.map_err(|error| error.to_string())?;
        match process.channel.receive::<RawAnswer>(ANSWER_TIMEOUT) {
            Ok((RawAnswer(Ok(())), _)) => {}
            Ok((RawAnswer(Err(why)), _)) => {
                process.end();
                return Err(why);
            }
            Err(error) => {
                process.kill();
                return Err(format!("the process for raw sockets: {error}"));
            }
        }
        Ok(RawSocketSource {
            process: Mutex::new(Some(process)),
        })
    }

    fn open(&self, request: &RawSocketRequest) -> Result<OwnedFd, String> {
        let mut held = self.process.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = "the process for raw sockets has ended; restart the agent";
        let process = held.as_mut().ok_or(gone)?;
        match ask(&mut process.channel, request) {
            Ok((RawAnswer(answer), mut sockets)) => {
                answer?;
                sockets.pop().ok_or_else(|| gone.into())
            }
            Err(error) => {
                let process = held.take();
                process.into_iter().for_each(WorkerHandle::kill);
                Err(format!("the process for raw sockets: {error}"))
            }
        }
    }

    /// The raw sockets of a job; says in the job which they are, and in the addresses of its peer where that is.
    ///
    /// # Errors
    ///
    /// A sentence, where one cannot be given.
    pub fn grant(&self, message: &mut ToWorker) -> Result<Vec<OwnedFd>, String> {
        let (job, frames) = match message {
            ToWorker::Listen(job) => (job, None),
            ToWorker::Connect(job, frames) => (job, Some(frames)),
            _ => return Ok(Vec::new()),
        };
        let (Some(local), Some(peer)) = (job.bind, job.peer) else {
            return Ok(Vec::new());
        };
        let mut sockets = Vec::new();
        for index in 0..job.components.len() {
            self.grant_component(job, index, (local, peer), &mut sockets)?;
        }
        if let Some(frames) = frames {
            locate(frames, || hardware_of(local, peer))?;
        }
        Ok(sockets)
    }

    fn grant_component(
        &self,
        job: &mut Job,
        index: usize,
        (local, peer): (IpAddr, IpAddr),
        sockets: &mut Vec<OwnedFd>,
    ) -> Result<(), String> {
        let component = &job.components[index];
        let name = Component::parse(&component.transport)?.transport().name();
        for _ in 0..component.circuits {
            let Some(kind) = RawSocketKind::of(name, job.circuit_options.ethertype) else {
                return Ok(());
            };
            let request = RawSocketRequest { kind, local, peer };
            sockets.push(self.open(&request)?);
            job.raw_sockets.push(RawSocketGrant {
                component: index as u32,
                port: kind.port(),
            });
        }
        Ok(())
    }
}

fn ask(
    channel: &mut Channel,
    request: &RawSocketRequest,
) -> Result<(RawAnswer, Vec<OwnedFd>), ChannelError> {
    channel.send(request, &[])?;
    channel.receive(ANSWER_TIMEOUT)
}

/// Puts the hardware address of a host into its frames' addresses of that kind, whatever they say.
///
/// # Errors
///
/// Those of `hardware`, where there is such an address.
pub fn locate(
    frames: &mut [RendezvousFrame],
    hardware: impl Fn() -> Result<[u8; 6], String>,
) -> Result<(), String> {
    let is_ether = |line: &[u8]| with_hardware(line, [0; 6]).is_some();
    for frame in frames {
        if !frame.bytes.split(|&octet| octet == b'\n').any(is_ether) {
            continue;
        }
        let hardware = hardware()?;
        let line = |line: &[u8]| with_hardware(line, hardware).unwrap_or_else(|| line.to_vec());
        let lines = frame.bytes.split(|&octet| octet == b'\n').map(line);
        frame.bytes = lines.collect::<Vec<_>>().join(&b'\n');
    }
    Ok(())
}

/// The process: drops all rights but that to raw sockets, and answers on `socket` until it is closed.
///
/// # Errors
///
/// When the socket fails.
pub fn run(socket: OwnedFd, interfaces: &[String], stays_root: bool) -> io::Result<()> {
    let mut channel = Channel::new(socket);
    let ready = privilege::keep_raw_sockets(stays_root).map_err(|error| error.to_string());
    let is_ready = ready.is_ok();
    channel
        .send(&RawAnswer(ready), &[])
        .map_err(io::Error::other)?;
    if !is_ready {
        return Ok(());
    }
    loop {
        let request = match channel.receive::<RawSocketRequest>(QUESTION_TIMEOUT) {
            Ok((request, _)) => request,
            Err(ChannelError::TimedOut(_)) => continue,
            Err(ChannelError::Closed) => return Ok(()),
            Err(error) => return Err(io::Error::other(error)),
        };
        let sent = match request.open(interfaces) {
            Ok(socket) => channel.send(&RawAnswer(Ok(())), &[socket.as_fd()]),
            Err(why) => channel.send(&RawAnswer(Err(why)), &[]),
        };
        sent.map_err(io::Error::other)?;
    }
}
