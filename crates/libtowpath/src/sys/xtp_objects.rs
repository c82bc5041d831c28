//! Calls of `towpath_xtp.h`: groups, and messages with tags.

use super::address;
use super::arguments::{limit, message, room, text};
use super::errno::return_to_c;
use crate::xtp_objects as objects;

/// Joins a group.
///
/// # Safety
///
/// Both addresses are null or as long as is said, `options` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_group_join(
    group: *const libc::sockaddr,
    len: libc::socklen_t,
    interface: *const libc::sockaddr,
    interface_len: libc::socklen_t,
    options: *const libc::c_char,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (group, near, options) = unsafe {
            let near = address::read(interface, interface_len);
            (address::required(group, len)?, near, text(options)?)
        };
        objects::join(group, near, options)
    })
}

/// The next stream of a receiver.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_group_accept(
    receiver: libc::c_int,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    let accept = || objects::accept_stream(receiver, limit(timeout_ms));
    return_to_c(accept)
}

/// Octets of a stream.
///
/// # Safety
///
/// `buffer` points to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_group_recv(
    stream: libc::c_int,
    buffer: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let buffer = unsafe { room(buffer, size) };
        objects::receive(stream, buffer, limit(timeout_ms)).map(|len| len as isize)
    })
}

/// Opens a stream to a group.
///
/// # Safety
///
/// As [`towpath_group_join`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_group_open(
    group: *const libc::sockaddr,
    len: libc::socklen_t,
    interface: *const libc::sockaddr,
    interface_len: libc::socklen_t,
    members: libc::c_uint,
    options: *const libc::c_char,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (group, near, options) = unsafe {
            let near = address::read(interface, interface_len);
            (address::required(group, len)?, near, text(options)?)
        };
        objects::open(group, near, members, options)
    })
}

/// Waits until the members have joined.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_group_wait(sender: libc::c_int, timeout_ms: libc::c_int) -> libc::c_int {
    let wait = || objects::with_sender(sender, |sender| sender.wait_ready(limit(timeout_ms)));
    return_to_c(|| wait().map(|()| 0))
}

/// Sends to a group.
///
/// # Safety
///
/// `octets` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_group_send(
    sender: libc::c_int,
    octets: *const libc::c_void,
    len: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let octets = unsafe { message(octets, len) };
        let send =
            |sender: &mut library::xtp::group::Sender| sender.send(octets, limit(timeout_ms));
        objects::with_sender(sender, send).map(|()| len as isize)
    })
}

/// Ends a stream, and waits until all members have it.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_group_finish(
    sender: libc::c_int,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    let finish =
        || objects::with_sender(sender, |sender| sender.close(limit(timeout_ms)).map(drop));
    return_to_c(|| finish().map(|()| 0))
}

/// Opens an endpoint of message circuits.
///
/// # Safety
///
/// `address` is as long as is said, `options` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_messages_open(
    address: *const libc::sockaddr,
    len: libc::socklen_t,
    options: *const libc::c_char,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (local, options) = unsafe { (address::required(address, len)?, text(options)?) };
        objects::open_messages(local, options)
    })
}

/// Where an endpoint is.
///
/// # Safety
///
/// Both pointers are null, or `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_messages_getsockname(
    endpoint: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    return_to_c(|| {
        let local = objects::local_addr(endpoint)?;
        // SAFETY: the caller's promise.
        unsafe { address::write(local, address, len) };
        Ok(0)
    })
}

/// The next circuit of a peer.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_messages_accept(
    endpoint: libc::c_int,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    let accept = || objects::accept_circuit(endpoint, limit(timeout_ms));
    return_to_c(accept)
}

/// A circuit to a peer.
///
/// # Safety
///
/// `peer` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_messages_connect(
    endpoint: libc::c_int,
    peer: *const libc::sockaddr,
    len: libc::socklen_t,
    timeout_ms: libc::c_int,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { address::required(peer, len) }?;
        objects::connect(endpoint, to, limit(timeout_ms))
    })
}

/// Sends a message.
///
/// # Safety
///
/// `tag` is null or points to eight octets, `octets` to `len`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_messages_send(
    circuit: libc::c_int,
    tag: *const u8,
    octets: *const libc::c_void,
    len: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (tag, octets) = unsafe {
            let tag = (!tag.is_null()).then(|| tag.cast::<[u8; 8]>().read_unaligned());
            (tag, message(octets, len))
        };
        objects::send_message(circuit, tag, octets, limit(timeout_ms)).map(|()| len as isize)
    })
}

/// Sends a message, and returns when the peer has acknowledged it.
///
/// # Safety
///
/// `octets` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_messages_write(
    circuit: libc::c_int,
    octets: *const libc::c_void,
    len: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let octets = unsafe { message(octets, len) };
        objects::write_message(circuit, octets, limit(timeout_ms)).map(|()| len as isize)
    })
}

/// The next message.
///
/// # Safety
///
/// `tag` points to eight octets, `tagged` to a number, `buffer` to `size` octets; the first two may be null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_messages_recv(
    circuit: libc::c_int,
    tag: *mut u8,
    tagged: *mut libc::c_int,
    buffer: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let buffer = unsafe { room(buffer, size) };
        let (came, len) = objects::receive_message(circuit, buffer, limit(timeout_ms))?;
        // SAFETY: the caller's promise.
        unsafe {
            if let (Some(came), false) = (came, tag.is_null()) {
                tag.cast::<[u8; 8]>().write_unaligned(came);
            }
            if !tagged.is_null() {
                tagged.write(came.is_some().into());
            }
        }
        Ok(len as isize)
    })
}

/// Ends what a number stands for.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_xtp_close(number: libc::c_int) -> libc::c_int {
    return_to_c(|| objects::close(number).map(|()| 0))
}
