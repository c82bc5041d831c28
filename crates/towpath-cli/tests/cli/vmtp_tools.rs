//! The VMTP commands as other programs use them.

use crate::support::{Scratch, towpath};
use crate::xtp_tools::Tool;
use std::fs;

#[test]
fn files_are_put_listed_and_got_and_the_server_reports_its_entities() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("served")).expect("a folder");
    let octets: Vec<u8> = (0..200_000u32).map(|at| (at * 7) as u8).collect();
    fs::write(scratch.path("file"), &octets).expect("room");
    let trace = scratch.text("trace");
    let folder = scratch.text("served");
    let server = Tool::start(&[
        "blocks",
        "serve",
        &folder,
        "--listen",
        "127.0.0.1:0",
        "--trace",
        &trace,
    ]);
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
        let done = towpath(arguments);
        assert_eq!(done.code, code, "{arguments:?}: {}", done.err);
        assert!(done.err.contains(part), "{arguments:?}: {}", done.err);
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
