//! `towpath sctp` as its users run it.

use crate::support::{Scratch, program, signal, towpath};
use crate::xtp_tools::Tool;
use rustix::process::Signal;
use std::fs;
use std::io::BufRead;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

#[test]
fn messages_reach_a_host_with_two_addresses() {
    let scratch = Scratch::new();
    let tool = Tool::start(&["sctp", "discard", "127.0.0.1:0,127.0.0.2:0"]);
    let trace = scratch.text("packets.txt");
    let arguments = words!(
        "sctp send",
        &tool.at,
        "--from 127.0.0.1,127.0.0.2 --size 2000 --count 500 --streams 8 --trace",
        &trace
    );
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
    towpath(&["sctp", "send", &at, "--wait", "300ms"]).failed(1, &at);
    for (wrong, part) in [
        (["sctp", "send", "nowhere"], "'nowhere' is no address"),
        (
            ["sctp", "echo", "127.0.0.1:0,0.0.0.0:0"],
            "name each, or this one alone",
        ),
    ] {
        towpath(&wrong).failed(2, part);
    }
}

#[test]
fn echo_of_more_than_both_windows_comes_to_an_end() {
    let tool = Tool::start(&["sctp", "echo", "127.0.0.1:0"]);
    towpath(&["sctp", "send", &tool.at, "--count", "8000"]).exited(0);
    let said = tool.stop();
    assert!(
        said.contains("ended: 8000 messages, 8192000 bytes"),
        "{said}"
    );
}

#[test]
fn killed_sender_is_noticed_by_its_silence() {
    let impatient = "heartbeat=50ms,retries=1/2/1,rto=50ms,rto_min=50ms,rto_max=50ms";
    let mut tool = Tool::start(&["sctp", "discard", "127.0.0.1:0", "--options", impatient]);
    let arguments = ["sctp", "send", &tool.at, "--count", "1000000000"];
    let mut sender = program().args(arguments).spawn().expect("it starts");
    let mut said = String::new();
    tool.said.read_line(&mut said).expect("text");
    assert!(said.contains("opened an association"), "{said}");
    sender.kill().expect("it runs");
    sender.wait().expect("it ends");
    // Killed after a while, it says no more, and the loop ends.
    let (over, is_over) = std::sync::mpsc::channel::<()>();
    let server = tool.child.as_ref().expect("it runs").id();
    let watchdog = std::thread::spawn(move || {
        if is_over.recv_timeout(Duration::from_secs(30)) == Err(RecvTimeoutError::Timeout) {
            signal(server, Signal::KILL);
        }
    });
    let mut broke = false;
    while !broke && tool.said.read_line(&mut said).is_ok_and(|len| len > 0) {
        broke = said.contains("broke: ");
    }
    drop(over);
    watchdog.join().expect("no panic");
    assert!(broke, "it still waits for a peer that is gone: {said}");
}
