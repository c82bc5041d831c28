//! The pump: what feeds an engine from a wire and a clock.
//!
//! Only this crate knows both an [`engine::Engine`] and a [`wire::Wire`].
//!
//! * [`pump`] - the loop body: packets and deadlines in, batches out. It reads no clock, so the
//!   simulator drives it in virtual time and [`endpoint`] in real time.
//! * [`endpoint`] - an engine under a blocking user: the user's thread writes messages into a ring
//!   without a lock and runs the pump once a batch; a helper thread runs it while the user is
//!   elsewhere, so acknowledgements and timers go on.
//! * [`circuit`] - what the user holds: send, receive, flush, wait.
//! * [`inbox`] - bytes that arrived, kept where the wire put them until the user takes them.
//! * `sys/ring` - the send store, shared by one producer and one consumer; the crate's only unsafe
//!   code.

pub mod circuit;
pub mod endpoint;
pub mod inbox;
pub mod pump;
pub mod sys;

pub use circuit::Circuit;
pub use endpoint::Endpoint;
pub use pump::Pump;
