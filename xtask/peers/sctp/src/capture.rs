//! Packets as a capture file, and what tshark says of them.

use std::path::Path;
use std::process::Command;

/// The link type of packets that begin with SCTP's common header (tcpdump.org, LINKTYPE_SCTP).
const LINKTYPE_SCTP: u32 = 248;

/// A packet and when it left, ns.
pub type Captured = (u64, Vec<u8>);

/// A capture file of these packets.
pub fn pcap(packets: &[Captured]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, LINKTYPE_SCTP] {
        file.extend(u32::to_le_bytes(word));
    }
    for (at, packet) in packets {
        let us = at / 1000;
        let len = packet.len() as u32;
        for word in [(us / 1_000_000) as u32, (us % 1_000_000) as u32, len, len] {
            file.extend(word.to_le_bytes());
        }
        file.extend_from_slice(packet);
    }
    file
}

/// What tshark finds wrong in packets: malformed ones, wrong checksums, and experts' errors. None if
/// tshark is not installed.
///
/// # Errors
///
/// When the file cannot be written, or tshark fails.
pub fn faults(file: &Path, packets: &[Captured]) -> Result<Option<Vec<String>>, String> {
    std::fs::write(file, pcap(packets)).map_err(|error| error.to_string())?;
    let output = Command::new("tshark")
        .arg("-r")
        .arg(file)
        .args(["-o", "sctp.checksum:CRC 32c"])
        .args([
            "-Y",
            "_ws.malformed || sctp.checksum.status == 0 || _ws.expert.severity == 8388608",
        ])
        .output();
    let Ok(output) = output else {
        return Ok(None);
    };
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(Some(text.lines().map(str::to_owned).collect()))
}
