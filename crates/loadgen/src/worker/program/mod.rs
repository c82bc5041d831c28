//! Runs a program of another project for a trial: its server until the trial ends, or its client.
//!
//! The worker is the program's subreaper: whatever it starts becomes the worker's child when its own
//! parent is gone, and ends before the worker reports.

pub mod output;
mod process;
mod readiness;

use super::{JobError, STEP_TIMEOUT, cpu};
use control::{Channel, FromWorker, ProgramExit, ProgramJob, ServerJob, ToWorker};
use process::{Event, RunningProgram};
use readiness::Watch;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};

/// How often a server's readiness is looked for.
const READY_POLL: Duration = Duration::from_millis(5);

/// Time that a server has to end by itself after its client.
const OWN_END: Duration = Duration::from_secs(2);

/// Time that a program has to end after SIGTERM.
const TERM_LIMIT: Duration = Duration::from_secs(1);

/// How many ports are tried until one is free for TCP and for UDP.
const PORT_TRIES: u32 = 100;

/// Lines of a program's output that an error shows.
const LINES_SHOWN: usize = 3;

/// Runs a client to its end.
pub(super) fn run(channel: &mut Channel, job: &ProgramJob) -> Result<(), JobError> {
    prepare(job)?;
    let mut program = RunningProgram::start(&job.words).map_err(JobError)?;
    channel.send(&FromWorker::Running, &[])?;
    let end = Instant::now() + Duration::from_nanos(job.limit_ns);
    let exit = match program.wait(channel, end) {
        Event::Exited(exit) => exit,
        Event::Message => {
            program.terminate(TERM_LIMIT);
            ProgramExit::Stopped
        }
        Event::Late => ProgramExit::Late,
    };
    channel.send(&FromWorker::Ran(Box::new(program.end(exit))), &[])?;
    Ok(())
}

/// Runs a server until the controller says stop.
pub(super) fn serve(channel: &mut Channel, job: &ServerJob) -> Result<(), JobError> {
    prepare(&job.program)?;
    let port = free_port(job.address).map_err(JobError)?;
    let words = job.program.words.iter();
    let words: Vec<String> = words
        .map(|word| word.replace(ProgramJob::PORT, &port.to_string()))
        .collect();
    let mut program = RunningProgram::start(&words).map_err(JobError)?;
    let end = Instant::now() + Duration::from_nanos(job.program.limit_ns);
    let watch = Watch::new(&job.readiness, job.address, port);
    loop {
        match program.wait(channel, (Instant::now() + READY_POLL).min(end)) {
            Event::Late if watch.is_ready(&program) => break,
            Event::Late if Instant::now() < end => {}
            Event::Late => return Err(not_ready(program, ProgramExit::Late, &watch)),
            Event::Message => return Err(not_ready(program, ProgramExit::Stopped, &watch)),
            Event::Exited(exit) => return Err(not_ready(program, exit, &watch)),
        }
    }
    program.mark();
    channel.send(&FromWorker::Serving(port), &[])?;
    // A server that ends before its client is found by what the client says.
    let received = channel.receive::<ToWorker>(STEP_TIMEOUT * 60);
    if job.ends_itself && received.is_ok() {
        program.await_exit(OWN_END);
    }
    let exit = program.exited().unwrap_or_default();
    program.terminate(TERM_LIMIT);
    let report = program.end(exit);
    received?;
    channel.send(&FromWorker::Ran(Box::new(report)), &[])?;
    Ok(())
}

/// Affinity and priority, which the program inherits, and the charge of all that it leaves behind.
fn prepare(job: &ProgramJob) -> Result<(), JobError> {
    cpu::pin_and_renice(job.pin, job.priority).map_err(JobError)?;
    let own = Some(rustix::process::getpid());
    rustix::process::set_child_subreaper(own).map_err(|error| {
        JobError(format!(
            "cannot take charge of a program's children: {error}"
        ))
    })?;
    // Killed with its parent, the worker could not end the program. It sees its channel close instead.
    // An error leaves the signal as it was, which does no harm to a parent that lives.
    let _ = rustix::process::set_parent_process_death_signal(None);
    Ok(())
}

/// The failure of a server that is not ready.
fn not_ready(program: RunningProgram, exit: ProgramExit, watch: &Watch) -> JobError {
    let report = program.end(exit);
    let how = match exit {
        ProgramExit::Code(code) => format!("exited with code {code} before it was ready"),
        ProgramExit::Signal(signal) => format!("was ended by signal {signal} before it was ready"),
        ProgramExit::Stopped => "was stopped before it was ready".to_owned(),
        ProgramExit::Late => format!("was not ready in time: {}", watch.wanted()),
    };
    let said = output::last_lines(&[&report.errors, &report.output], LINES_SHOWN);
    JobError(format!("the server {how}{said}"))
}

/// A port that is free for TCP and for UDP at `address`.
fn free_port(address: IpAddr) -> Result<u16, String> {
    for _ in 0..PORT_TRIES {
        let listener = TcpListener::bind(SocketAddr::new(address, 0));
        let at = listener.and_then(|listener| listener.local_addr());
        let at = at.map_err(|error| format!("no port is free at {address}: {error}"))?;
        if UdpSocket::bind(at).is_ok() {
            return Ok(at.port());
        }
    }
    Err(format!("no port of {address} is free for TCP and for UDP"))
}
