//! Wires in memory: without a kernel there are no descriptors, no groups and no reports of paths.

use crate::{Arrival, Capabilities, PathReport, Wire};
use engine::{Ecn, Fragmentation, PacketLen, Path};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

/// Packets in memory: that in which such wires differ.
pub trait MemoryMedium {
    /// As [`Wire::capabilities`].
    fn capabilities(&self) -> Capabilities;

    /// As [`Wire::send`]. Errors are those of [`Wire::send`].
    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()>;

    /// The next arrival: its path, its octets, and the length of each packet but the last. None when no
    /// packet is waiting.
    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)>;

    /// As [`Wire::set_fragmentation`].
    fn set_fragmentation(&mut self, fragmentation: Fragmentation);
}

/// The wire of a medium in memory.
#[derive(Clone, Debug)]
pub struct MemoryWire<M>(pub M);

impl<M: MemoryMedium> Wire for MemoryWire<M> {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        self.0.send(path, slices, segment_size)
    }

    /// What is longer than the buffer is cut off.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let (path, octets, segment_size) = self.0.take().ok_or(io::ErrorKind::WouldBlock)?;
        let len = octets.len().min(buffer.len());
        buffer[..len].copy_from_slice(&octets[..len]);
        Ok(Arrival {
            path,
            ecn: Ecn::NotEct,
            len,
            segment_size: segment_size.min(len),
        })
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        None
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.0.set_fragmentation(fragmentation);
    }

    fn path_mtu(&mut self, _: Path) -> usize {
        self.capabilities().packet_max
    }

    fn unanswerable(&self) -> u64 {
        0
    }

    fn set_packet_len(&mut self, _: PacketLen) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    crate::lacks! { references groups buffer drops receiver }
}
