//! Connects an engine to a wire and a clock.
//!
//! Only this crate knows both an [`engine::Protocol`] and a [`wire::Wire`]. The path of a message:
//!
//! ```text
//! Circuit::try_send      copies it into the send store (sys/producer.rs), without a lock
//! submit_and_flush       takes the lock of the pump (circuit.rs)
//! Pump::submit_pending   tells the engine how far the store is filled: Associations::submit
//! Pump::flush            asks the engine for packets: Protocol::poll_transmit (pump/transmit.rs)
//! Consumer::gather       puts headers in front of the bytes where they lie (sys/ring.rs)
//! Wire::send             one system call for the batch
//! ```
//!
//! * [`pump`] - the loop body: packets and timeouts in, batches out. It reads no clock: the
//!   simulator drives it in virtual time, [`endpoint`] in real time.
//! * [`endpoint`] - an engine under blocking users. The user's thread writes messages into a ring
//!   without a lock and runs the pump once a batch; a helper thread runs the pump while no user
//!   does, so that acknowledgements and timers go on.
//! * [`circuit`] - what the user holds: send, receive, flush, wait.
//! * [`transactions`] - message transactions under any number of calling threads.
//! * [`RouterHost`] - a router in a thread of its own.
//! * [`watch`] - readiness of all circuits of an endpoint on one descriptor, for an event loop.
//! * [`receive_queue`] - received bytes, kept where the wire put them until the user reads them.
//! * [`lend`] - zero-copy sends: buffers that are lent until the peer has acknowledged them.
//! * [`Waiter`] - waits for an endpoint in a thread that holds none of its circuits.
//! * `wakeup` - who waits for what and who wakes whom: a table of states, the helper thread, wait
//!   lists, the claim to the receiver, readiness, send permits.
//! * `shared` - the lock of the pump, and the waits of users.
//! * `circuit_state`, `demultiplex`, `coalesce` - the pump's state of each circuit, the deliveries
//!   of an arrival by circuit, and small packets sent in one call.
//! * `failed` - messages that were given up, kept for the user who sent them.
//! * `layer_port` - a layer between packets and frames, if there is one.
//! * `broken` - a panic in an engine, told to everybody who calls its endpoint.
//! * `checked_wire` - the wire, with errors of single paths counted and told to the engine.
//! * [`timeout`] - limits that may be for ever.
//! * `messages` - messages on their way out, and buffers that are used again.
//! * `wire_descriptor` - the wire's descriptor, which changes when the wire joins its first group.
//! * `sync` - atomics and locks, which are loom's in the models of `wakeup`.
//! * `sys/` - the send store, shared by one producer and one consumer; the crate's only unsafe
//!   code.

mod broken;
mod checked_wire;
pub mod circuit;
mod circuit_state;
mod coalesce;
mod demultiplex;
pub mod endpoint;
mod failed;
mod layer_port;
#[cfg(test)]
mod layer_port_tests;
pub mod lend;
mod messages;
mod packet_pump;
pub mod pump;
pub mod receive_queue;
mod router_host;
mod shared;
mod single_message;
mod sync;
pub mod sys;
pub mod timeout;
pub mod transactions;
mod waiter;
mod wakeup;
pub mod watch;
mod wire_descriptor;
#[cfg(test)]
mod xtp_allocation_tests;

pub use checked_wire::PathErrors;
pub use circuit::Circuit;
pub use circuit_state::CircuitStatus;
pub use endpoint::{Endpoint, EndpointObserver};
pub use failed::FailedMessage;
pub use packet_pump::WireCalls;
pub use pump::Pump;
pub use receive_queue::{ArrivalPiece, LentArrival, Part};
pub use router_host::RouterHost;
pub use sys::Reserved;
pub use transactions::TransactionEndpoint;
pub use waiter::Waiter;
pub use watch::Watch;
