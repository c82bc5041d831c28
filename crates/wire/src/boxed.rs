//! A wire of a kind that is known only at run time.

use crate::{Arrival, Capabilities, PathReport, Receiver, Taken, Wire};
use engine::{Address, Fragmentation, PacketLen, Path};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

impl Wire for Box<dyn Wire + Send> {
    fn capabilities(&self) -> Capabilities {
        (**self).capabilities()
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        (**self).send(path, slices, segment_size)
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<Taken> {
        (**self).send_by_reference(path, slices, segment_size)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        (**self).receive(buffer)
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        (**self).poll_path_error()
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        (**self).set_fragmentation(fragmentation);
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        (**self).path_mtu(path)
    }

    fn unanswerable(&self) -> u64 {
        (**self).unanswerable()
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        (**self).set_packet_len(packet_len);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        (**self).descriptor()
    }

    fn has_buffered(&self) -> bool {
        (**self).has_buffered()
    }

    fn may_wait(&mut self) -> bool {
        (**self).may_wait()
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        (**self).join(group)
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        (**self).leave(group)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        (**self).receiver()
    }
}
