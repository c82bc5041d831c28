//! Cells of every kind, driven by a script of packets, frames and time steps; any octets are one.

use engine::{Address, Frames, Instant, Layer, Path, Received};
use engine_aal34::pdu::cell::CELL_LEN;
use engine_aal34::pdu::cpcs::CpcsMode;
use engine_aal34::pdu::hec;
use engine_aal34::pdu::sar::{SarFormat, write_cell};
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig, Repair};
use std::time::Duration;

const PACKET_MAX: usize = 400;

/// Runs the script, whose first octet chooses the layer; how many packets came out.
pub fn frames(octets: &[u8]) -> u64 {
    let Some((choice, mut rest)) = octets.split_first() else {
        return 0;
    };
    let (mut sender, mut receiver) = (layer(*choice), layer(*choice));
    let mut now = Instant::from_nanos(0);
    let mut kept: Vec<Vec<u8>> = Vec::new();
    let mut delivered = 0;
    while let [code, len, more @ ..] = rest {
        let (head, tail) = more.split_at(usize::from(*len).min(more.len()));
        rest = tail;
        match code % 8 {
            // Octets as a frame.
            0 => delivered += arrive(&mut receiver, now, head),
            // Octets as cells whose checks are right.
            1 => delivered += arrive(&mut receiver, now, &forged(head)),
            // A packet on its way: its cells are kept.
            2..=4 => {
                let repeated = head.repeat(usize::from(code / 8 % 4) + 1);
                let packet = &repeated[..repeated.len().min(PACKET_MAX)];
                sender.send(now, path(), packet);
                kept.extend(taken(&mut sender, now));
            }
            // A kept cell arrives, perhaps damaged, or perhaps not.
            5 if !kept.is_empty() => {
                let mut cell = kept.remove(0);
                let damage = usize::from(*len);
                if damage < 8 * 8 && code & 0x80 != 0 {
                    cell[damage / 8] ^= 0x80 >> (damage % 8);
                }
                if damage != 255 {
                    delivered += arrive(&mut receiver, now, &cell);
                }
            }
            // All kept cells arrive.
            6 => delivered += arrive(&mut receiver, now, &std::mem::take(&mut kept).concat()),
            _ => {
                now = now + Duration::from_millis(u64::from(*len));
                receiver.handle_timeout(now);
                let next = receiver.poll_timeout();
                assert!(next.is_none_or(|at| at > now), "the timeout stays due");
            }
        }
        check_account(&receiver, delivered);
    }
    // With time, nothing waits any longer.
    receiver.handle_timeout(now + Duration::from_secs(3600));
    assert_eq!((receiver.under_way(), receiver.poll_timeout()), (0, None));
    delivered
}

fn layer(choice: u8) -> Cells {
    let sar = match choice & 2 {
        0 => SarFormat::Standard,
        _ => SarFormat::Study,
    };
    let aal34 = Aal34Config {
        sar,
        mode: match choice & 4 {
            0 => CpcsMode::Message,
            _ => CpcsMode::Streaming,
        },
        correct_bits: choice & 8 != 0,
        mids: if choice & 16 == 0 { sar.mids() } else { 3 },
        interleave: if choice & 96 == 32 { 2 } else { 1 },
        repair: match choice & 64 {
            0 => Repair::Discard,
            _ => Repair::Cells,
        },
    };
    let adaptation = match choice & 1 {
        0 => Adaptation::Aal34(aal34),
        _ => Adaptation::Aal5,
    };
    let config = CellsConfig {
        adaptation,
        packet_max: PACKET_MAX,
        frame_cells: 1,
        ..CellsConfig::default()
    };
    Cells::new(config).expect("it fits together")
}

fn path() -> Path {
    Path::to(Address::Station(0))
}

/// Octets as cells of the channel in use with a right header check, and in half of them a right CRC-10.
fn forged(octets: &[u8]) -> Vec<u8> {
    let mut cells = Vec::new();
    for octets in octets.chunks(49) {
        let mut piece = [0; 44];
        let tail = octets.get(3..).unwrap_or_default();
        let len = tail.len().min(piece.len());
        piece[..len].copy_from_slice(&tail[..len]);
        let [kind, high, low] = std::array::from_fn(|at| octets.get(at).copied().unwrap_or(0));
        let bits = 32 << 4 | u32::from(kind & 1) << 1;
        let [a, b, c, d] = bits.to_be_bytes();
        let header = [a, b, c, d, hec::hec(bits)];
        let li = usize::from(kind >> 2);
        let mut cell = [0; CELL_LEN];
        write_cell(
            &mut cell,
            header,
            u16::from_be_bytes([high, low & 3]),
            &piece,
            li,
        );
        if kind & 2 != 0 {
            cell[52] ^= kind;
        }
        cells.extend(cell);
    }
    cells
}

/// The frames that the layer has: one cell each.
fn taken(layer: &mut Cells, now: Instant) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut frames = Frames::default();
        layer.poll_transmit(now, 7, &mut frames);
        if frames.is_empty() {
            return all;
        }
        let each = frames.octets().chunks(frames.frame_len());
        assert!(each.len() <= 7, "more frames than asked for");
        for frame in each {
            assert_eq!(frame.len(), CELL_LEN);
            all.push(frame.to_vec());
        }
    }
}

/// A frame arrives; how many packets are whole with it.
fn arrive(layer: &mut Cells, now: Instant, frame: &[u8]) -> u64 {
    let mut packets = Vec::new();
    layer.handle_frame(now, Received::new(path(), frame), &mut packets);
    assert!(
        packets.len() <= frame.len() / CELL_LEN,
        "a cell completes one packet at most"
    );
    for (by, packet) in &packets {
        assert_eq!(*by, path());
        assert!(packet.len() <= PACKET_MAX);
    }
    let count = packets.len() as u64;
    for (_, packet) in packets {
        layer.recycle(packet);
    }
    count
}

/// Packets that came out were counted; no more are under way than there are identifiers.
fn check_account(layer: &Cells, delivered: u64) {
    assert_eq!(layer.cell_counters().packets_received, delivered);
    assert!(layer.under_way() <= 1024);
    assert_eq!(layer.under_way() == 0, layer.poll_timeout().is_none());
}
