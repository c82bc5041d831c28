//! The calls of RFC 6458 section 9 that take or give lists of addresses, and options by association.

use super::super::errno::os_error;
use super::{dispatch_own, give, slice};
use crate::sctp::octets::{packed_address, read_addresses};
use crate::sctp::{calls, options};
use std::io;
use std::net::SocketAddr;
use std::os::fd::IntoRawFd;

/// Addresses in a list at most; an association has 8 paths.
const ADDRESSES_MAX: libc::c_int = 64;

/// Flags of sctp_bindx.
const BINDX_ADD_ADDR: libc::c_int = 1;
const BINDX_REM_ADDR: libc::c_int = 2;

/// As many packed addresses as C says. EINVAL for another family, or too many.
///
/// # Safety
///
/// `addresses` is null or points to as many.
pub(super) unsafe fn read_packed(
    addresses: *const libc::sockaddr,
    count: libc::c_int,
) -> io::Result<Vec<SocketAddr>> {
    if addresses.is_null() || count <= 0 {
        return Ok(Vec::new());
    }
    if count > ADDRESSES_MAX {
        return Err(os_error(libc::EINVAL));
    }
    let mut len = 0;
    for _ in 0..count {
        // SAFETY: the caller says that another address is there, and each begins with its family.
        let family = unsafe {
            addresses
                .cast::<u8>()
                .add(len)
                .cast::<u16>()
                .read_unaligned()
        };
        len += match i32::from(family) {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return Err(os_error(libc::EINVAL)),
        };
    }
    // SAFETY: as many octets are there.
    read_addresses(unsafe { slice(addresses.cast(), len) }?)
}

/// sctp_bindx.
///
/// # Safety
///
/// `addresses` points to `count` packed addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_bindx(
    fd: libc::c_int,
    addresses: *const libc::sockaddr,
    count: libc::c_int,
    flags: libc::c_int,
) -> libc::c_int {
    dispatch_own(fd, |socket, _| {
        // SAFETY: the caller's promise.
        let addresses = unsafe { read_packed(addresses, count) }?;
        if addresses.is_empty() {
            return Err(os_error(libc::EINVAL));
        }
        match flags {
            BINDX_ADD_ADDR => calls::bind(socket, &addresses)?,
            BINDX_REM_ADDR => calls::unbind(socket, &addresses)?,
            _ => return Err(os_error(libc::EINVAL)),
        }
        Ok(0)
    })
}

/// sctp_connectx.
///
/// # Safety
///
/// `addresses` points to `count` packed addresses, `assoc` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_connectx(
    fd: libc::c_int,
    addresses: *const libc::sockaddr,
    count: libc::c_int,
    assoc: *mut i32,
) -> libc::c_int {
    dispatch_own(fd, |socket, fd| {
        // SAFETY: the caller's promise.
        let peers = unsafe { read_packed(addresses, count) }?;
        let opened = calls::connect(socket, fd, &peers);
        let begun = opened.as_ref().ok().copied();
        let begun = begun.or_else(|| calls::number_to(socket, *peers.first()?));
        if let (Some(number), false) = (begun, assoc.is_null()) {
            // SAFETY: the caller's promise.
            unsafe { assoc.write(number) };
        }
        opened.map(|_| 0)
    })
}

/// sctp_peeloff.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_sctp_peeloff(fd: libc::c_int, assoc: i32) -> libc::c_int {
    towpath_sctp_peeloff_flags(fd, assoc, 0)
}

/// sctp_peeloff with SOCK_NONBLOCK and SOCK_CLOEXEC.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_sctp_peeloff_flags(
    fd: libc::c_int,
    assoc: i32,
    flags: libc::c_uint,
) -> libc::c_int {
    let flags = flags as libc::c_int;
    let flags = (
        flags & libc::SOCK_NONBLOCK != 0,
        flags & libc::SOCK_CLOEXEC != 0,
    );
    dispatch_own(fd, |socket, fd| {
        let peeled = calls::peel_off(socket, fd, assoc, flags)?;
        Ok(peeled.into_raw_fd())
    })
}

/// Gives C a list of addresses that it frees later.
///
/// # Safety
///
/// `out` is null or points to a pointer.
unsafe fn give_list(
    addresses: &[SocketAddr],
    out: *mut *mut libc::sockaddr,
) -> io::Result<libc::c_int> {
    if out.is_null() {
        return Err(os_error(libc::EFAULT));
    }
    let packed: Vec<u8> = addresses.iter().copied().flat_map(packed_address).collect();
    // SAFETY: the memory is as long as what is copied, and the caller's pointer may be written.
    unsafe {
        let list = libc::malloc(packed.len());
        if list.is_null() {
            return Err(os_error(libc::ENOMEM));
        }
        std::ptr::copy_nonoverlapping(packed.as_ptr(), list.cast::<u8>(), packed.len());
        out.write(list.cast());
    }
    Ok(addresses.len() as libc::c_int)
}

/// sctp_getpaddrs.
///
/// # Safety
///
/// `out` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_getpaddrs(
    fd: libc::c_int,
    assoc: i32,
    out: *mut *mut libc::sockaddr,
) -> libc::c_int {
    dispatch_own(fd, |socket, _| {
        let addresses = calls::peer_addrs(socket, assoc)?;
        // SAFETY: the caller's promise.
        unsafe { give_list(&addresses, out) }
    })
}

/// sctp_getladdrs.
///
/// # Safety
///
/// `out` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_getladdrs(
    fd: libc::c_int,
    _assoc: i32,
    out: *mut *mut libc::sockaddr,
) -> libc::c_int {
    dispatch_own(fd, |socket, _| {
        let addresses = calls::local_addrs(socket);
        // SAFETY: the caller's promise.
        unsafe { give_list(&addresses, out) }
    })
}

/// sctp_freepaddrs and sctp_freeladdrs.
///
/// # Safety
///
/// `list` came from sctp_getpaddrs or sctp_getladdrs, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_freeaddrs(list: *mut libc::sockaddr) {
    // SAFETY: the caller's promise.
    unsafe { libc::free(list.cast()) };
}

/// sctp_opt_info: getsockopt(2) for an association.
///
/// # Safety
///
/// `len` says how many octets `value` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sctp_opt_info(
    fd: libc::c_int,
    assoc: i32,
    name: libc::c_int,
    value: *mut libc::c_void,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    dispatch_own(fd, |socket, _| {
        if len.is_null() {
            return Err(os_error(libc::EFAULT));
        }
        // SAFETY: the caller's promise.
        let mut asked = unsafe { slice(value, *len as usize) }?.to_vec();
        // Every structure that asks for an association begins with its number.
        if let Some(number) = asked.first_chunk_mut() {
            *number = assoc.to_ne_bytes();
        }
        let octets = options::get(socket, (options::IPPROTO_SCTP, name), &asked)?;
        let octets = octets.ok_or_else(|| os_error(libc::ENOPROTOOPT))?;
        // SAFETY: the caller's promise.
        unsafe { give(&octets, value, len) }.map(|()| 0)
    })
}
