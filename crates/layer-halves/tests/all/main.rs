//! A layer under engines: over UDP, over a wire without room, over a path with faults in virtual
//! time.

#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod fuzz;
mod udp;
mod users;
mod virtual_time;

use engine::{Framing, SplitMix64};
use engine_xtp::{Config, Xtp};

/// Messages of every length a packet border is near to, and longer ones.
pub fn messages(seed: u64, count: usize) -> Vec<Vec<u8>> {
    let mut random = SplitMix64::new(seed);
    let message = |_| {
        let len = [1, 2, 63, 1430, 1447, 1448, 5000, 60_000][random.below(8) as usize];
        (0..len).map(|_| random.next_u64() as u8).collect()
    };
    (0..count).map(message).collect()
}

/// An engine of circuits with message boundaries.
pub fn xtp(seed: u64) -> Xtp {
    Xtp::new(Config {
        framing: Framing::Messages,
        seed,
        ..Config::default()
    })
}
