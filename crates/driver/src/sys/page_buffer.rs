//! Buffers to lend in pages of their own, to which a wire may refer.

use super::memory::StoreMemory;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes in pages that hold nothing else: what is lent from them may leave by reference, without a copy.
///
/// A packet that refers to a page shows what is in it when the packet is read. Memory of an allocator would later hold what
/// is no business of the peer; these pages are unmapped with the buffer, and the system keeps them as they are for packets
/// on their way.
pub struct PageBuffer {
    memory: StoreMemory,
    len: usize,
    /// A packet that the peer has not acknowledged may refer to the pages for ever: the circuit has ended.
    is_referenced: AtomicBool,
}

impl PageBuffer {
    /// A buffer of `len` zeros.
    ///
    /// # Errors
    ///
    /// `OutOfMemory` when the system has no pages.
    pub fn new(len: usize) -> io::Result<PageBuffer> {
        let memory = StoreMemory::map(len.max(1)).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(PageBuffer {
            memory,
            len,
            is_referenced: AtomicBool::new(false),
        })
    }

    /// A copy of `bytes`. Errors are those of [`new`](PageBuffer::new).
    pub fn copy_of(bytes: &[u8]) -> io::Result<PageBuffer> {
        let mut buffer = PageBuffer::new(bytes.len())?;
        buffer.make_mut()?.copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The bytes, to be written. If a circuit ended before its peer had acknowledged them, they move to other pages first:
    /// packets that the peer has not read yet do not change.
    /// Errors are those of [`new`](PageBuffer::new); the bytes are as they were.
    pub fn make_mut(&mut self) -> io::Result<&mut [u8]> {
        if *self.is_referenced.get_mut() {
            *self = PageBuffer::copy_of(self)?;
        }
        // SAFETY: the mapping has at least `len` octets, is this value's alone, and is borrowed exclusively.
        Ok(unsafe { slice::from_raw_parts_mut(self.memory.base(), self.len) })
    }

    /// Notes that packets may refer to the pages although the buffer is its owner's again.
    pub(super) fn mark_referenced(&self) {
        self.is_referenced.store(true, Ordering::Relaxed);
    }
}

// Not derived: the pages are written only through `&mut self`, and so may be read by several threads.
// SAFETY: no method writes through `&self` but to an atomic flag.
unsafe impl Sync for PageBuffer {}

impl Deref for PageBuffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping has at least `len` octets, which are zeros or were written; writes need `&mut self`.
        unsafe { slice::from_raw_parts(self.memory.base(), self.len) }
    }
}

impl fmt::Debug for PageBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageBuffer({} bytes)", self.len)
    }
}

impl PartialEq for PageBuffer {
    fn eq(&self, other: &PageBuffer) -> bool {
        **self == **other
    }
}

impl Eq for PageBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_move_before_a_write_once_packets_may_refer_to_them_for_ever() {
        let mut buffer = PageBuffer::copy_of(&[7; 10_000]).expect("memory");
        let pages = buffer.as_ptr();
        buffer.make_mut().expect("no memory is asked for")[0] = 1;
        assert_eq!(buffer.as_ptr(), pages, "nothing refers to them");
        buffer.mark_referenced();
        assert_eq!(buffer.as_ptr(), pages, "nothing is written");
        buffer.make_mut().expect("memory")[1] = 2;
        assert_ne!(buffer.as_ptr(), pages);
        assert_eq!(buffer[..3], [1, 2, 7]);
        assert_eq!(buffer.len(), 10_000);
        let moved = buffer.as_ptr();
        buffer.make_mut().expect("no memory is asked for")[2] = 3;
        assert_eq!(buffer.as_ptr(), moved, "nothing refers to the new ones");
    }

    #[test]
    fn empty_buffer_has_no_bytes() {
        let mut buffer = PageBuffer::copy_of(&[]).expect("memory");
        assert!(buffer.is_empty());
        assert!(buffer.make_mut().expect("memory").is_empty());
    }
}
