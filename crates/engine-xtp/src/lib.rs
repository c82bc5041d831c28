//! The Xpress Transport Protocol as pure engines: between two parties, and in [`group`]s. 4.0, and
//! 3.3, 3.5 and 3.6 as far as they are known.
//!
//! XTP separates what other protocols tie together: whether losses are repaired, how flow is
//! controlled, how fast to send and when to ask for the receiver's state are choices of the
//! sender, made with option bits in each packet. The receiver mostly answers. The formats are
//! those of XTP 4.0; what its published descriptions leave open is decided in
//! `docs/decisions/0007-xtp-behaviour.md` and, for groups, `0009-xtp-multicast.md`. An older
//! revision is a matter of [`Config::dialect`], and decided in `0008-xtp-3x.md`.
//!
//! A walk through the rooms, which are the same in every engine:
//!
//! * [`api`] - configuration with the reason of each default.
//! * [`association`] - the engine itself; it only dispatches.
//! * `state`, `table`, `shared` - what one association remembers, how packets find it by key, and
//!   what all share.
//! * `procedure/` - one file a procedure: `setup`, `send`, `receive`, `request` (what a sender
//!   asks), `reply` (what a receiver answers), `report` (what the sender makes of it), `close`.
//! * `tx/`, `rx/` - the parts of either direction: round-trip time, rate, congestion, message ends;
//!   bytes that came early.
//! * [`group`] - one sender and any number of receivers, an engine of its own.
//! * `view` - what associations are doing, for people to look at.
//! * [`pdu`] - the packets, as octets and as meaning.
//!
//! Positions of the send store are the sequence numbers on the wire: 64 bits, from 0.
#![forbid(unsafe_code)]

pub mod config;
mod context;
mod context_table;
pub mod endpoint;
mod endpoint_state;
pub mod group;
mod introspection;
mod numbers;
pub mod pdu;
mod peer_index;
mod procedure;
mod ready_queue;
pub mod router;
mod routes;
mod rx;
mod slot_index;
mod tx;

pub use config::{
    CloseState, Config, Congestion, ErrorControl, FlowControl, Holdings, RateLimit, SpanMeaning,
    StatusRequestKind,
};
pub use endpoint::Xtp;
pub use introspection::{AssociationState, AssociationView, ReceivingView, SendingView};
pub use router::{Router, RouterConfig};
