//! tshark reads what the engine sends, and has nothing to complain about.

use crate::support::{Message, Reader, faulty_link, run};
use engine::Note;
use engine_sctp::SctpConfig;
use std::path::PathBuf;
use std::process::Command;

/// The link type of packets that begin with SCTP's common header (tcpdump.org, LINKTYPE_SCTP).
const LINKTYPE_SCTP: u32 = 248;

/// A capture file of these packets.
fn pcap(trace: &[sim::TraceLine]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, LINKTYPE_SCTP] {
        file.extend(u32::to_le_bytes(word));
    }
    for line in trace {
        let us = line.at_ps / 1_000_000;
        let len = line.packet.len() as u32;
        for word in [(us / 1_000_000) as u32, (us % 1_000_000) as u32, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend_from_slice(&line.packet);
    }
    file
}

#[test]
fn tshark_finds_no_fault_in_packets_of_a_lossy_association() {
    let message = |index: u32| Message {
        bytes: vec![0x80; [1, 64, 1000, 20_000][index as usize % 4]],
        note: Note {
            stream: (index % 5) as u16,
            unordered: index.is_multiple_of(7),
            ..Note::default()
        },
    };
    let sent: Vec<Message> = (0..150).map(message).collect();
    let configs = [1, 2].map(|seed| SctpConfig {
        seed,
        ..SctpConfig::default()
    });
    let outcome = run(configs, &sent, faulty_link(), 1, Reader { from_ms: 0 });
    assert_eq!(outcome.received.len(), sent.len());
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("sctp.pcap");
    std::fs::write(&path, pcap(&outcome.trace)).expect("the capture is written");
    let tshark = Command::new("tshark")
        .arg("-r")
        .arg(&path)
        .args([
            "-o",
            "sctp.checksum:CRC 32c",
            "-T",
            "fields",
            "-E",
            "separator=;",
        ])
        .args([
            "-e",
            "frame.protocols",
            "-e",
            "sctp.checksum.status",
            "-e",
            "_ws.malformed",
        ])
        .args(["-e", "sctp.chunk_type", "-e", "_ws.expert.message"])
        .output();
    let Ok(output) = tshark else {
        println!("SKIPPED: tshark is not installed; the packets were not decoded by it");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark: {errors}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), outcome.trace.len(), "{errors}");
    for line in lines {
        let fields: Vec<&str> = line.split(';').collect();
        assert!(fields[0].contains("sctp"), "{line}");
        assert_eq!(fields[1], "1", "the checksum is good: {line}");
        assert_eq!(fields[2], "", "malformed: {line}");
        assert!(!fields[3].is_empty(), "{line}");
    }
}
