//! Cells: known octets, round trips, damage and loss, hostile frames; under engines over UDP and in
//! virtual time.

mod damage;
#[path = "../../../../fuzz/src/drawn.rs"]
mod drawn;
mod fuzz;
mod repair;
mod round_trips;
mod under_engines;
#[path = "../../../layer-halves/tests/all/users.rs"]
mod users;
mod vectors;

use engine::{Address, Frames, Instant, Layer, Path, Received, SplitMix64};
use engine_aal34::pdu::cell::CELL_LEN;
use engine_aal34::pdu::cpcs::CpcsMode;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig};

/// A cell as it is on the line.
type Cell = [u8; CELL_LEN];

fn path() -> Path {
    Path::to(Address::Station(1))
}

fn start() -> Instant {
    Instant::from_nanos(0)
}

fn octets(len: usize, seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    (0..len).map(|_| random.next_u64() as u8).collect()
}

/// A layer for packets of at most `packet_max` octets.
fn layer(adaptation: Adaptation, packet_max: usize) -> Cells {
    let config = CellsConfig {
        adaptation,
        packet_max,
        ..CellsConfig::default()
    };
    Cells::new(config).expect("it fits together")
}

/// Every way to use the adaptation layers, with the longest packet of each.
fn adaptations() -> Vec<(Adaptation, usize)> {
    let usual = Aal34Config::default();
    let study = Aal34Config {
        sar: SarFormat::Study,
        mids: SarFormat::Study.mids(),
        ..usual
    };
    vec![
        (Adaptation::Aal34(usual), 9180),
        (
            Adaptation::Aal34(Aal34Config {
                mode: CpcsMode::Streaming,
                correct_bits: true,
                interleave: 3,
                ..usual
            }),
            9180,
        ),
        (Adaptation::Aal34(Aal34Config { mids: 1, ..usual }), 9180),
        (Adaptation::Aal34(study), 1408),
        (
            Adaptation::Aal34(Aal34Config {
                interleave: 16,
                mids: 17,
                ..study
            }),
            1408,
        ),
        (Adaptation::Aal5, 9180),
    ]
}

/// All frames that `layer` has, of at most eight a call.
fn frames_of(layer: &mut Cells) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut frames = Frames::default();
        layer.poll_transmit(start(), 8, &mut frames);
        if frames.is_empty() {
            return all;
        }
        let each = frames.octets().chunks(frames.frame_len());
        assert!(each.len() <= 8);
        all.extend(each.map(<[u8]>::to_vec));
    }
}

/// All cells that `layer` has.
fn cells_of(layer: &mut Cells) -> Vec<Cell> {
    let frames = frames_of(layer).concat();
    let (cells, rest) = frames.as_chunks::<CELL_LEN>();
    assert!(rest.is_empty());
    cells.to_vec()
}

/// Packets that are whole with `frame`.
fn receive_at(layer: &mut Cells, now: Instant, frame: &[u8]) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    layer.handle_frame(now, Received::new(path(), frame), &mut packets);
    packets.into_iter().map(|(_, packet)| packet).collect()
}

/// Packets that are whole with `cells`, each in a frame of its own.
fn receive_cells(layer: &mut Cells, cells: &[Cell]) -> Vec<Vec<u8>> {
    let each = cells.iter();
    each.flat_map(|cell| receive_at(layer, start(), cell))
        .collect()
}
