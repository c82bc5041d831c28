//! Files over XTP, whole or not at all.
//!
//! * [`send`](mod@send) - to one host, or to many at once by multicast.
//! * [`receive`] - into a folder.
//! * `talk` - what the two say to each other.
//! * `part` - a file that is not whole yet.
//!
//! The sender says what comes: a name and a length. The receiver says how much of it is there from
//! an earlier try and what the SHA-256 of that is; the sender compares it with its own file and goes
//! on from there, or begins again. Behind the bytes comes the SHA-256 of all of them, and only a file
//! that matches gets its name. A transfer that breaks off leaves a hidden file that ends in `.part`.
//!
//! A receiver takes nothing of a peer's path: a name is reduced to its last part without leading dots
//! and without characters that do not print. What is there is never overwritten unless asked for.

mod partial_file;
mod protocol;
pub mod receive;
pub mod send;

pub use receive::{FileReceiver, ReceivedFile};
pub use send::{SentFile, send, send_to_group};

use std::time::Duration;

/// How long either side waits for the other to go on.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a side may take to read what it has of a file and sum it: 100 GB at 170 MB a second.
const HASH_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a side waits for the other to hear the end, when all is said.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes read, sent and written at once.
const CHUNK: usize = 64 << 10;

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// Bytes that the receiver had already.
    pub resumed_from: u64,
    /// Bytes that are there now.
    pub done: u64,
    /// Bytes of the file.
    pub size: u64,
}
