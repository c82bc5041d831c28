//! File transfer over XTP; a file arrives complete or not at all.
//!
//! * [`send`](mod@send) - to one host, or to many at once by multicast.
//! * [`receive`] - into a directory.
//! * `protocol` - the messages between sender and receiver.
//! * `partial_file` - an incomplete received file.
//! * `inbox` - the directory they lie in: its old partial files, its free space.
//! * [`tree`] - whole trees, to a host or from one.
//! * `holders` - who holds which partial file, and when a newcomer takes its place.
//! * `pace` - the least pace of a transfer.
//! * `group_range` - the groups a receiver joins. `group_terms` - how the content of an offer to one comes.
//!
//! The sender offers a file: its name and length. The receiver replies with the length and SHA-256
//! of what an earlier transfer left; the sender compares them with its own file and resumes there,
//! or starts at 0. After the content comes the SHA-256 of the whole file, and only a file that
//! matches gets its name. An aborted transfer leaves a hidden file that ends in `.part`.
//!
//! A receiver ignores the peer's path: a name is reduced to its last component, without leading
//! dots and control characters. An existing file is overwritten only if the receiver allows it.

mod group_range;
mod group_terms;
mod holders;
mod inbox;
mod pace;
mod partial_file;
mod protocol;
pub mod receive;
pub mod send;
pub mod tree;

pub use group_range::GroupRange;
pub use group_terms::check_group_words;
pub use receive::{FileReceiver, ReceiveLimits, ReceivedFile, TransferKind};
pub use send::{SentFile, send, send_to_group};

use std::time::Duration;

/// Decodes octets as frames of a tree's transfer; how many there were. For fuzzing.
///
/// # Panics
///
/// When a frame is not encoded as it came.
#[doc(hidden)]
pub fn decode_tree_frames(octets: &[u8]) -> usize {
    tree::decode_frames(octets)
}

/// How long either side waits for the next data of the other.
const PEER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a sender may take for its whole offer: some round trips, packets lost twice included.
const OFFER_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a side may take to read and hash what it has of a file: 100 GB at 170 MB/s.
const HASH_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a side waits for the other to acknowledge the end of the circuit.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes per read, send and write.
const CHUNK: usize = 64 << 10;

/// Progress of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferProgress {
    /// The offset at which the transfer resumed: bytes the receiver had already.
    pub resumed_from: u64,
    /// Bytes transferred or skipped so far.
    pub done: u64,
    /// Bytes of the file.
    pub size: u64,
}
