//! The kernel's facts about a connection's path: path MTU, interface and offloads.

use crate::sys;
use control::session::PathFacts;
use socket2::SockRef;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use towpath::raw_sockets::interface_with_address;

/// The facts, as far as the kernel knows them.
pub fn path_facts(socket: BorrowedFd<'_>) -> PathFacts {
    let local = SockRef::from(&socket)
        .local_addr()
        .ok()
        .and_then(|local| local.as_socket());
    let interface =
        local.and_then(|local| interface_with_address(crate::server::canonical_ip(local.ip())));
    let interface = interface.unwrap_or_default();
    PathFacts {
        mtu: mtu(socket, local).unwrap_or(0),
        interface_mtu: sys::interface_mtu(socket, &interface).unwrap_or(0),
        offloads: sys::offloads(socket, &interface),
        interface,
    }
}

fn mtu(socket: BorrowedFd<'_>, local: Option<SocketAddr>) -> Option<u32> {
    sys::path_mtu(socket, local?.is_ipv6()).ok()
}
