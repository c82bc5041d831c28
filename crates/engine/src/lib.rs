//! The contract between a protocol and its host.
//!
//! An *engine* is a sans-I/O transport protocol: it has no socket, clock, thread or random source.
//! Packets, commands and the time come in; packets, events and the next timeout come out. The same
//! engine runs under a blocking user on a real wire and in the simulator in virtual time, and sends
//! the same octets.
//!
//! Where to start reading:
//!
//! * [`protocol`] - the half of an engine that faces the network: the order of calls.
//! * [`associations`], [`transactions`], [`router`] - the halves that face users.
//! * [`layer`] - what lies below a protocol: packets to frames and back.
//! * [`address`], [`note`], [`call_note`], [`delivery`] - what goes in and out: packets of a path, what travels with
//!   a message, what arrived.
//! * [`batch`] - what an engine hands to a wire: up to n packets of parts, all of one path.
//! * [`record`] - how messages share packets: fragments that each packet can explain alone.
//! * [`checksum`] - the checks of packets, and how a host adds user bytes to them.
//! * [`secret`], [`keyed`] - what an engine knows and a peer must not guess, and numbers that follow
//!   from it.
//! * [`time`], [`timer`], [`few_map`], [`ranges`], [`SplitMix64`], [`counters`] - the small parts every protocol needs.
//! * [`forward!`], [`forward_protocol!`], [`forward_associations!`] - methods that a wrapper forwards to what it wraps.
//! * [`test_kit`] - what tests and fuzzers do without a host: take packets from an engine, and give it one.
//! * `sys/` - instructions of the processor, for checksums and to prefetch memory; the crate's only unsafe code.
//!
//! User bytes do not pass through an engine on their way out. The user writes them into a *send
//! store* owned by the host (a ring, see crate `driver`); the engine names them by position, and
//! the host gathers header and bytes when it calls the wire.
#![deny(unsafe_code)]

pub mod address;
pub mod associations;
pub mod batch;
mod boxed;
pub mod call_note;
pub mod checksum;
pub mod counters;
pub mod delivery;
pub mod few_map;
mod forward;
pub mod keyed;
pub mod layer;
pub mod note;
pub mod protocol;
pub mod ranges;
pub mod record;
pub mod router;
pub mod secret;
mod sys;
pub mod test_kit;
pub mod time;
pub mod timer;
pub mod transactions;

pub use address::{Address, Ecn, LocalAddress, Path, PathError, PathFault, Received};
pub use associations::{
    AssociationId, Associations, AssociationsExt, Close, CommandError, Layout, Status, submit_each,
};
pub use batch::{Batch, Fragmentation, Integrity, Packet, PacketBuilder, Part, Seal, Store};
pub use call_note::{CallFlags, CallNote};
pub use counters::Counters;
pub use delivery::{
    AbandonedMessage, Block, Bytes, CloseReason, Deliveries, Delivery, Event, WholeMessages,
};
pub use few_map::FewMap;
pub use keyed::{KeyedStream, Purpose, siphash};
pub use layer::{Frames, Layer, LayerMisfit};
pub use note::{Note, NoteFields, Reliability, SendFlags};
pub use protocol::{Framing, PacketLen, Properties, Protocol};
pub use random::SplitMix64;
pub use ranges::RangeSet;
pub use router::Router;
pub use secret::Secret;
pub use sys::prefetch;
pub use time::Instant;
pub use timer::TimerTable;
pub use transactions::{
    EntityId, IncomingMessage, OutgoingMessage, TransactionEnd, TransactionEvent, TransactionId,
    Transactions,
};
