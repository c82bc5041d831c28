//! Virtual time: the same pump and the same engines as on a real wire, over modelled links.
//!
//! * [`queue`] - events in a total order: time, then priority, then the order they were made in.
//! * [`station`] - a wire whose packets go to the simulator instead of a kernel.
//! * [`world`] - two stations, a link in each direction, one clock in picoseconds.
//!
//! Nothing here reads a clock or draws from a global source: a seed and a scenario decide every
//! event, and a run repeats byte for byte.
#![forbid(unsafe_code)]

pub mod queue;
pub mod station;
pub mod world;

pub use queue::EventQueue;
pub use station::StationWire;
pub use world::{TraceLine, World};
