//! A mapped segment: words and octets that both processes may write at any time.
//!
//! No reference to its octets leaves this file, because a peer could change what the compiler takes
//! for constant. Octets are copied in and out, by functions for which any value is valid.

use crate::error::{ChannelError, system};
use crate::geometry::CONTROL_LEN;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU32;

/// What a mapped segment must be sealed against: a shorter one would answer a read by SIGBUS.
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Magic number of hugetlbfs (linux/magic.h). A fault there can lack a page, which is SIGBUS too.
const HUGETLBFS: u64 = 0x9584_58f6;

/// A sealed memfd, mapped.
#[derive(Debug)]
pub struct Segment {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and ends only with its owner.
unsafe impl Send for Segment {}

impl Segment {
    /// Makes a segment of `len` octets, all zero, and returns its descriptor for the peer.
    pub(crate) fn create(len: usize) -> Result<(Self, OwnedFd), ChannelError> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = rustix::fs::memfd_create(c"towpath-channel", flags)
            .map_err(system("memfd_create of a channel's segment"))?;
        rustix::fs::ftruncate(&descriptor, len as u64)
            .map_err(system("ftruncate of a channel's segment"))?;
        rustix::fs::fcntl_add_seals(&descriptor, SEALS | SealFlags::SEAL)
            .map_err(system("sealing a channel's segment"))?;
        let segment = Self::map(descriptor.as_fd(), len)?;
        Ok((segment, descriptor))
    }

    /// Maps a peer's segment, after its seals and its length have been checked.
    pub(crate) fn adopt(descriptor: &OwnedFd, len: usize) -> Result<Self, ChannelError> {
        // EINVAL: not a file of tmpfs, so nothing that can be sealed.
        let seals = rustix::fs::fcntl_get_seals(descriptor).map_err(|_| ChannelError::Unsealed)?;
        let kind =
            rustix::fs::fstatfs(descriptor).map_err(system("fstatfs of a channel's segment"))?;
        if !seals.contains(SEALS) || kind.f_type as u64 == HUGETLBFS {
            return Err(ChannelError::Unsealed);
        }
        let status =
            rustix::fs::fstat(descriptor).map_err(system("fstat of a channel's segment"))?;
        let found = u64::try_from(status.st_size).unwrap_or(0);
        if found != len as u64 {
            return Err(ChannelError::SegmentLen {
                found,
                expected: len as u64,
            });
        }
        Self::map(descriptor.as_fd(), len)
    }

    fn map(descriptor: BorrowedFd<'_>, len: usize) -> Result<Self, ChannelError> {
        assert!(len >= CONTROL_LEN, "a segment of {len} octets");
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so nothing that exists is replaced.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                rights,
                MapFlags::SHARED,
                descriptor,
                0,
            )
        }
        .map_err(system("mmap of a channel's segment"))?;
        let start = NonNull::new(start.cast()).expect("mmap maps no page at address 0 by itself");
        Ok(Self { start, len })
    }

    /// The word at `offset`, which must be a multiple of four inside the segment. Every segment has the page of the ends'
    /// words, so the compiler checks the offsets that it knows.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU32 {
        let end = offset + 4;
        assert!(
            offset.is_multiple_of(4) && (end <= CONTROL_LEN || end <= self.len),
            "word {offset} of {}",
            self.len
        );
        // SAFETY: in bounds (`map` takes no less than that page) and aligned (the mapping begins at a page), mapped as long as `self`
        // lives, and accessed only as an atomic word by either process.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Copies `octets` to `offset`.
    ///
    /// # Panics
    /// If they do not fit.
    #[inline]
    pub(crate) fn write(&self, offset: usize, octets: &[u8]) {
        assert!(
            offset <= self.len && octets.len() <= self.len - offset,
            "write beyond the segment"
        );
        // SAFETY: in bounds of a mapping that `octets` cannot overlap, for no reference to it exists.
        // What the peer writes meanwhile can only change octets, and any octet is valid.
        unsafe {
            std::ptr::copy_nonoverlapping(
                octets.as_ptr(),
                self.start.as_ptr().add(offset),
                octets.len(),
            );
        }
    }

    /// Copies the octets at `offset` to `target`.
    ///
    /// # Panics
    /// If there are not as many.
    #[inline]
    pub(crate) fn read(&self, offset: usize, target: &mut [u8]) {
        assert!(
            offset <= self.len && target.len() <= self.len - offset,
            "read beyond the segment"
        );
        // SAFETY: as in `write`; the copy is private, and nothing but it is looked at afterwards.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.as_ptr().add(offset),
                target.as_mut_ptr(),
                target.len(),
            );
        }
    }

    /// Has the processor fetch the line at `offset`, which is going to be read. A hint: any offset will do.
    #[inline]
    pub(crate) fn fetch(&self, offset: usize) {
        let line = self.start.as_ptr().wrapping_add(offset);
        // SAFETY: a prefetch accesses nothing that a program can see, and faults at no address.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(line.cast_const().cast());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// As [`fetch`](Self::fetch), for a line that is going to be written: no other processor has it then.
    #[inline]
    pub(crate) fn fetch_to_write(&self, offset: usize) {
        let line = self.start.as_ptr().wrapping_add(offset);
        // SAFETY: as in `fetch`. Processors of x86-64 without this instruction do nothing in its place.
        #[cfg(target_arch = "x86_64")]
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: mapped by `map` with this length, and no reference outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of an own mapping");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let descriptor = rustix::fs::memfd_create(c"test", flags).unwrap();
        rustix::fs::ftruncate(&descriptor, len).unwrap();
        rustix::fs::fcntl_add_seals(&descriptor, seals).unwrap();
        descriptor
    }

    #[test]
    fn segment_that_is_not_sealed_is_refused() {
        for seals in [SealFlags::empty(), SealFlags::GROW, SealFlags::SHRINK] {
            let refused = Segment::adopt(&memfd(8192, seals), 8192);
            assert!(matches!(refused, Err(ChannelError::Unsealed)), "{seals:?}");
        }
    }

    #[test]
    fn segment_that_is_no_memory_file_is_refused() {
        let file = OwnedFd::from(std::fs::File::open("/proc/self/exe").unwrap());
        assert!(matches!(
            Segment::adopt(&file, 4096),
            Err(ChannelError::Unsealed)
        ));
    }

    #[test]
    fn segment_of_another_length_is_refused() {
        let refused = Segment::adopt(&memfd(4096, SEALS), 8192);
        assert!(matches!(
            refused,
            Err(ChannelError::SegmentLen {
                found: 4096,
                expected: 8192
            })
        ));
    }

    #[test]
    fn segment_made_here_cannot_be_shortened_and_shows_what_the_other_mapping_wrote() {
        let (own, descriptor) = Segment::create(8192).unwrap();
        let peer = Segment::adopt(&descriptor, 8192).unwrap();
        assert!(rustix::fs::ftruncate(&descriptor, 0).is_err());
        own.write(8189, b"abc");
        let mut octets = [0; 3];
        peer.read(8189, &mut octets);
        assert_eq!(&octets, b"abc");
    }
}
