//! `towpath sctp` as its users run it.

use crate::support::{Scratch, program, towpath};
use crate::xtp_tools::Tool;
use std::fs;

#[test]
fn messages_reach_a_host_with_two_addresses() {
    let scratch = Scratch::new();
    let tool = Tool::start(&["sctp", "discard", "127.0.0.1:0,127.0.0.2:0"]);
    let trace = scratch.text("packets.txt");
    let arguments = [
        "sctp",
        "send",
        &tool.at,
        "--from",
        "127.0.0.1,127.0.0.2",
        "--size",
        "2000",
        "--count",
        "500",
        "--streams",
        "8",
        "--trace",
        &trace,
    ];
    let output = program().args(arguments).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(
        said.starts_with("500 messages of 2000 bytes on 8 streams in "),
        "{said}"
    );
    assert!(
        said.contains("path 127.0.0.1:") && said.contains("path 127.0.0.2:"),
        "{said}"
    );
    assert!(fs::read_to_string(trace).expect("a trace").lines().count() > 100);
    let output = tool.stop();
    assert!(output.contains("500 messages, 1000000 bytes"), "{output}");
}

#[test]
fn absent_listener_and_wrong_words_end_with_reason_and_code() {
    let tool = Tool::start(&["sctp", "echo", "127.0.0.1:0"]);
    let at = tool.at.clone();
    tool.stop();
    let output = towpath(&["sctp", "send", &at, "--wait", "300ms"]);
    assert_eq!(output.code, 1, "{}", output.err);
    assert!(output.err.contains(&at), "{}", output.err);
    for (wrong, part) in [
        (["sctp", "send", "nowhere"], "'nowhere' is no address"),
        (
            ["sctp", "echo", "127.0.0.1:0,0.0.0.0:0"],
            "name each, or this one alone",
        ),
    ] {
        let output = towpath(&wrong);
        assert_eq!(output.code, 2, "{}", output.err);
        assert!(output.err.contains(part), "{}", output.err);
    }
}
