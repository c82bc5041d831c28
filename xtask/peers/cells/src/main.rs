//! One number: how often a second a piece of work is done, `ours` or by `peer`.
//!
//!     cells-peer crc10|segment|reassemble ours|peer SECONDS
//!
//! `crc10` is that of 48 octets. `segment` makes the 25 cells of a packet of 1,092 octets, `reassemble` the
//! packet of its cells; the peer of both is a copy of the packet and 25 times `crc10` by crate crc.
#![forbid(unsafe_code)]

use crc::{CRC_10_ATM, Crc, Table};
use engine::{Address, Frames, Instant, Layer, Path, Received};
use engine_aal34::pdu::cpcs::CpcsMode;
use engine_aal34::pdu::crc10;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::procedure::segment::Segmenter;
use engine_aal34::{Cells, CellsConfig};
use std::hint::black_box;

/// Octets of a packet: 68 of VMTP's header and 1,024 of data.
const PACKET: usize = 1092;

/// Cells of a packet.
const CELLS: usize = 25;

static CRC: Crc<u16, Table<16>> = Crc::<u16, Table<16>>::new(&CRC_10_ATM);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [work, side, seconds] = &words[..] else {
        eprintln!("usage: cells-peer crc10|segment|reassemble ours|peer SECONDS");
        std::process::exit(2);
    };
    let seconds = seconds.parse().unwrap_or(0.2);
    let payloads: Vec<[u8; 48]> = (0..64_u8).map(payload).collect();
    let rate = match (work.as_str(), side.as_str()) {
        ("crc10", "ours") => rate(seconds, 64, || {
            for payload in &payloads {
                black_box(crc10::remainder_of(black_box(payload)));
            }
        }),
        ("crc10", _) => rate(seconds, 64, || {
            for payload in &payloads {
                black_box(CRC.checksum(black_box(payload)));
            }
        }),
        ("segment", "ours") => segment(seconds),
        ("reassemble", "ours") => reassemble(seconds),
        _ => copy_and_crc(seconds, &payloads),
    };
    println!("{rate}");
}

fn payload(salt: u8) -> [u8; 48] {
    std::array::from_fn(|at| (at as u8).wrapping_mul(37) ^ salt)
}

/// How often a second `work`, which does `each` at a time.
fn rate(seconds: f64, each: u64, mut work: impl FnMut()) -> f64 {
    let mut done = 0;
    let began = std::time::Instant::now();
    loop {
        for _ in 0..64 {
            work();
        }
        done += 64 * each;
        let elapsed = began.elapsed().as_secs_f64();
        if elapsed >= seconds {
            return done as f64 / elapsed;
        }
    }
}

fn segment(seconds: f64) -> f64 {
    let packet = vec![7; PACKET];
    let (format, mode) = (SarFormat::Standard, CpcsMode::Message);
    let mut segmenter = Segmenter::new(format, mode, PACKET, [0, 0, 2, 0, 0], 1);
    let mut cells = Vec::new();
    rate(seconds, 1, || {
        cells.clear();
        segmenter.segment(black_box(&packet), || 9, &mut cells);
        assert_eq!(black_box(&cells).len(), CELLS * 53);
    })
}

fn reassemble(seconds: f64) -> f64 {
    let config = CellsConfig::default();
    let layer = || Cells::new(config.clone()).expect("it fits together");
    let (mut sender, mut receiver) = (layer(), layer());
    let (now, path) = (Instant::from_nanos(0), Path::to(Address::Station(1)));
    sender.send(now, path, &[7; PACKET]);
    let mut frames = Frames::default();
    sender.poll_transmit(now, 1, &mut frames);
    let frame = frames.octets().to_vec();
    let mut packets = Vec::new();
    rate(seconds, 1, || {
        receiver.handle_frame(now, Received::new(path, black_box(&frame)), &mut packets);
        assert_eq!(black_box(&packets).len(), 1);
        for (_, packet) in packets.drain(..) {
            receiver.recycle(packet);
        }
    })
}

fn copy_and_crc(seconds: f64, payloads: &[[u8; 48]]) -> f64 {
    let packet = vec![7_u8; PACKET];
    let mut copy = vec![0; PACKET];
    rate(seconds, 1, || {
        copy.copy_from_slice(black_box(&packet));
        black_box(&mut copy);
        for payload in &payloads[..CELLS] {
            black_box(CRC.checksum(black_box(payload)));
        }
    })
}
