//! The minimal engine end to end: call, engine, driver, wire, peer, between two processes.
//!
//! The same engine, pump and ring run in virtual time in `engine-bare/tests/bare.rs`.

use driver::{Circuit, Endpoint};
use engine::Address;
use engine_bare::{Bare, BareConfig};
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Duration;
use wire_udp::UdpWire;

const ROLE: &str = "TOWPATH_TEST_ECHO";
const LIMIT: Duration = Duration::from_secs(20);

fn endpoint() -> (Endpoint<Bare, UdpWire>, SocketAddr) {
    let local = "127.0.0.1:0".parse().expect("a literal address");
    let wire = UdpWire::bind(local).expect("the loopback has a free port");
    let address = wire.local_addr().expect("a bound socket");
    let endpoint = Endpoint::new(Bare::new(BareConfig::default()), wire, 192 << 10);
    (endpoint.expect("a thread"), address)
}

/// The child process: echoes every message. Does nothing in an ordinary run.
#[test]
fn echo_process() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let (endpoint, address) = endpoint();
    endpoint.listen(true);
    println!("\naddress {address}");
    std::io::stdout().flush().expect("stdout is a pipe");
    let mut circuit = endpoint.accept(LIMIT).expect("the parent connects");
    let mut buffer = vec![0; 64 << 10];
    while let Some(len) = circuit
        .recv(&mut buffer, LIMIT)
        .expect("messages or the end")
    {
        circuit
            .send(&buffer[..len], LIMIT)
            .expect("the window opens");
    }
    circuit.finish().expect("the end is sent");
    circuit.drain(LIMIT).expect("the parent takes everything");
}

#[test]
fn bare_engine_echo_between_two_processes() {
    let mut child = Command::new(std::env::current_exe().expect("a test binary"))
        .args(["--exact", "two_processes::echo_process", "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test binary runs");
    // Kept open until the child has ended: it still has a test result to print.
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let address = lines
        .by_ref()
        .map_while(Result::ok)
        .find_map(|line| line.strip_prefix("address ")?.parse::<SocketAddr>().ok())
        .expect("the child names its address");
    let (endpoint, _) = endpoint();
    let mut circuit = endpoint
        .connect(Address::Socket(address), LIMIT)
        .expect("the child answers");
    exchange(&mut circuit);
    circuit.finish().expect("the end is sent");
    lines.for_each(drop);
    assert!(child.wait().expect("the child ends").success());
}

fn exchange(circuit: &mut Circuit<Bare, UdpWire>) {
    let mut buffer = vec![0; 64 << 10];
    for len in [0, 1, 64, 1444, 1448, 1449, 16384, 60000] {
        let message: Vec<u8> = (0..len).map(|at| at as u8).collect();
        circuit.send(&message, LIMIT).expect("the window opens");
        let echoed = circuit
            .recv(&mut buffer, LIMIT)
            .expect("an echo")
            .expect("not the end");
        assert!(
            buffer[..echoed] == message,
            "a message of {len} bytes came back changed"
        );
    }
    for index in 0..1000u32 {
        circuit
            .send(&index.to_be_bytes(), LIMIT)
            .expect("the window opens");
    }
    for index in 0..1000u32 {
        let echoed = circuit
            .recv(&mut buffer, LIMIT)
            .expect("an echo")
            .expect("not the end");
        assert_eq!(buffer[..echoed], index.to_be_bytes());
    }
    let (counters, _) = circuit.counters();
    assert_eq!(counters.bytes_lost, 0);
    assert_eq!(counters.retransmissions, 0);
    assert_eq!(counters.packets_discarded, 0);
}
