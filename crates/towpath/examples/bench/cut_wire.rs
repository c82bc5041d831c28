//! A wire whose first path can be cut: what it sends there is lost without a word.

use engine::{Address, LocalAddress, PacketLen, Path};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};

/// Whether the path is cut. Clones share it.
#[derive(Clone, Default)]
pub struct Cut(Arc<AtomicBool>);

impl Cut {
    /// Cuts it.
    pub fn cut(&self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A wire around another one.
pub struct CutWire<W> {
    wire: W,
    cut: Cut,
}

impl<W: Wire> CutWire<W> {
    /// The wire, with a path that `cut` cuts.
    pub fn new(wire: W, cut: Cut) -> CutWire<W> {
        CutWire { wire, cut }
    }
}

impl<W: Wire> Wire for CutWire<W> {
    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        if path.local == LocalAddress(0) && self.cut.0.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.wire.send(path, slices, segment_size)
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<wire::Taken> {
        if path.local == LocalAddress(0) && self.cut.0.load(Ordering::SeqCst) {
            return Ok(wire::Taken::Copied);
        }
        self.wire.send_by_reference(path, slices, segment_size)
    }

    engine::forward! { self.wire;
        fn capabilities(&self) -> Capabilities;
        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival>;
        fn poll_path_error(&mut self) -> Option<PathReport>;
        fn set_fragmentation(&mut self, fragmentation: engine::Fragmentation);
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
