//! A process that forks while packets refer to its pages: the packets, its memory and its child's stay as they are.

use crate::UdpWire;
use engine::{Address, Path};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use wire::{Taken, Wire};

const LEN: usize = 60 << 10;

/// A wire that sends by reference to another.
fn pair() -> (UdpWire, UdpWire) {
    let on_loopback = || UdpWire::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("a free port");
    let (mut near, far) = (on_loopback(), on_loopback());
    near.connect(far.local_addr().expect("it is bound"))
        .expect("a route");
    assert!(near.enable_references().expect("an option of each socket"));
    (near, far)
}

fn pattern(salt: usize) -> Vec<u8> {
    let octet = |at: usize| ((at + salt).wrapping_mul(2_654_435_761) >> 11) as u8;
    (0..LEN).map(octet).collect()
}

/// Sends one packet.
fn send(near: &mut UdpWire, far: &UdpWire, octets: &[u8]) {
    let to = Address::Socket(far.local_addr().expect("it is bound"));
    let sent = near.send_by_reference(Path::to(to), &[IoSlice::new(octets)], LEN);
    assert_eq!(sent.expect("the loopback has room"), Taken::ByReference);
}

/// The next packet.
fn receive(far: &mut UdpWire) -> Vec<u8> {
    let mut buffer = vec![0; far.capabilities().receive_len];
    let arrival = far.receive(&mut buffer).expect("it was sent");
    buffer.truncate(arrival.len);
    buffer
}

/// Forks; the child runs `child`, which calls nothing but the kernel, and exits with what it returns.
fn fork(child: impl FnOnce() -> i32) -> Pid {
    // SAFETY: the child of a process with other threads makes system calls only, and does not return.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(child()),
            pid => Pid::from_raw(pid).expect("the system has a process"),
        }
    }
}

/// Waits until the child has ended; whether it found everything right.
fn is_well(child: Pid) -> bool {
    let ended = waitpid(Some(child), WaitOptions::empty()).expect("it is a child");
    ended.is_some_and(|(_, status)| status.exit_status() == Some(0))
}

/// Waits for an octet of a pipe, by the kernel alone.
fn await_octet(pipe: &OwnedFd) {
    let mut octet = 0u8;
    // SAFETY: one octet of this function's own.
    unsafe { libc::read(pipe.as_raw_fd(), (&raw mut octet).cast(), 1) };
}

#[test]
fn child_that_writes_changes_no_packet_of_its_parent() {
    let (mut near, mut far) = pair();
    let mut octets = pattern(20);
    let sent = octets.clone();
    send(&mut near, &far, &octets);
    let child = fork(|| {
        octets.fill(0xaa);
        0
    });
    assert!(is_well(child));
    assert!(octets == sent, "the parent's memory is its own");
    assert!(receive(&mut far) == sent, "the packet was its parent's");
}

#[test]
fn parent_that_writes_after_a_fork_changes_neither_packet_nor_child() {
    let (mut near, mut far) = pair();
    let mut octets = pattern(21);
    let sent = octets.clone();
    send(&mut near, &far, &octets);
    let (go_out, go_in) = rustix::pipe::pipe().expect("two descriptors");
    let child = fork(|| {
        await_octet(&go_out);
        i32::from(octets != sent)
    });
    octets.fill(0xbb);
    // By reference again, from the parent's pages since.
    send(&mut near, &far, &octets);
    rustix::io::write(&go_in, &[1]).expect("the child reads");
    assert!(is_well(child), "the child's memory changed");
    assert!(
        receive(&mut far) == sent,
        "nothing newer shows in the old packet"
    );
    assert!(receive(&mut far) == octets, "and the new one is whole");
}
