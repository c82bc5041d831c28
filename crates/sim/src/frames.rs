//! Packets in flight, kept while any station refers to them.

use crate::host::{GROUP, group_of};
use engine::{Address, LocalAddress, Path};
use link::EtherDestination;

/// What a packet, or the frame of a layer, carries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contents {
    /// The flow whose sender built it.
    pub(crate) flow: Option<usize>,
    /// The flow and the range of its store that leave with it.
    pub(crate) carries: Option<(usize, u64, u64)>,
    /// The message of a transaction.
    pub(crate) message: Option<MessageTag>,
    /// It is longer than what the paths carry, and may not be fragmented: it is lost.
    pub(crate) exceeds_mtu: bool,
}

/// A message of a transaction, as the simulator knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MessageTag {
    /// The flow of its request.
    pub(crate) flow: usize,
    /// Where the request begins among the bytes of its flow.
    pub(crate) start: u64,
    /// Octets of the message.
    pub(crate) len: u64,
    pub(crate) is_reply: bool,
}

/// Replies have other bytes than their requests: those of the pattern from here on.
const REPLY_SHIFT: u64 = 31_337;

impl MessageTag {
    /// Where its bytes begin in the pattern.
    pub(crate) fn position(&self) -> u64 {
        self.start + if self.is_reply { REPLY_SHIFT } else { 0 }
    }

    /// The same transaction's reply of `len` octets.
    pub(crate) fn reply(&self, len: u64) -> MessageTag {
        MessageTag {
            len,
            is_reply: true,
            ..*self
        }
    }
}

/// A packet between the sender that built it and the last receiver that handles it.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) packet: Vec<u8>,
    pub(crate) from: usize,
    pub(crate) to: EtherDestination,
    /// The pattern of traffic whose group it is for.
    pub(crate) group: Option<usize>,
    /// The path it is sent by.
    pub(crate) path: u16,
    pub(crate) contents: Contents,
    /// When its sender gave it to the network controller.
    pub(crate) offered_ps: u64,
    /// It goes through a ring of its host.
    pub(crate) by_ring: bool,
    references: u32,
}

impl Frame {
    /// The path it arrives by: addresses of one number are on one medium.
    pub(crate) fn arrival_path(&self) -> Path {
        Path {
            local: LocalAddress(self.path),
            remote: Address::Station(self.from as u32),
        }
    }
}

/// All packets in flight.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    slots: Vec<Frame>,
    free: Vec<usize>,
}

impl FrameTable {
    /// Adds a packet that a station sends by `path`, with an empty buffer and one reference.
    pub(crate) fn add(&mut self, from: usize, path: Path) -> u64 {
        let (to, group, path) = (destination(path), group_of(path.remote), path.local.0);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Frame {
                packet: Vec::new(),
                from,
                to,
                group,
                path,
                contents: Contents::default(),
                offered_ps: 0,
                by_ring: false,
                references: 0,
            });
            self.slots.len() - 1
        });
        let frame = &mut self.slots[slot];
        (frame.from, frame.to, frame.path, frame.references) = (from, to, path, 1);
        frame.group = group;
        frame.by_ring = false;
        frame.contents = Contents::default();
        frame.packet.clear();
        slot as u64
    }

    pub(crate) fn get(&self, tag: u64) -> &Frame {
        &self.slots[tag as usize]
    }

    pub(crate) fn get_mut(&mut self, tag: u64) -> &mut Frame {
        &mut self.slots[tag as usize]
    }

    /// Replaces one reference by `references`.
    pub(crate) fn replace_with(&mut self, tag: u64, references: u32) {
        self.slots[tag as usize].references += references;
        self.release(tag);
    }

    /// Drops one reference; the last one frees the slot.
    pub(crate) fn release(&mut self, tag: u64) {
        let frame = &mut self.slots[tag as usize];
        frame.references -= 1;
        if frame.references == 0 {
            self.free.push(tag as usize);
        }
    }

    /// Packets in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Where the medium takes a packet.
fn destination(path: Path) -> EtherDestination {
    match path.remote {
        GROUP => EtherDestination::All,
        address if group_of(address).is_some() => EtherDestination::All,
        Address::Station(to) => EtherDestination::Station(to as usize),
        Address::Socket(_) | Address::Ether(_) => EtherDestination::Station(usize::MAX),
    }
}
