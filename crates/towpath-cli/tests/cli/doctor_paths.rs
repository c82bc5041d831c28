//! The path between two hosts: `towpath doctor --to`.

use crate::agents::{Agent, exchange_keys, with_keys};
use crate::support::{CommandOutput, Scratch, assert_has, finish, program, towpath};
use serde_json::Value;
use std::process::{Command, Stdio};
use testbed::{Host, Testbed, TestbedPlan};

#[track_caller]
fn json(said: &CommandOutput) -> Value {
    assert_eq!(said.code, 0, "{}", said.err);
    serde_json::from_str(&said.out).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

/// A finding contains these words.
#[track_caller]
fn assert_finding(survey: &Value, words: &str) {
    let all = survey["findings"].as_array().expect("findings");
    let mentions = |one: &Value| {
        one["what"]
            .as_str()
            .is_some_and(|what| what.contains(words))
    };
    assert!(all.iter().any(mentions), "{words}: {all:#?}");
}

#[test]
fn doctor_to_agent_reports_both_directions() {
    let scratch = Scratch::new();
    let (near, far) = (scratch.text("near"), scratch.text("far"));
    exchange_keys(&near, &far);
    let agent = Agent::start(&far, &[], 2);
    let ask = ["doctor", "--to", agent.address(), "--trial", "100ms"];
    let said = with_keys(&near, &ask).exited(0);
    for words in [
        "This host\n",
        "Between here and 127.0.0.1:",
        "pass in both directions",
        "in 0.1 s of TCP",
        "the clocks of the two hosts are known within",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let report = json(&with_keys(&near, &[&ask[..], &["--json"]].concat()));
    assert!(report["here"]["facts"].as_array().expect("facts").len() > 10);
    let survey = &report["hosts"][0];
    assert!(survey["machine"]["facts"].as_array().expect("facts").len() > 10);
    for way in ["there", "back"] {
        let way = &survey[way];
        assert_eq!(way["interface"], "lo");
        assert!(way["offloads"]["TCP segmentation"].is_boolean(), "{way}");
        assert!(number(&way["tcp"]["mbit_per_s"]) > 0.0);
        assert!(number(&way["tcp"]["segment_max"]) < number(&way["mtu"]));
    }
    // Both ends use the same clock.
    let offset_ns = number(&survey["clock_offset_ns"]).abs();
    assert!(offset_ns <= number(&survey["clock_bound_ns"]));
}

#[test]
fn doctor_reports_agent_rate_cap() {
    let scratch = Scratch::new();
    let none = scratch.text("none");
    let agent = Agent::start(&none, &["--max-rate", "20mbit"], 1);
    let ask = ["doctor", "--to", agent.address(), "--trial", "1s", "--json"];
    let report = json(&with_keys(&none, &ask));
    let survey = &report["hosts"][0];
    assert_eq!(number(&survey["agent_rate_bps"]), 20e6);
    // The pacing may exceed the cap by one batch of messages.
    let back = number(&survey["back"]["tcp"]["mbit_per_s"]);
    assert!(back < 40.0, "{back}");
}

#[test]
fn doctor_unreachable_host_gives_one_line_error() {
    let scratch = Scratch::new();
    let (near, far, other) = (
        scratch.text("near"),
        scratch.text("far"),
        scratch.text("other"),
    );
    exchange_keys(&near, &far);
    let agent = Agent::start(&far, &[], 2);
    let refused = |keys: &str, more: &[&str], code: i32, words: &str| {
        let said = with_keys(keys, &[&["doctor"], more].concat());
        assert!(said.code == code && said.out.is_empty(), "{}", said.err);
        let is_one = said.err.lines().count() == 1;
        assert!(is_one && said.err.contains(words), "{}", said.err);
    };
    let to = ["--to", agent.address()];
    refused(&other, &to, 1, "make one with `towpath key new`");
    assert_eq!(with_keys(&other, &["key", "new"]).code, 0);
    refused(&other, &to, 1, "no key is trusted here");
    let far_key = with_keys(&far, &["key", "show"]).out;
    let trust = ["key", "trust", far_key.trim(), "127.0.0.1"];
    assert_eq!(with_keys(&other, &trust).code, 0);
    refused(&other, &to, 1, "does not trust this host's key");
    refused(
        &near,
        &["--to", "127.0.0.1:1"],
        1,
        "is `towpath agent` running there",
    );
    refused(
        &near,
        &["--to", "no-such-host.invalid"],
        1,
        "cannot be found",
    );
    refused(&near, &["--to", "a host"], 2, "is no host");
    refused(&near, &["--trial", "1s"], 2, "--to");
    let help = towpath(&["doctor", "--help"]);
    assert_has(&help.out, "doctor --to lab2");
}

/// Runs the program on a host of a testbed.
fn on(host: &Host, keys: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = program();
    command.env("TOWPATH_KEYS", keys).args(arguments);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(host.spawn(command).expect("the program starts"))
}

#[test]
fn doctor_finds_slow_link_with_small_mtu() {
    assert_slow_link_found("rate=20mbit,delay=1ms", 0);
}

#[test]
fn doctor_probes_the_link_of_the_address_among_several() {
    assert_slow_link_found("delay=0+rate=20mbit,delay=1ms", 1);
}

/// Probes the path to the second host's address on link number `link`, of 20 Mbit/s and 1 ms.
fn assert_slow_link_found(links: &str, link: usize) {
    let plan = TestbedPlan {
        mtu: 1300,
        ..TestbedPlan::pair_over(links.parse().expect("links"), 1)
    };
    let Some(testbed) = Testbed::up_or_skip(&plan) else {
        return;
    };
    let [near_host, far_host] = testbed.hosts() else {
        panic!("two hosts");
    };
    let scratch = Scratch::new();
    let (near, far) = (scratch.text("near"), scratch.text("far"));
    let far_key = exchange_keys(&near, &far);
    let address = far_host.address_on(link).to_string();
    let trust = ["key", "trust", &far_key, &address];
    assert_eq!(with_keys(&near, &trust).code, 0);
    let listen = format!("{address}:0");
    let start = |command: Command| far_host.spawn(command).expect("the program starts");
    let agent = Agent::start_by(start, &far, &["--listen", &listen], 2);
    let ask = words!("doctor --to", agent.address(), "--trial 1500ms --json");
    let report = json(&on(near_host, &near, &ask));
    let survey = &report["hosts"][0];
    for way in ["there", "back"] {
        let way = &survey[way];
        assert_eq!(way["interface"], format!("eth{link}"));
        assert_eq!(number(&way["mtu"]), 1300.0);
        assert_eq!(number(&way["interface_mtu"]), 1300.0);
        // The link's rate is of whole frames; less gets through on a busy machine.
        let got = number(&way["tcp"]["mbit_per_s"]);
        assert!(
            got < 22.0 && number(&way["tcp"]["segment_max"]) < 1300.0,
            "{way}"
        );
    }
    // 1 ms in each direction.
    assert!(number(&survey["round_trip_ns"]) >= 2e6);
    assert_finding(survey, "packets of 1300 B pass in both directions");
    assert_finding(survey, "a link on the path is the bottleneck");
}
