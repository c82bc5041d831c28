//! Socket addresses as C passes them.

use super::next;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

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
    if address.is_null() || len < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the family lies within the octets that the caller says are there.
    let family = unsafe { (&raw const (*address).sa_family).read_unaligned() };
    match i32::from(family) {
        libc::AF_INET if len >= size_of::<libc::sockaddr_in>() => {
            // SAFETY: as many octets are there.
            let v4 = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((ip, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 if len >= size_of::<libc::sockaddr_in6>() => {
            // SAFETY: as many octets are there.
            let v6 = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            Some((ip, u16::from_be(v6.sin6_port)).into())
        }
        _ => None,
    }
}

/// The address that a socket of the kernel is bound to, as it is and read.
pub(super) fn bound(
    fd: libc::c_int,
) -> Option<(libc::sockaddr_storage, libc::socklen_t, SocketAddr)> {
    // SAFETY: a structure of numbers.
    let mut storage: libc::sockaddr_storage = unsafe { zeroed() };
    let mut len = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    let place = (&raw mut storage).cast::<libc::sockaddr>();
    // SAFETY: the structure is as long as is said.
    if unsafe { next::getsockname(fd, place, &raw mut len) } != 0 {
        return None;
    }
    // SAFETY: the kernel wrote as many octets.
    let address = unsafe { read(place, len) }?;
    Some((storage, len, address))
}
