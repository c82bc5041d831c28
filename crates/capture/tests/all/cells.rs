//! ATM cells in a file, as tshark reads them.

use capture::{CellWriter, CellsSeen, Direction, PcapngWriter};
use std::fs::File;
use std::process::Command;

/// The PDU of AAL5 of octets 0 to 40, and its CRC-32.
const CRC: u32 = 0x4eb3_b0e7;

fn pdu() -> Vec<u8> {
    let mut pdu: Vec<u8> = (0..41).collect();
    pdu.resize(92, 0);
    pdu[91] = 41;
    pdu.extend(CRC.to_be_bytes());
    pdu
}

/// The cells of `pdu` on path 1, channel 100, the last one marked as the last of AAL5.
fn frame(pdu: &[u8]) -> Vec<u8> {
    let cells = pdu.chunks(48);
    let count = cells.len();
    let cell = |(at, payload): (usize, &[u8])| {
        let header = match at + 1 == count {
            true => [0x00, 0x10, 0x06, 0x42, 0x40],
            false => [0x00, 0x10, 0x06, 0x40, 0x4e],
        };
        [&header, payload].concat()
    };
    cells.enumerate().flat_map(cell).collect()
}

/// What tshark says of frames that were written; None where it is not installed.
fn said_of(name: &str, is_aal5: bool, frames: &[Vec<u8>]) -> Option<String> {
    let path = std::env::temp_dir().join(format!("towpath-{name}-{}.pcapng", std::process::id()));
    let file = File::create(&path).expect("a file");
    let mut writer = PcapngWriter::new(file, "", Default::default()).expect("it begins");
    let mut cells = CellWriter::new(&mut writer, "cells", is_aal5).expect("an interface");
    for frame in frames {
        let seen = CellsSeen {
            at_ns: 5_250_000_000,
            direction: Some(Direction::Sent),
            comment: "",
        };
        cells
            .write(&mut writer, &seen, frame)
            .expect("it is written");
    }
    writer.finish().expect("it ends");
    let mut command = Command::new("tshark");
    let output = command
        .args(["-n", "-o", "erf.aal5_type:Unspecified", "-V", "-r"])
        .arg(&path)
        .output();
    std::fs::remove_file(&path).expect("it is there");
    let Ok(output) = output else {
        eprintln!("SKIPPED: tshark is not installed");
        return None;
    };
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {errors}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn tshark_reads_each_cell_and_checks_the_pdu_of_aal5() {
    let Some(said) = said_of("aal5", true, &[frame(&pdu())]) else {
        return;
    };
    assert_eq!(said.matches("Type 3: ATM").count(), 2, "{said}");
    assert_eq!(said.matches("Type 4: AAL5").count(), 1, "{said}");
    assert_eq!(said.matches("VPI: 1\n").count(), 3, "{said}");
    assert_eq!(said.matches("VCI: 100\n").count(), 3, "{said}");
    assert_eq!(said.matches("Payload Type: 1").count(), 1, "{said}");
    assert!(said.contains("AAL5 len: 41"), "{said}");
    assert!(said.contains("AAL5 CRC: 0x4eb3b0e7 (correct)"), "{said}");
    assert!(said.contains("Epoch Time: 5.250000000 seconds"), "{said}");
    assert!(!said.contains("Malformed"), "{said}");
}

#[test]
fn tshark_sees_a_wrong_bit_in_a_pdu_and_a_cell_that_is_missing() {
    let mut damaged = frame(&pdu());
    damaged[20] ^= 1;
    let short = frame(&pdu())[53..].to_vec();
    let Some(said) = said_of("damaged", true, &[damaged, short]) else {
        return;
    };
    assert_eq!(said.matches("Type 4: AAL5").count(), 2, "{said}");
    assert_eq!(said.matches("(correct)").count(), 0, "{said}");
    assert!(said.contains("(incorrect"), "{said}");
}

#[test]
fn cells_of_another_layer_are_single_cells() {
    // Payloads of AAL3/4: tshark does not take them apart.
    let Some(said) = said_of("aal34", false, &[frame(&pdu())]) else {
        return;
    };
    assert_eq!(said.matches("Type 3: ATM").count(), 2, "{said}");
    assert!(!said.contains("AAL5"), "{said}");
}
