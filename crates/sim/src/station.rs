//! A wire of the simulator.

use engine::{Fragmentation, Path};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use wire::{Capabilities, MemoryMedium, MemoryWire};

/// Packets between a station and the world.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    pub(crate) outgoing: VecDeque<(Path, Vec<u8>, Fragmentation)>,
    pub(crate) incoming: VecDeque<(Path, Vec<u8>)>,
}

/// The wire of a simulated station: one packet a call, nothing coalesced. Stations receive multicast
/// without joining.
pub type StationWire = MemoryWire<Station>;

/// A simulated station, as its wire knows it.
#[derive(Clone, Debug)]
pub struct Station {
    packet_max: usize,
    fragmentation: Fragmentation,
    pub(crate) mailbox: Rc<RefCell<Mailbox>>,
}

impl Station {
    /// The wire of a station, for packets of up to `packet_max` octets.
    pub fn wire(packet_max: usize) -> StationWire {
        MemoryWire(Station {
            packet_max,
            fragmentation: Fragmentation::Usual,
            mailbox: Rc::default(),
        })
    }
}

impl MemoryMedium for Station {
    fn capabilities(&self) -> Capabilities {
        Capabilities::one_packet(self.packet_max)
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

    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)> {
        let (path, packet) = self.mailbox.borrow_mut().incoming.pop_front()?;
        let len = packet.len();
        Some((path, packet, len))
    }

    fn set_fragmentation(&mut self, fragmentation: Fragmentation) {
        self.fragmentation = fragmentation;
    }
}
