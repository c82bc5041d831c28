//! Workers of several pairs, or of two hosts that both send, start at one time.

use super::{TrialError, WorkerPair, await_running, send};
use control::ToWorker;

/// Lead time of an agreed start, besides the path delay, ns.
const START_LEAD_NS: u64 = 5_000_000;

/// Starts all workers at an agreed time, far enough ahead for every `Go` to arrive.
pub(super) fn start_together(pairs: &mut [WorkerPair<'_>]) -> Result<(), TrialError> {
    let delays = pairs.iter().map(|pair| pair.jobs.listener.path_delay_ns);
    let at_ns = loadgen::clock::now_ns() + START_LEAD_NS + 2 * delays.max().unwrap_or(0);
    for pair in pairs.iter_mut() {
        let clocks = pair.jobs.clocks;
        for (worker, side) in [(&mut pair.connector, 0), (&mut pair.listener, 1)] {
            let theirs_ns = at_ns.saturating_add_signed(clocks.offset_ns(side));
            send(worker, &ToWorker::Go(theirs_ns), &[])?;
        }
    }
    for pair in pairs {
        await_running(&mut pair.connector, pair.stop)?;
        await_running(&mut pair.listener, pair.stop)?;
    }
    Ok(())
}
