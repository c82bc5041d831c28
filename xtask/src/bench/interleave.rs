//! Interleaves two races in time slices: one runs while the other is stopped.
//!
//! The speed of a shared machine varies by 25 % several times per second, so that consecutive
//! trials see different conditions. Trials interleaved in slices of 20 ms see the same: half of the
//! ratios of delays then lie within 2 % of their median, instead of 10 %. SIGSTOP stops a race
//! completely: its client, its workers and its agent.

use super::trial_runner::{RunningTrial, process_tree};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// Time slice of a race: many slices per trial, and much longer than a message.
const SLICE: Duration = Duration::from_millis(20);

/// Timeout of two interleaved races.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A race, and its agent, which is not its child process.
pub struct InterleavedRace {
    /// The race.
    pub race: RunningTrial,
    /// The agent's process.
    pub agent_pid: Option<u32>,
}

impl InterleavedRace {
    fn processes(&self) -> Vec<u32> {
        let families = [Some(self.race.id()), self.agent_pid];
        families
            .into_iter()
            .flatten()
            .flat_map(process_tree)
            .collect()
    }

    fn signal(&self, signal: Signal) {
        for id in self.processes() {
            let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
            // A process may have ended meanwhile.
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
    }
}

/// Runs both to completion.
///
/// # Errors
///
/// On timeout; both are then killed.
pub fn run(sides: &mut [InterleavedRace; 2]) -> Result<(), String> {
    let began = Instant::now();
    let mut turn = 0;
    let mut over = [false; 2];
    while over != [true; 2] && began.elapsed() < TIME_LIMIT {
        if !over[turn] {
            sides[1 - turn].signal(Signal::STOP);
            sides[turn].signal(Signal::CONT);
            std::thread::sleep(SLICE);
        }
        over[turn] = over[turn] || sides[turn].race.has_ended()?;
        turn = 1 - turn;
    }
    for side in sides.iter_mut() {
        side.signal(Signal::CONT);
        side.race.end();
    }
    if over == [true; 2] {
        return Ok(());
    }
    Err(format!("not finished after {} s", TIME_LIMIT.as_secs()))
}
