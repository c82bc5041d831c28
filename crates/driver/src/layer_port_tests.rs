//! What a layer of cells allocates.

use crate::sys::counting_allocator::allocations;
use engine::{Address, Frames, Instant, Layer, Path, Received};
use engine_aal34::pdu::cell::CELL_LEN;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig};

/// Allocations of a packet's way from its sender to its receiver, and the cells it took.
fn cost(adaptation: Adaptation, packet: &[u8]) -> (u64, usize) {
    let config = CellsConfig {
        adaptation,
        ..CellsConfig::default()
    };
    let end = || Cells::new(config.clone()).expect("it fits together");
    let (mut sender, mut receiver) = (end(), end());
    let (now, path) = (Instant::from_nanos(0), Path::to(Address::Station(1)));
    let (mut frames, mut packets) = (Frames::default(), Vec::with_capacity(1));
    let mut cells = 0;
    let mut pass = || {
        sender.send(now, path, packet);
        cells = 0;
        loop {
            frames.clear();
            sender.poll_transmit(now, 16, &mut frames);
            if frames.is_empty() {
                break;
            }
            cells += frames.octets().len() / CELL_LEN;
            for frame in frames.octets().chunks(frames.frame_len()) {
                receiver.handle_frame(now, Received::new(path, frame), &mut packets);
            }
        }
        assert_eq!(packets.len(), 1);
        for (_, whole) in packets.drain(..) {
            assert_eq!(whole, packet);
            receiver.recycle(whole);
        }
    };
    // Buffers that stay grow with the first packets.
    (0..3).for_each(|_| pass());
    let before = allocations();
    (0..10).for_each(|_| pass());
    (allocations() - before, cells)
}

#[test]
fn packet_of_any_number_of_cells_costs_no_allocation() {
    for adaptation in [Adaptation::Aal34(Aal34Config::default()), Adaptation::Aal5] {
        for len in [1, 300, 9180] {
            let (allocations, cells) = cost(adaptation, &vec![7; len]);
            assert_eq!(allocations, 0, "{len} octets, {cells} cells, ten times");
        }
    }
}
