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
    fn capabilities(&self) -> Capabilities {
        self.wire.capabilities()
    }

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

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        self.wire.receive(buffer)
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        self.wire.poll_path_error()
    }

    fn set_fragmentation(&mut self, fragmentation: engine::Fragmentation) {
        self.wire.set_fragmentation(fragmentation);
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        self.wire.path_mtu(path)
    }

    fn unanswerable(&self) -> u64 {
        self.wire.unanswerable()
    }

    fn set_packet_len(&mut self, packet_len: PacketLen) {
        self.wire.set_packet_len(packet_len);
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wire.descriptor()
    }

    fn has_buffered(&self) -> bool {
        self.wire.has_buffered()
    }

    fn may_wait(&mut self) -> bool {
        self.wire.may_wait()
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        self.wire.join(group)
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        self.wire.leave(group)
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        self.wire.receiver()
    }
}
