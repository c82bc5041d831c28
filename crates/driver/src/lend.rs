//! Buffers of zero-copy sends: sent from where they lie, returned once the peer has them.

pub use crate::sys::PageBuffer;
use std::ops::Deref;
use std::sync::Arc;

/// Buffers of a circuit that may be lent at a time. With the shortest, of 1 KiB, as many make half
/// a store of the usual size.
pub const LOANS_MAX: usize = 256;

/// Shorter buffers are copied: one more slice in a call of the wire takes the kernel as long as
/// copying this many bytes.
pub const LEND_BYTES_MIN: usize = 1 << 10;

/// A buffer to lend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Owned by the lender alone.
    Owned(Vec<u8>),
    /// Shared with others, who may read it meanwhile, or lend it too.
    Shared(Arc<[u8]>),
    /// In pages of its own: packets may refer to it, so that it is sent without a copy.
    Pages(Arc<PageBuffer>),
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Owned(bytes) => bytes,
            Buffer::Shared(bytes) => bytes,
            Buffer::Pages(bytes) => bytes,
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

impl From<PageBuffer> for Buffer {
    fn from(bytes: PageBuffer) -> Buffer {
        Buffer::Pages(Arc::new(bytes))
    }
}

impl From<Arc<PageBuffer>> for Buffer {
    fn from(bytes: Arc<PageBuffer>) -> Buffer {
        Buffer::Pages(bytes)
    }
}

/// Result of lending a buffer.
#[derive(Debug, PartialEq, Eq)]
pub enum LendOutcome {
    /// The buffer was copied, and is the caller's again at once.
    Copied(Buffer),
    /// The buffer is lent until [`reclaim`](crate::Circuit::reclaim) returns it.
    Lent,
}

/// A buffer that was not taken, and why.
#[derive(Debug)]
pub struct LendError {
    /// The buffer.
    pub buffer: Buffer,
    /// As of [`try_send`](crate::Circuit::try_send); `WouldBlock` also when too many are lent.
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
    /// The peer has acknowledged all of it, or it was sent without error control. If false, the
    /// circuit was closed before.
    pub is_complete: bool,
}
