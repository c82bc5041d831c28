//! Packet sockets.

use std::ffi::CString;
use std::io;
use std::mem;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What kind of hardware an interface is, `ARPHRD_*` of `<linux/if_arp.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hardware(pub(crate) u16);

/// Opens a socket that sees every packet of the interface called `name`, stamped by the kernel, of
/// which it keeps up to `backlog` octets until they are received.
pub(crate) fn open(name: &str, backlog: usize) -> io::Result<(OwnedFd, Hardware)> {
    let index = index(name)?;
    // Protocol 0 receives nothing until the socket is bound.
    // SAFETY: creates a descriptor that nobody else owns.
    let raw = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
    let backlog = i32::try_from(backlog).unwrap_or(i32::MAX);
    if set(
        socket.as_fd(),
        libc::SOL_SOCKET,
        libc::SO_RCVBUFFORCE,
        backlog,
    )
    .is_err()
    {
        set(socket.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, backlog)?;
    }
    let hardware = bind(socket.as_fd(), index)?;
    if hardware.0 == libc::ARPHRD_LOOPBACK {
        // There each packet goes out and comes in again; once is enough.
        set(
            socket.as_fd(),
            libc::SOL_PACKET,
            libc::PACKET_IGNORE_OUTGOING,
            1,
        )?;
    }
    Ok((socket, hardware))
}

/// How many packets the kernel dropped for want of room since the last call.
pub(crate) fn drops(socket: BorrowedFd<'_>) -> io::Result<u64> {
    // SAFETY: tpacket_stats is plain data for which all zeros is a value.
    let mut counts: libc::tpacket_stats = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the pointer and the length describe one live tpacket_stats.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut len,
        )
    };
    check(result)?;
    Ok(counts.tp_drops.into())
}

fn index(name: &str) -> io::Result<u32> {
    let not_found = || {
        let text =
            format!("there is no network interface '{name}'; 'ip link' lists those there are");
        io::Error::new(io::ErrorKind::NotFound, text)
    };
    let name = CString::new(name).map_err(|_| not_found())?;
    // SAFETY: the pointer is to a live string that ends with zero.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(not_found()),
        index => Ok(index),
    }
}

/// Starts to receive on the interface, and tells what it is.
fn bind(socket: BorrowedFd<'_>, index: u32) -> io::Result<Hardware> {
    // SAFETY: sockaddr_ll is plain data for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    let mut len = mem::size_of_val(&address) as libc::socklen_t;
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    // SAFETY: the pointer and the length describe one live sockaddr_ll.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
    check(result)?;
    // SAFETY: as above; the kernel writes no more than the length says.
    let result =
        unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &raw mut len) };
    check(result)?;
    Ok(Hardware(address.sll_hatype))
}

fn set(socket: BorrowedFd<'_>, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one live integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            mem::size_of_val(&value) as libc::socklen_t,
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
