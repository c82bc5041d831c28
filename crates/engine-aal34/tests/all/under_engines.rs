//! Circuits and transactions through cells: over UDP, and in virtual time with faults.

use crate::octets;
use crate::users::{self, MS};
use engine::Framing;
use engine_aal34::pdu::sar::SarFormat;
use engine_aal34::{Aal34Config, Adaptation, Cells, CellsConfig};
use engine_call::CallConfig;
use engine_xtp::{Config, Xtp};
use link::LinkConfig;
use sim::World;

fn study() -> Adaptation {
    Adaptation::Aal34(Aal34Config {
        sar: SarFormat::Study,
        mids: SarFormat::Study.mids(),
        ..Aal34Config::default()
    })
}

fn all() -> [Adaptation; 3] {
    [
        Adaptation::Aal34(Aal34Config::default()),
        study(),
        Adaptation::Aal5,
    ]
}

fn cells(adaptation: Adaptation, frame_cells: usize, packet_max: usize) -> Cells {
    let config = CellsConfig {
        adaptation,
        frame_cells,
        packet_max,
        ..CellsConfig::default()
    };
    Cells::new(config).expect("it fits together")
}

fn xtp(seed: u64) -> Xtp {
    Xtp::new(Config {
        framing: Framing::Messages,
        packet_len: 1408,
        seed,
        ..Config::default()
    })
}

#[test]
fn circuits_over_udp_carry_messages_as_sent() {
    let lens = [1, 88, 89, 1400, 60_000, 1, 5000].repeat(20);
    let sent: Vec<Vec<u8>> = (lens.iter().enumerate())
        .map(|(number, len)| octets(*len, number as u64))
        .collect();
    for adaptation in all() {
        let layer = || Box::new(cells(adaptation, 27, 1408)) as _;
        users::echo([xtp(1), xtp(2)], layer, &sent);
    }
}

#[test]
fn calls_over_udp_get_their_replies() {
    let config = CallConfig {
        packet_len: 1408,
        ..CallConfig::default()
    };
    let sent: Vec<Vec<u8>> = (0..100).map(|at| octets(at * 150, at as u64)).collect();
    for adaptation in all() {
        let layer = || Box::new(cells(adaptation, 27, 1408)) as _;
        users::call(&config, layer, &sent);
    }
}

/// Sends 60 messages in single cells over a line that loses, damages and doubles them; the trace, and
/// how many cells were lost.
fn transfer(adaptation: Adaptation, seed: u64) -> (Vec<sim::TraceLine>, u64) {
    let line = LinkConfig {
        rate_bps: Some(155_520_000),
        delay_ps: MS / 10,
        loss_ppm: 1000,
        corrupt_ppm: 1000,
        duplicate_ppm: 500,
        ..LinkConfig::default()
    };
    let layer = |packet_max| Box::new(cells(adaptation, 1, packet_max)) as _;
    let world = World::with_layers([xtp(seed), xtp(seed + 1)], layer, line, seed);
    let sent: Vec<Vec<u8>> = (0..60)
        .map(|at| octets(1 + at * 97, seed + at as u64))
        .collect();
    users::transfer(world.expect("packets fit"), &sent)
}

#[test]
fn circuit_over_a_line_with_faults_delivers_every_message_in_order() {
    let mut lost = 0;
    for adaptation in all() {
        for seed in 0..5 {
            let (trace, of_seed) = transfer(adaptation, seed);
            assert!(
                trace.iter().all(|line| line.packet.len() == 53),
                "cells alone"
            );
            lost += of_seed;
        }
    }
    assert!(lost > 50, "{lost} cells lost prove little");
}

#[test]
fn same_seed_gives_the_same_cells() {
    assert!(transfer(study(), 3).0 == transfer(study(), 3).0);
    assert!(transfer(study(), 3).0 != transfer(study(), 4).0);
}
