//! A wire whose first path can be cut: what it sends there is lost without a word.

use engine::{LocalAddress, Path};
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use wire::{Taken, Wire};

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
    ) -> io::Result<Taken> {
        if path.local == LocalAddress(0) && self.cut.0.load(Ordering::SeqCst) {
            return Ok(Taken::Copied);
        }
        self.wire.send_by_reference(path, slices, segment_size)
    }

    wire::forward! { self => self.wire;
        capabilities receive poll_path_error set_fragmentation path_mtu unanswerable receive_drops
        set_packet_len descriptor has_buffered may_wait join leave receiver
    }
}
