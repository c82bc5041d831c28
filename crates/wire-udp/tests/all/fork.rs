//! A process that forks while packets refer to its pages: the packets, its memory and its child's stay as they are.
#![allow(unsafe_code)]

use crate::by_reference::{pair, pattern, receive_all, send};
use rustix::process::{Pid, WaitOptions, waitpid};
use std::os::fd::{AsRawFd, OwnedFd};
use wire::Taken;

const LEN: usize = 60 << 10;

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
    let (mut near, mut far, path) = pair();
    let mut octets = pattern(LEN, 20);
    let sent = octets.clone();
    assert_eq!(send(&mut near, path, &octets, LEN), Taken::ByReference);
    let child = fork(|| {
        octets.fill(0xaa);
        0
    });
    assert!(is_well(child));
    assert!(octets == sent, "the parent's memory is its own");
    assert!(
        receive_all(&mut far).0 == sent,
        "the packet was its parent's"
    );
}

#[test]
fn parent_that_writes_after_a_fork_changes_neither_packet_nor_child() {
    let (mut near, mut far, path) = pair();
    let mut octets = pattern(LEN, 21);
    let sent = octets.clone();
    assert_eq!(send(&mut near, path, &octets, LEN), Taken::ByReference);
    let (go_out, go_in) = rustix::pipe::pipe().expect("two descriptors");
    let child = fork(|| {
        await_octet(&go_out);
        i32::from(octets != sent)
    });
    octets.fill(0xbb);
    // Sent by reference again, from pages that are the parent's alone since, and those of a packet before.
    assert_eq!(send(&mut near, path, &octets, LEN), Taken::ByReference);
    rustix::io::write(&go_in, &[1]).expect("the child reads");
    assert!(is_well(child), "the child's memory changed");
    let arrived = receive_all(&mut far).0;
    assert!(
        arrived[..LEN] == sent,
        "nothing newer shows in the old packet"
    );
    assert!(arrived[LEN..] == octets, "and the new one is whole");
}
