//! `bare`: the least a transport can be.
//!
//! Numbered packets under a window, no retransmission. What is lost stays lost and is counted.
//! The engine exists for two reasons: it fixes the contract of crate [`engine`] before any real
//! protocol is written to it, and it is the limit row of every race - what a user-space transport
//! could reach over the same wire if reliability, ordering repair and rate control cost nothing.
//!
//! A walk through the rooms, which are the same in every engine:
//!
//! * [`api`] - configuration with the reason of each default.
//! * [`association`] - the engine itself; it only dispatches.
//! * [`state`] - what one circuit remembers.
//! * `procedure/` - `open` (two packets), `data`, `acknowledge`, `finish`, one file each.
//! * [`pdu`] - the one header, 24 octets, as bytes and as meaning.
//!
//! The protocol is our own; `docs/decisions/0002-bare.md` gives its rules.
#![forbid(unsafe_code)]

pub mod api;
pub mod endpoint;
pub mod pdu;
mod procedure;
pub mod state;

pub use api::BareConfig;
pub use endpoint::Bare;
