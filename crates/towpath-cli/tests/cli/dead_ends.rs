//! Peers of XTP's tools that are not there, or die.

use crate::support::{Scratch, assert_has, towpath};
use crate::xtp_tools::{Tool, listener};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

/// Longer than a tunnel may take to find out, and shorter than XTP's own keepalive interval.
const LIMIT: Duration = Duration::from_secs(30);

/// An address at which nothing listens.
fn closed_port() -> String {
    let gone = UdpSocket::bind("127.0.0.1:0").expect("a port");
    gone.local_addr().expect("bound").to_string()
}

#[test]
fn copy_to_a_closed_port_is_refused_by_the_hosts_report() {
    let scratch = Scratch::new();
    std::fs::write(scratch.path("file"), "text").expect("room");
    let said = towpath(&["cp", &scratch.text("file"), &closed_port()]).exited(1);
    let why = "nothing listens at the peer's port";
    assert_has(&said.err, why);
}

#[test]
fn client_of_a_tunnel_to_a_closed_port_is_reset() {
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", "xtp", &closed_port()]);
    let mut client = TcpStream::connect(&near.at).expect("it listens");
    client.set_read_timeout(Some(LIMIT)).expect("a limit");
    let error = client.read(&mut [0; 1]).expect_err("nobody answers");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let said = near.stop();
    assert!(said.contains("1 connections: 0 closed, 1 failed"), "{said}");
}

/// The near end has sent all, so that only its questions of a silent peer tell it.
#[test]
fn client_of_a_tunnel_whose_far_end_is_killed_is_reset() {
    let (server, target) = listener();
    for options in ["xtp", "xtp,shortcut=off"] {
        let far = ["forward", "--from", options, "127.0.0.1:0", "--to", &target];
        let far = Tool::start(&far);
        let near = Tool::start(&["forward", "127.0.0.1:0", "--over", options, &far.at]);
        let mut client = TcpStream::connect(&near.at).expect("it listens");
        client.set_read_timeout(Some(LIMIT)).expect("a limit");
        let (mut served, _) = server.accept().expect("a peer");
        served.write_all(b"x").expect("room");
        client.read_exact(&mut [0; 1]).expect("the first byte");
        drop(far);
        let error = client.read(&mut [0; 1]).expect_err("the far end is gone");
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{options}");
        near.stop();
    }
}

/// What came before fills the client's socket and the tunnel: the client need not read it to learn that the rest is lost.
#[test]
fn client_that_reads_nothing_is_reset_too() {
    let (server, target) = listener();
    let far = Tool::start(&["forward", "--from", "xtp", "127.0.0.1:0", "--to", &target]);
    let near = Tool::start(&["forward", "127.0.0.1:0", "--over", "xtp", &far.at]);
    let client = TcpStream::connect(&near.at).expect("it listens");
    let (mut served, _) = server.accept().expect("a peer");
    served
        .set_write_timeout(Some(Duration::from_secs(1)))
        .expect("a limit");
    let sent = served.write_all(&vec![7; 64 << 20]);
    assert!(sent.is_err(), "it does not fit into buffers");
    drop(far);
    let mut waiting = [PollFd::new(&client, PollFlags::empty())];
    let limit = Timespec::try_from(LIMIT).expect("in range");
    let count = poll(&mut waiting, Some(&limit)).expect("it waits");
    assert_eq!(count, 1, "it is not reset");
    near.stop();
}
