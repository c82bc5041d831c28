//! `halves`, the least a layer can be: each packet travels as two frames.
//!
//! It exists as the example of [`engine::Layer`]: every test of a host of layers runs with it, and a
//! new layer, such as cells, can start as a copy.
//!
//! A frame is eight octets of header and a half of the packet:
//!
//! | octets | |
//! | --- | --- |
//! | 0..4 | number of the packet |
//! | 4 | which half: 0 or 1 |
//! | 5 | zero |
//! | 6..8 | octets of the whole packet |
//!
//! A packet is whole when both halves have come, in any order. A half that waits for the other one
//! for [`HALF_TIMEOUT`] is discarded, and so is the oldest of more than [`HALVES_MAX`].
#![forbid(unsafe_code)]

use core::time::Duration;
use engine::{Counters, Frames, Instant, Layer, Path, Received};
use std::collections::{BTreeMap, VecDeque};

/// Octets of a frame's header.
pub const HEADER_LEN: usize = 8;

/// How long a half waits for the other one: longer than the delays of two paths differ.
pub const HALF_TIMEOUT: Duration = Duration::from_secs(1);

/// Halves that wait, at most. With packets of 1,500 octets they hold 768 KiB.
pub const HALVES_MAX: usize = 1024;

/// What a half is known by: where it came from, and the number of its packet.
type Key = (Path, u32);

/// A half that waits for the other one.
#[derive(Debug)]
struct Half {
    second: bool,
    packet_len: usize,
    octets: Vec<u8>,
    until: Instant,
}

/// The layer, for packets of at most a given length.
#[derive(Debug)]
pub struct Halves {
    packet_max: usize,
    next: u32,
    outgoing: VecDeque<(Path, Vec<u8>)>,
    waiting: BTreeMap<Key, Half>,
    /// The halves that wait, oldest first.
    order: VecDeque<Key>,
    counters: Counters,
}

impl Halves {
    /// A layer for packets of at most `packet_max` octets, numbered from `first_number` on. A host
    /// draws that number at random: after a restart, halves of before must not be taken for others.
    ///
    /// # Panics
    ///
    /// When `packet_max` is 0 or more than 65,535.
    pub fn new(packet_max: usize, first_number: u32) -> Halves {
        let range = 1..=usize::from(u16::MAX);
        assert!(range.contains(&packet_max), "packet_max is out of range");
        Halves {
            packet_max,
            next: first_number,
            outgoing: VecDeque::new(),
            waiting: BTreeMap::new(),
            order: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    fn discard(&mut self, key: Key) {
        if self.waiting.remove(&key).is_some() {
            self.order.retain(|known| *known != key);
            self.counters.packets_discarded += 1;
        }
    }

    fn keep(&mut self, key: Key, half: Half) {
        if self.order.len() >= HALVES_MAX
            && let Some(&oldest) = self.order.front()
        {
            self.discard(oldest);
        }
        self.order.push_back(key);
        self.waiting.insert(key, half);
    }
}

/// Octets of the first half of a packet of `len` octets; the second is no longer.
fn first_len(len: usize) -> usize {
    len.div_ceil(2)
}

/// Number, half and packet's length of a frame whose length is right.
fn parse(frame: &[u8], packet_max: usize) -> Option<(u32, bool, usize)> {
    let &[a, b, c, d, half, zero, high, low] = frame.first_chunk::<HEADER_LEN>()?;
    let packet_len = usize::from(u16::from_be_bytes([high, low]));
    let len = match half {
        0 => first_len(packet_len),
        1 => packet_len - first_len(packet_len),
        _ => return None,
    };
    let fits = zero == 0 && packet_len <= packet_max && frame.len() == HEADER_LEN + len;
    fits.then_some((u32::from_be_bytes([a, b, c, d]), half == 1, packet_len))
}

impl Layer for Halves {
    fn packet_max(&self) -> usize {
        self.packet_max
    }

    fn frame_max(&self) -> usize {
        HEADER_LEN + first_len(self.packet_max)
    }

    fn send(&mut self, _now: Instant, path: Path, packet: &[u8]) {
        let Some(len) = u16::try_from(packet.len())
            .ok()
            .filter(|_| packet.len() <= self.packet_max)
        else {
            self.counters.packets_discarded += 1;
            return;
        };
        let (first, second) = packet.split_at(first_len(packet.len()));
        for (half, octets) in [first, second].into_iter().enumerate() {
            let mut frame = self.next.to_be_bytes().to_vec();
            frame.extend([half as u8, 0]);
            frame.extend(len.to_be_bytes());
            frame.extend(octets);
            self.outgoing.push_back((path, frame));
        }
        self.next = self.next.wrapping_add(1);
    }

    fn handle_frame(
        &mut self,
        now: Instant,
        frame: Received<'_>,
        packets: &mut Vec<(Path, Vec<u8>)>,
    ) {
        self.counters.packets_parsed += 1;
        let Some((number, second, packet_len)) = parse(frame.octets, self.packet_max) else {
            self.counters.packets_discarded += 1;
            return;
        };
        let octets = &frame.octets[HEADER_LEN..];
        let key = (frame.path, number);
        let fits = |half: &&Half| half.second != second && half.packet_len == packet_len;
        if let Some(other) = self.waiting.get(&key).filter(fits) {
            let (first, last) = if second {
                (&other.octets[..], octets)
            } else {
                (octets, &other.octets[..])
            };
            packets.push((frame.path, [first, last].concat()));
            self.counters.bytes_copied += packet_len as u64;
            self.waiting.remove(&key);
            self.order.retain(|known| *known != key);
            return;
        }
        // A duplicate, or a number that came round again.
        self.discard(key);
        let half = Half {
            second,
            packet_len,
            octets: octets.to_vec(),
            until: now + HALF_TIMEOUT,
        };
        self.keep(key, half);
    }

    /// A packet has its memory from its halves: none is used again.
    fn recycle(&mut self, _packet: Vec<u8>) {}

    fn poll_transmit(&mut self, _now: Instant, frames_max: usize, frames: &mut Frames) {
        for _ in 0..frames_max {
            let Some((path, frame)) = self.outgoing.front() else {
                return;
            };
            let is_other = frames.path().is_some_and(|known| known != *path);
            // Only the last frame of a call may be shorter.
            let len = frames.frame_len();
            let follows = frames.is_empty()
                || frames.octets().len().is_multiple_of(len) && frame.len() <= len;
            if is_other || !follows {
                return;
            }
            frames.push(*path, frame);
            self.counters.packets_built += 1;
            self.outgoing.pop_front();
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.order.front()?;
        self.waiting.get(oldest).map(|half| half.until)
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&oldest) = self.order.front() {
            if self
                .waiting
                .get(&oldest)
                .is_some_and(|half| half.until > now)
            {
                return;
            }
            self.discard(oldest);
        }
    }

    fn counters(&self) -> Counters {
        self.counters
    }

    fn named_counts(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{Address, SplitMix64};

    fn path() -> Path {
        Path::to(Address::Station(1))
    }

    fn frames_of(layer: &mut Halves, now: Instant) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        loop {
            let mut frames = Frames::default();
            layer.poll_transmit(now, 8, &mut frames);
            if frames.is_empty() {
                return all;
            }
            all.extend(
                frames
                    .octets()
                    .chunks(frames.frame_len())
                    .map(<[u8]>::to_vec),
            );
        }
    }

    fn receive(layer: &mut Halves, now: Instant, frames: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for frame in frames {
            layer.handle_frame(now, Received::new(path(), frame), &mut packets);
        }
        packets.into_iter().map(|(_, packet)| packet).collect()
    }

    #[test]
    fn packets_of_any_length_arrive_whole_in_any_order_of_frames() {
        let now = Instant::from_nanos(0);
        let mut random = SplitMix64::new(1);
        for len in [0, 1, 2, 3, 99, 100] {
            let (mut sender, mut receiver) = (Halves::new(100, 0), Halves::new(100, 0));
            let packets: Vec<Vec<u8>> = (0..5).map(|salt| vec![salt; len]).collect();
            for packet in &packets {
                sender.send(now, path(), packet);
            }
            let mut frames = frames_of(&mut sender, now);
            assert_eq!(frames.len(), 10);
            assert!(frames.iter().all(|frame| frame.len() <= sender.frame_max()));
            for at in (1..frames.len()).rev() {
                frames.swap(at, random.below(at as u64 + 1) as usize);
            }
            let mut got = receive(&mut receiver, now, &frames);
            got.sort();
            assert_eq!(got, packets);
            assert_eq!(receiver.poll_timeout(), None, "nothing waits");
        }
    }

    #[test]
    fn lone_half_is_discarded_after_its_timeout() {
        let now = Instant::from_nanos(0);
        let (mut sender, mut receiver) = (Halves::new(100, 0), Halves::new(100, 0));
        sender.send(now, path(), &[7; 50]);
        let frames = frames_of(&mut sender, now);
        assert_eq!(
            receive(&mut receiver, now, &frames[..1]),
            Vec::<Vec<u8>>::new()
        );
        let at = receiver.poll_timeout().expect("a half waits");
        assert_eq!(at, now + HALF_TIMEOUT);
        receiver.handle_timeout(at);
        assert_eq!(
            (
                receiver.counters().packets_discarded,
                receiver.poll_timeout()
            ),
            (1, None)
        );
        assert_eq!(
            receive(&mut receiver, at, &frames[1..]),
            Vec::<Vec<u8>>::new()
        );
    }

    #[test]
    fn half_of_an_earlier_life_is_not_joined_with_one_of_a_later() {
        let now = Instant::from_nanos(0);
        let mut receiver = Halves::new(100, 0);
        let mut before = Halves::new(100, 7_000);
        before.send(now, path(), &[1; 50]);
        let lone = frames_of(&mut before, now).remove(0);
        let mut after = Halves::new(100, 9_000);
        after.send(now, path(), &[2; 50]);
        let mut frames = frames_of(&mut after, now);
        frames.insert(0, lone);
        frames.swap(1, 2);
        assert_eq!(receive(&mut receiver, now, &frames), [vec![2; 50]]);
    }

    #[test]
    fn hostile_frames_use_bounded_memory_and_yield_nothing() {
        let now = Instant::from_nanos(0);
        let mut random = SplitMix64::new(2);
        let mut receiver = Halves::new(100, 0);
        for number in 0..20_000_u32 {
            let mut frame = number.to_be_bytes().to_vec();
            let len = random.below(90) as usize;
            frame.extend((0..len).map(|_| random.below(3) as u8));
            let half = 100 - random.below(2) as u8;
            if number % 2 == 0 {
                frame.truncate(4);
                frame.extend([0, 0, 0, half]);
                frame.extend(vec![1; first_len(usize::from(half))]);
            }
            assert_eq!(receive(&mut receiver, now, &[frame]), Vec::<Vec<u8>>::new());
        }
        assert!(
            receiver.waiting.len() <= HALVES_MAX && receiver.order.len() == receiver.waiting.len()
        );
    }
}
