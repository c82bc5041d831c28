//! The pump: what feeds an engine from a wire and a clock.
//!
//! Only this crate knows both an [`engine::Protocol`] and a [`wire::Wire`].
//!
//! * [`pump`] - the loop body: packets and deadlines in, batches out. It reads no clock, so the
//!   simulator drives it in virtual time and [`endpoint`] in real time.
//! * [`endpoint`] - an engine under a blocking user: the user's thread writes messages into a ring
//!   without a lock and runs the pump once a batch; a helper thread runs it while the user is
//!   elsewhere, so acknowledgements and timers go on.
//! * [`circuit`] - what the user holds: send, receive, flush, wait.
//! * [`watch`] - all circuits of an endpoint on one descriptor, for a user's own loop.
//! * [`inbox`] - bytes that arrived, kept where the wire put them until the user takes them.
//! * [`lent`] - buffers that are sent from where they lie, and lent until the peer has them.
//! * `shared`, `helper`, `sleepers` - the lock, the helper thread, and how a thread that took in an
//!   arrival wakes the one it was for.
//! * `circuits`, `arrivals`, `parcel` - what the pump keeps for each circuit, what an arrival
//!   brought, and small packets that leave together.
//! * `turns` - who has memory to send from when very many do.
//! * `sys/` - the send store, shared by one producer and one consumer; the crate's only unsafe
//!   code.

pub mod circuit;
mod circuit_state;
mod coalesce;
mod demultiplex;
pub mod endpoint;
mod helper;
pub mod lend;
mod permits;
pub mod pump;
pub mod receive_queue;
mod shared;
pub mod sys;
mod wait_list;
pub mod watch;

pub use circuit::Circuit;
pub use circuit_state::CircuitStatus;
pub use endpoint::{Endpoint, EndpointObserver};
pub use pump::Pump;
pub use watch::Watch;
