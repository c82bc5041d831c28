//! Socket addresses as C passes them.

use super::errno::os_error;
use std::io;
use std::mem;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// `PF_XTP`; sockaddr_in may name it instead of AF_INET.
pub(super) const PF_XTP: i32 = 19;

/// The address that C passed; None if it is no IPv4 or IPv6 address or too short.
///
/// # Safety
///
/// `address` is null or points to `len` octets.
pub(super) unsafe fn read(
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> Option<SocketAddr> {
    let len = len as usize;
    if address.is_null() || len < mem::size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family lies within the octets that the caller says are there.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match i32::from(family) {
        libc::AF_INET | PF_XTP if len >= mem::size_of::<libc::sockaddr_in>() => {
            // SAFETY: as many octets are there.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len >= mem::size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as many octets are there.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The address that C passed, or EAFNOSUPPORT.
///
/// # Safety
///
/// `address` is null or points to `len` octets.
pub(super) unsafe fn required(
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> io::Result<SocketAddr> {
    // SAFETY: the caller's promise.
    let found = unsafe { read(address, len) };
    found.ok_or_else(|| os_error(libc::EAFNOSUPPORT))
}

/// Whether C passed AF_UNSPEC.
///
/// # Safety
///
/// `address` is null or points to `len` octets.
pub(super) unsafe fn is_unspec(address: *const libc::sockaddr, len: libc::socklen_t) -> bool {
    if address.is_null() || (len as usize) < mem::size_of::<libc::sa_family_t>() {
        return false;
    }
    // SAFETY: the family lies within the octets that the caller says are there.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    i32::from(family) == libc::AF_UNSPEC
}

/// Writes an address to C, truncated to its buffer, with the full length, as accept(2) does.
///
/// # Safety
///
/// Both are null, or `len` points to a length and `address` to as many octets.
pub(super) unsafe fn write(
    value: SocketAddr,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) {
    if address.is_null() || len.is_null() {
        return;
    }
    let raw = wire_udp::sys::RawAddress::new(value);
    // SAFETY: the caller says that a length is there, and as many octets; no more are written.
    unsafe {
        let room = (*len as usize).min(raw.len as usize);
        let octets = (&raw const raw.storage).cast::<u8>();
        std::ptr::copy_nonoverlapping(octets, address.cast::<u8>(), room);
        *len = raw.len;
    }
}
