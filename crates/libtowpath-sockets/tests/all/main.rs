//! Unmodified programs of TCP over XTP, by the preloaded library.

mod datagrams;
mod netperf;
mod over_streams;
mod pipes;
mod programs;

use programs::{RULES_FILE, Scratch, Server, output_of, preloaded, scratch};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::Command;

/// A port that no socket has, of UDP or of TCP.
fn free_port() -> u16 {
    loop {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let port = socket.local_addr().expect("it is bound").port();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

fn refusal(scratch: &Scratch, text: &str) -> String {
    scratch.write("rules", text);
    let output = preloaded("/bin/true", scratch).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2), "{text}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn refused_lines_are_named_with_file_line_and_reason() {
    let scratch = scratch("refused");
    let file = scratch.0.join("rules").display().to_string();
    let text = refusal(&scratch, "# rules\ninet * http xtp\ninet * 80 quic\n");
    assert!(text.contains(&format!("{file}:2: port `http`")), "{text}");
    assert!(
        text.contains(&format!("{file}:3: transport `quic`")),
        "{text}"
    );
    let text = refusal(&scratch, "* * 80 xtp,bogus=1\n");
    assert!(
        text.contains(&format!("{file}:1: option `bogus=1`")),
        "{text}"
    );
    let mut missing = preloaded("/bin/true", &scratch);
    let output = missing.env(RULES_FILE, "/nowhere/rules").output();
    let output = output.expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/rules"));
}

#[test]
fn program_without_rules_or_with_kernel_is_untouched() {
    let Some(server) = Server::redis("kernel", free_port(), "* * * kernel\n", None) else {
        return;
    };
    let plain = TcpStream::connect(("127.0.0.1", server.port));
    assert!(plain.is_ok(), "it listens on TCP: {plain:?}");
    let port = server.port.to_string();
    let mut cli = preloaded("redis-cli", &server.scratch);
    assert_eq!(output_of(cli.args(["-p", &port, "ping"])), "PONG\n");
}

#[test]
fn redis_and_its_benchmark_run_over_xtp() {
    let port = free_port();
    let rules = format!("inet 127.0.0.1 {port} xtp,shortcut=on\n");
    let Some(server) = Server::redis("xtp", port, &rules, None) else {
        return;
    };
    let plain = TcpStream::connect(("127.0.0.1", port));
    assert!(plain.is_err(), "nothing listens on TCP");
    let port = port.to_string();
    let mut cli = preloaded("redis-cli", &server.scratch);
    let value = "v".repeat(100_000);
    assert_eq!(
        output_of(cli.args(["-p", &port, "set", "k", &value])),
        "OK\n"
    );
    let mut cli = preloaded("redis-cli", &server.scratch);
    assert_eq!(
        output_of(cli.args(["-p", &port, "get", "k"])).trim_end(),
        value
    );
    let mut benchmark = preloaded("redis-benchmark", &server.scratch);
    let benchmark = benchmark.args(["-p", &port, "-n", "2000", "-c", "20", "-t", "set,get", "-q"]);
    assert!(output_of(benchmark).contains("GET:"));
}

/// Registers a socket with epoll, then connects it, and asks for an answer as events tell.
const REGISTERS_FIRST: &str = r#"
import select, socket, sys
peer = socket.socket()
peer.setblocking(False)
epoll = select.epoll()
epoll.register(peer, select.EPOLLIN | select.EPOLLOUT)
try:
    peer.connect(("127.0.0.1", int(sys.argv[1])))
except BlockingIOError:
    pass
def wait(wanted):
    for _, events in epoll.poll(20) or sys.exit("no event in 20 s"):
        if not events & wanted:
            sys.exit(f"events {events:#x}")
wait(select.EPOLLOUT)
epoll.modify(peer, select.EPOLLIN)
peer.send(b"PING\r\n")
wait(select.EPOLLIN)
print(peer.recv(100).decode().strip(), flush=True)
"#;

#[test]
fn socket_registered_with_epoll_before_it_connects_has_its_events() {
    let port = free_port();
    let rules = format!("inet 127.0.0.1 {port} xtp,shortcut=on\n");
    let is_there = Command::new("python3").arg("--version").output();
    if !is_there.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: there is no python3");
        return;
    }
    let Some(server) = Server::redis("registers", port, &rules, None) else {
        return;
    };
    let mut program = preloaded("python3", &server.scratch);
    program.args(["-c", REGISTERS_FIRST, &port.to_string()]);
    assert_eq!(output_of(&mut program), "+PONG\n");
}

/// The program of a C source in tests, or None, with a SKIPPED line, where there is no C compiler.
fn compiled(scratch: &Scratch, name: &str) -> Option<std::path::PathBuf> {
    let program = scratch.0.join(name);
    let source = format!("tests/{name}.c");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Werror", "-o"])
        .arg(&program)
        .arg(source)
        .output();
    let Ok(output) = compiled else {
        eprintln!("SKIPPED: there is no C compiler");
        return None;
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(program)
}

#[test]
fn forked_child_uses_what_it_inherited_and_gets_an_error_for_what_it_cannot_do() {
    let scratch = scratch("fork");
    let Some(program) = compiled(&scratch, "fork") else {
        return;
    };
    let port = free_port();
    scratch.write("rules", &format!("inet 127.0.0.1 {port} xtp\n"));
    let program = program.display().to_string();
    let output = preloaded(&program, &scratch).arg(port.to_string()).output();
    let output = output.expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    for notice in [
        "cannot divert connections",
        "cannot accept from its parent's listener",
    ] {
        assert_eq!(errors.matches(notice).count(), 1, "{notice}: {errors}");
    }
}

#[test]
fn calls_of_event_loops_end_in_the_library_and_others_in_the_kernel_as_over_tcp() {
    let scratch = scratch("direct");
    let Some(program) = compiled(&scratch, "direct") else {
        return;
    };
    let port = free_port();
    scratch.write("rules", &format!("inet 127.0.0.1 {port} xtp\n"));
    let program = program.display().to_string();
    output_of(preloaded(&program, &scratch).arg(port.to_string()));
    // The same program over the kernel's TCP finds the same.
    output_of(Command::new(&program).args([&free_port().to_string(), "tcp"]));
}

/// A network namespace that is deleted on drop.
struct Namespace(String);

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&format!("netns delete {}", self.0));
    }
}

fn ip(words: &str) -> bool {
    let output = Command::new("ip").args(words.split(' ')).output();
    output.is_ok_and(|output| output.status.success())
}

/// Two namespaces with a link: 10.77.0.1 and 10.77.0.2.
fn two_namespaces() -> Option<[Namespace; 2]> {
    let name = |end: &str| format!("tws{}{end}", std::process::id());
    let made = ["a", "b"].map(|end| {
        (
            ip(&format!("netns add {}", name(end))),
            Namespace(name(end)),
        )
    });
    let [(is_a, a), (is_b, b)] = made;
    let link = format!(
        "link add tws0 netns {} type veth peer name tws0 netns {}",
        a.0, b.0
    );
    let mut is_up = is_a && is_b && ip(&link);
    for (space, address) in [(&a.0, "10.77.0.1/24"), (&b.0, "10.77.0.2/24")] {
        is_up = is_up
            && ip(&format!("-n {space} address add {address} dev tws0"))
            && ip(&format!("-n {space} link set tws0 up"));
    }
    if !is_up {
        eprintln!("SKIPPED: no network namespaces can be made here");
    }
    is_up.then_some([a, b])
}

/// Packets that a namespace's end of the link has sent.
fn sent_packets(space: &Namespace) -> u64 {
    let file = "/sys/class/net/tws0/statistics/tx_packets";
    let mut read = Command::new("ip");
    let text = output_of(read.args(["netns", "exec", &space.0, "cat", file]));
    text.trim().parse().expect("a number")
}

#[test]
fn redis_in_two_namespaces_uses_the_shortcut_of_a_shared_directory() {
    let Some([near, far]) = two_namespaces() else {
        return;
    };
    let meetings = scratch("meetings");
    let rules = format!(
        "inet 10.77.0.1 6379 xtp,shortcut={}\n",
        meetings.0.display()
    );
    let Some(server) = Server::redis("namespaces", 6379, &rules, Some(&near.0)) else {
        return;
    };
    let in_near = |program: &str, words: &[&str]| {
        let mut command = preloaded("ip", &server.scratch);
        command.args(["netns", "exec", &far.0, program, "-h", "10.77.0.1"]);
        output_of(command.args(words))
    };
    assert_eq!(in_near("redis-cli", &["set", "k", "v"]), "OK\n");
    let before = sent_packets(&far);
    let words = ["-n", "3000", "-c", "1", "-t", "get", "-q"];
    assert!(in_near("redis-benchmark", &words).contains("GET:"));
    let packets = sent_packets(&far) - before;
    // Each request of one client is a packet at least, if it goes over the link.
    assert!(packets < 1500, "{packets} packets for 3,000 requests");
    assert!(Path::new(&meetings.0).exists());
}
