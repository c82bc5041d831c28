//! `towpath profile`: layers, sizes, counts, the flame graph, and missing privileges.

use crate::schema::accepts_profile;
use crate::support::{CommandOutput, Scratch, assert_has, assert_lacks, program, towpath};
use serde_json::Value;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Stdio;

/// A profile as JSON; None, with a SKIPPED line, where this user may not sample the kernel.
fn profile(scratch: &Scratch, arguments: &[&str]) -> Option<Value> {
    let out = scratch.text("profile");
    let mut all = vec!["profile"];
    all.extend(arguments);
    all.extend(["--out", &out, "--json"]);
    let said = towpath(&all);
    if said.code == 1 && (said.err.contains("perf_event") || said.err.contains("kptr_restrict")) {
        eprintln!("SKIPPED: {}", said.err);
        return None;
    }
    assert_eq!(said.code, 0, "{}", said.err);
    let printed: Value = serde_json::from_str(&said.out).expect("nothing but JSON");
    let kept = fs::read_to_string(scratch.path("profile/profile.json")).expect("it is kept");
    assert_eq!(serde_json::from_str::<Value>(&kept).expect("JSON"), printed);
    accepts_profile(&printed);
    Some(printed)
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    value[name]
        .as_array()
        .unwrap_or_else(|| panic!("{name} is no list: {value}"))
}

/// The layer of that name, if it has samples.
fn layer<'a>(side: &'a Value, name: &str) -> Option<&'a Value> {
    let mut layers = list(side, "layers").iter();
    layers.find(|rows| rows["layer"]["name"] == name)
}

#[test]
fn profile_shows_tcp_copy_time_growing_with_size() {
    let scratch = Scratch::new();
    let Some(found) = profile(&scratch, &["tcp", "--size", "64,64KiB", "--time", "500ms"]) else {
        return;
    };
    for (side, name) in list(&found, "sides").iter().zip(["sender", "receiver"]) {
        assert_eq!(side["name"], name);
        let sizes: Vec<u64> = list(side, "columns")
            .iter()
            .filter_map(|column| column["size"].as_u64())
            .collect();
        assert_eq!(sizes, [64, 65_536]);
        let copy = layer(side, "copy").expect("copying is a layer");
        assert_eq!(copy["layer"]["grows"], true, "{name}: {copy}");
        // The times of the layers add up to the total CPU time.
        for at in 0..2 {
            let parts = list(side, "layers").iter();
            let sum: f64 = parts
                .filter_map(|rows| rows["layer"]["values"][at].as_f64())
                .sum();
            let total = side["total"]["values"][at].as_f64().expect("a time");
            assert!(
                (sum - total).abs() < total * 1e-6,
                "{name}: {sum} of {total}"
            );
        }
        for layer_name in ["TCP/UDP", "socket"] {
            assert!(layer(side, layer_name).is_some(), "{name}: {layer_name}");
        }
    }
    let svg = fs::read_to_string(scratch.path("profile/flame.svg")).expect("a picture");
    assert!(svg.contains("sender, 64 B") && svg.contains("receiver, 65536 B"));
    assert!(svg.contains("tcp_sendmsg (kernel)"));
}

#[test]
fn several_transports_send_so_many_messages_and_nothing_is_cut() {
    let scratch = Scratch::new();
    let words =
        words!("tcp unix-stream --size 512 --messages 20000 --all --time 10s --buffers 256KiB");
    let Some(found) = profile(&scratch, &words) else {
        return;
    };
    let all = found.as_array().expect("one for each");
    assert_eq!(all.len(), 2);
    for (one, name) in all.iter().zip(["tcp", "unix-stream"]) {
        assert_eq!(one["transport"], name);
        let sender = &list(one, "sides")[0];
        assert_eq!(list(sender, "columns")[0]["messages"], 20_000);
        for rows in list(sender, "layers") {
            let sum = list(rows, "procedures").iter();
            let sum: f64 = sum.filter_map(|row| row["values"][0].as_f64()).sum();
            let whole = rows["layer"]["values"][0].as_f64().expect("a time");
            assert!((sum - whole).abs() <= whole * 1e-6, "{name}: {rows}");
        }
    }
    for (number, name) in [(1, "tcp"), (2, "unix-stream")] {
        let own = scratch.path(&format!("profile/{number}-{name}/flame.svg"));
        assert!(own.exists(), "{}", own.display());
    }
    for (words, part) in [
        (&["tcp", "--calls=!tcp_*"][..], "no pattern of functions"),
        (&["tcp", "--calls=tcp_*:traceoff"], "tcp_*:traceoff"),
        (&["tcp+udp"][..], "words of their own"),
        (&["tcp", "udp", "--against", "x"], "for one transport"),
        (&["tcp", "--messages", "0"], "from 1 to"),
        (&["tcp", "--buffers", "lots"], "lots"),
        (&[], "TRANSPORT"),
    ] {
        towpath(&[&["profile"][..], words].concat()).failed(2, part);
    }
}

/// Calls of a routine for a message, at the size at `place`.
fn calls(side: &Value, routine: &str, place: usize) -> f64 {
    let mut rows = list(&side["calls"], "rows").iter();
    let row = rows.find(|row| row["name"] == routine);
    let row = row.unwrap_or_else(|| panic!("{routine}: {}", side["calls"]));
    row["values"][place].as_f64().expect("nothing was lost")
}

#[test]
fn calls_of_kernel_routines_are_counted_and_by_what_is_said() {
    let scratch = Scratch::new();
    let words = words!("udp tcp --size 64,1000 --messages 2000 --time 2s --calls");
    let Some(found) = profile(&scratch, &words) else {
        return;
    };
    for one in found.as_array().expect("one for each") {
        let by = one["calls"]["by"].as_str().expect("it is said");
        assert_eq!(
            one["calls"]["because"].is_string(),
            by != "function_tracer",
            "{by}"
        );
        if by == "nothing" {
            eprintln!("SKIPPED: {}", one["calls"]["because"]);
            return;
        }
        let sender = &list(one, "sides")[0];
        for place in 0..2 {
            let column = &list(&sender["calls"], "columns")[place];
            assert_eq!(column["lost"], 0, "{column}");
            assert!(
                column["messages"]
                    .as_u64()
                    .is_some_and(|count| count >= 1000),
                "{column}"
            );
            // One send, one packet to the device: UDP sends each message at once.
            if one["transport"] == "udp" {
                let packets = calls(sender, "__dev_queue_xmit", place);
                assert!((1.0..1.5).contains(&packets), "{packets}");
            }
        }
    }
    assert!(
        found[0]["sides"][0]["calls"]["rows"]
            .as_array()
            .is_some_and(|rows| rows.len() > 5)
    );
}

#[test]
fn profile_of_engine_lists_procedures_and_counts() {
    let scratch = Scratch::new();
    let found = profile(&scratch, &["xtp", "--size", "1000", "--time", "2s"]);
    let Some(found) = found else {
        return;
    };
    let sender = &list(&found, "sides")[0];
    let engine = layer(sender, "engine").expect("the engine took time");
    let procedures = list(engine, "procedures");
    assert!(!procedures.is_empty(), "{engine}");
    let names = procedures.iter().filter_map(|row| row["name"].as_str());
    assert!(
        names.clone().any(|name| name.starts_with("engine")),
        "{engine}"
    );
    let counts: Vec<&str> = list(sender, "counts")
        .iter()
        .filter_map(|row| row["name"].as_str())
        .collect();
    assert!(counts.contains(&"own count: packets sent"), "{counts:?}");
}

#[test]
fn profile_over_link_excludes_link_process() {
    let scratch = Scratch::new();
    let more = [
        "udp", "--size", "1000", "--time", "300ms", "-w", "delay", "--link", "delay=0",
    ];
    let out = scratch.text("probe");
    let mut all = vec!["profile"];
    all.extend(more);
    all.extend(["--out", &out]);
    let said = towpath(&all);
    if said.code == 1 && (said.err.contains("sysctl") || said.err.contains("/dev/net/tun")) {
        eprintln!("SKIPPED: {}", said.err);
        return;
    }
    assert_eq!(said.code, 0, "{}", said.err);
    for words in [
        "udp sender: CPU time of a message, ns",
        "udp receiver",
        "on the processor",
        "off the processor",
        "100.0 %",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    assert_lacks(&said.out, "testbed::");
}

#[test]
fn unprivileged_profile_gives_one_line_error() {
    /// The user ID of nobody.
    const NOBODY: u32 = 65_534;
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    let paranoid: i32 = paranoid
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(2);
    if paranoid < 2 || !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: any user may sample the kernel here, or the tests cannot switch users");
        return;
    }
    let folder = std::env::temp_dir().join(format!("towpath-profile-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let there = folder.join("towpath");
    fs::copy(env!("CARGO_BIN_EXE_towpath"), &there).expect("a copy");
    let mut command = std::process::Command::new(&there);
    command
        .env("TOWPATH_RACE_LOCK", "none")
        .current_dir(&folder)
        .args(["profile", "tcp", "--size", "64"]);
    let output = command
        .uid(NOBODY)
        .gid(NOBODY)
        .stdin(Stdio::null())
        .output();
    let said: CommandOutput = output.expect("the program starts").into();
    fs::remove_dir_all(&folder).expect("it is removed");
    assert_eq!(said.code, 1);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert_has(&said.err, "kernel.perf_event_paranoid=1");
}

#[test]
fn invalid_profile_options_are_refused_in_one_line() {
    let refused = |arguments: &[&str], words: &str| {
        let mut command = program();
        let output = command
            .arg("profile")
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        let said: CommandOutput = output.expect("the program starts").into();
        assert_eq!(said.code, 2, "{}", said.err);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        assert_has(&said.err, words);
    };
    refused(&["tcp", "-w", "connect"], "throughput or delay");
    refused(&["tcp+udp"], "words of their own");
    refused(&["tcp", "--time", "1h"], "200ms to 10s");
    refused(&["tcp", "--size", "x"], "x");
    refused(&["tcp", "--size", "1..1MiB"], "16 at most");
}

#[test]
fn profile_against_another_writes_the_difference() {
    let scratch = Scratch::new();
    let before = scratch.path("before");
    fs::create_dir_all(&before).expect("a folder");
    let against = scratch.text("before");
    let words = words!("tcp --size 64 --time 300ms --against", &against);
    let refused = towpath(&[&["profile"], &words[..]].concat()).exited(1);
    assert!(
        refused.err.contains("is") && refused.err.contains("the folder of a profile?"),
        "{}",
        refused.err
    );
    let gone = "sender, 64 B;main;gone_with_the_old_build 123456\n";
    fs::write(before.join("stacks.folded"), gone).expect("stacks");
    if profile(&scratch, &words).is_none() {
        return;
    }
    let file = |name: &str| fs::read_to_string(scratch.path("profile").join(name)).expect("a file");
    assert!(file("flame-difference.svg").contains("gone_with_the_old_build"));
    let both = file("stacks-difference.folded");
    assert!(
        both.contains("gone_with_the_old_build 123456 0\n"),
        "{both}"
    );
    let own = file("stacks.folded");
    assert!(own.lines().any(|line| line.contains("_[k] ")), "{own}");
}
