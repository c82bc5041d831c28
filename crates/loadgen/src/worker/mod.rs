//! The worker process.
//!
//! The main thread serves the control channel; each circuit has a measuring thread. A worker does
//! one job and exits when the controller closes the channel. A worker may run a program of another
//! project instead, see `program`, or load its host, see `load`.

mod cpu;
mod granted;
mod load;
pub mod program;
mod setup;
mod threads;

use crate::workload::WorkerFlags;
use crate::workload::meter::Allowance;
use crate::workload::sent_notice::SentNotice;
use crate::workload::slowdown::Slowdown;
use control::{
    ByteAccount, Channel, ChannelError, CircuitReport, FromWorker, Job, Role, ToWorker,
    WorkerReport, Workload,
};
use granted::GrantedToJob;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use threads::{BlockedReceivers, CircuitSlots};

pub use setup::library_options;

/// Timeout between two messages of the controller, whose own timeouts are shorter.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// How much longer it may take for each circuit: ten thousand take 20 s.
pub const SETUP_OF_CIRCUIT: Duration = Duration::from_millis(2);

/// Runs a worker on `socket` until the controller closes it.
pub fn main(socket: OwnedFd) {
    work(socket, Slowdown::default());
}

/// The same for a worker that sends more slowly by a share between 0 and 1, in throughput to one
/// direction: a difference that is known, by which verdicts are tested.
pub fn main_slower_by(share: f64, socket: OwnedFd) {
    work(socket, Slowdown::by(share));
}

fn work(socket: OwnedFd, slowdown: Slowdown) {
    let mut channel = Channel::new(socket);
    if let Err(failure) = serve(&mut channel, slowdown) {
        // Sending fails only when the controller has exited, which needs no handling.
        let _ = channel.send(&FromWorker::Failed(failure.0), &[]);
    }
    await_close(&mut channel);
}

/// Waits until the controller has both reports and closes the channel: circuits stay open until then, for what they sent
/// may not have left. What the controller says meanwhile, such as that the other side is done, comes too late to matter.
fn await_close(channel: &mut Channel) {
    while channel.receive::<ToWorker>(STEP_TIMEOUT).is_ok() {}
}

/// Why a job failed, as a sentence for the user.
struct JobError(String);

impl From<ChannelError> for JobError {
    fn from(error: ChannelError) -> Self {
        JobError(error.to_string())
    }
}

fn serve(channel: &mut Channel, slowdown: Slowdown) -> Result<(), JobError> {
    let (first, mut descriptors) = channel.receive::<ToWorker>(STEP_TIMEOUT)?;
    check_slowdown(&first, slowdown)?;
    match first {
        ToWorker::Listen(job) => {
            let allowance = allowance(&job, &mut descriptors)?;
            prepare(&job)?;
            let granted = GrantedToJob::take(&job, &mut descriptors).map_err(JobError)?;
            let listeners = setup::listen(&job, &granted).map_err(JobError)?;
            let (frames, descriptors) = setup::frames(&listeners).map_err(JobError)?;
            let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
            channel.send(&FromWorker::Listening(frames), &borrowed)?;
            drop(borrowed);
            // A pipe reports end of file only when all copies of its other end are closed.
            drop(descriptors);
            let mut circuits = setup::accept(&job, listeners).map_err(JobError)?;
            circuits.read_counts(&job);
            channel.send(&FromWorker::Accepted, &[])?;
            measure(channel, &job, circuits, (allowance, slowdown))
        }
        ToWorker::Connect(job, frames) => {
            let allowance = allowance(&job, &mut descriptors)?;
            prepare(&job)?;
            let granted = GrantedToJob::take(&job, &mut descriptors).map_err(JobError)?;
            let connected = setup::connect(&job, (frames, descriptors), &granted);
            let mut circuits = connected.map_err(JobError)?;
            circuits.read_counts(&job);
            channel.send(&FromWorker::Connected, &[])?;
            open_until_start(channel, &mut circuits)?;
            measure(channel, &job, circuits, (allowance, slowdown))
        }
        ToWorker::Serve(job) => program::serve(channel, &job),
        ToWorker::Run(job) => program::run(channel, &job),
        ToWorker::Load(job) => load::run(channel, job),
        _ => Err(JobError(
            "the controller began with an unexpected message".into(),
        )),
    }
}

/// Opens the circuits again at intervals until the controller sends something: it starts the trial when
/// the other side has accepted all of them.
fn open_until_start(channel: &Channel, circuits: &mut CircuitSlots) -> Result<(), JobError> {
    let end = Instant::now() + STEP_TIMEOUT;
    let interval = Timespec::try_from(setup::OPENING_INTERVAL).expect("a second is in range");
    while Instant::now() < end {
        let control = channel.descriptor();
        let mut ready = [PollFd::new(&control, PollFlags::IN)];
        match poll(&mut ready, Some(&interval)) {
            Ok(0) => setup::repeat_openings(circuits),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(JobError(std::io::Error::from(errno).to_string())),
        }
    }
    Ok(())
}

/// Refuses a planted slowdown where nothing would be slower.
fn check_slowdown(first: &ToWorker, slowdown: Slowdown) -> Result<(), JobError> {
    let slows = match first {
        ToWorker::Listen(job) | ToWorker::Connect(job, _) => {
            job.workload == Workload::Throughput && job.role != Role::Both
        }
        _ => false,
    };
    match slowdown.is_any() && !slows {
        true => Err(JobError(
            "a worker with --slower-by slows throughput in one direction and nothing else; \
             race it with -w throughput"
                .into(),
        )),
        false => Ok(()),
    }
}

/// The byte allowance of a job; its account is the last descriptor received with it.
fn allowance(job: &Job, descriptors: &mut Vec<OwnedFd>) -> Result<Option<Allowance>, JobError> {
    let Some(most) = job.allowance_bytes else {
        return Ok(None);
    };
    let account = descriptors.pop();
    let account = account.ok_or_else(|| JobError("an allowance came without an account".into()))?;
    Ok(Some(Allowance::new(most, ByteAccount::from(account))))
}

/// Sets affinity and priority first, so that helper threads inherit them; allows as many descriptors as
/// many circuits need.
fn prepare(job: &Job) -> Result<(), JobError> {
    cpu::pin_and_renice(job.pin, job.priority).map_err(JobError)?;
    setup::allow_descriptors(job);
    Ok(())
}

fn measure(
    channel: &mut Channel,
    job: &Job,
    circuits: CircuitSlots,
    (allowance, slowdown): (Option<Allowance>, Slowdown),
) -> Result<(), JobError> {
    let turns = match channel.receive::<ToWorker>(STEP_TIMEOUT)?.0 {
        ToWorker::Go(at_ns) => {
            sleep_until(at_ns);
            None
        }
        ToWorker::GoInTurns(turns) if turns.is_valid() => Some(turns),
        ToWorker::Stop => return Ok(()),
        _ => {
            return Err(JobError(
                "the controller sent an unexpected message instead of Go".into(),
            ));
        }
    };
    let before = cpu::used();
    let notice = sent_notice(job, circuits.slots.len())?;
    let flags = WorkerFlags::new(allowance).in_turns(turns).slowed(slowdown);
    let flags = Arc::new(flags.noticed(notice));
    let (done_receiver, done_sender) =
        UnixStream::pair().map_err(|error| JobError(error.to_string()))?;
    let wakers = BlockedReceivers::of(&circuits, job);
    let running = threads::start(circuits, job, &flags, done_sender);
    channel.send(&FromWorker::Running, &[])?;
    let announced = relay_control(channel, &flags, &done_receiver, &wakers)?;
    let (reports, circuits) = running.join();
    if !announced {
        let sent = reports.iter().map(|report| report.sent).sum();
        channel.send(&FromWorker::SourceDone(sent), &[])?;
    }
    let report = WorkerReport {
        effective: cpu::effective(&reports),
        cpu: cpu::since(&before, &reports),
        moved_bytes: flags.allowance().map_or(0, Allowance::moved_bytes),
        circuits: reports,
    };
    channel.send(&FromWorker::Finished(Box::new(report)), &[])?;
    // Circuits close at exit of the process: a transport may still have to retransmit packets.
    std::mem::forget(circuits);
    Ok(())
}

/// Largest start delay: hosts that start together agree on a time a few round trips ahead.
const START_DELAY_MAX_NS: u64 = 5_000_000_000;

fn sleep_until(at_ns: u64) {
    let left_ns = at_ns.saturating_sub(crate::clock::now_ns());
    std::thread::sleep(Duration::from_nanos(left_ns.min(START_DELAY_MAX_NS)));
}

/// The notice of loops that receive until the other side has sent all, which therefore say it of theirs.
fn sent_notice(job: &Job, loops: usize) -> Result<Option<SentNotice>, JobError> {
    let notice = (job.role == Role::Both).then(|| SentNotice::new(loops));
    notice
        .transpose()
        .map_err(|error| JobError(error.to_string()))
}

/// What a worker's control thread waits for.
enum ControlEvent {
    /// All threads are done.
    Done,
    /// All loops have sent all.
    Sent,
    /// The controller sent a message.
    Message,
}

/// Relays controller messages to the threads until all threads are done, and sends `SourceDone` when those
/// of [`sent_notice`] have sent all; whether it did.
fn relay_control(
    channel: &mut Channel,
    flags: &WorkerFlags,
    done_receiver: &UnixStream,
    wakers: &BlockedReceivers,
) -> Result<bool, JobError> {
    let mut notice = flags.sent_notice();
    loop {
        match await_event(channel, done_receiver, notice)? {
            ControlEvent::Done => return Ok(flags.sent_notice().is_some() && notice.is_none()),
            ControlEvent::Sent => {
                let sent = notice.take().map_or(0, SentNotice::sent);
                channel.send(&FromWorker::SourceDone(sent), &[])?;
            }
            ControlEvent::Message => {
                match channel.receive::<ToWorker>(STEP_TIMEOUT) {
                    Ok((ToWorker::PeerDone(sent), _)) => flags.set_peer_done(sent),
                    Ok(_) => flags.stop(),
                    Err(error) => {
                        flags.stop();
                        return Err(error.into());
                    }
                }
                wakers.wake();
            }
        }
    }
}

fn await_event(
    channel: &Channel,
    done_receiver: &UnixStream,
    notice: Option<&SentNotice>,
) -> Result<ControlEvent, JobError> {
    let control = channel.descriptor();
    let mut ready = vec![
        PollFd::new(done_receiver, PollFlags::IN),
        PollFd::new(&control, PollFlags::IN),
    ];
    ready.extend(notice.map(|notice| PollFd::new(notice, PollFlags::IN)));
    loop {
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(JobError(std::io::Error::from(errno).to_string())),
        }
        let first = ready.iter().position(|one| !one.revents().is_empty());
        match first {
            Some(0) => return Ok(ControlEvent::Done),
            Some(1) => return Ok(ControlEvent::Message),
            Some(_) => return Ok(ControlEvent::Sent),
            None => {}
        }
    }
}

/// An empty report of a circuit that could not be measured.
fn failed(component: String, error: String) -> CircuitReport {
    CircuitReport {
        transport: component,
        error: Some(error),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty milliseconds are enough for a worker that takes the message for its end.
    #[test]
    fn circuits_stay_open_when_word_of_the_other_side_comes_late() {
        let (own, other) = UnixStream::pair().expect("a pair of sockets");
        let mut controller = Channel::new(own.into());
        let mut channel = Channel::new(other.into());
        let waiting = std::thread::spawn(move || await_close(&mut channel));
        let late = ToWorker::PeerDone(5);
        controller.send(&late, &[]).expect("a worker that waits");
        std::thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished(), "it ended with the message");
        drop(controller);
        waiting.join().expect("it ends with the channel");
    }
}
