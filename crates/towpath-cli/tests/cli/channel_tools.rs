//! The proxies of channels as programs use them.

use crate::support::{Scratch, assert_has, towpath};
use crate::xtp_tools::Tool;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use towpath::channel::{ChannelError, ChannelReceiver, ChannelSender, Geometry, Signal};

/// A program that receives, and both proxies: far, near.
fn proxies(scratch: &Scratch) -> (UnixListener, Tool, Tool) {
    let receiving = scratch.text("receives");
    let listener = UnixListener::bind(&receiving).expect("a new path");
    let from = ["channel", "proxy", "--from", "xtp-message", "127.0.0.1:0"];
    let far = Tool::start(&[&from[..], &["--to", &receiving]].concat());
    let sending = scratch.text("sends");
    let over = words!("channel proxy", &sending, "--over xtp-message", &far.at);
    let near = Tool::start(&over);
    (listener, far, near)
}

fn sender_at(path: &Path) -> ChannelSender {
    let socket = UnixStream::connect(path).expect("the near end listens");
    let geometry = Geometry::new(64, 64).expect("powers of two");
    ChannelSender::open(socket, geometry, Signal::Futex).expect("opened")
}

fn receiver_of(listener: &UnixListener) -> io::Result<ChannelReceiver> {
    let (socket, _) = listener.accept()?;
    Ok(ChannelReceiver::accept(socket, Signal::Futex).expect("accepted"))
}

#[test]
fn channels_of_programs_are_carried_whole_and_breaks_are_reported() {
    let scratch = Scratch::new();
    let (listener, far, near) = proxies(&scratch);
    let path = scratch.path("sends");
    for round in 0..2u8 {
        let mut sender = sender_at(&path);
        let sending = std::thread::spawn(move || {
            for number in 0..200usize {
                let message = vec![round ^ number as u8; number * 7 % 500];
                sender.send(&message).expect("sent");
            }
        });
        let mut receiver = receiver_of(&listener).expect("the far end connects");
        for number in 0..200usize {
            let message = receiver.receive().expect("whole").expect("no end");
            let expected = vec![round ^ number as u8; number * 7 % 500];
            assert!(message.to_vec() == expected, "message {number}");
        }
        assert!(receiver.receive().expect("closed").is_none());
        sending.join().expect("sent all");
    }
    let mut sender = sender_at(&path);
    sender.send(b"before").expect("sent");
    let mut receiver = receiver_of(&listener).expect("the far end connects");
    let message = receiver.receive().expect("whole").expect("no end").to_vec();
    assert_eq!(message, b"before");
    sender.abort();
    assert!(matches!(receiver.receive(), Err(ChannelError::PeerGone)));
    for end in [near, far] {
        let said = end.stop();
        assert!(
            said.contains("2 channels closed with 400 messages"),
            "{said}"
        );
    }
    assert!(!path.exists(), "the near end's socket is left");
}

#[test]
fn socket_of_a_killed_proxy_is_replaced_and_other_files_are_not() {
    let scratch = Scratch::new();
    let path = scratch.text("sends");
    drop(UnixListener::bind(&path).expect("a new path"));
    let over = ["--over", "xtp-message", "127.0.0.1:9"];
    let near = Tool::start(&[&["channel", "proxy", &path][..], &over].concat());
    towpath(&[&["channel", "proxy", &path][..], &over].concat()).failed(1, "choose another path");
    near.stop();
    std::fs::write(&path, "kept").expect("written");
    towpath(&[&["channel", "proxy", &path][..], &over].concat()).exited(1);
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "kept");
}

#[test]
fn transport_that_cannot_carry_channels_is_refused() {
    for (transport, part) in [
        ("tcp", "take xtp-message"),
        ("udp", "take xtp-message"),
        ("unix-seqpacket", "take xtp-message"),
        ("xtp-message,colour=red", "no option 'colour'"),
    ] {
        let path = "/nowhere/sends";
        let said =
            towpath(&["channel", "proxy", path, "--over", transport, "127.0.0.1:9"]).exited(2);
        assert_has(&said.err, part);
    }
    let small = words!("channel proxy --from xtp-message 127.0.0.1:0 --to x");
    let said = towpath(&[&small[..], &["--ring", "1"]].concat());
    assert!(said.code == 2 && said.err.contains("64 B"), "{}", said.err);
}

/// The rows that a measurement of `towpath channel` writes.
fn rows(words: &[&str]) -> Vec<serde_json::Value> {
    let scratch = Scratch::new();
    let file = scratch.text("rows.jsonl");
    towpath(&[words, &["--out", &file]].concat()).exited(0);
    let rows = std::fs::read_to_string(&file).expect("the rows");
    rows.lines()
        .map(|row| serde_json::from_str(row).expect("JSON"))
        .collect()
}

/// Each way with each size in each block, and a time of each.
fn assert_complete(rows: &[serde_json::Value], factor: &str, ways: &[&str], sizes: &[u64]) {
    assert_eq!(rows.len(), ways.len() * sizes.len() * 2, "{rows:?}");
    for (way, size) in ways
        .iter()
        .flat_map(|way| sizes.iter().map(move |size| (way, size)))
    {
        let changes = serde_json::json!([format!("{factor}={way}"), format!("size={size}")]);
        let own: Vec<_> = rows
            .iter()
            .filter(|row| row["changes"] == changes)
            .collect();
        let mut blocks: Vec<_> = own.iter().filter_map(|row| row["seed"].as_u64()).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [1, 2], "{changes}");
        for row in own {
            let time_us = row["message_us"].as_f64().expect("a number");
            let rate = row["messages_per_s"].as_f64().expect("a number");
            assert!(
                time_us > 0.0 && (time_us * rate / 1e6 - 1.0).abs() < 1e-9,
                "{row}"
            );
        }
    }
}

#[test]
fn messages_forwarded_with_each_count_of_copies_arrive_and_are_timed() {
    let how = ["--sizes", "8,64KiB", "--blocks", "2", "--turn", "2ms"];
    let rows = rows(&[&["channel", "forward"][..], &how].concat());
    assert_complete(&rows, "copies", &["0", "2", "4"], &[8, 65_536]);
}

#[test]
fn messages_whose_pages_are_remapped_or_copied_are_timed() {
    let how = ["--sizes", "4KiB,1MiB", "--blocks", "2", "--turn", "2ms"];
    let rows = rows(&[&["channel", "remap"][..], &how].concat());
    let ways = ["copied", "remapped", "by-faults"];
    assert_complete(&rows, "way", &ways, &[4096, 1 << 20]);
}

#[test]
fn messages_to_several_processes_reach_each_of_them_and_are_timed() {
    let how = ["--sizes", "8,64KiB", "--blocks", "2", "--turn", "2ms"];
    let words = ["channel", "disseminate", "--receivers", "3"];
    let rows = rows(&[&words[..], &how].concat());
    assert_complete(
        &rows,
        "carrier",
        &["arena", "rings", "sockets"],
        &[8, 65_536],
    );
}

#[test]
fn sizes_that_cannot_be_handed_on_are_refused() {
    for (words, said) in [
        (["channel", "forward", "--sizes", "7"], "from 8 B to 64 KiB"),
        (
            ["channel", "forward", "--sizes", "65KiB"],
            "from 8 B to 64 KiB",
        ),
        (
            ["channel", "remap", "--sizes", "4097"],
            "not of whole pages",
        ),
        (
            ["channel", "remap", "--sizes", "17MiB"],
            "not of whole pages",
        ),
        (["channel", "remap", "--turn", "11s"], "too long a turn"),
    ] {
        let out = towpath(&words);
        assert_eq!(out.code, 2, "{words:?}");
        assert!(out.err.contains(said), "{words:?}: {}", out.err);
    }
}
