//! Help, man page, completions, JSON, colours and pipes.

use crate::support::{CommandOutput, Scratch, assert_has, finish, program, towpath};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

const COMMANDS: [&str; 13] = [
    "channel proxy",
    "forward",
    "cp",
    "race",
    "transports",
    "doctor",
    "report",
    "fit",
    "compare",
    "export",
    "show",
    "man",
    "completions",
];

#[test]
fn every_command_has_help_with_examples() {
    let said = towpath(&["--help"]).exited(0);
    assert!(said.out.contains("Examples:") && said.out.contains("Exit codes:"));
    assert!(said.out.contains("towpath man") && said.out.contains("towpath completions"));
    for command in COMMANDS {
        let words: Vec<&str> = command.split(" ").chain(["--help"]).collect();
        let said = towpath(&words);
        assert_eq!(said.code, 0, "{command}");
        let example = format!("\n  towpath {command}");
        let (_, examples) = said.out.split_once("Examples:").unwrap_or_default();
        assert!(examples.contains(&example), "{command}: {}", said.out);
    }
}

#[test]
fn missing_command_exits_2_and_lists_commands() {
    towpath(&[]).failed(2, "transports");
}

#[test]
fn man_page_and_completions_list_all_commands() {
    let man = towpath(&["man"]).exited(0);
    assert!(man.out.contains(".TH towpath") && man.out.contains("race"));
    for shell in ["bash", "zsh", "fish"] {
        let said = towpath(&["completions", shell]);
        assert_eq!(said.code, 0, "{shell}");
        assert!(said.out.contains("transports"), "{shell}");
    }
}

#[track_caller]
fn json(said: &CommandOutput) -> Value {
    assert_eq!(said.code, 0, "{}", said.err);
    serde_json::from_str(&said.out).expect("nothing but JSON on standard output")
}

#[test]
fn json_mode_prints_only_json() {
    let transports = json(&towpath(&["transports", "--json"]));
    let names = transports.as_array().expect("a list").iter();
    let names: Vec<&str> = names.filter_map(|one| one["name"].as_str()).collect();
    for name in ["tcp", "udp", "unix-stream", "pipe", "quic", "bare", "null"] {
        assert!(names.contains(&name), "{name}");
    }
    let doctor = json(&towpath(&["doctor", "--json"]));
    assert!(doctor["findings"].is_array() && doctor["facts"].is_array());
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let race = words!(
        "race tcp null --sizes 64,128,256,512 --trial 20ms --blocks 1 --json --out",
        &out
    );
    let summary = json(&towpath(&race));
    assert_eq!(summary["status"], "complete");
    assert_eq!(json(&towpath(&["show", &out, "--json"])), summary);
    for command in ["export", "fit"] {
        json(&towpath(&[command, &out, "--json"]));
    }
    json(&towpath(&["compare", &out, &out, "--json"]));
}

#[test]
fn transports_lists_options() {
    let transports = json(&towpath(&["transports", "--json"]));
    let all = transports.as_array().expect("a list");
    let options = |name: &str| -> Vec<&str> {
        let one = all
            .iter()
            .find(|one| one["name"] == name)
            .expect("it is there");
        let options = one["options"].as_array().expect("a list").iter();
        options
            .filter_map(|option| option["name"].as_str())
            .collect()
    };
    let (modules, own): (Vec<&str>, Vec<&str>) = options("tcp")
        .into_iter()
        .partition(|name| towpath::push::is_option(name));
    assert_eq!(
        own,
        ["quickack", "rcvlowat", "congestion", "nodelay", "buffers"]
    );
    assert_eq!(modules[..2], ["push", "buffer-marks"]);
    assert_eq!(options("udp")[..2], ["buffers", "push"]);
    let said = towpath(&["transports"]);
    for words in ["tcp,congestion=reno", "nodelay=on|off", "buffers=BYTES"] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let help = towpath(&["race", "--help"]);
    assert_has(&help.out, "towpath race tcp tcp,congestion=bbr");
}

#[test]
fn piped_output_has_no_colour_codes() {
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let race = [
        "race", "tcp", "udp", "--sizes", "64", "--trial", "20ms", "--blocks", "1",
    ];
    for arguments in [
        &[&race[..], &["--out", &out]].concat()[..],
        &["show", &out],
        &["doctor"],
        &["transports"],
        &["race", "nosuch"],
        &["race", "--help"],
    ] {
        for no_color in [true, false] {
            if no_color && arguments.contains(&"--out") {
                continue;
            }
            let mut command = program();
            let command = command.args(arguments);
            if no_color {
                command.env("NO_COLOR", "1");
            }
            let said: CommandOutput = command.output().expect("it runs").into();
            let text = said.out + &said.err;
            assert!(
                !text.is_empty() && !text.contains('\u{1b}'),
                "{arguments:?}: {text:?}"
            );
        }
    }
}

#[test]
fn closed_stdout_reader_is_no_error() {
    let scratch = Scratch::new();
    let out = scratch.text("run");
    let mut command = program();
    let command = command.args(["race", "tcp", "--sizes", "64", "--trial", "20ms"]);
    let command = command.args(["--blocks", "1", "--out", &out]);
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    // `| true`: the pipe is closed before the first line.
    drop(child.stdout.take());
    finish(child).exited(0);
    assert!(scratch.path("run/summary.json").exists());
    assert!(scratch.path("run/report.html").exists());
}

#[test]
fn full_stdout_device_is_an_error() {
    let full = std::fs::File::create("/dev/full").expect("/dev/full is there");
    let mut command = program();
    let output = command.arg("transports").stdout(full).output();
    let said: CommandOutput = output.expect("it runs").into();
    assert_eq!(said.code, 1);
    assert_has(&said.err, "standard output");
}

#[test]
fn piped_progress_is_plain_lines_with_estimate_first() {
    let scratch = Scratch::new();
    let mut command = program();
    let command = command.args(["race", "tcp", "--sizes", "64", "--trial", "20ms"]);
    let command = command.args(["--blocks", "1", "--out", &scratch.text("run")]);
    let output = command.output().expect("it runs");
    let lines: Vec<String> = BufReader::new(&output.stderr[..])
        .lines()
        .collect::<Result<_, _>>()
        .expect("UTF-8");
    assert!(lines[0].starts_with("Racing tcp alone"), "{lines:?}");
    assert!(lines[1].contains("trials, about"), "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains('\r')), "{lines:?}");
}
