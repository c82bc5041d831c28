//! Draws scenarios from seeds and checks the invariants: the program behind `cargo xtask swarm`.
//!
//!     swarm COUNT [FIRST]      so many seeds, from FIRST on
//!     swarm COUNTs [FIRST]     as many as there is time for: 60s
//!     swarm --unbounded [FIRST]  until it is interrupted
//!     swarm COUNT 4294967296   scenarios with transactions and layers: seeds from 2^32 on
//!     swarm COUNT 8589934592   scenarios with SCTP: seeds from 2^33 on
//!     swarm COUNT 21474836480  scenarios with SCTP over several paths: seeds from 5 * 2^32 on
//!     swarm COUNT 34359738368  scenarios with SCTP, streams, schedulers and lives: seeds from 8 * 2^32 on
//!     swarm COUNT 17179869184  scenarios with VMTP: seeds from 2^34 on
//!     swarm COUNT 47244640256  the same with streams, forwarding and groups: seeds from 11 * 2^32 on
//!     swarm COUNT 90194313216  VMTP with tries, spacing and repair: seeds from 21 * 2^32 on
//!     swarm COUNT 94489280512  scenarios with XTP to groups: seeds from 22 * 2^32 on
//!     swarm --seed SEED        one, with its scenario
//!     swarm --canary           plants a fault for each invariant; all must be found
//!
//! `--violations FILE` collects all violations, each with its scenario, as they are found; `--threads`
//! is one a processor unless given.
//!
//! Exit code 0: all invariants held. 1: one did not. 2: the run itself failed, which says nothing about
//! the engines.

mod options;
mod violations;

use options::{Run, Task};
use scenario::swarm::canary::{
    PLANTED_CALL_FAULTS, PLANTED_CALLING_FAULTS, PLANTED_FAULTS, PlantedFault, plant,
};
use scenario::swarm::{
    CALLS_AND_LAYERS, Invariant, Seeds, Tally, VMTP, VMTP_CALLINGS, Violation, check, check_many,
    check_with, draw,
};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use violations::Violations;

/// Seeds in which a planted fault must be found.
const CANARY_SEEDS: u64 = 40;

/// Time between two lines that say how far an unbounded run is.
const PROGRESS: Duration = Duration::from_secs(60);

/// An invariant did not hold.
const VIOLATED: u8 = 1;

/// The run itself failed.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match options::parse(&args) {
        Ok(Task::Canaries) => Ok(run_canaries()),
        Ok(Task::One(seed)) => Ok(run_one(seed)),
        Ok(Task::Many(run)) => run_many(&run),
        Err(wrong) => Err(format!("{wrong}\n{}", options::USAGE)),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(VIOLATED),
        Err(error) => {
            eprintln!("swarm: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Whether all invariants held.
fn run_many(run: &Run) -> Result<bool, String> {
    let started = Instant::now();
    let found = Violations::new(run.violations.as_deref())?;
    let seeds = Seeds {
        first: run.first,
        count: run.count,
        threads: run
            .threads
            .or(std::thread::available_parallelism().map(usize::from).ok())
            .unwrap_or(1),
    };
    let begun = AtomicU64::new(0);
    let minutes_shown = AtomicU64::new(0);
    let goes_on = || {
        let elapsed = started.elapsed();
        let scenarios = begun.fetch_add(1, Ordering::Relaxed);
        let minutes = elapsed.as_secs() / PROGRESS.as_secs();
        if run.time_limit.is_none() && minutes_shown.fetch_max(minutes, Ordering::Relaxed) < minutes
        {
            eprintln!("{scenarios} scenarios, {} violations", found.count());
        }
        run.time_limit.is_none_or(|time_limit| elapsed < time_limit)
    };
    let tally = check_many(seeds, &goes_on, &|violation| found.add(violation));
    let count = found.finish()?;
    print_totals(run.first, &tally, count, started.elapsed());
    Ok(count == 0)
}

fn print_totals(first: u64, tally: &Tally, violations: u64, elapsed: Duration) {
    println!(
        "{} scenarios from seed {first} on, {} messages, {} sent again, {} given up, {:.1} million \
         events, {:.1} s: {violations} violations",
        tally.scenarios + violations,
        tally.messages,
        tally.retransmissions,
        tally.given_up,
        tally.events as f64 / 1e6,
        elapsed.as_secs_f64(),
    );
}

fn run_one(seed: u64) -> bool {
    println!("{}", draw(seed));
    match check(seed) {
        Ok(tally) => {
            println!("# all invariants hold: {tally:?}");
            true
        }
        Err(violation) => {
            println!("{}", violations::describe(&violation));
            false
        }
    }
}

fn run_canaries() -> bool {
    let mut all = true;
    // A planted panic needs no message.
    std::panic::set_hook(Box::new(|_| {}));
    let circuits = PLANTED_FAULTS.map(|planted| (0, planted));
    let calls = PLANTED_CALL_FAULTS.map(|planted| (CALLS_AND_LAYERS.start, planted));
    let vmtp = PLANTED_CALL_FAULTS.map(|planted| (VMTP.start, planted));
    let callings = PLANTED_CALLING_FAULTS.map(|planted| (VMTP_CALLINGS.start, planted));
    let all_faults = circuits
        .into_iter()
        .chain(calls)
        .chain(vmtp)
        .chain(callings);
    for (first, (fault, invariants)) in all_faults {
        let mut seeds = (0..CANARY_SEEDS).map(|seed| first + seed);
        let caught = seeds.find_map(|seed| find(seed, fault, invariants));
        match &caught {
            Some(violation) => println!(
                "{fault:?}: found as {:?} with seed {}: {}",
                violation.invariant, violation.seed, violation.detail
            ),
            None => println!("{fault:?}: NOT FOUND in {CANARY_SEEDS} seeds"),
        }
        all &= caught.is_some();
    }
    all
}

fn find(seed: u64, fault: PlantedFault, invariants: &[Invariant]) -> Option<Violation> {
    let violation = check_with(seed, &|engine| plant(engine, fault)).err()?;
    invariants
        .contains(&violation.invariant)
        .then_some(violation)
}
