//! Draws scenarios from seeds and checks the invariants: the program behind `cargo xtask swarm`.
//!
//!     swarm COUNT [FIRST]   so many seeds, from FIRST on
//!     swarm COUNTs [FIRST]  as many as there is time for: 60s
//!     swarm COUNT 4294967296   scenarios with transactions and layers: seeds from 2^32 on
//!     swarm COUNT 8589934592   scenarios with SCTP: seeds from 2^33 on
//!     swarm --seed SEED     one, with its scenario
//!     swarm --canary        plants a fault for each invariant; all must be found

use scenario::swarm::canary::{PLANTED_CALL_FAULTS, PLANTED_FAULTS, PlantedFault, plant};
use scenario::swarm::{CALLS_AND_LAYERS, Tally, Violation, check, check_with, draw};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Seeds in which a planted fault must be found.
const CANARY_SEEDS: u64 = 40;

/// Violations shown in full.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["--canary"] => run_canaries(),
        ["--seed", seed] => match seed.parse() {
            Ok(seed) => run_one(seed),
            Err(_) => usage(),
        },
        [] => run_many(2000, None, 0),
        [amount] => run_amount(amount, "0"),
        [amount, first] => run_amount(amount, first),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("usage: swarm [COUNT | SECONDSs] [FIRST] | --seed SEED | --canary");
    ExitCode::from(2)
}

fn run_amount(amount: &str, first: &str) -> ExitCode {
    let Ok(first) = first.parse() else {
        return usage();
    };
    if let Some(seconds) = amount.strip_suffix('s') {
        return match seconds.parse() {
            Ok(seconds) => run_many(u64::MAX, Some(Duration::from_secs(seconds)), first),
            Err(_) => usage(),
        };
    }
    match amount.parse() {
        Ok(count) => run_many(count, None, first),
        Err(_) => usage(),
    }
}

fn run_many(count: u64, time_limit: Option<Duration>, first: u64) -> ExitCode {
    let started = Instant::now();
    let next = AtomicU64::new(0);
    let found = Mutex::new((Tally::default(), Vec::<Violation>::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let is_over =
                        time_limit.is_some_and(|time_limit| started.elapsed() >= time_limit);
                    if index >= count || is_over {
                        return;
                    }
                    let result = check(first.wrapping_add(index));
                    if let Ok(mut found) = found.lock() {
                        match result {
                            Ok(tally) => found.0 += tally,
                            Err(violation) => found.1.push(violation),
                        }
                    }
                }
            });
        }
    });
    let (tally, mut violations) = found.into_inner().unwrap_or_default();
    violations.sort_by_key(|violation| violation.seed);
    for violation in violations.iter().take(SHOWN) {
        print_violation(violation);
    }
    println!(
        "{} scenarios from seed {first} on, {} messages, {} sent again, {} given up, {:.1} million \
         events, {:.1} s: {} violations",
        tally.scenarios + violations.len() as u64,
        tally.messages,
        tally.retransmissions,
        tally.given_up,
        tally.events as f64 / 1e6,
        started.elapsed().as_secs_f64(),
        violations.len()
    );
    exit(violations.is_empty())
}

fn print_violation(violation: &Violation) {
    println!(
        "seed {}: {:?}: {}\n    again: cargo xtask swarm --seed {}",
        violation.seed, violation.invariant, violation.detail, violation.seed
    );
}

fn run_one(seed: u64) -> ExitCode {
    println!("{}", draw(seed));
    match check(seed) {
        Ok(tally) => {
            println!("# all invariants hold: {tally:?}");
            ExitCode::SUCCESS
        }
        Err(violation) => {
            print_violation(&violation);
            ExitCode::FAILURE
        }
    }
}

fn run_canaries() -> ExitCode {
    let mut all = true;
    // A planted panic needs no message.
    std::panic::set_hook(Box::new(|_| {}));
    let circuits = PLANTED_FAULTS.map(|planted| (0, planted));
    let calls = PLANTED_CALL_FAULTS.map(|planted| (CALLS_AND_LAYERS.start, planted));
    for (first, (fault, invariants)) in circuits.into_iter().chain(calls) {
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
    exit(all)
}

fn find(
    seed: u64,
    fault: PlantedFault,
    invariants: &[scenario::swarm::Invariant],
) -> Option<Violation> {
    let violation = check_with(seed, &|engine| plant(engine, fault)).err()?;
    invariants
        .contains(&violation.invariant)
        .then_some(violation)
}

fn exit(good: bool) -> ExitCode {
    match good {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
