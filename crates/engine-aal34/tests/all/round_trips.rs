//! Packets of any length come out as they went in.

use crate::{
    adaptations, cells_of, frames_of, layer, octets, path, receive_at, receive_cells, start,
};
use engine::{Address, Frames, Layer, Path, Received};
use engine_aal34::pdu::cell::{CELL_LEN, CellHeader, Channel, HeaderFormat, IDLE_HEADER};
use engine_aal34::{Aal34Config, Adaptation, CellsConfig};
use std::time::Duration;

#[test]
fn packets_of_any_length_arrive_whole_and_in_order() {
    for (adaptation, packet_max) in adaptations() {
        let mut sender = layer(adaptation, packet_max);
        let mut receiver = layer(adaptation, packet_max);
        let lens = (1..300).chain([1023, 1024, packet_max - 1, packet_max]);
        let packets: Vec<Vec<u8>> = lens.map(|len| octets(len, len as u64)).collect();
        let mut got = Vec::new();
        for packet in &packets {
            sender.send(start(), path(), packet);
        }
        let frames = frames_of(&mut sender);
        for frame in &frames {
            assert!(frame.len() <= sender.frame_max() && frame.len() % CELL_LEN == 0);
            got.extend(receive_at(&mut receiver, start(), frame));
        }
        assert!(got == packets, "{adaptation:?}: {} came", got.len());
        assert_eq!((receiver.under_way(), receiver.poll_timeout()), (0, None));
        assert_eq!(receiver.cell_counters().discarded(), 0);
    }
}

#[test]
fn cells_of_interleaved_packets_alternate() {
    let adaptation = Adaptation::Aal34(Aal34Config {
        interleave: 2,
        ..Aal34Config::default()
    });
    let (mut sender, mut receiver) = (layer(adaptation, 500), layer(adaptation, 500));
    let packets = [octets(200, 1), octets(300, 2)];
    for packet in &packets {
        sender.send(start(), path(), packet);
    }
    let cells = cells_of(&mut sender);
    let mids: Vec<u16> = cells
        .iter()
        .map(|cell| u16::from_be_bytes([cell[5], cell[6]]) & 0x3ff)
        .collect();
    let [.., first, second] = mids[..] else {
        panic!("there are more cells")
    };
    assert_ne!(first, second);
    let alternating = [first, second].repeat(5);
    let expected: Vec<u16> = [second; 2].into_iter().chain(alternating).collect();
    assert_eq!(mids, expected, "five cells of one, seven of the other");
    assert_eq!(receive_cells(&mut receiver, &cells), packets);
}

#[test]
fn packets_of_many_peers_are_kept_apart() {
    for (adaptation, _) in adaptations() {
        let (mut sender, mut receiver) = (layer(adaptation, 700), layer(adaptation, 700));
        let peer = |station| Path::to(Address::Station(station));
        for station in 0..50 {
            sender.send(start(), peer(station), &octets(700, u64::from(station)));
        }
        let mut frames: Vec<(Path, Vec<u8>)> = Vec::new();
        loop {
            let mut batch = Frames::default();
            sender.poll_transmit(start(), 64, &mut batch);
            let Some(path) = batch.path() else { break };
            frames.extend(
                batch
                    .octets()
                    .chunks(CELL_LEN)
                    .map(|cell| (path, cell.to_vec())),
            );
        }
        // A cell of each in turn.
        frames.sort_by_key(|(path, cell)| (cell[6], *path));
        let mut by_peer: Vec<Vec<Vec<u8>>> = vec![Vec::new(); 50];
        for (path, cell) in frames {
            let Address::Station(station) = path.remote else {
                panic!("a station")
            };
            by_peer[station as usize].push(cell);
        }
        if matches!(adaptation, Adaptation::Aal5) {
            // Its cells have no number to sort by.
            continue;
        }
        let mut packets = Vec::new();
        for at in 0..by_peer[0].len() {
            for (station, cells) in by_peer.iter_mut().enumerate() {
                cells.sort_by_key(|cell| order(cell));
                let received = Received::new(peer(station as u32), &cells[at]);
                receiver.handle_frame(start(), received, &mut packets);
            }
        }
        assert_eq!(packets.len(), 50);
        for (path, packet) in packets {
            let Address::Station(station) = path.remote else {
                panic!("a station")
            };
            assert!(packet == octets(700, u64::from(station)));
        }
    }
}

/// BOM first, EOM last, the others as they were.
fn order(cell: &[u8]) -> u8 {
    match cell[5] >> 6 {
        2 => 0,
        0 => 1,
        _ => 2,
    }
}

#[test]
fn cells_of_others_and_without_user_data_are_skipped_and_counted() {
    let adaptation = Adaptation::Aal34(Aal34Config::default());
    let (mut sender, mut receiver) = (layer(adaptation, 500), layer(adaptation, 500));
    let packet = octets(100, 1);
    sender.send(start(), path(), &packet);
    let cells = cells_of(&mut sender);
    let mut idle = [0x6a; CELL_LEN];
    idle[..5].copy_from_slice(&IDLE_HEADER);
    let other = |header: CellHeader| {
        let mut cell = cells[1];
        cell[..5].copy_from_slice(&header.octets(HeaderFormat::Uni));
        cell
    };
    let usual = CellsConfig::default().channel;
    let foreign = other(CellHeader::user(Channel { vci: 77, ..usual }));
    let maintenance = other(CellHeader {
        payload_type: engine_aal34::pdu::cell::PayloadType::OamEndToEnd,
        ..CellHeader::user(usual)
    });
    let frame = [cells[0], idle, foreign, cells[1], maintenance, cells[2]].concat();
    assert_eq!(receive_at(&mut receiver, start(), &frame), [packet]);
    let counters = receiver.cell_counters();
    assert_eq!((counters.other_cells, counters.unknown_channels), (2, 1));
}

#[test]
fn frame_that_is_no_whole_number_of_cells_is_dropped() {
    for (adaptation, _) in adaptations() {
        let (mut sender, mut receiver) = (layer(adaptation, 500), layer(adaptation, 500));
        sender.send(start(), path(), &octets(20, 1));
        let frame = frames_of(&mut sender).concat();
        assert_eq!(frame.len(), CELL_LEN);
        for wrong in [&frame[..52], &[&frame[..], &[0]].concat(), &[]] {
            assert!(receive_at(&mut receiver, start(), wrong).is_empty());
        }
        assert_eq!(receiver.cell_counters().malformed_frames, 3);
        assert_eq!(receiver.counters().packets_parsed, 3);
        assert_eq!(receive_at(&mut receiver, start(), &frame).len(), 1);
    }
}

#[test]
fn packet_that_never_ends_is_given_up_when_the_mri_timer_expires() {
    for (adaptation, _) in adaptations() {
        let (mut sender, mut receiver) = (layer(adaptation, 500), layer(adaptation, 500));
        sender.send(start(), path(), &octets(500, 1));
        let cells = cells_of(&mut sender);
        let (last, rest) = cells.split_last().expect("cells");
        assert!(receive_cells(&mut receiver, rest).is_empty());
        let at = receiver.poll_timeout().expect("a packet is under way");
        assert_eq!(at, start() + Duration::from_millis(100));
        receiver.handle_timeout(at);
        assert_eq!((receiver.under_way(), receiver.poll_timeout()), (0, None));
        assert_eq!(receiver.cell_counters().mri_timeouts, 1);
        assert!(receive_at(&mut receiver, at, last).is_empty());
    }
}

#[test]
fn packets_that_cannot_be_sent_are_counted() {
    let mut sender = layer(Adaptation::Aal5, 100);
    sender.send(start(), path(), &[]);
    sender.send(start(), path(), &[0; 101]);
    assert!(frames_of(&mut sender).is_empty());
    assert_eq!(sender.cell_counters().unsendable, 2);
    let mut sender = layer(Adaptation::Aal34(Aal34Config::default()), 100);
    sender.send(start(), path(), &[]);
    let mut receiver = layer(Adaptation::Aal34(Aal34Config::default()), 100);
    let cells = cells_of(&mut sender);
    assert_eq!(receive_cells(&mut receiver, &cells), [Vec::<u8>::new()]);
}
