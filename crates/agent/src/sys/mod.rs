//! Kernel queries that no library offers safely.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Offloads with their ethtool get commands (linux/ethtool.h).
const OFFLOADS: [(&str, u32); 5] = [
    ("receive checksums", 0x14),
    ("send checksums", 0x16),
    ("TCP segmentation", 0x1e),
    ("generic segmentation", 0x23),
    ("generic receive offload", 0x2b),
];

/// Path MTU of a connected socket.
pub(crate) fn path_mtu(socket: BorrowedFd<'_>, ipv6: bool) -> io::Result<u32> {
    let (level, name) = if ipv6 {
        (libc::IPPROTO_IPV6, libc::IPV6_MTU)
    } else {
        (libc::IPPROTO_IP, libc::IP_MTU)
    };
    let mut value = 0i32;
    let mut len = mem::size_of::<i32>() as libc::socklen_t;
    // SAFETY: the pointers describe one live i32 and its length.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw mut value).cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok(value.max(0) as u32)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// An ifreq with the interface's name.
fn interface_request(interface: &str) -> Option<libc::ifreq> {
    let octets = interface.as_bytes();
    if octets.is_empty() || octets.len() >= libc::IFNAMSIZ {
        return None;
    }
    // SAFETY: all zeros are a valid request.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    for (to, &from) in request.ifr_name.iter_mut().zip(octets) {
        *to = from as libc::c_char;
    }
    Some(request)
}

/// MTU of an interface.
pub(crate) fn interface_mtu(socket: BorrowedFd<'_>, interface: &str) -> Option<u32> {
    let mut asked = interface_request(interface)?;
    // SAFETY: the pointer is to a live request, which the kernel fills.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut asked) };
    // SAFETY: after SIOCGIFMTU the number is the member the kernel wrote; before, it was zero.
    let mtu = unsafe { asked.ifr_ifru.ifru_mtu };
    (result == 0).then_some(mtu.max(0) as u32)
}

/// struct ethtool_value.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// The interface's offloads, as far as its driver reports them.
pub(crate) fn offloads(socket: BorrowedFd<'_>, interface: &str) -> Vec<(String, bool)> {
    let mut known = Vec::new();
    for (name, command) in OFFLOADS {
        let Some(mut asked) = interface_request(interface) else {
            return known;
        };
        let mut value = EthtoolValue { command, data: 0 };
        asked.ifr_ifru.ifru_data = (&raw mut value).cast();
        // SAFETY: the request points to a live value of the form this command asks for, which the
        // kernel fills before the call returns.
        let result =
            unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut asked) };
        if result == 0 {
            known.push((name.to_owned(), value.data != 0));
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn loopback_facts_available() {
        let here = Ipv4Addr::LOCALHOST;
        let listener = TcpListener::bind((here, 0)).expect("a socket");
        let socket = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let mtu = interface_mtu(socket.as_fd(), "lo").expect("an MTU");
        // IP packets are limited to 65,535 octets, whatever the interface takes.
        let path = path_mtu(socket.as_fd(), false).expect("a path");
        assert!(path <= mtu && path >= 576, "{path} of {mtu}");
        assert_eq!(
            interface_mtu(socket.as_fd(), "no-such-interface-name"),
            None
        );
        assert!(!offloads(socket.as_fd(), "lo").is_empty());
    }
}
