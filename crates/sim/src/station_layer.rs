//! The layer of a station.

use crate::frames::Contents;
use engine::{Counters, Frames, Instant, Layer, Path, Received};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// Makes the layer of a station, at its first start, which is number 0, and after each crash.
pub(crate) type MakeLayer = Rc<dyn Fn(u64) -> Box<dyn Layer>>;

/// A frame that waits for the sender process.
#[derive(Debug)]
pub(crate) struct OutgoingFrame {
    pub(crate) path: Path,
    pub(crate) octets: Vec<u8>,
    pub(crate) contents: Contents,
}

/// A layer, and the frames that it built.
pub(crate) struct StationLayer {
    layer: Box<dyn Layer>,
    make: MakeLayer,
    start: u64,
    frames: Frames,
    outgoing: VecDeque<OutgoingFrame>,
    /// What the last packet carries. Its frames leave before the next packet is built.
    contents: Contents,
    /// What packets carry: cells of one may leave again behind those of others.
    sent: SentPackets,
    arrived: Vec<(Path, Vec<u8>)>,
}

/// Packets whose contents are known, at most: as many as a station's calls and their replies have in queues at a time.
const SENT_MAX: usize = 1 << 16;

/// What packets carry, by their octets.
#[derive(Default)]
struct SentPackets {
    /// By the hash of the octets: which packet of this station was the last with these, and what it carries.
    by_octets: BTreeMap<u64, (u64, Contents)>,
    /// Hashes in the order in which the packets left.
    oldest: VecDeque<u64>,
    /// Packets so far.
    count: u64,
}

impl SentPackets {
    fn add(&mut self, packet: &[u8], contents: Contents) {
        if self.oldest.len() >= SENT_MAX {
            self.forget_oldest();
        }
        let hash = hash_of(packet);
        self.oldest.push_back(hash);
        self.by_octets.insert(hash, (self.count, contents));
        self.count += 1;
    }

    /// Forgets the oldest packet, unless a newer one is equal.
    fn forget_oldest(&mut self) {
        let number = self.count - self.oldest.len() as u64;
        let Some(hash) = self.oldest.pop_front() else {
            return;
        };
        if self
            .by_octets
            .get(&hash)
            .is_some_and(|(last, _)| *last == number)
        {
            self.by_octets.remove(&hash);
        }
    }

    fn contents_of(&self, packet: &[u8]) -> Option<Contents> {
        let known = self.by_octets.get(&hash_of(packet));
        known.map(|(_, contents)| *contents)
    }
}

/// Frames asked for at a time.
const FRAMES_MAX: usize = 64;

impl StationLayer {
    /// The layer of start number `start`.
    pub(crate) fn new(make: MakeLayer, start: u64) -> StationLayer {
        StationLayer {
            layer: make(start),
            make,
            start,
            frames: Frames::default(),
            outgoing: VecDeque::new(),
            contents: Contents::default(),
            sent: SentPackets::default(),
            arrived: Vec::new(),
        }
    }

    /// A layer as after a restart of its station.
    pub(crate) fn restarted(&self) -> StationLayer {
        StationLayer::new(Rc::clone(&self.make), self.start + 1)
    }

    /// Takes a packet of the engine.
    pub(crate) fn send(&mut self, now: Instant, path: Path, packet: &[u8], contents: Contents) {
        self.layer.send(now, path, packet);
        self.contents = contents;
        self.sent.add(packet, contents);
    }

    /// What a packet of this station carries that arrived somewhere; None if it was sent long ago.
    pub(crate) fn contents_of(&self, packet: &[u8]) -> Option<Contents> {
        self.sent.contents_of(packet)
    }

    /// The next frame to send.
    pub(crate) fn next_frame(&mut self, now: Instant) -> Option<OutgoingFrame> {
        if self.outgoing.is_empty() {
            self.take_frames(now);
        }
        self.outgoing.pop_front()
    }

    /// Takes all frames that the layer has. The bytes of a packet have left with its last one.
    fn take_frames(&mut self, now: Instant) {
        loop {
            self.frames.clear();
            self.layer.poll_transmit(now, FRAMES_MAX, &mut self.frames);
            let Some(path) = self.frames.path() else {
                break;
            };
            let contents = Contents {
                carries: None,
                ..self.contents
            };
            let frame_len = self.frames.frame_len().max(1);
            let frames = self.frames.octets().chunks(frame_len);
            self.outgoing.extend(frames.map(|octets| OutgoingFrame {
                path,
                octets: octets.to_vec(),
                contents,
            }));
        }
        if let Some(last) = self.outgoing.back_mut() {
            last.contents.carries = self.contents.carries.take();
        }
    }

    /// Takes a frame that arrived; the packets that are whole now. The list goes back through
    /// [`recycle`](StationLayer::recycle).
    pub(crate) fn receive(&mut self, now: Instant, frame: Received<'_>) -> Vec<(Path, Vec<u8>)> {
        let mut packets = std::mem::take(&mut self.arrived);
        self.layer.handle_frame(now, frame, &mut packets);
        packets
    }

    /// Keeps the memory of a list of packets, and gives the layer back that of those in it.
    pub(crate) fn recycle(&mut self, mut packets: Vec<(Path, Vec<u8>)>) {
        for (_, packet) in packets.drain(..) {
            self.layer.recycle(packet);
        }
        self.arrived = packets;
    }

    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.layer.poll_timeout()
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.layer.poll_timeout().is_some_and(|at| at <= now) {
            self.layer.handle_timeout(now);
        }
    }

    pub(crate) fn counters(&self) -> Counters {
        self.layer.counters()
    }
}

/// The same for equal octets, in every run.
fn hash_of(octets: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    octets.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packet_is_known_by_its_octets_until_so_many_others_have_left() {
        let mut sent = SentPackets::default();
        let contents = Contents::default();
        sent.add(b"first", contents);
        sent.add(b"again", contents);
        for number in 2..SENT_MAX {
            sent.add(&number.to_be_bytes(), contents);
        }
        assert!(sent.contents_of(b"first").is_some());
        sent.add(b"again", contents);
        assert!(sent.contents_of(b"first").is_none(), "it was the oldest");
        sent.add(b"one more", contents);
        assert!(
            sent.contents_of(b"again").is_some(),
            "it has left again since"
        );
        assert_eq!(sent.by_octets.len(), SENT_MAX);
    }
}
