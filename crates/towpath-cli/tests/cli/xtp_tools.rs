//! The XTP commands as other programs use them.

use crate::support::{Scratch, assert_has, finish, program, signal, towpath};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// The running program, killed on drop.
pub struct Tool {
    pub child: Option<Child>,
    /// The address it listens on.
    pub at: String,
    /// What it says after that.
    pub said: BufReader<std::process::ChildStderr>,
}

impl Tool {
    /// Starts it and waits until it listens.
    pub fn start(arguments: &[&str]) -> Tool {
        Tool::start_with(arguments, &[])
    }

    /// The same with environment variables.
    pub fn start_with(arguments: &[&str], environment: &[(&str, &str)]) -> Tool {
        let mut command = program();
        Tool::start_command(command.envs(environment.iter().copied()).args(arguments))
    }

    /// The same with a limit on its descriptors.
    pub fn start_with_descriptors(count: u32, arguments: &[&str]) -> Tool {
        let mut shell = Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$0\" \"$@\"");
        shell.args(["-c", &script]).arg(program().get_program());
        Tool::start_command(shell.args(arguments))
    }

    fn start_command(command: &mut Command) -> Tool {
        let command = command.stdin(Stdio::null());
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("text");
        let at = line.split_once(" at ").expect("an address").1;
        let at = at.split([' ', ';']).next().expect("an address").to_owned();
        Tool {
            child: Some(child),
            at,
            said,
        }
    }

    /// Stops it with SIGINT; gives its output since it listens.
    pub fn stop(mut self) -> String {
        let child = self.child.take().expect("it was started");
        signal(child.id(), Signal::INT);
        finish(child).exited(0);
        let mut rest = String::new();
        self.said.read_to_string(&mut rest).expect("text");
        rest
    }
}

impl Drop for Tool {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(child.id(), Signal::KILL);
            let _ = child.wait();
        }
    }
}

/// Both ends of a tunnel to `target`: local, remote.
fn path(target: &str) -> (Tool, Tool) {
    let far = Tool::start(&["forward", "--from", "xtp", "127.0.0.1:0", "--to", target]);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", "xtp", &far.at]);
    (near, far)
}

pub fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("bound").to_string();
    (listener, at)
}

#[test]
fn curl_fetches_through_tunnel() {
    let (web, target) = listener();
    let body: Vec<u8> = (0..1_000_000u32).map(|at| (at * 7 % 251) as u8).collect();
    let page = body.clone();
    std::thread::spawn(move || {
        while let Ok((mut tcp, _)) = web.accept() {
            let mut lines = BufReader::new(tcp.try_clone().expect("descriptors")).lines();
            while lines
                .next()
                .is_some_and(|line| line.is_ok_and(|line| !line.is_empty()))
            {}
            let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", page.len());
            let _ = tcp
                .write_all(head.as_bytes())
                .and_then(|()| tcp.write_all(&page));
        }
    });
    let (near, far) = path(&target);
    let url = format!("http://{}/", near.at);
    for _ in 0..3 {
        let mut curl = Command::new("curl");
        let curl = curl.args(["-s", "--noproxy", "*", "--max-time", "30", &url]);
        let Ok(output) = curl.output() else {
            eprintln!("SKIPPED: curl is not installed");
            return;
        };
        assert!(output.status.success(), "{:?}", output.status);
        assert!(output.stdout == body, "{} bytes came", output.stdout.len());
    }
    for end in [near, far] {
        let said = end.stop();
        assert!(said.contains("3 connections: 3 closed, 0 failed"), "{said}");
    }
}

/// The client has all and has closed when the tunnel is stopped; the server closes after that.
#[test]
fn connection_that_is_ending_when_its_tunnel_stops_is_not_reset() {
    let (server, target) = listener();
    let (near, far) = path(&target);
    let mut client = TcpStream::connect(&near.at).expect("it listens");
    let (mut served, _) = server.accept().expect("a peer");
    served.write_all(b"all").expect("room");
    client.read_exact(&mut [0; 3]).expect("the body");
    drop(client);
    let stopping = std::thread::spawn(|| near.stop());
    // The tunnel handles the signal meanwhile.
    std::thread::sleep(Duration::from_millis(300));
    drop(served);
    let said = stopping.join().expect("no panic");
    assert!(said.contains("1 connections: 1 closed, 0 failed"), "{said}");
    let said = far.stop();
    assert!(said.contains("1 connections: 1 closed, 0 failed"), "{said}");
}

#[test]
fn ssh_session_runs_through_tunnel() {
    let (listener, target) = listener();
    let shell = std::thread::spawn(move || {
        let (tcp, _) = listener.accept().expect("a peer");
        let end = || OwnedFd::from(tcp.try_clone().expect("descriptors"));
        let mut sh = Command::new("sh");
        let sh = sh.stdin(end()).stdout(end()).stderr(Stdio::null());
        let status = sh.status().expect("every system has a shell");
        status.code()
    });
    let (near, far) = path(&target);
    let mut tcp = TcpStream::connect(&near.at).expect("it listens");
    tcp.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut answers = BufReader::new(tcp.try_clone().expect("descriptors")).lines();
    for round in 0..50 {
        writeln!(tcp, "echo $(({round} * 3))").expect("room");
        let answer = answers.next().expect("an answer").expect("text");
        assert_eq!(answer, (round * 3).to_string());
    }
    writeln!(tcp, "exit 7").expect("room");
    assert!(answers.next().is_none(), "the shell is gone");
    assert_eq!(shell.join().expect("no panic"), Some(7));
    drop((tcp, answers));
    near.stop();
    far.stop();
}

#[test]
fn forward_usage_errors_are_one_line() {
    for (arguments, part) in [
        (&["forward"][..], "LISTEN"),
        (&["forward", "127.0.0.1:0"], "HOST:PORT"),
        (
            &["forward", "127.0.0.1:0", "--over", "tcp", "127.0.0.1:9"],
            "only over xtp",
        ),
        (
            &["forward", "127.0.0.1:0", "--over", "xtp,a=b", "127.0.0.1:9"],
            "no option a",
        ),
        (
            &["forward", "nowhere", "--over", "xtp", "127.0.0.1:9"],
            "'nowhere' is no address",
        ),
        (
            &["forward", "127.0.0.1:0", "--over", "xtp,push=zip", "::1"],
            "no module 'zip'",
        ),
        (
            &["forward", "127.0.0.1:0", "--over", "xtp,push=seal", "::1"],
            "seal-key=FILE",
        ),
        (
            &["cp", "a", "b", "--over", "xtp,push=fault,fault-drop=1%"],
            "fault-drop= on xtp",
        ),
        (
            &words!("cp a b --over xtp,push=pass --group 239.1.2.3:5"),
            "leave out push=",
        ),
        (&["forward", "--from", "xtp", "127.0.0.1:0"], "--to"),
        (
            &["forward", "192.0.2.1:0", "--over", "xtp", "127.0.0.1:9"],
            "cannot listen on 192.0.2.1:0",
        ),
        (&["cp"], "FILE"),
        (&["cp", "nosuch"], "HOST"),
        (&["cp", "/nosuch", "127.0.0.1"], "cannot read /nosuch"),
        (&["cp", "--receive", "/nosuch"], "no folder /nosuch"),
    ] {
        let said = towpath(arguments);
        assert!(
            said.code == 1 || said.code == 2,
            "{arguments:?}: {}",
            said.code
        );
        assert!(said.err.contains(part), "{arguments:?}: {}", said.err);
        assert_eq!(said.err.trim_end().lines().count(), 1, "{}", said.err);
    }
}

#[test]
fn cp_copies_files_and_keeps_existing_ones() {
    let scratch = Scratch::new();
    let content: Vec<u8> = (0..2_000_000u32).map(|at| (at * 13 % 241) as u8).collect();
    fs::write(scratch.path("data"), &content).expect("room for a file");
    let folders = ["one", "two"].map(|name| scratch.text(name));
    let hosts = folders.clone().map(|folder| {
        fs::create_dir(&folder).expect("an own folder");
        Tool::start(&["cp", "--receive", &folder, "--listen", "127.0.0.1:0"])
    });
    let file = scratch.text("data");
    let said = towpath(&["cp", &file, &hosts[0].at, &hosts[1].at]).exited(0);
    assert_eq!(said.out.matches("2000000 bytes").count(), 2, "{}", said.out);
    for folder in &folders {
        assert!(fs::read(format!("{folder}/data")).expect("it came") == content);
    }
    towpath(&["cp", &file, &hosts[0].at]).failed(1, "--overwrite");
    let [one, two] = hosts;
    assert!(one.stop().contains("exists already"));
    two.stop();
}

/// A private folder with a short name, because socket paths are short.
pub struct Runtime(pub std::path::PathBuf);

impl Runtime {
    pub fn new(name: &str) -> Runtime {
        use std::os::unix::fs::DirBuilderExt;
        let path = std::env::temp_dir().join(format!("towpath-{name}-{}", std::process::id()));
        // Left by an earlier process with the same ID.
        let _ = fs::remove_dir_all(&path);
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.expect("a folder");
        Runtime(path)
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        // A folder left among the temporary ones does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn xtp_contexts_and_trace_show_live_endpoints() {
    let scratch = Scratch::new();
    let runtime = Runtime::new("run");
    let folder = runtime.0.to_str().expect("UTF-8");
    let look = |arguments: &[&str]| {
        let mut command = program();
        let command = command.env("XDG_RUNTIME_DIR", folder);
        let command = command.args(["xtp", "contexts"]).args(arguments);
        crate::support::CommandOutput::from(command.output().expect("the program starts"))
    };
    let nobody = look(&[]);
    assert_eq!((nobody.code, nobody.err.lines().count()), (1, 1));
    assert_has(&nobody.err, "towpath forward");

    let trace = scratch.text("far.trace");
    let (listener, target) = listener();
    let (more, env) = (["--trace", &trace], [("XDG_RUNTIME_DIR", folder)]);
    let from = ["forward", "--from", "xtp", "127.0.0.1:0", "--to", &target];
    let far = Tool::start_with(&[&from[..], &more].concat(), &env);
    let over = ["forward", "127.0.0.1:0", "--over", "xtp,sort=9", &far.at];
    // The first line that it says is of the other entrance.
    let sorted = ["--sorted", "127.0.0.1:0=1"];
    let near = Tool::start_with(&[&over[..], &sorted].concat(), &env);
    let mut tcp = TcpStream::connect(&near.at).expect("it listens");
    tcp.write_all(b"hello").expect("room");
    let (mut served, _) = listener.accept().expect("a peer");
    let mut word = [0; 5];
    served.read_exact(&mut word).expect("it comes");

    let seen = look(&["--json"]).exited(0);
    let reports: serde_json::Value = serde_json::from_str(&seen.out).expect("JSON");
    let reports = reports.as_array().expect("a list");
    assert_eq!(reports.len(), 2, "{}", seen.out);
    let process = far.child.as_ref().expect("it runs").id();
    let of_far = reports.iter().find(|one| one["process"] == process);
    let of_far = of_far.expect("it answers");
    assert!(of_far["shortcut"].is_array(), "on by default: {}", seen.out);
    let association = &of_far["associations"][0];
    assert_eq!(association["receive_next"], 5);
    assert_eq!(association["initiator"], false);
    let sorts = reports.iter().map(|one| &one["associations"][0]["sort"]);
    assert!(
        sorts.into_iter().all(|sort| *sort == 1),
        "the entrance's: {}",
        seen.out
    );
    let text = look(&[&process.to_string()]);
    assert_has(&text.out, "stream, opened there");
    assert_has(&text.out, "CTIMER in");

    // A killed process leaves its socket, which is then removed by the next query.
    drop(near);
    look(&["--json"]).exited(0);
    drop((tcp, served));
    far.stop();
    let sockets = fs::read_dir(runtime.0.join("towpath")).expect("it is there");
    assert_eq!(sockets.count(), 0, "swept, and tidied up");
    let traced = fs::read_to_string(&trace).expect("it was written");
    assert!(traced.contains(" arrived at=0 from=1 len="), "{traced}");
    towpath(&["sim", "diff", "--outline", &trace, &trace]).exited(0);
    let wrong = look(&["/nowhere/at-all.sock"]);
    assert_eq!((wrong.code, wrong.err.lines().count()), (1, 1));
    assert_has(&wrong.err, "at-all.sock");
}

#[test]
fn race_trace_writes_one_file_per_worker() {
    let scratch = Scratch::new();
    // One with every kind of engine that runs in the user's process, beside one that does not.
    let contestants = [
        ("xtp", "delay"),
        ("bare", "delay"),
        ("vmtp", "transactions"),
        ("xtp-multicast,receivers=2", "throughput"),
    ];
    for (index, (name, workload)) in contestants.into_iter().enumerate() {
        let trace = scratch.text(&format!("{index}.trace"));
        let out = scratch.text(&format!("run{index}"));
        let start = ["race", name, "tcp", "--sizes", "64", "--workload", workload];
        let rest = words!(
            "--trial 20ms --blocks 1 --no-control --no-report --out",
            &out,
            "--trace",
            &trace
        );
        let words = [&start[..], &rest].concat();
        let said = towpath(&words);
        assert_eq!(said.code, 0, "{name}: {}", said.err);
        let first = fs::read_to_string(&trace).expect("the first worker's");
        let second = fs::read_to_string(format!("{trace}.2")).expect("the second worker's");
        for text in [first, second] {
            assert!(text.starts_with("# station 0 is "), "{name}: {text}");
            assert!(text.contains(" offered at="), "{name}: {text}");
            assert!(text.contains(" arrived at="), "{name}: {text}");
        }
        towpath(&words).failed(2, "it exists; remove it");
    }
}

#[test]
fn tunnel_works_through_xtp_router() {
    let (listener, target) = listener();
    let echoing = std::thread::spawn(move || {
        let (mut tcp, _) = listener.accept().expect("a peer");
        let mut all = Vec::new();
        tcp.read_to_end(&mut all).expect("an end");
        tcp.write_all(&all).expect("room");
    });
    // The remote end opens no circuits, so its gateway is never used.
    let far = "xtp,dialect=3.6,gateway=127.0.0.3:9";
    let far = Tool::start(&["forward", "--from", far, "127.0.0.2:0", "--to", &target]);
    let middle = Tool::start(&["xtp", "forwarder", "127.0.0.3:0", "--to", &far.at]);
    let over = format!("xtp,dialect=3.6,gateway={}", middle.at);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", &over, &far.at]);
    let mut tcp = TcpStream::connect(&near.at).expect("it listens");
    tcp.set_read_timeout(Some(LIMIT)).expect("a limit");
    let bytes: Vec<u8> = (0..200_000u32).map(|at| (at * 13 % 251) as u8).collect();
    tcp.write_all(&bytes).expect("room");
    tcp.shutdown(std::net::Shutdown::Write).expect("it is open");
    let mut back = Vec::new();
    tcp.read_to_end(&mut back).expect("an end");
    assert!(back == bytes, "{} bytes came back", back.len());
    echoing.join().expect("no panic");
    drop((near, far));
    let said = middle.stop();
    let count = said.split_once(" packets in").expect("a count").0;
    let count: u64 = count.parse().expect("a number");
    assert!(count > 250 && said.contains("1 paths"), "{said}");
}

#[test]
fn relay_prints_packet_counts_on_exit() {
    let group = format!("239.192.9.9:{}", 20_000 + std::process::id() % 10_000);
    let relay = words!(
        "xtp relay",
        &group,
        "--interface 127.0.0.1 --to 127.0.0.1:9 --damping"
    );
    let said = Tool::start(&relay).stop();
    assert!(
        said.contains("0 packets repeated, 0 answers returned"),
        "{said}"
    );
    for (arguments, expected) in [
        (
            ["xtp", "relay", "127.0.0.1:9", "--to", "127.0.0.1:9"],
            "no multicast address",
        ),
        (
            ["xtp", "forwarder", "127.0.0.1:0", "--to", "x=127.0.0.1:9"],
            "HOST=ADDR:PORT",
        ),
        (
            ["xtp", "forwarder", "127.0.0.1:0", "--to", "127.0.0.1"],
            "HOST:PORT",
        ),
    ] {
        towpath(&arguments).failed(2, expected);
    }
}
