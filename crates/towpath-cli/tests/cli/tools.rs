//! Tools on XTP, as programs: what other programs get of them.

use crate::support::{Scratch, finish, program, signal, towpath};
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// The program at work; it is told to end when this goes out of scope.
struct Tool {
    child: Option<Child>,
    /// The address it said it listens at.
    at: String,
    said: BufReader<std::process::ChildStderr>,
}

impl Tool {
    /// Starts it and waits until it says that it listens.
    fn start(arguments: &[&str]) -> Tool {
        let mut command = program();
        let command = command.args(arguments).stdin(Stdio::null());
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

    /// Ends it as Ctrl-C does; gives what it said since it listens.
    fn stop(mut self) -> String {
        let child = self.child.take().expect("it was started");
        signal(child.id(), Signal::INT);
        let done = finish(child);
        assert_eq!(done.code, 0, "{}", done.err);
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

/// Two forwarders to `target`.
fn path(target: &str) -> (Tool, Tool) {
    let far = Tool::start(&["forward", "--from", "xtp", "127.0.0.1:0", "--to", target]);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", "xtp", &far.at]);
    (near, far)
}

fn listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let at = listener.local_addr().expect("bound").to_string();
    (listener, at)
}

#[test]
fn curl_fetches_through_forwarders() {
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
        assert!(said.contains("3 connections: 3 ended, 0 broken"), "{said}");
    }
}

#[test]
fn a_shell_is_spoken_with_through_forwarders() {
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
fn wrong_words_of_forward_are_one_line() {
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
        (&["forward", "--from", "xtp", "127.0.0.1:0"], "--to"),
        (
            &["forward", "192.0.2.1:0", "--over", "xtp", "127.0.0.1:9"],
            "cannot listen at 192.0.2.1:0",
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
fn files_are_copied_and_what_is_there_stays() {
    let scratch = Scratch::new();
    let content: Vec<u8> = (0..2_000_000u32).map(|at| (at * 13 % 241) as u8).collect();
    fs::write(scratch.path("data"), &content).expect("room for a file");
    let folders = ["one", "two"].map(|name| scratch.text(name));
    let hosts = folders.clone().map(|folder| {
        fs::create_dir(&folder).expect("an own folder");
        Tool::start(&["cp", "--receive", &folder, "--listen", "127.0.0.1:0"])
    });
    let file = scratch.text("data");
    let said = towpath(&["cp", &file, &hosts[0].at, &hosts[1].at]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out.matches("2000000 bytes").count(), 2, "{}", said.out);
    for folder in &folders {
        assert!(fs::read(format!("{folder}/data")).expect("it came") == content);
    }
    let said = towpath(&["cp", &file, &hosts[0].at]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("--overwrite"), "{}", said.err);
    let [one, two] = hosts;
    assert!(one.stop().contains("is there already"));
    two.stop();
}
