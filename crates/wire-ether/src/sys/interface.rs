//! Interfaces by name.

use crate::socket::Interface;
use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// Looks up an interface by name.
pub(crate) fn interface(name: &str) -> io::Result<Interface> {
    let mut request = request_for(name)?;
    // SAFETY: creates a new descriptor.
    let raw = unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, owned from here on.
    let socket = unsafe { OwnedFd::from_raw_fd(raw) };
    query(&socket, libc::SIOCGIFINDEX as _, &mut request)?;
    // SAFETY: after SIOCGIFINDEX the union holds the index.
    let index = unsafe { request.ifr_ifru.ifru_ifindex } as u32;
    query(&socket, libc::SIOCGIFMTU as _, &mut request)?;
    // SAFETY: after SIOCGIFMTU the union holds the size.
    let packet_max = unsafe { request.ifr_ifru.ifru_mtu } as usize;
    query(&socket, libc::SIOCGIFHWADDR as _, &mut request)?;
    // SAFETY: after SIOCGIFHWADDR the union holds the address.
    let data = unsafe { request.ifr_ifru.ifru_hwaddr.sa_data };
    let mut hardware = [0; 6];
    for (octet, &byte) in hardware.iter_mut().zip(&data) {
        *octet = byte as u8;
    }
    Ok(Interface {
        index,
        hardware,
        mtu: packet_max,
    })
}

fn request_for(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: ifreq is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    // The last byte stays zero and ends the name.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(not_found(name));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    Ok(request)
}

fn query(socket: &OwnedFd, what: libc::Ioctl, request: &mut libc::ifreq) -> io::Result<()> {
    // SAFETY: these requests read and write one live ifreq.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut *request) };
    if result == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ENODEV) {
        let bytes = request.ifr_name.map(|byte| byte as u8);
        let name = String::from_utf8_lossy(&bytes);
        return Err(not_found(name.trim_end_matches('\0')));
    }
    Err(error)
}

fn not_found(name: &str) -> io::Error {
    let text = format!("there is no network interface '{name}'; 'ip link' lists those there are");
    io::Error::new(io::ErrorKind::NotFound, text)
}

/// The interface that has `address`.
pub(crate) fn interface_with_address(address: IpAddr) -> Option<String> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: the pointer is to a live pointer, which the call fills or leaves.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return None;
    }
    let mut found = None;
    let mut next = list;
    while !next.is_null() {
        // SAFETY: the kernel's library made a list that lives until it is freed below.
        let one = unsafe { &*next };
        if found.is_none() && parse_sockaddr(one.ifa_addr) == Some(address) {
            // SAFETY: the name is a string that lives as long as the list.
            let name = unsafe { CStr::from_ptr(one.ifa_name) };
            found = name.to_str().ok().map(str::to_owned);
        }
        next = one.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing points into it any more.
    unsafe { libc::freeifaddrs(list) };
    found
}

/// The IP address in a sockaddr.
fn parse_sockaddr(address: *const libc::sockaddr) -> Option<IpAddr> {
    if address.is_null() {
        return None;
    }
    // SAFETY: getifaddrs gives null or an address whose family says how long it is.
    let family = i32::from(unsafe { (*address).sa_family });
    match family {
        libc::AF_INET => {
            // SAFETY: the family says IPv4; an unaligned read makes no claim on its alignment.
            let read = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(read.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says IPv6; an unaligned read makes no claim on its alignment.
            let read = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(read.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_and_unknown_interface_named() {
        let loopback = interface("lo").expect("every host has one");
        assert_eq!(loopback.hardware, [0; 6]);
        assert!(loopback.mtu >= 1500);
        for name in ["", "no-such-one", "a-name-that-is-far-too-long"] {
            let error = interface(name).expect_err("no interface");
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            assert!(error.to_string().contains(name));
        }
    }
    #[test]
    fn interface_of_an_address_is_found() {
        let here = Ipv4Addr::LOCALHOST;
        assert_eq!(interface_with_address(here.into()).as_deref(), Some("lo"));
        let nowhere = Ipv4Addr::new(192, 0, 2, 77);
        assert_eq!(interface_with_address(nowhere.into()), None);
    }
}
