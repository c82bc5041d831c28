//! Packet sockets.

use crate::frame::PORT_OFFSET;
use crate::socket::Interface;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Opens a packet socket on `interface` that receives frames of `ethertype` for `port`.
pub(crate) fn open(interface: &Interface, ethertype: u16, port: u16) -> io::Result<OwnedFd> {
    // Protocol 0 receives nothing, so nothing can come before the filter is in place.
    // SAFETY: creates a descriptor that nobody else owns.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    attach_filter(socket.as_fd(), port)?;
    bind(socket.as_fd(), interface, ethertype)?;
    Ok(socket)
}

/// A program of the classic Berkeley packet filter: whole frames whose destination port is `port`.
fn attach_filter(socket: BorrowedFd<'_>, port: u16) -> io::Result<()> {
    let step = |code: u32, jt, jf, k| libc::sock_filter {
        code: code as u16,
        jt,
        jf,
        k,
    };
    let mut program = [
        step(
            libc::BPF_LD | libc::BPF_H | libc::BPF_ABS,
            0,
            0,
            PORT_OFFSET,
        ),
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            port.into(),
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the pointers describe a live program of the length given; the kernel copies it.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            mem::size_of_val(&filter) as libc::socklen_t,
        )
    };
    check(result)
}

fn bind(socket: BorrowedFd<'_>, interface: &Interface, ethertype: u16) -> io::Result<()> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = interface.index as i32;
    // SAFETY: the pointer and the length describe one live sockaddr_ll.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    check(result)
}

fn check(result: i32) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
