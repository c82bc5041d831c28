//! Unmodified programs over STREAMS: rules that name a device.

use crate::free_port;
use crate::programs::{Server, output_of, preloaded, scratch};
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

/// The same with the module `sockmod` on the stream.
const WITH_SOCKMOD: [&str; 2] = ["/dev/tcp,way=sockmod", "/dev/sctp_t,way=sockmod"];

#[test]
fn redis_and_its_benchmark_run_over_streams() {
    let [sockmod, _] = WITH_SOCKMOD;
    for (name, device) in [
        ("streams-tcp", "/dev/tcp"),
        ("streams-sctp", "/dev/sctp_t"),
        ("streams-sockmod", sockmod),
    ] {
        let port = free_port();
        let rules = format!("inet 127.0.0.1 {port} {device}\n");
        let Some(server) = Server::redis(name, port, &rules, None) else {
            return;
        };
        let plain = TcpStream::connect(("127.0.0.1", port));
        assert_eq!(
            plain.is_ok(),
            device.starts_with("/dev/tcp"),
            "{device}: {plain:?}"
        );
        drop(plain);
        let port = port.to_string();
        let value = "v".repeat(100_000);
        let mut cli = preloaded("redis-cli", &server.scratch);
        let set = output_of(cli.args(["-p", &port, "set", "k", &value]));
        assert_eq!(set, "OK\n", "{device}");
        let mut cli = preloaded("redis-cli", &server.scratch);
        let got = output_of(cli.args(["-p", &port, "get", "k"]));
        assert_eq!(got.trim_end(), value, "{device}");
        let mut benchmark = preloaded("redis-benchmark", &server.scratch);
        let words = ["-p", &port, "-n", "500", "-c", "5", "-t", "set,get", "-q"];
        let said = output_of(benchmark.args(words));
        assert!(said.contains("GET:"), "{device}: {said}");
    }
}

#[test]
fn iperf3_moves_its_octets_over_streams() {
    if Command::new("iperf3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: there is no iperf3");
        return;
    }
    let library = ["/dev/tcp", "/dev/xtp", "/dev/sctp_t"];
    for device in library.into_iter().chain(WITH_SOCKMOD) {
        let scratch = scratch(&device.replace(['/', ','], "-"));
        let port = free_port().to_string();
        scratch.write("rules", &format!("inet 127.0.0.1 {port} {device}\n"));
        let mut server = preloaded("iperf3", &scratch);
        server.args(["-s", "-1", "--forceflush", "-B", "127.0.0.1", "-p", &port]);
        let (server, rest) = listening(server.stdout(Stdio::piped()));
        let mut client = preloaded("iperf3", &scratch);
        client.args(["-c", "127.0.0.1", "-p", &port, "-n", "4M", "--json"]);
        let said = output_of(&mut client);
        assert!(said.contains("\"sum_received\""), "{device}: {said}");
        assert!(!said.contains("\"error\""), "{device}: {said}");
        ended(server, rest);
    }
}

/// Starts a server of iperf3, and waits until it listens.
pub fn listening(server: &mut Command) -> (Child, JoinHandle<()>) {
    let mut server = server.spawn().expect("it runs");
    let output = server.stdout.take().expect("piped");
    let mut lines = BufReader::new(output).lines();
    let listens =
        |line: std::io::Result<String>| line.is_ok_and(|line| line.contains("Server listening"));
    assert!(lines.any(listens), "it ends before it listens");
    (server, std::thread::spawn(move || lines.for_each(drop)))
}

/// The server has served its only client, and succeeded.
pub fn ended(mut server: Child, rest: JoinHandle<()>) {
    let ended = server.wait().expect("it is ours");
    assert!(ended.success(), "{ended}");
    rest.join().expect("no panic");
}
