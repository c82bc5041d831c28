//! Packet sockets as the ends of a link, where there are no TAP devices.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Octets of frames that may wait to be read: as many full frames as a device's queue holds.
const BACKLOG: i32 = 32 << 20;

/// Requests of ethtool(8) (`<linux/ethtool.h>`): checksums and segmentation by the device, and
/// many segments as one frame up to it.
const OFFLOADS: [u32; 3] = [0x17, 0x1f, 0x24];

/// `SIOCETHTOOL` of `<linux/sockios.h>`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct Setting {
    command: u32,
    value: u32,
}

/// Opens a socket that reads what arrives at the interface called `name` of the calling thread's
/// network namespace and sends what is written, whole frames, without blocking.
pub(crate) fn open_packet(name: &str) -> io::Result<OwnedFd> {
    let every = (libc::ETH_P_ALL as u16).to_be();
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // Protocol 0 receives nothing until the socket is bound.
    // SAFETY: creates a descriptor that nobody else owns.
    let raw = unsafe { libc::socket(libc::AF_PACKET, kind, 0) };
    check(raw)?;
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
    // The larger room needs a right; without it the usual room has to do.
    set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, BACKLOG)
        .or_else(|_| set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, BACKLOG))?;
    // SAFETY: sockaddr_ll is plain data for which all zeros is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = every;
    address.sll_ifindex = rustix::net::netdevice::name_to_index(&socket, name)? as i32;
    // SAFETY: the pointer and the length describe one live sockaddr_ll.
    let result = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    check(result)?;
    Ok(socket)
}

/// Makes the interface called `name` hand over frames as they are on a wire: none larger than its
/// MTU, all with their checksums.
pub(crate) fn single_frames(name: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    OFFLOADS.iter().try_for_each(|&command| {
        let mut setting = Setting { command, value: 0 };
        // SAFETY: ifreq is plain data for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut setting).cast();
        // SAFETY: the request is a live ifreq that points to a live setting, which the kernel
        // reads.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        check(result)
    })
}

fn set(socket: &OwnedFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    // SAFETY: the pointer and the length describe one live number.
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
    if result >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
