//! Interfaces by name.

use crate::socket::Interface;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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
}
