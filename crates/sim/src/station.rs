//! A wire of the simulator.

use engine::{Address, Ecn, Fragmentation, PacketLen, Path};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};

/// Packets between a station and the world.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) outgoing: VecDeque<(Path, Vec<u8>, Fragmentation)>,
    pub(crate) incoming: VecDeque<(Path, Vec<u8>)>,
}

/// The wire of a simulated station: one packet a call, nothing coalesced.
#[derive(Clone, Debug)]
pub struct StationWire {
    packet_max: usize,
    fragmentation: Fragmentation,
    pub(crate) mailbox: Rc<RefCell<Mailbox>>,
}

impl StationWire {
    /// A wire for packets of up to `packet_max` octets.
    pub fn new(packet_max: usize) -> StationWire {
        StationWire {
            packet_max,
            fragmentation: Fragmentation::Usual,
            mailbox: Rc::default(),
        }
    }
}

impl Wire for StationWire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: self.packet_max,
            segments_max: 1,
            batch_bytes_max: self.packet_max,
            receive_len: self.packet_max,
        }
    }

    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let packet: Vec<u8> = slices
            .iter()
            .flat_map(|slice| slice.iter().copied())
            .collect();
        debug_assert!(packet.len() <= segment_size);
        self.mailbox
            .borrow_mut()
            .outgoing
            .push_back((path, packet, self.fragmentation));
        Ok(())
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<wire::Taken> {
        self.send(path, slices, segment_size)
            .map(|()| wire::Taken::Copied)
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let taken = self.mailbox.borrow_mut().incoming.pop_front();
        let (path, packet) = taken.ok_or(io::ErrorKind::WouldBlock)?;
        let len = packet.len().min(buffer.len());
        buffer[..len].copy_from_slice(&packet[..len]);
        Ok(Arrival {
            path,
            ecn: Ecn::NotEct,
            len,
            segment_size: len,
        })
    }

    fn poll_path_error(&mut self) -> Option<PathReport> {
        None
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation = fragmentation;
    }

    fn path_mtu(&mut self, _: engine::Path) -> usize {
        self.capabilities().packet_max
    }

    fn unanswerable(&self) -> u64 {
        0
    }

    fn set_packet_len(&mut self, _: PacketLen) {}

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_buffered(&self) -> bool {
        false
    }

    fn may_wait(&mut self) -> bool {
        true
    }

    // Stations receive multicast without joining.
    fn join(&mut self, group: Address) -> io::Result<()> {
        Err(wire::no_multicast(group))
    }

    fn leave(&mut self, group: Address) -> io::Result<()> {
        Err(wire::no_multicast(group))
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        None
    }
}
