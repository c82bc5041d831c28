//! `towpath cp` with folders, from hosts, and stopped; `towpath xtp ping`.

use crate::support::{
    CommandOutput, Scratch, assert_has, finish, program, signal, towpath, wait_until,
};
use crate::xtp_tools::Tool;
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

/// A folder with a few files; its path.
fn tree(scratch: &Scratch) -> String {
    let top = scratch.path("tree");
    fs::create_dir_all(top.join("sub")).expect("room");
    fs::write(top.join("run"), b"#!/bin/sh\n").expect("room");
    fs::set_permissions(top.join("run"), fs::Permissions::from_mode(0o755)).expect("an own file");
    fs::write(top.join("sub/data"), vec![7; 200_000]).expect("room");
    symlink("sub/data", top.join("link")).expect("room");
    scratch.text("tree")
}

#[test]
fn folders_go_to_a_host_and_come_from_one() {
    let scratch = Scratch::new();
    let top = tree(&scratch);
    let [inbox, here] = ["inbox", "here"].map(|name| scratch.text(name));
    for folder in [&inbox, &here] {
        fs::create_dir(folder).expect("room");
    }
    let start = words!(
        "cp --receive",
        &inbox,
        "--serve",
        &inbox,
        "--listen 127.0.0.1:0"
    );
    let host = Tool::start(&start);
    let said = towpath(&["cp", "-rp", &top, &host.at]).exited(0);
    assert_has(&said.out, "2 files, 200010 bytes");
    let said = towpath(&["cp", "--recursive", "--preserve", &top, &host.at]);
    assert_has(&said.out, "2 of them there already");
    let from = format!("{}:tree", host.at);
    towpath(&["cp", "-rp", &from, &here]).exited(0);
    let renamed = format!("{here}/other");
    let one = format!("{}:tree/run", host.at);
    assert_eq!(towpath(&["cp", "-p", &one, &renamed]).code, 0);
    for copy in [format!("{inbox}/tree"), format!("{here}/tree")] {
        assert!(fs::read(format!("{copy}/sub/data")).expect("it came") == vec![7; 200_000]);
        let about = fs::metadata(format!("{copy}/run")).expect("it came");
        assert_eq!(about.permissions().mode() & 0o777, 0o755);
        assert_eq!(
            fs::read_link(format!("{copy}/link")).expect("a link"),
            *"sub/data"
        );
    }
    assert_eq!(fs::read(renamed).expect("it came"), b"#!/bin/sh\n");
    // What is not complete is said and is no success.
    symlink("/etc/passwd", format!("{top}/out")).expect("room");
    towpath(&["cp", "-r", &top, &host.at]).failed(1, "out: a link");
    let refused = towpath(&["cp", "-r", &format!("{}:../secret", host.at), &here]);
    assert_eq!(
        (refused.code, refused.err.lines().count()),
        (1, 1),
        "{}",
        refused.err
    );
    assert_has(&refused.err, "leads out");
    host.stop();
}

#[test]
fn words_of_cp_and_ping_that_do_not_go_together_are_refused() {
    let scratch = Scratch::new();
    let top = tree(&scratch);
    let group = ["cp", "-r", &top, "127.0.0.1", "--group", "239.1.2.3:5"];
    let far = ["xtp", "ping", "127.0.0.1:9", "--size", "5000"];
    let via = ["xtp", "ping", "[::1]:9", "--via", "127.0.0.1:9"];
    for (words, part) in [
        (&["cp", &top, "127.0.0.1"][..], "add -r"),
        (&group, "leave out -r"),
        (&["cp", &top, "127.0.0.1", "-r", "--overwrite"], "--receive"),
        (&["cp", "127.0.0.1:a", "/nosuch/folder"], "create it first"),
        (&["cp", "127.0.0.1:a", "b", "c"], "one folder"),
        (&["cp", ":a", "b"], "names no host"),
        (&["cp", "--serve", "/nosuch"], "no folder /nosuch"),
        (&["cp", "--serve", "a", "b", "c"], "--serve"),
        (&["xtp", "ping"], "HOST:PORT"),
        (&["xtp", "ping", "127.0.0.1"], "give HOST:PORT"),
        (&far, "1384"),
        (&["xtp", "ping", "127.0.0.1:9", "--count", "0"], "from 1 to"),
        (&["xtp", "ping", "127.0.0.1:9", "--dialect", "4.0"], "3.6"),
        (&["xtp", "ping", "127.0.0.1:9", "--dialect", "9"], "dialect"),
        (&["xtp", "ping", "127.0.0.1:9", "--path"], "--via"),
        (&via, "two families"),
    ] {
        let said = towpath(words);
        let code = if part.starts_with("no folder") { 1 } else { 2 };
        assert_eq!(said.code, code, "{words:?}: {}", said.err);
        assert!(said.err.contains(part), "{words:?}: {}", said.err);
        assert_eq!(said.err.trim_end().lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn interrupted_copy_says_so_and_goes_on_at_once() {
    let scratch = Scratch::new();
    let [inbox, file] = ["inbox", "file"].map(|name| scratch.text(name));
    fs::create_dir(&inbox).expect("room");
    fs::File::create(&file)
        .expect("room")
        .set_len(64 << 20)
        .expect("a hole");
    let host = Tool::start(&["cp", "--receive", &inbox, "--listen", "127.0.0.1:0"]);
    let slow = ["cp", &file, &host.at, "--over", "xtp,rate=80mbit"];
    let part = format!("{inbox}/.file.part");
    let arrived = || fs::metadata(&part).map_or(0, |about| about.len());
    for sent in [Signal::INT, Signal::KILL] {
        let before = arrived();
        let child = program()
            .args(slow)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        // Once some of it is there, and it has not broken off again.
        wait_until("data come", || arrived() > before);
        signal(child.id(), sent);
        let said: CommandOutput = finish(child);
        if sent == Signal::INT {
            assert_eq!(said.code, 1, "{}", said.err);
            assert_has(&said.err, "start the same command again");
        }
    }
    let said = towpath(&["cp", &file, &host.at]).exited(0);
    assert_has(&said.out, "resumed at");
    host.stop();
}

#[test]
fn forwarders_and_endpoints_behind_them_answer_ping() {
    let host = Tool::start(&words!(
        "forward --from xtp,dialect=3.6 127.0.0.1:0 --to 127.0.0.1:9"
    ));
    let to = ["xtp", "forwarder", "127.0.0.1:0", "--to", &host.at];
    let router = Tool::start(&to);
    let quick = ["--interval", "5ms", "--count", "8", "--json"];
    let ask = |words: &[&str]| {
        let said = towpath(&[&["xtp", "ping"][..], words, &quick].concat()).exited(0);
        let reports: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        reports
    };
    let both = ask(&[&router.at, &host.at]);
    for report in both.as_array().expect("a list") {
        assert_eq!(
            (&report["sent"], &report["received"]),
            (&8.into(), &8.into()),
            "{report}"
        );
        assert!(report["min_us"].as_f64() <= report["max_us"].as_f64());
        assert!(report["p99_us"].is_null());
    }
    let through = ask(&[&host.at, "--via", &router.at]);
    assert_eq!(through[0]["received"], 8, "{through}");
    let hops = ask(&[&host.at, "--via", &router.at, "--path"]);
    let kinds: Vec<&serde_json::Value> = hops
        .as_array()
        .expect("a list")
        .iter()
        .map(|hop| &hop["is_router"])
        .collect();
    assert_eq!(
        kinds,
        [&serde_json::json!(true), &serde_json::json!(false)],
        "{hops}"
    );
    // An endpoint of 4.0 has no answer, which is said with the remedy.
    let silent = Tool::start(&words!("forward --from xtp 127.0.0.1:0 --to 127.0.0.1:9"));
    towpath(&words!("xtp ping", &silent.at, "--count 1 --timeout 50ms")).failed(1, "dialect=3.6");
    for tool in [host, router, silent] {
        tool.stop();
    }
}
