//! A wire of a kind that is known only at run time.

use crate::{Arrival, Capabilities, PathReport, Receiver, Taken, Wire};
use engine::{Address, Fragmentation, PacketLen, Path};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

impl Wire for Box<dyn Wire + Send> {
    engine::forward! { (**self);
        fn capabilities(&self) -> Capabilities;
        fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()>;
        fn send_by_reference(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<Taken>;
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival>;
        fn poll_path_error(&mut self) -> Option<PathReport>;
        fn set_fragmentation(&mut self, fragmentation: Fragmentation);
        fn path_mtu(&mut self, path: Path) -> usize;
        fn unanswerable(&self) -> u64;
        fn set_packet_len(&mut self, packet_len: PacketLen);
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn has_buffered(&self) -> bool;
        fn may_wait(&mut self) -> bool;
        fn join(&mut self, group: Address) -> io::Result<()>;
        fn leave(&mut self, group: Address) -> io::Result<()>;
        fn receiver(&self) -> Option<Box<dyn Receiver>>;
    }
}
