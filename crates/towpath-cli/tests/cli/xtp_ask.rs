//! `towpath xtp ask`: contexts, routes and counters of endpoints and routers that allow it. `towpath xtp set`.

use crate::support::{CommandOutput, program, towpath, wait_until};
use crate::xtp_tools::{Runtime, Tool, listener};
use std::io::{Read, Write};
use std::net::TcpStream;

fn ask(words: &[&str]) -> (i32, String, String) {
    let said = towpath(&[&["xtp", "ask"][..], words].concat());
    (said.code, said.out, said.err)
}

fn records(words: &[&str]) -> serde_json::Value {
    let (code, out, err) = ask(&[words, &["--json"]].concat());
    assert_eq!(code, 0, "{words:?}: {err}");
    serde_json::from_str(&out).expect("JSON")
}

#[test]
fn managers_get_contexts_routes_and_counters_and_others_are_refused() {
    let (listener, target) = listener();
    let from =
        |words: &str| Tool::start(&["forward", "--from", words, "127.0.0.1:0", "--to", &target]);
    let far = from("xtp,dialect=3.6,routes=on,managers=127.0.0.1/::1");
    let words = "xtp,dialect=3.6,routes=on,sort=5";
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", words, &far.at]);
    let mut tcp = TcpStream::connect(&near.at).expect("it listens");
    tcp.write_all(b"hello").expect("room");
    let (mut served, _) = listener.accept().expect("a peer");
    served.read_exact(&mut [0; 5]).expect("it comes");

    let contexts = records(&[&far.at, "contexts"]);
    let context = &contexts[0];
    for (field, value) in [
        ("service", "stream"),
        ("opened", "there"),
        ("received", "5"),
        ("sort", "5"),
    ] {
        assert_eq!(context[field], value, "{contexts}");
    }
    let routes = records(&[&far.at, "routes"]);
    assert_eq!(routes[0]["users"], "1", "{routes}");
    let counters = records(&[&far.at, "counters"]);
    let parsed = counters.as_array().expect("a list").iter();
    assert!(
        parsed.clone().any(|one| one["bytes_delivered"] == "5"),
        "{counters}"
    );
    let (code, out, _) = ask(&[&far.at, "contexts"]);
    assert!(code == 0 && out.contains("service=stream"), "{out}");

    let closed = from("xtp,dialect=3.6,managers=127.0.0.9");
    let (code, _, err) = ask(&[&closed.at, "contexts"]);
    assert_eq!((code, err.trim_end().lines().count()), (1, 1), "{err}");
    assert!(err.contains("managers=ADDR"), "{err}");
}

#[test]
fn router_tells_its_managers_of_paths() {
    let (_listener, target) = listener();
    let words = "xtp,dialect=3.6";
    let host = Tool::start(&["forward", "--from", words, "127.0.0.1:0", "--to", &target]);
    let router = |more: &[&str]| {
        let to = ["xtp", "forwarder", "127.0.0.1:0", "--to", &host.at];
        Tool::start(&[&to[..], more].concat())
    };
    let open = router(&["--managers", "127.0.0.1"]);
    let over = format!("xtp,dialect=3.6,gateway={}", open.at);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", &over, &host.at]);
    let _tcp = TcpStream::connect(&near.at).expect("it listens");
    wait_until("a path is installed", || {
        let routes = records(&[&open.at, "routes"]);
        routes.as_array().expect("a list").len() == 2
    });
    assert_eq!(records(&[&open.at, "contexts"]), serde_json::json!([]));
    let closed = router(&[]);
    let (code, _, err) = ask(&[&closed.at, "routes", "--timeout", "100ms"]);
    assert_eq!(code, 1, "{err}");
    assert!(err.contains("no answer"), "{err}");
}

#[test]
fn question_that_cannot_be_asked_is_refused() {
    for (words, part) in [
        (
            &["127.0.0.1:9", "weather"][..],
            "choose contexts, routes, counters",
        ),
        (&["127.0.0.1:9"], "contexts"),
        (&["127.0.0.1", "routes"], "give HOST:PORT"),
        (
            &["127.0.0.1:9", "routes", "--dialect", "4.0"],
            "choose dialect 3.6",
        ),
        (&["127.0.0.1:9", "routes", "--dialect", "9"], "dialect"),
    ] {
        let (code, _, err) = ask(words);
        assert_eq!(code, 2, "{words:?}: {err}");
        assert!(err.contains(part), "{words:?}: {err}");
    }
    let wrong = words!("forward 127.0.0.1:0 --over xtp,managers=127.0.0.1 ::1");
    towpath(&wrong).failed(2, "add dialect=3.6");
}

#[test]
fn live_endpoint_changes_what_its_user_says_and_nothing_else() {
    let runtime = Runtime::new("set");
    let folder = runtime.0.to_str().expect("UTF-8");
    let run = |words: &[&str]| {
        let mut command = program();
        let command = command.env("XDG_RUNTIME_DIR", folder).arg("xtp");
        CommandOutput::from(command.args(words).output().expect("the program starts"))
    };
    let (listener, target) = listener();
    let from = ["forward", "--from", "xtp", "127.0.0.1:0", "--to", &target];
    let far = Tool::start_with(&from, &[("XDG_RUNTIME_DIR", folder)]);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", "xtp", &far.at]);
    let mut tcp = TcpStream::connect(&near.at).expect("it listens");
    tcp.write_all(b"hello").expect("room");
    let (mut served, _) = listener.accept().expect("a peer");
    served.read_exact(&mut [0; 5]).expect("it comes");
    let process = far.child.as_ref().expect("it runs").id().to_string();
    let association = || {
        let said = run(&["contexts", "--json", &process]);
        let reports: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        reports[0]["associations"][0].clone()
    };
    let before = association();
    assert!(before["timers_ns"]["CTIMER"].is_u64(), "{before}");
    let number = before["circuit"].to_string();
    for words in [
        &[&number, "output_rate=8mbit", "sort=4"][..],
        &["all", "ctimer=0s"],
    ] {
        let said = run(&[&["set", &process][..], words].concat());
        assert_eq!(said.code, 0, "{words:?}: {}", said.err);
    }
    let after = association();
    assert_eq!(after["sort"], 4, "{after}");
    assert_eq!(after["rate_bytes_per_s"], 1_000_000, "{after}");
    assert!(after["timers_ns"]["CTIMER"].is_null(), "{after}");
    for (words, part) in [
        (&["99", "sort=1"][..], "no association 99"),
        (&[&number, "queue=32k"], "what does is output_rate"),
        (&[&number, "sort"], "write KEY=VALUE"),
        (&["all", "sort=1"], "ctimer, retrycount"),
    ] {
        run(&[&["set", &process][..], words].concat()).failed(2, part);
    }
    run(&["set", "/nowhere/1-1.sock", "all", "ctimer=5s"]).exited(1);
    trace_comes_and_goes(&runtime, &run, [&process, &number], (&mut tcp, &mut served));
    drop((tcp, served, near));
    far.stop();
    let left = std::fs::read_dir(runtime.0.join("towpath")).expect("it is there");
    assert_eq!(left.count(), 0, "both sockets are removed");
}

/// Starts and ends the trace of the endpoint of process `process`, with association `number`, which carries `tcp` to `served`.
fn trace_comes_and_goes(
    runtime: &Runtime,
    run: &dyn Fn(&[&str]) -> CommandOutput,
    [process, number]: [&str; 2],
    (tcp, served): (&mut TcpStream, &mut TcpStream),
) {
    let file = runtime.0.join("packets of a live endpoint");
    let trace = format!("trace={}", file.display());
    let set = |words: &[&str]| run(&[&["set", process][..], words].concat());
    assert_eq!(set(&["all", &trace]).code, 0);
    tcp.write_all(b"watch").expect("room");
    served.read_exact(&mut [0; 5]).expect("it comes");
    let traced = || std::fs::read_to_string(&file).expect("a trace");
    wait_until("what came and what was answered is written", || {
        let lines = traced();
        lines.contains(" arrived ") && lines.contains(" offered ")
    });
    for (words, part) in [
        ([number, trace.as_str()], "write all"),
        (["all", trace.as_str()], "exists"),
    ] {
        set(&words).failed(2, part);
    }
    assert_eq!(set(&["all", "trace=off"]).code, 0);
    let before = traced();
    tcp.write_all(b"again").expect("room");
    served.read_exact(&mut [0; 5]).expect("it comes");
    assert_eq!(traced(), before, "nothing is written any more");
}

#[test]
fn words_of_groups_and_priorities_that_cannot_be_are_refused() {
    let grouped = |words| {
        let group = ["cp", "a", "b", "--group", "239.1.2.3:5"];
        [&group[..], &["--group-options", words]].concat()
    };
    let over = ["forward", "127.0.0.1:0", "--over", "xtp", "::1"];
    let sorted = [&over[..], &["--sorted", "127.0.0.1:0"]].concat();
    for (words, part) in [
        (sorted, "give ADDR:PORT=COUNT"),
        (
            ["cp", "a", "b", "--group-options", "rate=1mbit"].to_vec(),
            "--group",
        ),
        (grouped("buckets=2/2"), "leave out buckets"),
        (grouped("slot=2s"), "up to 1s"),
        (grouped("damping=on"), "leave it out"),
        (grouped("rate"), "write KEY=VALUE"),
        (
            ["race", "tcp", "xtp-multicast,buckets=2"].to_vec(),
            "give N/E",
        ),
        (
            ["race", "tcp", "xtp-multicast,damping=on"].to_vec(),
            "buckets=2/2",
        ),
        (["race", "tcp", "xtp,sorts=1/x"].to_vec(), "from 0 to 65535"),
        (
            ["race", "tcp", "xtp,open=late"].to_vec(),
            "choose explicit, implicit",
        ),
    ] {
        towpath(&words).failed(2, part);
    }
}
