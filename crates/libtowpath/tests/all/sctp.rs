//! SCTP's socket calls in C (RFC 6458).

use super::{Program, assert_succeeds, build_own};
use library::sctp::{Endpoint, EndpointConfig, MessageInfo};
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

/// Messages that a client sends and gets back.
const COUNT: &str = "300";

#[test]
fn one_to_one_sockets_connect_send_fill_and_end() {
    build_own("sctp_one.c", assert_succeeds);
}

#[test]
fn one_to_many_sockets_tell_what_happens_to_associations() {
    build_own("sctp_many.c", assert_succeeds);
}

#[test]
fn messages_longer_than_buffers_arrive_in_parts() {
    build_own("sctp_parts.c", assert_succeeds);
}

#[test]
fn sockets_of_a_process_share_a_udp_port() {
    build_own("sctp_shared.c", assert_succeeds);
}

#[test]
fn addresses_and_keys_change_while_sockets_talk_also_over_ipv6() {
    build_own("sctp_addresses.c", assert_succeeds);
}

#[test]
fn forked_children_get_an_error_and_peers_that_start_anew_keep_their_association() {
    build_own("sctp_fork.c", assert_succeeds);
}

/// Runs a server and two clients over `medium`; false, with a SKIPPED line, without the right to it.
fn run_echo(program: &Path, medium: &str, port: &str) -> bool {
    let mut server = Command::new(program);
    server.args(["serve", port]).env("TOWPATH_SCTP", medium);
    let server = server.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut server = Program(server.expect("it runs"));
    let mut line = String::new();
    let output = server.0.stdout.take().expect("piped");
    BufReader::new(output).read_line(&mut line).expect("a line");
    if line.is_empty() {
        let mut errors = String::new();
        let output = server.0.stderr.as_mut().expect("piped");
        output.read_to_string(&mut errors).expect("text");
        assert!(errors.contains("Operation not permitted"), "{errors}");
        eprintln!("SKIPPED: no raw IP sockets here: {errors}");
        return false;
    }
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| run_client(program, medium, port));
        }
    });
    true
}

fn run_client(program: &Path, medium: &str, port: &str) {
    let mut client = Command::new(program);
    client
        .args(["send", "127.0.0.1", port, COUNT])
        .env("TOWPATH_SCTP", medium);
    let output = client.output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{medium}: {errors}");
    assert_eq!(output.stdout, format!("{COUNT} echoes\n").as_bytes());
}

#[test]
fn echo_program_works_between_processes_over_udp_and_raw_ip() {
    build_own("sctp_echo.c", |program| {
        // A port of UDP that is free now.
        let free = std::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        assert!(run_echo(program, "udp:same", &port.to_string()));
        run_echo(program, "rawip", &port.to_string());
    });
}

#[test]
fn c_program_and_rust_endpoint_exchange_messages() {
    build_own("sctp_echo.c", |program| {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let endpoint = Endpoint::bind(&[any], &EndpointConfig::default()).expect("a socket");
        endpoint.listen(true);
        let medium = format!("udp:{}", endpoint.local_addrs()[0].port());
        let serving = std::thread::spawn(move || {
            let mut association = endpoint.accept(LIMIT).expect("a peer");
            let mut buffer = vec![0; 1 << 10];
            let mut echoes = 0;
            while let Some(got) = association.receive(&mut buffer, LIMIT).expect("no failure") {
                assert_eq!((got.info.ppid, got.end), (7, true));
                let info = MessageInfo {
                    stream: got.info.stream,
                    ..MessageInfo::default()
                };
                association
                    .send(&buffer[..got.len], &info, LIMIT)
                    .expect("room");
                association.flush().expect("the wire works");
                echoes += 1;
            }
            echoes
        });
        // SCTP's port of endpoints in Rust.
        run_client(program, &medium, "5000");
        assert_eq!(serving.join().expect("no panic").to_string(), COUNT);
    });
}
