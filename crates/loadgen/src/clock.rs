//! The one clock of the measuring loops.

use rustix::time::{ClockId, clock_gettime};

/// CLOCK_MONOTONIC in ns: the same for all processes of a host, read without entering the kernel.
#[inline]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
