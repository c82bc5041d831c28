//! What engines send on real wires, packet by packet.

use engine::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;
use testbed::{LinkPlan, Testbed, TestbedPlan};
use wire::Arrival;
use wire::observed::{Observed, PacketObserver, SentPackets};
use wire_udp::UdpWire;

/// A packet that was sent.
#[derive(Clone, Debug)]
pub struct SentPacket {
    pub at: Instant,
    pub from: usize,
    pub octets: Vec<u8>,
}

/// A wire that records what is sent.
pub type Recorder = Observed<UdpWire, SentRecorder>;

/// Keeps what one end sent.
#[derive(Clone)]
pub struct SentRecorder {
    from: usize,
    packets: Arc<Mutex<Vec<SentPacket>>>,
}

/// `wire`, whose packets are kept in `packets` as those of the end `from`.
pub fn record(wire: UdpWire, from: usize, packets: &Arc<Mutex<Vec<SentPacket>>>) -> Recorder {
    let packets = Arc::clone(packets);
    Observed::by(wire, Some(SentRecorder { from, packets }))
}

impl PacketObserver for SentRecorder {
    /// When they were offered.
    type Offer = Instant;

    fn offer(&self, _path: Path, _octets: &[u8], _segment_size: usize) -> Instant {
        Instant::now()
    }

    fn settle(&self, at: Instant, sent: SentPackets<'_>) {
        if !sent.taken {
            return;
        }
        let mut packets = self.packets.lock().expect("nobody panicked");
        let each = sent.octets.chunks(sent.segment_size.max(1));
        packets.extend(each.map(|packet| SentPacket {
            at,
            from: self.from,
            octets: packet.to_vec(),
        }));
    }

    fn arrive(&self, _arrival: &Arrival, _octets: &[u8]) {}
}

/// Two hosts on an emulated link; None, with a message, where this user may have none.
pub fn testbed(link: &str, seed: u64) -> Option<Testbed> {
    let path: link::Path = link.parse().expect("a path");
    let plan = TestbedPlan::pair(LinkPlan::Emulated(path, testbed::FrameMode::Single), seed);
    Testbed::up_or_skip(&plan)
}
