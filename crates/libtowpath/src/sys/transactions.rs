//! VMTP's calls, as in `towpath_vmtp.h`.

use super::address;
use super::arguments::{limit, message};
use super::errno::{os_error, return_to_c};
use crate::transactions::{self, ControlBlock, VmtpEndpoint};
use library::vmtp::EntityId;
use std::io;
use std::time::Duration;

/// The control block that C passed, or EFAULT.
///
/// # Safety
///
/// `mcb` is null or points to a control block.
unsafe fn read_block(mcb: *const ControlBlock) -> io::Result<ControlBlock> {
    if mcb.is_null() {
        return Err(os_error(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { mcb.read() })
}

/// Makes a call on an endpoint with the control block of C, which gets the block that it leaves, as much of the message
/// that it returns as the buffer takes, and the whole length of that.
///
/// # Safety
///
/// `mcb` points to a control block, `buffer` to `size` octets, or `size` is 0.
unsafe fn exchange(
    vmtp: libc::c_int,
    mcb: *mut ControlBlock,
    (buffer, size): (*mut libc::c_void, usize),
    call: impl FnOnce(&VmtpEndpoint, &mut ControlBlock) -> io::Result<Vec<u8>>,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let mut block = unsafe { read_block(mcb) }?;
        let endpoint = transactions::find(vmtp)?;
        let octets = call(&endpoint, &mut block)?;
        // SAFETY: the caller's promise.
        unsafe { mcb.write(block) };
        if !buffer.is_null() {
            let len = octets.len().min(size);
            // SAFETY: the caller's promise, and no more than `size` octets are written.
            unsafe { std::ptr::copy_nonoverlapping(octets.as_ptr(), buffer.cast::<u8>(), len) };
        }
        Ok(octets.len() as isize)
    })
}

/// Opens an endpoint at a UDP address.
///
/// # Safety
///
/// `address` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_vmtp_open(
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let local = unsafe { address::required(address, len) }?;
        transactions::open(local)
    })
}

/// Ends an endpoint.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_vmtp_close(vmtp: libc::c_int) -> libc::c_int {
    return_to_c(|| transactions::close(vmtp).map(|()| 0))
}

/// Where an endpoint is.
///
/// # Safety
///
/// Both pointers are null, or `len` says how many octets `address` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_vmtp_getsockname(
    vmtp: libc::c_int,
    address: *mut libc::sockaddr,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    return_to_c(|| {
        let local = transactions::find(vmtp)?.endpoint.local_addr();
        // SAFETY: the caller's promise.
        unsafe { address::write(local, address, len) };
        Ok(0)
    })
}

/// Creates an entity; its identifier, or 0 and errno.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_vmtp_entity(vmtp: libc::c_int, discriminator: u32) -> u64 {
    let mut entity = 0;
    return_to_c(|| {
        let endpoint = transactions::find(vmtp)?;
        entity = endpoint.endpoint.create_entity(discriminator)?.0;
        Ok(0)
    });
    entity
}

/// Says where an entity is.
///
/// # Safety
///
/// `address` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_vmtp_locate(
    vmtp: libc::c_int,
    entity: u64,
    address: *const libc::sockaddr,
    len: libc::socklen_t,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { address::required(address, len) }?;
        transactions::find(vmtp)?
            .endpoint
            .locate(EntityId(entity), at);
        Ok(0)
    })
}

/// Calls an entity and waits for its reply.
///
/// # Safety
///
/// `mcb` points to a control block, `request` to `len` octets, `reply` to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_invoke(
    vmtp: libc::c_int,
    mcb: *mut ControlBlock,
    request: *const libc::c_void,
    len: usize,
    reply: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        exchange(vmtp, mcb, (reply, size), |endpoint, block| {
            endpoint.invoke(block, message(request, len), limit(timeout_ms))
        })
    }
}

/// The next reply to the last call with VMTP_MANY.
///
/// # Safety
///
/// `mcb` points to a control block, `reply` to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_getreply(
    vmtp: libc::c_int,
    mcb: *mut ControlBlock,
    reply: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        exchange(vmtp, mcb, (reply, size), |endpoint, block| {
            endpoint.next_reply(block, limit(timeout_ms))
        })
    }
}

/// The next request.
///
/// # Safety
///
/// `mcb` points to a control block, `buffer` to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_recvreq(
    vmtp: libc::c_int,
    mcb: *mut ControlBlock,
    buffer: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        exchange(vmtp, mcb, (buffer, size), |endpoint, block| {
            endpoint.receive(block, limit(timeout_ms))
        })
    }
}

/// Answers a request.
///
/// # Safety
///
/// `mcb` points to a control block, `reply` to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sendreply(
    vmtp: libc::c_int,
    mcb: *const ControlBlock,
    reply: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (block, reply) = unsafe { (read_block(mcb)?, message(reply, len)) };
        transactions::find(vmtp)?.reply(&block, reply).map(|()| 0)
    })
}

/// Passes a request on to another entity.
///
/// # Safety
///
/// `mcb` points to a control block, `request` to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_forward(
    vmtp: libc::c_int,
    mcb: *const ControlBlock,
    to: u64,
    request: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let (block, request) = unsafe { (read_block(mcb)?, message(request, len)) };
        let endpoint = transactions::find(vmtp)?;
        endpoint.forward(&block, EntityId(to), request).map(|()| 0)
    })
}

/// Whether an entity is where it was located: 1, or 0 for nobody.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_probeentity(
    vmtp: libc::c_int,
    entity: u64,
    tries: u8,
    spacing_ms: u32,
) -> libc::c_int {
    return_to_c(|| {
        let spacing = Duration::from_millis(u64::from(spacing_ms));
        let found = transactions::find(vmtp)?.probe(EntityId(entity), tries, spacing)?;
        Ok(found.into())
    })
}
