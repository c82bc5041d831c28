//! A storage server over message transactions, as that of the 1994 study: files of one folder, read
//! and written in blocks of 16 KiB.
//!
//! A block is a transaction of VMTP ([`crate::vmtp`]). Reads are idempotent: the server keeps no copy of
//! a block that it has sent. Writes are executed once; each names its offset, and goes to a hidden
//! file that gets its name when it is whole. Both go on where they stopped, after a restart of either
//! end.
//!
//! * [`server`] - serves a folder.
//! * [`client`] - gets, puts, lists and asks.
//! * `messages` - requests and replies as octets.
//! * `folder` - what the server does with its folder; no path leads out of it.

pub mod client;
mod folder;
mod messages;
pub mod server;

pub use client::{BlockClient, Progress};
pub use messages::{Entry, FileKind, FileStatus};
pub use server::serve;

/// The name whose holder is the server.
pub const SERVICE_NAME: &str = "towpath blocks";

/// The port of servers, if no other is given.
pub const PORT: u16 = 4081;

/// Octets of a block: what one packet group of VMTP carries.
pub const BLOCK_LEN: usize = 16 << 10;
