//! Channels: messages between two processes of one host through memory that both map.
//!
//! A channel is a ring of slots in a sealed memfd. Its [`ChannelSender`] makes the memory and passes it over
//! a Unix socket ([`ChannelSender::open`]); its [`ChannelReceiver`] checks it and maps it ([`ChannelReceiver::accept`]).
//! The sender writes a message into slots lent to it and commits it, or copies one in by
//! [`ChannelSender::send`]; the receiver reads it where it lies, or copies it out. A message takes as
//! many slots in a row as hold it. A full ring holds the sender back, an empty one the receiver, each in
//! the way it chose as its [`Signal`]. [`open_pair`] and [`accept_pair`] set up a channel each way.
//!
//! - [`Geometry`] is how many slots of which length; [`ChannelError`] says what was refused, and the remedy.
//! - [`Arena`] is memory that several channels share: a message is written once, and passed on, to one member or
//!   to many, by its number ([`ArenaSender::pass`]).
//! - An end that polls ([`Signal::Poll`]) has a descriptor for an event loop
//!   ([`ChannelReceiver::prepare_poll`]).
//! - [`ModularSender`] and [`ModularReceiver`] add modules - order, checksums, flow control, reassembly, a user's own - that
//!   both ends name in the opening ([`Modules`]).
//! - [`PageFile`] and [`PageWindow`] show pages of another process without a copy, for those who compare the two.
//! - [`BroadcastSender`] has one ring that many [`BroadcastReceiver`]s read, each all of it; [`AnycastSender`] one whose messages
//!   [`AnycastReceiver`]s share out; [`GatherReceiver`] reads one that many [`GatherSender`]s write.
//! - [`ManyReceivers`] waits for the first of many channels: one receiver of many senders.
//! - `ends` and `opening` set a channel up and pass its segment, `sys` maps it, `ring` is the sender and
//!   the receiver, `wait` and `kernel` how they wait and how they notice that the other is gone, `sync` by what they share words.
//!
//! The socket stays open as a lifeline: when the peer dies, however it dies, the kernel hangs it up, and
//! a waiting end notices within 100 ms. Nothing has a name, so a killed process leaves no file. A
//! child that inherits a copy of the socket keeps the lifeline alive; sockets made by the standard library are
//! closed on exec.
//!
//! The peer's memory is hostile. Each end keeps its own position in private memory, reads a word of the
//! peer's once, and checks the copy; octets are copied out before anybody parses them.
//!
//! ```
//! use channel::{Geometry, ChannelReceiver, ChannelSender, Signal};
//! let (near, far) = std::os::unix::net::UnixStream::pair()?;
//! let mut sender = ChannelSender::open(near, Geometry::new(4096, 16)?, Signal::Futex)?;
//! let mut receiver = ChannelReceiver::accept(far, Signal::Futex)?;
//! sender.send(b"towline")?;
//! drop(sender);
//! assert_eq!(receiver.receive()?.unwrap().to_vec(), b"towline");
//! assert!(receiver.receive()?.is_none());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anycast;
mod arena;
mod broadcast;
mod ends;
mod error;
mod fanout;
mod gather;
mod geometry;
#[cfg(not(all(test, feature = "loom")))]
mod kernel;
#[cfg(all(test, feature = "loom"))]
#[path = "model_kernel.rs"]
mod kernel;
mod many;
mod modules;
mod opening;
#[cfg(not(all(test, feature = "loom")))]
mod pages;
mod ring;
#[cfg(all(test, not(feature = "loom")))]
mod stepped;
mod sync;
mod sys;
mod wait;

pub use anycast::{ANYCAST_RECEIVERS_MAX, Anycast, AnycastReceiver, AnycastSender, AnycastSlots};
pub use arena::{Arena, ArenaOwner, ArenaReceiver, ArenaSender, ArenaSlot, MEMBERS_MAX};
pub use broadcast::{
    BROADCAST_RECEIVERS_MAX, Broadcast, BroadcastReceiver, BroadcastSender, BroadcastSlots,
};
pub use ends::{accept_pair, open_pair};
pub use error::ChannelError;
pub use fanout::{Fanout, FanoutReceiver, FanoutSender, FanoutSlots};
pub use gather::{GatherReceiver, GatherSender, Gathered, SENDERS_MAX};
pub use geometry::{Geometry, RING_OCTETS_MAX, SLOT_LEN_MAX, SLOT_LEN_MIN};
pub use many::ManyReceivers;
pub use modules::{
    Checksum, Flow, Losses, ModularReceiver, ModularSender, Module, Modules, Order, PairModules,
    Receipt, Sent, Verdict, accept_modular_pair, open_modular_pair,
};
#[cfg(not(all(test, feature = "loom")))]
pub use pages::{Fill, PageFile, PageWindow};
pub use ring::{Arrival, ChannelReceiver, ChannelSender, LentSlots, NextMessage, ReceivedSlots};
pub use wait::Signal;
