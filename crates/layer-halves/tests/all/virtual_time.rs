//! Circuits through the layer in virtual time.

use crate::users::{self, MS, Reader, open};
use crate::{messages, xtp};
use driver::Pump;
use engine::{Address, Associations, Instant, Path, Protocol};
use layer_halves::Halves;
use link::LinkConfig;
use sim::World;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::rc::Rc;
use wire::{Capabilities, MemoryMedium, MemoryWire};

/// Sends 200 messages over a link with faults; the frames of the run, and how many were lost.
fn transfer(config: LinkConfig, seed: u64) -> (Vec<sim::TraceLine>, u64) {
    let layer = |packet_max: usize| Box::new(Halves::new(packet_max, 1)) as _;
    let world = World::with_layers([xtp(seed), xtp(seed + 1)], layer, config, seed);
    users::transfer(world.expect("packets fit"), &messages(seed, 200))
}

fn lossy() -> LinkConfig {
    LinkConfig {
        rate_bps: Some(50_000_000),
        delay_ps: MS,
        loss_ppm: 20_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 20_000,
        reorder_ps: 3 * MS,
        ..LinkConfig::default()
    }
}

#[test]
fn circuit_over_a_path_with_faults_delivers_every_message_in_order() {
    let mut lost = 0;
    for seed in 0..10 {
        let (trace, of_seed) = transfer(lossy(), seed);
        let frame_max = trace.iter().map(|line| line.packet.len()).max();
        assert!(frame_max < Some(800), "frames are halves of packets");
        lost += of_seed;
    }
    assert!(lost > 300, "{lost} frames lost prove little");
}

#[test]
fn same_seed_gives_the_same_frames() {
    assert!(transfer(lossy(), 3).0 == transfer(lossy(), 3).0);
    assert!(transfer(lossy(), 3).0 != transfer(lossy(), 4).0);
}

#[test]
fn engine_whose_packets_do_not_fit_is_refused_by_the_world() {
    let world = World::with_layers(
        [xtp(1), xtp(2)],
        |packet_max| Box::new(Halves::new(packet_max - 1, 1)),
        LinkConfig::default(),
        1,
    );
    assert!(world.is_err());
}

/// Arrivals of each side of a pipe.
type Queues = [Rc<RefCell<VecDeque<Vec<u8>>>>; 2];

/// A wire in memory that has no room every other time.
struct Narrow {
    queues: Queues,
    side: usize,
    calls: u64,
    refused: Rc<RefCell<u64>>,
}

impl MemoryMedium for Narrow {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            packet_max: 800,
            segments_max: 4,
            batch_bytes_max: 3200,
            receive_len: 3200,
        }
    }

    fn send(&mut self, _: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        self.calls += 1;
        if self.calls.is_multiple_of(2) {
            *self.refused.borrow_mut() += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let octets: Vec<u8> = slices.iter().flat_map(|slice| slice.to_vec()).collect();
        assert!(segment_size <= 800 && octets.len() <= 4 * segment_size);
        let mut queue = self.queues[1 - self.side].borrow_mut();
        queue.extend(octets.chunks(segment_size).map(<[u8]>::to_vec));
        Ok(())
    }

    fn take(&mut self) -> Option<(Path, Vec<u8>, usize)> {
        let frame = self.queues[self.side].borrow_mut().pop_front()?;
        let from = Path::to(Address::Station(1 - self.side as u32));
        let len = frame.len();
        Some((from, frame, len))
    }

    fn set_fragmentation(&mut self, _: engine::Fragmentation) {}
}

#[test]
fn frames_that_the_wire_does_not_take_stay_until_it_does() {
    let queues: Queues = Default::default();
    let refused = Rc::new(RefCell::new(0));
    let mut pumps = [0, 1].map(|side| {
        let wire = MemoryWire(Narrow {
            queues: queues.clone(),
            side,
            calls: 0,
            refused: Rc::clone(&refused),
        });
        let layer = Box::new(Halves::new(1500, 1));
        Pump::with_layer(xtp(side as u64), wire, layer).expect("packets fit")
    });
    pumps[1].engine().listen(true);
    let mut now = Instant::from_nanos(0);
    let (_, mut producer) = open(&mut pumps[0], now);
    let sent = messages(1, 50);
    let mut reader = Reader::new();
    let (mut next, mut was_blocked) = (0, false);
    for _ in 0..100_000 {
        while next < sent.len() && producer.append_message(&sent[next]) {
            next += 1;
        }
        for pump in &mut pumps {
            now = now + std::time::Duration::from_micros(10);
            pump.handle_timeout(now);
            while pump.receive(now).expect("no wire fails") {}
            pump.submit_all_and_flush(now, true).expect("no wire fails");
            was_blocked |= pump.is_blocked();
        }
        reader.take(&mut pumps[1], now);
        if reader.received.len() == sent.len() {
            break;
        }
    }
    assert!(reader.received == sent, "{} came", reader.received.len());
    assert!(was_blocked && *refused.borrow() > 100, "{refused:?}");
    let again = pumps[0].engine().counters().retransmissions;
    assert_eq!(again, 0, "no frame was lost or sent twice");
}
