//! Two races at once that run in turn, a slice each, while the other one stands still.
//!
//! A machine shared with others changes its pace by a quarter several times a second. Two trials one
//! after the other see different machines; two that take turns of 20 ms see the same one: half of
//! the ratios of delays then lie within 2 % of their median, instead of 10 %. A stopped race does
//! nothing at all: its client, its workers and the agent that serves it stand still together.

use super::ours::{Running, family_of};
use rustix::process::{Pid, Signal, kill_process};
use std::time::{Duration, Instant};

/// How long one race runs before the other one does: many turns a trial, and few against what a
/// message takes.
const SLICE: Duration = Duration::from_millis(20);

/// How long two short races may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A race, and who works for it without being its child.
pub struct Side {
    /// The race.
    pub race: Running,
    /// The first process of another family that belongs to it: an agent.
    pub servant: Option<u32>,
}

impl Side {
    fn processes(&self) -> Vec<u32> {
        let families = [Some(self.race.id()), self.servant];
        families.into_iter().flatten().flat_map(family_of).collect()
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
pub fn run(sides: &mut [Side; 2]) -> Result<(), String> {
    let began = Instant::now();
    let mut turn = 0;
    let mut over = [false; 2];
    while over != [true; 2] && began.elapsed() < LIMIT {
        if !over[turn] {
            sides[1 - turn].signal(Signal::STOP);
            sides[turn].signal(Signal::CONT);
            std::thread::sleep(SLICE);
        }
        over[turn] = over[turn] || sides[turn].race.is_over()?;
        turn = 1 - turn;
    }
    for side in sides.iter_mut() {
        side.signal(Signal::CONT);
        side.race.end();
    }
    if over == [true; 2] {
        return Ok(());
    }
    Err(format!("not over after {} s", LIMIT.as_secs()))
}
