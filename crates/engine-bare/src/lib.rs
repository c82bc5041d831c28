//! `bare`: the smallest possible transport.
//!
//! It sends numbered packets under a window and retransmits no data; lost bytes are counted. The
//! engine has two purposes: it exercises the contract of crate [`engine`] with a small protocol,
//! and it is the limit row of every race - what a user-space transport could reach over the same
//! wire if reliability and rate control cost nothing.
//!
//! The modules, in the layout of every engine:
//!
//! * [`config`] - configuration, with the reason for each default.
//! * [`endpoint`] - the engine itself; it only dispatches.
//! * [`state`] - the state of one association.
//! * `procedure/` - `open` (the handshake), `data`, `acknowledge`, `finish`, one file each.
//! * [`pdu`] - the one header, 24 octets.
//!
//! The protocol is our own; `docs/decisions/0002-bare.md` has its rules, cited as "0002".
#![forbid(unsafe_code)]

pub mod config;
pub mod endpoint;
pub mod pdu;
mod procedure;
pub mod state;

pub use config::BareConfig;
pub use endpoint::Bare;
