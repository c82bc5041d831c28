//! What engines send on real wires, packet by packet.

use engine::{Address, PacketLen};
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use testbed::{LinkPlan, Testbed, TestbedError, TestbedPlan};
use wire::{Arrival, Capabilities, PathReport, Receiver, Wire};
use wire_udp::UdpWire;

/// A packet that was sent.
#[derive(Clone, Debug)]
pub struct SentPacket {
    pub at: Instant,
    pub from: usize,
    pub octets: Vec<u8>,
}

/// A wire that records what is sent.
pub struct Recorder {
    wire: UdpWire,
    from: usize,
    packets: Arc<Mutex<Vec<SentPacket>>>,
}

impl Recorder {
    pub fn new(wire: UdpWire, from: usize, packets: &Arc<Mutex<Vec<SentPacket>>>) -> Recorder {
        let packets = Arc::clone(packets);
        Recorder {
            wire,
            from,
            packets,
        }
    }
}

impl Wire for Recorder {
    fn capabilities(&self) -> Capabilities {
        self.wire.capabilities()
    }

    fn send(&mut self, path: engine::Path, slices: &[IoSlice<'_>], size: usize) -> io::Result<()> {
        let octets: Vec<u8> = slices.iter().flat_map(|s| s.iter().copied()).collect();
        let at = Instant::now();
        self.wire.send(path, slices, size)?;
        let mut packets = self.packets.lock().expect("nobody panicked");
        packets.extend(octets.chunks(size.max(1)).map(|packet| SentPacket {
            at,
            from: self.from,
            octets: packet.to_vec(),
        }));
        Ok(())
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

    fn path_mtu(&mut self, path: engine::Path) -> usize {
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

/// Two hosts on an emulated link; None, with a message, where this user may have none.
pub fn testbed(link: &str, seed: u64) -> Option<Testbed> {
    let path: link::Path = link.parse().expect("a path");
    let plan = TestbedPlan::pair(LinkPlan::Emulated(path, testbed::FrameMode::Single), seed);
    match Testbed::up(&plan) {
        Ok(testbed) => Some(testbed),
        Err(error @ (TestbedError::Privilege(_) | TestbedError::Tap(_))) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}
