//! Captures of XTP as Wireshark's dissector reads them with the script that is shipped.

use crate::ring_captures::captured_race;
use crate::simulations::scenario;
use crate::support::{Scratch, dissector, towpath, tshark_fields};
use std::path::Path;

/// Protocols, key, and whether it is malformed, of each packet of XTP in a capture; None without tshark.
fn xtp_packets(file: &str) -> Option<Vec<[String; 3]>> {
    let script = dissector("xtp.lua");
    let fields = ["frame.protocols", "xtp.key", "_ws.malformed"];
    // An ICMP error quotes a packet whose receiver was gone; tshark dissects the quotation too.
    let filter = "xtp and not icmp";
    tshark_fields(Path::new(file), &["-X", &script, "-Y", filter], fields)
}

#[track_caller]
fn assert_read(packets: &[[String; 3]], least: usize, protocols: &str) {
    assert!(packets.len() >= least, "{packets:?}");
    for [found, key, malformed] in packets {
        assert!(found.starts_with(protocols), "{found}");
        assert!(
            key.starts_with("0x") && malformed.is_empty(),
            "{found} {key} {malformed}"
        );
    }
}

#[test]
fn capture_of_a_race_has_packets_of_xtp_over_udp() {
    let scratch = Scratch::new();
    let file = scratch.text("race.pcapng");
    if captured_race(&scratch, &file, "xtp").is_none() {
        return;
    }
    if let Some(packets) = xtp_packets(&file) {
        assert_read(&packets, 20, "eth:ethertype:ip:udp:xtp_udp:xtp");
    }
}

#[test]
fn capture_of_virtual_time_has_frames_of_xtp() {
    let scratch = Scratch::new();
    let (run, file) = (scenario(&scratch), scratch.text("pages.pcapng"));
    towpath(&["sim", "run", &run, "--pcap", &file]).exited(0);
    if let Some(packets) = xtp_packets(&file) {
        assert_read(&packets, 40, "eth:ethertype:xtp");
    }
}
