//! Models of a medium: when, whether and how often a frame arrives.
//!
//! A [`Link`] is one direction of a path: a rate with a byte-limited drop-tail queue in front, a
//! propagation delay, and impairments (loss, duplication, reordering, corruption). For each frame
//! offered it returns the arrival times. It moves no bytes and reads no clock, so the simulator and
//! an emulator paced by a real clock use the same code.
//!
//! * [`config`] - configuration of a direction: rate, delay, queue, impairments.
//! * [`direction`] - the model: a frame in, its outcome out.
//! * [`mod@ether`] - a cable shared by any number of stations: CSMA/CD.
//! * [`fddi`] - a ring shared by the timed token protocol.
//! * [`path`] - both directions, and their changes over time.
//! * [`queue`] - events in a total order: time, then priority, then insertion.
//! * [`parse`] - a path as a user writes it: `rate=10mbit,delay=5ms,loss=1%`.
//!
//! Times are picoseconds. The random draws of frame i are a function of (seed, direction, i) alone,
//! so the same frame is lost whatever else changes.
#![forbid(unsafe_code)]

pub mod config;
pub mod direction;
pub mod ether;
pub mod fddi;
pub mod parse;
pub mod path;
pub mod queue;

pub use config::{GilbertElliott, LinkConfig, PS_PER_S};
pub use direction::{FrameOutcome, Link, LinkCounters};
pub use ether::{
    Ether, EtherConfig, EtherCounters, EtherDestination, EtherEvent, EtherFrame, EtherTime,
};
pub use fddi::{Fddi, FddiConfig};
pub use parse::PathError;
pub use path::{Path, PathChange};
pub use queue::EventQueue;
