//! Commands that run out of descriptors: they wait without work, say so, and go on.

use crate::support::wait_until;
use crate::xtp_tools::Tool;
use std::fs;
use std::io::{BufRead, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Descriptors of the program: its own, and a few connections.
const DESCRIPTORS: u32 = 40;

/// Clock ticks of processor time that a process has used; a second has 100.
fn ticks(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).expect("it runs");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let times = rest.split_whitespace().skip(11).take(2);
    times.filter_map(|word| word.parse::<u64>().ok()).sum()
}

fn echo_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = listener.local_addr().expect("bound").to_string();
    std::thread::spawn(move || {
        for mut tcp in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut octet = [0];
                while tcp.read(&mut octet).is_ok_and(|len| len > 0) {
                    let _ = tcp.write_all(&octet);
                }
            });
        }
    });
    at
}

fn echoes(mut tcp: TcpStream) -> bool {
    let limit = Some(Duration::from_secs(5));
    tcp.set_read_timeout(limit).expect("a limit");
    let mut octet = [0];
    tcp.write_all(b"x").is_ok() && tcp.read_exact(&mut octet).is_ok() && octet == *b"x"
}

#[test]
fn forward_without_descriptors_pauses_and_recovers() {
    let far = Tool::start(&words!(
        "forward --from xtp 127.0.0.1:0 --to",
        &echo_server()
    ));
    let local = ["forward", "127.0.0.1:0", "--over", "xtp", &far.at];
    let mut near = Tool::start_with_descriptors(DESCRIPTORS, &local);
    let process = near.child.as_ref().expect("it runs").id();
    let clients: Vec<TcpStream> = (0..2 * DESCRIPTORS)
        .map(|_| TcpStream::connect(&near.at).expect("the kernel's queue has room"))
        .collect();
    let mut line = String::new();
    near.said.read_line(&mut line).expect("text");
    assert!(line.starts_with("cannot accept a connection: "), "{line}");
    // A pause of 100 ms between two attempts makes about ten of them a second, one of which is said.
    for _ in 0..2 {
        line.clear();
        near.said.read_line(&mut line).expect("text");
        let more = line.split_once(" (and ").expect("a number").1;
        let more: u32 = more
            .split(' ')
            .next()
            .and_then(|n| n.parse().ok())
            .expect("a number");
        assert!(more <= 20, "{line}");
    }
    let before = ticks(process);
    std::thread::sleep(Duration::from_secs(1));
    let used = ticks(process) - before;
    assert!(used < 30, "{used} ticks: it does not wait");
    drop(clients);
    wait_until("no connection gets through", || {
        TcpStream::connect(&near.at).is_ok_and(echoes)
    });
}

#[test]
fn far_end_without_descriptors_breaks_connections() {
    let echo = echo_server();
    let remote = words!("forward --from xtp 127.0.0.1:0 --to", &echo);
    let far = Tool::start_with_descriptors(DESCRIPTORS, &remote);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", "xtp", &far.at]);
    let mut clients: Vec<TcpStream> = (0..2 * DESCRIPTORS)
        .map(|_| TcpStream::connect(&near.at).expect("it listens"))
        .collect();
    // The one that does not get through is reset; a clean end would look like an empty answer.
    let mut broken = None;
    wait_until("all connections get through", || {
        broken = clients.iter_mut().find_map(|tcp| {
            tcp.set_nonblocking(true).expect("a flag");
            match tcp.read(&mut [0]) {
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
                other => Some(other),
            }
        });
        broken.is_some()
    });
    let error = broken.expect("one is there").expect_err("a clean end");
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}
