//! The contract between a protocol and its host.
//!
//! An *engine* is a sans-I/O transport protocol: it has no socket, clock, thread or random source.
//! Packets, commands and the time come in; packets, events and the next timeout come out. The same
//! engine runs under a blocking user on a real wire and in the simulator in virtual time, and sends
//! the same octets.
//!
//! Where to start reading:
//!
//! * [`contract`] - the [`Engine`] trait: the order of calls, and what each may change.
//! * [`batch`] - what an engine gives to a wire: up to n segments of equal size to one destination.
//! * [`record`] - how messages share packets: fragments that are readable without other packets.
//! * [`checksum`] - the Internet checksum, and how a host adds user bytes to it.
//! * [`time`], [`timer`], [`random`], [`counters`] - the small parts every protocol needs.
//!
//! User bytes do not pass through an engine on their way out. The user writes them into a *send
//! store* owned by the host (a ring, see crate `driver`); the engine names them by position, and
//! the host gathers header and bytes when it calls the wire.
#![forbid(unsafe_code)]

pub mod batch;
mod boxed;
pub mod checksum;
pub mod contract;
pub mod counters;
pub mod random;
pub mod record;
pub mod time;
pub mod timer;

pub use batch::{Batch, Segment};
pub use contract::{
    Address, AssociationId, Bytes, CloseReason, CommandError, Delivery, Engine, Event, Framing,
    PacketLen, SegmentLayout,
};
pub use counters::Counters;
pub use random::SplitMix64;
pub use time::Instant;
pub use timer::TimerTable;
