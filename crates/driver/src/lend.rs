//! Memory that users lend: sent from where it lies, and theirs again once the peer has it.

use std::ops::Deref;
use std::sync::Arc;

/// Buffers of a circuit that may be out at a time. Of 1 KiB each, the shortest that are lent, as
/// many make half a store of the usual size.
pub const LOANS_MAX: usize = 256;

/// Shorter buffers are copied: a piece of memory more in a call of the wire takes the kernel as
/// long as copying this many bytes.
pub const LEND_BYTES_MIN: usize = 1 << 10;

/// Memory to be lent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// The lender's alone.
    Owned(Vec<u8>),
    /// Shared with others, who may read it meanwhile, or lend it once more.
    Shared(Arc<[u8]>),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Owned(bytes) => bytes,
            Buffer::Shared(bytes) => bytes,
        }
    }
}

impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Buffer {
        Buffer::Owned(bytes)
    }
}

impl From<Box<[u8]>> for Buffer {
    fn from(bytes: Box<[u8]>) -> Buffer {
        Buffer::Owned(bytes.into_vec())
    }
}

impl From<Arc<[u8]>> for Buffer {
    fn from(bytes: Arc<[u8]>) -> Buffer {
        Buffer::Shared(bytes)
    }
}

/// What became of a buffer that was handed over to be sent.
#[derive(Debug, PartialEq, Eq)]
pub enum LendOutcome {
    /// It was copied, and is the caller's again at once.
    Copied(Buffer),
    /// It is lent, and comes back by [`reclaim`](crate::Circuit::reclaim).
    Lent,
}

/// A buffer that was not taken, and why.
#[derive(Debug)]
pub struct LendError {
    /// The buffer.
    pub buffer: Buffer,
    /// As of [`try_send`](crate::Circuit::try_send); `WouldBlock` also when too many are out.
    pub error: std::io::Error,
}

impl std::fmt::Display for LendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a buffer was not taken: {}", self.error)
    }
}

impl std::error::Error for LendError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<LendError> for std::io::Error {
    fn from(refused: LendError) -> std::io::Error {
        refused.error
    }
}

/// A buffer that was lent and is its lender's again.
#[derive(Debug, PartialEq, Eq)]
pub struct ReturnedBuffer {
    /// The buffer, unchanged.
    pub buffer: Buffer,
    /// The peer has all of it, or nothing more is done for it where there is no error control. If
    /// not, the circuit ended before.
    pub is_complete: bool,
}
