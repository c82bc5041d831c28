//! The contract between a protocol and the world.
//!
//! An *engine* is a transport protocol with nothing around it: no socket, no clock, no thread, no
//! random source. Packets, commands and the time come in; packets, events and the next deadline
//! come out. The same engine therefore runs under a blocking user on a real wire and inside the
//! simulator in virtual time, byte for byte alike.
//!
//! Where to start reading:
//!
//! * [`contract`] - the [`Engine`] trait: the order of calls, and what each may change.
//! * [`batch`] - what an engine hands to a wire: up to n equal segments to one destination.
//! * [`record`] - how messages share packets: fragments that each packet can explain alone.
//! * [`checksum`] - the Internet checksum, and how a host adds user bytes to it.
//! * [`time`], [`timer`], [`random`], [`counters`] - the small parts every protocol needs.
//!
//! User bytes never pass through an engine on their way out. The user writes them into a *send
//! store* owned by the host (a ring, see crate `driver`); the engine names them by position, and
//! the host gathers header and bytes when it calls the wire.
#![forbid(unsafe_code)]

pub mod batch;
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
