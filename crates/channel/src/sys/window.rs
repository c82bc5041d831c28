//! A range of addresses at which pages of a memory file appear, one run of pages after another.

use crate::error::{ChannelError, system};
use crate::pages::Fill;
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

/// Addresses of this process that belong to no other mapping.
#[derive(Debug)]
pub(crate) struct Window {
    start: NonNull<u8>,
    len: usize,
    /// Octets at the start that show pages of a file; the others cannot be read.
    shown: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and ends only with its owner.
unsafe impl Send for Window {}

impl Window {
    /// Reserves `len` octets of addresses, which show nothing.
    pub(crate) fn reserve(len: usize) -> Result<Self, ChannelError> {
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        }
        .map_err(system("mmap of a window"))?;
        let start = NonNull::new(start.cast()).expect("mmap maps no page at address 0 by itself");
        Ok(Self {
            start,
            len,
            shown: 0,
        })
    }

    /// Shows `len` octets of the file from `offset` on, in place of what was shown. The file must not become shorter than
    /// that while they are shown.
    ///
    /// # Panics
    /// If the window is shorter.
    pub(crate) fn show(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        len: usize,
        fill: Fill,
    ) -> Result<(), ChannelError> {
        assert!(len <= self.len, "{len} octets in a window of {}", self.len);
        let fixed = MapFlags::SHARED | MapFlags::FIXED;
        let flags = match fill {
            Fill::AtOnce => fixed | MapFlags::POPULATE,
            Fill::ByFaults => fixed,
        };
        self.shown = 0;
        // SAFETY: the range is this window's own, which is all that is replaced, and no reference into it exists.
        unsafe {
            rustix::mm::mmap(
                self.start.as_ptr().cast(),
                len,
                ProtFlags::READ,
                flags,
                file,
                offset,
            )
        }
        .map_err(system("mmap of pages into a window"))?;
        self.shown = len;
        Ok(())
    }

    /// Copies the octets at `offset` to `target`.
    ///
    /// # Panics
    /// If so many are not shown.
    pub(crate) fn read(&self, offset: usize, target: &mut [u8]) {
        assert!(
            offset <= self.shown && target.len() <= self.shown - offset,
            "read beyond what is shown"
        );
        // SAFETY: shown, so mapped for reading from a file that is sealed against shrinking; the copy is private.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(offset),
                target.as_mut_ptr(),
                target.len(),
            );
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: mapped by `reserve` with this length, and no reference outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an own mapping");
    }
}
