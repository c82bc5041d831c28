//! Many seeds on several threads.

use super::check::{Tally, Violation, check};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Seeds to check, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// The first seed.
    pub first: u64,
    /// How many; `u64::MAX` for no limit. The seed after the last of 64 bits is 0.
    pub count: u64,
    /// Threads that check them, at least one.
    pub threads: usize,
}

/// Checks `seeds` as long as `goes_on` says so, which is asked before each of them. `report` gets each
/// violation as soon as it is found, by the thread that found it. Returns the totals of the scenarios
/// whose invariants held.
pub fn check_many(
    seeds: Seeds,
    goes_on: &(dyn Fn() -> bool + Sync),
    report: &(dyn Fn(Violation) + Sync),
) -> Tally {
    let next = AtomicU64::new(0);
    let total = Mutex::new(Tally::default());
    let work = || {
        let mut tally = Tally::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= seeds.count || !goes_on() {
                break;
            }
            match check(seeds.first.wrapping_add(index)) {
                Ok(held) => tally += held,
                Err(violation) => report(violation),
            }
        }
        if let Ok(mut total) = total.lock() {
            *total += tally;
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..seeds.threads.max(1) {
            scope.spawn(work);
        }
    });
    total.into_inner().unwrap_or_default()
}
