//! Memory that another process has mapped, seen by remapping its pages instead of copying them.
//!
//! Channels copy. This is the other way, for those who compare them: `towpath channel remap` measures it.

use crate::error::ChannelError;
use crate::sys::{Segment, Window};
use rustix::param::page_size;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A sealed memory file, mapped whole.
#[derive(Debug)]
pub struct PageFile {
    segment: Segment,
    descriptor: OwnedFd,
    len: usize,
}

impl PageFile {
    /// Makes a file of `len` octets, all zero, of which the kernel makes whole pages.
    ///
    /// # Errors
    /// Memory that the system refuses.
    pub fn create(len: usize) -> Result<Self, ChannelError> {
        let (segment, descriptor) = Segment::create(len)?;
        Ok(Self {
            segment,
            descriptor,
            len,
        })
    }

    /// Maps the file of another process.
    ///
    /// # Errors
    /// A file that is not sealed against shrinking, or of another length than `len`.
    pub fn adopt(descriptor: OwnedFd, len: usize) -> Result<Self, ChannelError> {
        let segment = Segment::adopt(&descriptor, len)?;
        Ok(Self {
            segment,
            descriptor,
            len,
        })
    }

    /// Its descriptor, for a process that adopts it.
    #[must_use]
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Copies `octets` to `offset`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&self, offset: usize, octets: &[u8]) {
        self.segment.write(offset, octets);
    }

    /// Copies the octets at `offset` to `target`.
    ///
    /// # Panics
    /// If there are not as many.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        self.segment.read(offset, target);
    }
}

/// When the kernel enters pages into the process's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// In the call that shows them (MAP_POPULATE).
    AtOnce,
    /// When each is touched, by a page fault.
    ByFaults,
}

/// Addresses at which pages of a file appear, in place of those shown before.
#[derive(Debug)]
pub struct PageWindow(Window);

impl PageWindow {
    /// A window for `len` octets at most.
    ///
    /// # Errors
    /// Addresses that the system refuses.
    pub fn new(len: usize) -> Result<Self, ChannelError> {
        Window::reserve(len).map(Self)
    }

    /// Shows `len` octets of `file` from `offset` on. One system call.
    ///
    /// # Errors
    /// What mmap refuses.
    ///
    /// # Panics
    /// If the window or the file is too short, or `offset` is within a page.
    pub fn show(
        &mut self,
        file: &PageFile,
        offset: usize,
        len: usize,
        fill: Fill,
    ) -> Result<(), ChannelError> {
        assert!(offset.is_multiple_of(page_size()), "{offset} is in a page");
        assert!(
            offset <= file.len && len <= file.len - offset,
            "{len} octets at {offset} of {}",
            file.len
        );
        self.0.show(file.descriptor(), offset as u64, len, fill)
    }

    /// Copies the octets at `offset` of what is shown to `target`.
    ///
    /// # Panics
    /// If so many are not shown.
    pub fn read(&self, offset: usize, target: &mut [u8]) {
        self.0.read(offset, target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 4;

    fn file() -> PageFile {
        let file = PageFile::create(PAGES * page_size()).unwrap();
        for page in 0..PAGES {
            file.write(page * page_size() + 5, &[page as u8 + 1]);
        }
        file
    }

    #[test]
    fn window_shows_the_pages_asked_for_and_later_writes_to_them() {
        for fill in [Fill::AtOnce, Fill::ByFaults] {
            let file = file();
            let mut window = PageWindow::new(2 * page_size()).unwrap();
            for first in [0, 2, 1] {
                let at = first * page_size();
                window.show(&file, at, 2 * page_size(), fill).unwrap();
                let mut found = [0; 2];
                window.read(5, &mut found[..1]);
                window.read(page_size() + 5, &mut found[1..]);
                assert_eq!(found, [first as u8 + 1, first as u8 + 2], "{fill:?}");
            }
            file.write(page_size() + 5, b"n");
            let mut found = [0];
            window.read(5, &mut found);
            assert_eq!(&found, b"n");
        }
    }

    #[test]
    fn file_of_another_process_is_adopted_with_its_own_length_only() {
        let own = file();
        let copies = [0, 1].map(|_| own.descriptor().try_clone_to_owned().unwrap());
        let [right, wrong] = copies;
        let theirs = PageFile::adopt(right, PAGES * page_size()).unwrap();
        let mut found = [0];
        theirs.read(page_size() + 5, &mut found);
        assert_eq!(found, [2]);
        assert!(PageFile::adopt(wrong, page_size()).is_err());
    }

    #[test]
    #[should_panic(expected = "octets at")]
    fn pages_beyond_the_file_are_not_shown() {
        let mut window = PageWindow::new(2 * page_size()).unwrap();
        let _ = window.show(&file(), 3 * page_size(), 2 * page_size(), Fill::AtOnce);
    }

    #[test]
    #[should_panic(expected = "beyond what is shown")]
    fn octets_that_are_not_shown_are_not_read() {
        let mut window = PageWindow::new(2 * page_size()).unwrap();
        window.show(&file(), 0, page_size(), Fill::AtOnce).unwrap();
        window.read(page_size() - 1, &mut [0; 2]);
    }
}
