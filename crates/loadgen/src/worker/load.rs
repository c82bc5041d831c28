//! A load of a host in threads of a worker, which neither writes files nor starts programs.
//!
//! Each copy does processor work and copies memory in turn, in rounds of some milliseconds. It is nicer than what is
//! measured beside it, so that it takes a part of a processor and not all of it.

use super::{JobError, STEP_TIMEOUT};
use control::{Channel, FromWorker, LoadJob, LoadReport, ToWorker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, setpriority_process};
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nice value of a load: it weighs a third of a process that has none.
const NICE: i32 = 5;

/// Rounds of the xorshift generator in a run of processor work: about 2 ms at 3 GHz.
const ROUNDS: u64 = 1_000_000;

/// Non-zero seed of that generator (Marsaglia 2003).
const SEED: u64 = 88_172_645_463_325_252;

/// Octets of a copy of memory: more than a second-level cache holds, twice.
const MEMORY_LEN: usize = 8 << 20;

/// What the copies of a load have done.
#[derive(Default)]
struct Progress {
    is_over: AtomicBool,
    cpu_runs: AtomicU64,
    memory_runs: AtomicU64,
}

/// Runs a load until the controller says `Stop`, or its time is over, and reports on it.
pub(super) fn run(channel: &mut Channel, job: LoadJob) -> Result<(), JobError> {
    // Below the highest nice value this fails for nobody; where it does, the load is not nicer.
    let _ = setpriority_process(None::<Pid>, NICE);
    let before = host::TaskCpu::of_self();
    let progress = Arc::<Progress>::default();
    let copies = start(job.copies, &progress);
    let copies = copies.map_err(|error| JobError(format!("no thread for a load: {error}")))?;
    channel.send(&FromWorker::Running, &[])?;
    wait_for_message(channel, Duration::from_nanos(job.time_ns));
    progress.is_over.store(true, Ordering::Relaxed);
    for copy in copies {
        // A panic there was already printed.
        let _ = copy.join();
    }
    channel.receive::<ToWorker>(STEP_TIMEOUT)?;
    let used = host::TaskCpu::of_self() - before;
    let report = LoadReport {
        cpu_runs: progress.cpu_runs.load(Ordering::Relaxed),
        memory_runs: progress.memory_runs.load(Ordering::Relaxed),
        cpu_ns: (used.task_s * 1e9) as u64,
    };
    Ok(channel.send(&FromWorker::Loaded(report), &[])?)
}

fn start(copies: u32, progress: &Arc<Progress>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let copy = |_| {
        let progress = Arc::clone(progress);
        std::thread::Builder::new().spawn(move || work(&progress))
    };
    let started: std::io::Result<Vec<_>> = (0..copies).map(copy).collect();
    started.inspect_err(|_| progress.is_over.store(true, Ordering::Relaxed))
}

fn work(progress: &Progress) {
    let (from, mut to) = (vec![1u8; MEMORY_LEN], vec![0u8; MEMORY_LEN]);
    let mut number = SEED;
    while !progress.is_over.load(Ordering::Relaxed) {
        for _ in 0..ROUNDS {
            number ^= number << 13;
            number ^= number >> 7;
            number ^= number << 17;
        }
        number = black_box(number);
        progress.cpu_runs.fetch_add(1, Ordering::Relaxed);
        to.copy_from_slice(black_box(&from));
        black_box(&mut to);
        progress.memory_runs.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits for a message of the controller, or its end, up to `limit`.
fn wait_for_message(channel: &Channel, limit: Duration) {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let span = Timespec::try_from(left).expect("the time of a load is bounded");
        let control = channel.descriptor();
        match poll(&mut [PollFd::new(&control, PollFlags::IN)], Some(&span)) {
            Err(rustix::io::Errno::INTR) => {}
            _ => return,
        }
    }
}
