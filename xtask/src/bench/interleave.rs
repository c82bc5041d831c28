//! Two races at once that run in turn, a slice each, while the other one stands still.
//!
//! A machine shared with others changes its pace by a quarter several times a second. Two trials one
//! after the other see different machines; two that take turns of 20 ms see the same one: half of
//! the ratios of delays then lie within 2 % of their median, instead of 10 %. A stopped race does
//! nothing at all: its client, its workers and the agent that serves it stand still together.

use super::trial_runner::{RunningTrial, process_tree};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// How long one race runs before the other one does: many turns a trial, and few against what a
/// message takes.
const SLICE: Duration = Duration::from_millis(20);

/// How long two short races may take.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// A race, and who works for it without being its child.
pub struct InterleavedRace {
    /// The race.
    pub race: RunningTrial,
    /// The first process of another family that belongs to it: an agent.
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
            // One that has ended meanwhile needs no signal.
            let _ = pid.map(|pid| kill_process(pid, signal));
        }
    }
}

/// Runs both to their ends.
///
/// # Errors
///
/// When they do not end, which ends them.
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
    Err(format!("not over after {} s", TIME_LIMIT.as_secs()))
}
