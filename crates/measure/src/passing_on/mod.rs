//! What it costs to hand a message on: to a third process with no copy, two and four, and to a second one by remapping
//! its pages or by copying them; and to many at once.
//!
//! The other processes are this program again: [`Stage`] is what one of them does, [`Stage::run`] does it. `forward`,
//! `remap` and `disseminate` are this process's part, `source` numbers messages and times them, `stage` starts the others.

mod disseminate;
mod forward;
mod links;
mod remap;
mod source;
mod stage;

pub use disseminate::{Carrier, DisseminateTurn};
pub use forward::{Copies, ForwardTurn};
pub use remap::{RemapTurn, Way};
pub use stage::Stage;

use crate::segmentation::shuffle;
use random::SplitMix64;
use serde::Serialize;
use std::io;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

/// Octets of messages that can be forwarded: a number at least, and no more than a socket's buffer holds.
pub const FORWARDED_LENS: RangeInclusive<usize> = 8..=65_536;

/// Octets of messages whose pages can be remapped, in whole pages.
pub const REMAPPED_LEN_MAX: usize = 16 << 20;

/// What is measured: each way with each length.
#[derive(Clone, Debug)]
pub struct PassingPlan {
    /// The program that runs as the other processes, by `channel stage`.
    pub program: PathBuf,
    /// Octets of messages.
    pub sizes: Vec<usize>,
    /// Times that each is measured, in random order.
    pub blocks: u32,
    /// How long each time.
    pub turn: Duration,
    /// The order follows from it.
    pub seed: u64,
}

/// What each turn has, whatever it measures.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TurnTime {
    /// Octets of a message.
    pub size: usize,
    /// From 1.
    pub block: u32,
    /// Microseconds a message until all that are to have it do, several being under way.
    pub message_us: f64,
    /// Messages a second.
    pub messages_per_s: f64,
}

impl TurnTime {
    fn new(size: usize, block: u32, message_us: f64) -> TurnTime {
        TurnTime {
            size,
            block,
            message_us,
            messages_per_s: 1e6 / message_us,
        }
    }
}

/// Measures messages forwarded by a process in the middle; `each` gets a turn when it is over.
///
/// # Errors
///
/// A process that does not start, or ends before it should.
pub fn forward(plan: &PassingPlan, mut each: impl FnMut(&ForwardTurn)) -> io::Result<()> {
    in_turns(plan, &Copies::ALL, |copies, size, block| {
        each(&forward::turn(plan, copies, size, block)?);
        Ok(())
    })
}

/// Measures messages whose pages the receiver remaps or copies; `each` gets a turn when it is over.
/// Errors are those of [`forward()`].
pub fn remap(plan: &PassingPlan, mut each: impl FnMut(&RemapTurn)) -> io::Result<()> {
    in_turns(plan, &Way::ALL, |way, size, block| {
        each(&remap::turn(plan, way, size, block)?);
        Ok(())
    })
}

/// Measures messages of which each of `receivers` processes gets each; `each` gets a turn when it is over.
/// Errors are those of [`forward()`].
pub fn disseminate(
    plan: &PassingPlan,
    receivers: u32,
    mut each: impl FnMut(&DisseminateTurn),
) -> io::Result<()> {
    in_turns(plan, &Carrier::ALL, |carrier, size, block| {
        each(&disseminate::turn(plan, receivers, carrier, (size, block))?);
        Ok(())
    })
}

/// Each way with each length, in each block in another order.
fn in_turns<T: Copy>(
    plan: &PassingPlan,
    ways: &[T],
    mut turn: impl FnMut(T, usize, u32) -> io::Result<()>,
) -> io::Result<()> {
    let mut random = SplitMix64::new(plan.seed);
    let cases = ways
        .iter()
        .flat_map(|way| plan.sizes.iter().map(move |size| (*way, *size)));
    let mut cases: Vec<(T, usize)> = cases.collect();
    for block in 1..=plan.blocks {
        shuffle(&mut cases, &mut random);
        for &(way, size) in &cases {
            turn(way, size, block)?;
        }
    }
    Ok(())
}
