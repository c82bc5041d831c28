//! The MTU of the route to a peer, as the kernel knows it: from its interfaces and routes, and from
//! ICMP (RFC 1191, RFC 8201).
//!
//! The kernel reports it for connected sockets only, so a second socket is connected to the peer for
//! the question, and disconnected again. Nothing is sent.

use crate::sys;
use engine::Fragmentation;
use rustix::net::{connect, connect_unspec};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

/// Octets that every path of IPv6 carries in one piece (RFC 8200 section 5).
const IPV6_MTU_MIN: i32 = 1280;

/// Octets of IP and UDP headers in front of the payload of a packet to `to`.
pub fn headers_len(to: SocketAddr) -> usize {
    ip_header_len(to.ip()) + 8
}

/// Octets of the IP header without options.
pub fn ip_header_len(to: IpAddr) -> usize {
    match to {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    }
}

/// The MTU of the route of `socket`, which is connected to `peer`; None when the kernel does not say.
pub fn connected_mtu(socket: BorrowedFd<'_>, peer: SocketAddr) -> Option<usize> {
    let (level, name) = match peer {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mtu = sys::option(socket, level, name).ok()?;
    usize::try_from(mtu).ok()
}

/// Whether a segmented send failed because its segments are longer than the path carries: EMSGSIZE,
/// EINVAL before Linux 6.14.
pub fn is_too_long(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMSGSIZE | libc::EINVAL))
}

/// What a socket was told last about fragments.
#[derive(Debug)]
pub struct FragmentationOption {
    is_ipv6: bool,
    /// IP_MTU_DISCOVER of the socket before it was changed first.
    usual: Option<i32>,
    current: Fragmentation,
}

impl FragmentationOption {
    /// A socket that is bound to `local`, as it was made.
    pub fn new(local: IpAddr) -> FragmentationOption {
        FragmentationOption {
            is_ipv6: local.is_ipv6(),
            usual: None,
            current: Fragmentation::Usual,
        }
    }

    /// Tells the kernel, if it is something else than before. Refused ones ignore what it believes of the
    /// path (IP_PMTUDISC_PROBE); allowed ones leave without DF over IPv4, and in fragments that every
    /// path carries over IPv6, where routers cut nothing.
    pub fn set(&mut self, socket: BorrowedFd<'_>, fragmentation: Fragmentation) {
        if core::mem::replace(&mut self.current, fragmentation) == fragmentation {
            return;
        }
        let (level, name) = match self.is_ipv6 {
            false => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER),
            true => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER),
        };
        let usual = *(self.usual).get_or_insert_with(|| {
            let known = sys::option(socket, level, name);
            known.unwrap_or(libc::IP_PMTUDISC_WANT)
        });
        // The numbers are the same for both.
        let value = match fragmentation {
            Fragmentation::Usual => usual,
            Fragmentation::Allowed => libc::IP_PMTUDISC_DONT,
            Fragmentation::Refused => libc::IP_PMTUDISC_PROBE,
        };
        // A kernel that refuses sends as before: a probe that it cuts says too much, and nothing breaks.
        let _ = sys::set_option(socket, level, name, value);
        if self.is_ipv6 {
            let fragment = match fragmentation {
                Fragmentation::Allowed => IPV6_MTU_MIN,
                Fragmentation::Usual | Fragmentation::Refused => 0,
            };
            let _ = sys::set_option(socket, libc::IPPROTO_IPV6, libc::IPV6_MTU, fragment);
        }
    }
}

/// A socket that asks the kernel for routes, made by the first question: a wire with one peer asks its
/// own socket.
#[derive(Debug)]
pub struct RouteProbe {
    local: IpAddr,
    /// None before the first question, and while the system has no socket left.
    socket: Option<UdpSocket>,
}

impl RouteProbe {
    /// A probe for packets from `local`.
    pub fn new(local: IpAddr) -> RouteProbe {
        RouteProbe {
            local,
            socket: None,
        }
    }

    /// The MTU of the route to `peer` now, in the network of the calling thread at the first question;
    /// None when there is no route, it is of the other family, or the system has no socket left.
    pub fn route_mtu(&mut self, peer: SocketAddr) -> Option<usize> {
        if self.socket.is_none() {
            self.socket = UdpSocket::bind(SocketAddr::new(self.local, 0)).ok();
        }
        let socket = self.socket.as_ref()?;
        connect(socket, &peer).ok()?;
        let mtu = connected_mtu(socket.as_fd(), peer);
        // Connected, it would hear the peer. What fails here fails at the next question too.
        let _ = connect_unspec(socket);
        mtu
    }
}
