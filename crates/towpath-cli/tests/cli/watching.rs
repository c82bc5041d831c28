//! `towpath watch` on races that run, ended and were cut off, and on what is none.

use crate::support::{Scratch, assert_has, finish, race, start, towpath, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A finished race of 6 blocks whose only look is after block 5, as it was after `lines` trials.
fn cut(scratch: &Scratch, name: &str, lines: usize) -> String {
    let to = scratch.path(name);
    fs::create_dir_all(&to).expect("a folder");
    for file in ["plan.toml", "machine.json"] {
        fs::copy(scratch.path("a").join(file), to.join(file)).expect("a copy");
    }
    let text = fs::read_to_string(scratch.path("a/trials.jsonl")).expect("trials");
    let kept: Vec<&str> = text.lines().take(lines).collect();
    // The next line is being written.
    let text = format!("{}\n{{\"version\":1,", kept.join("\n"));
    fs::write(to.join("trials.jsonl"), text).expect("trials are written");
    scratch.text(name)
}

fn raced(scratch: &Scratch) {
    let words = words!("tcp unix-stream --sizes 64 -w throughput --blocks 5..12");
    race(scratch, "a", &words);
}

#[test]
fn watch_shows_verdicts_only_at_looks() {
    let scratch = Scratch::new();
    raced(&scratch);
    // 2 pilots, 3 trials a block; looks are after blocks 5, 10 and 12.
    let before = towpath(&["watch", &cut(&scratch, "before", 2 + 14), "--once"]).exited(0);
    assert_has(&before.out, "16 trials, 4 of 12 blocks");
    assert_has(&before.out, "No verdict before the first look.");
    assert_has(&before.out, "The next look is after block 5.");
    assert_has(&before.out, "unix-stream");
    let after = towpath(&["watch", &cut(&scratch, "after", 2 + 15), "--once"]);
    assert_has(&after.out, "At the look after 5 blocks:");
    assert_has(&after.out, "The next look is after block 10.");
}

#[test]
fn watch_of_ended_race_prints_what_show_prints() {
    let scratch = Scratch::new();
    raced(&scratch);
    let (watched, shown) = (
        towpath(&["watch", &scratch.text("a")]),
        towpath(&["show", &scratch.text("a")]),
    );
    assert_eq!((watched.code, &watched.out), (0, &shown.out));
    let none = towpath(&["watch", &scratch.text("nothing"), "--once"]).exited(1);
    assert!(
        none.err.contains("is") && none.err.contains("the folder of a run?"),
        "{}",
        none.err
    );
}

#[test]
fn watch_of_running_race_ends_with_it() {
    let scratch = Scratch::new();
    let out = scratch.text("live");
    let words = words!("race tcp --sizes 64 -w throughput --trial 100ms");
    let race = start(&[&words[..], &["--blocks", "8", "--out", &out, "--no-report"]].concat());
    wait_until("the race starts", || {
        scratch.path("live/trials.jsonl").exists()
    });
    let watched = towpath(&["watch", &out, "--every", "50ms"]);
    finish(race).exited(0);
    assert_eq!(watched.code, 0, "{}", watched.err);
    assert_has(&watched.out, "of 8 blocks");
    let shown = towpath(&["show", &out]);
    assert!(watched.out.ends_with(&shown.out), "{}", watched.out);
}

/// Values by name; panics on text that is no OpenMetrics: a sample before its TYPE, a unit that is not the end
/// of the name, a line after EOF.
fn parse_open_metrics(text: &str) -> std::collections::BTreeMap<String, f64> {
    let body = text.strip_suffix("# EOF\n").expect("EOF at the end");
    let mut values = std::collections::BTreeMap::new();
    let mut family = String::new();
    for line in body.lines() {
        let mut words = line.split(' ');
        match (words.next(), words.next()) {
            (Some("#"), Some("TYPE")) => {
                family = words.next().expect("a name").to_owned();
                assert_eq!(words.next(), Some("gauge"), "{line}");
            }
            (Some("#"), Some(kind @ ("UNIT" | "HELP"))) => {
                assert_eq!(words.next(), Some(family.as_str()), "{line}");
                let unit = words.next().expect("a text");
                assert!(
                    kind == "HELP" || family.ends_with(&format!("_{unit}")),
                    "{line}"
                );
            }
            (Some(name), Some(value)) => {
                assert_eq!(name, family, "{line}");
                let value = value.parse().expect("a number");
                assert!(
                    values.insert(name.to_owned(), value).is_none(),
                    "{line} comes twice"
                );
            }
            _ => panic!("{line}"),
        }
    }
    values
}

#[test]
fn watch_serves_open_metrics_on_the_loopback_only() {
    let scratch = Scratch::new();
    raced(&scratch);
    let folder = cut(&scratch, "part", 2 + 14);
    towpath(&["watch", &folder, "--metrics", "0.0.0.0:0"]).failed(2, "loopback only");
    let mut command = Command::new(env!("CARGO_BIN_EXE_towpath"));
    command.args(["watch", &folder, "--metrics", "127.0.0.1:0"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut watching = command.spawn().expect("it starts");
    let mut said = String::new();
    let mut err = watching.stderr.take().expect("a pipe");
    while !said.ends_with("/metrics\n") {
        let mut octet = [0];
        let read = err.read(&mut octet).expect("it says its address");
        assert_eq!(read, 1, "{said}");
        said.push(char::from(octet[0]));
    }
    let address = said.trim().trim_start_matches("metrics on http://");
    let address = address.trim_end_matches("/metrics");
    let mut asker = TcpStream::connect(address).expect("it answers");
    asker
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("it hears");
    let mut answer = String::new();
    asker.read_to_string(&mut answer).expect("it answers");
    watching.kill().expect("it runs");
    watching.wait().expect("it ended");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.contains("application/openmetrics-text"), "{head}");
    let values = parse_open_metrics(body);
    assert_eq!(values["towpath_watch_trials"], 16.0, "{body}");
    assert_eq!(values["towpath_watch_blocks"], 4.0, "{body}");
    assert_eq!(values["towpath_watch_ended"], 0.0, "{body}");
}

#[test]
fn watch_counts_rows_of_a_sweep() {
    let scratch = Scratch::new();
    let rows = "{\"key\":\"1\",\"ending\":\"complete\"}\n{\"key\":\"2\",\"ending\":\"time_limit\"}\n{\"key\":";
    fs::write(scratch.path("rows.jsonl"), rows).expect("rows");
    let said = towpath(&["watch", &scratch.text("rows.jsonl"), "--once"]).exited(0);
    assert_has(&said.out, "2 rows; 1 runs did not complete");
}
