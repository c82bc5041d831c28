//! The VMTP commands as other programs use them.

use crate::ring_captures::captured_race;
use crate::support::{Scratch, assert_has, dissector, towpath, tshark_fields};
use crate::xtp_tools::Tool;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Whether it is a Response, transaction, octets of segment data, and kind of frame of each packet of VMTP in a capture, as tshark
/// reads them with the shipped dissector; None without tshark. Of a datagram that the kernel cuts later, which has several packets,
/// the first of them.
fn vmtp_packets(file: &str) -> Option<Vec<[String; 4]>> {
    let script = dissector("vmtp.lua");
    let fields = [
        "vmtp.response",
        "vmtp.transaction",
        "vmtp.length",
        "frame.protocols",
    ];
    tshark_fields(Path::new(file), &["-X", &script, "-Y", "vmtp"], fields)
}

/// How many transactions have a Response in `packets`. Each but `lost` of them has a Request there too.
fn answered(packets: &[[String; 4]], lost: usize) -> usize {
    let of = |response: &str| -> BTreeSet<&str> {
        let those = packets.iter().filter(|packet| packet[0] == response);
        those.map(|packet| packet[1].as_str()).collect()
    };
    let (requests, responses) = (of("0"), of("1"));
    let alone: Vec<_> = responses.difference(&requests).collect();
    assert!(alone.len() <= lost, "{lost} lost, but {alone:?}");
    responses.len()
}

/// The number of packets that a race says it could not capture.
fn not_captured(said: &str) -> usize {
    let words: Vec<&str> = said.split_whitespace().collect();
    let place = words
        .windows(2)
        .position(|pair| pair == ["not", "captured"]);
    place.map_or(0, |at| words[at - 1].parse().expect("a number"))
}

#[test]
fn capture_of_a_race_has_requests_and_responses_that_the_dissector_reads() {
    let scratch = Scratch::new();
    let file = scratch.text("race.pcapng");
    let Some(said) = captured_race(&scratch, &file, "vmtp") else {
        return;
    };
    let Some(packets) = vmtp_packets(&file) else {
        return;
    };
    let count = answered(&packets, not_captured(&said));
    assert!(count >= 10, "{count} of {} packets", packets.len());
    // Messages of 64 octets, both ways, and what has no segment.
    let words: BTreeSet<&str> = packets.iter().map(|packet| packet[2].as_str()).collect();
    assert!(words.contains("16") && words.len() <= 2, "{words:?}");
}

#[test]
fn capture_of_virtual_time_has_frames_of_vmtp() {
    let scratch = Scratch::new();
    let scenario = r#"
        name = "calls"
        time_limit = "60 s"
        [medium]
        kind = "ether10"
        [faults]
        loss = "5%"
        [[station]]
        count = 2
        engine = { protocol = "vmtp" }
        [[traffic]]
        from = [1]
        to = [0]
        length = { fixed = 2000 }
        interarrival = { fixed = "1 ms" }
        messages = 20
        reply = 4000
    "#;
    fs::write(scratch.path("calls.toml"), scenario).expect("room");
    let (run, file) = (scratch.text("calls.toml"), scratch.text("calls.pcapng"));
    let done = towpath(&["sim", "run", &run, "--pcap", &file]).exited(0);
    assert_has(&done.out, "20 settled");
    let Some(packets) = vmtp_packets(&file) else {
        return;
    };
    assert!(answered(&packets, 0) >= 20, "{packets:?}");
    let all = packets
        .iter()
        .all(|packet| packet[3] == "eth:ethertype:vmtp");
    assert!(all, "{packets:?}");
}

#[test]
fn files_are_put_listed_and_got_and_the_server_reports_its_entities() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("served")).expect("a folder");
    let octets: Vec<u8> = (0..200_000u32).map(|at| (at * 7) as u8).collect();
    fs::write(scratch.path("file"), &octets).expect("room");
    let trace = scratch.text("trace");
    let folder = scratch.text("served");
    let server = Tool::start(&words!(
        "blocks serve",
        &folder,
        "--listen 127.0.0.1:0 --trace",
        &trace
    ));
    let run = |arguments: &[&str]| {
        let done = towpath(arguments);
        assert_eq!(done.code, 0, "{arguments:?}: {}", done.err);
        done.out
    };
    let said = run(&["blocks", "put", &server.at, &scratch.text("file")]);
    assert!(said.contains("file: 200000 bytes"), "{said}");
    run(&["blocks", "put", &server.at, &scratch.text("file"), "other"]);
    let listed = run(&["blocks", "ls", &server.at]);
    let lines: Vec<&str> = listed.lines().collect();
    assert!(lines.len() == 2 && lines[0].ends_with("  file"), "{listed}");
    let status = run(&["blocks", "stat", &server.at, "file", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(
        (&status["bytes"], &status["kind"]),
        (&200_000.into(), &"file".into())
    );
    run(&["blocks", "get", &server.at, "file", &scratch.text("copy")]);
    assert!(fs::read(scratch.path("copy")).expect("it is here") == octets);
    let process = server.child.as_ref().expect("it runs").id().to_string();
    let reported = run(&["vmtp", "entities", &process]);
    assert!(
        reported.contains("VMTP at") && reported.contains("client"),
        "{reported}"
    );
    let traced = fs::read_to_string(&trace).expect("a trace");
    assert!(traced.lines().count() > 400, "a line a packet");
}

#[test]
fn wrong_addresses_files_and_servers_are_named_in_one_line() {
    let scratch = Scratch::new();
    let refused = |arguments: &[&str], code: i32, part: &str| {
        let done = towpath(arguments).failed(code, part);
        assert_eq!(done.err.trim_end().lines().count(), 1, "{}", done.err);
    };
    refused(&["blocks", "ls", "127.0.0.1:port"], 2, "127.0.0.1:port");
    let missing = scratch.text("missing");
    refused(
        &["blocks", "serve", &missing, "--listen", "127.0.0.1:0"],
        1,
        "missing",
    );
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = free.local_addr().expect("an address").to_string();
    refused(
        &["blocks", "stat", &at, "x", "--timeout", "1"],
        1,
        "does not answer",
    );
    refused(
        &["vmtp", "entities", "2147483647"],
        1,
        "no endpoint of VMTP",
    );
}
