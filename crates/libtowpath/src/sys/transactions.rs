//! VMTP's calls, as in `towpath_vmtp.h`.

use super::address;
use super::errno::{os_error, return_to_c};
use crate::transactions::{self, ControlBlock};
use library::vmtp::EntityId;
use std::io;
use std::time::Duration;

/// struct vmtp_mcb of `towpath_vmtp.h`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct VmtpMcb {
    entity: u64,
    client: u64,
    request: u64,
    code: u32,
    flags: u32,
}

impl VmtpMcb {
    fn block(self) -> ControlBlock {
        ControlBlock {
            entity: self.entity,
            client: self.client,
            request: self.request,
            code: self.code,
            flags: self.flags,
        }
    }

    fn of(block: &ControlBlock) -> VmtpMcb {
        VmtpMcb {
            entity: block.entity,
            client: block.client,
            request: block.request,
            code: block.code,
            flags: block.flags,
        }
    }
}

/// A time-out in milliseconds: a negative one has no end.
fn limit(timeout_ms: libc::c_int) -> Duration {
    match u64::try_from(timeout_ms) {
        Ok(ms) => Duration::from_millis(ms),
        Err(_) => Duration::MAX,
    }
}

/// The octets that C passed.
///
/// # Safety
///
/// `octets` points to `len` octets, or `len` is 0.
unsafe fn message<'a>(octets: *const libc::c_void, len: usize) -> &'a [u8] {
    if octets.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(octets.cast::<u8>(), len) }
}

/// The control block that C passed, or EFAULT.
///
/// # Safety
///
/// `mcb` is null or points to a control block.
unsafe fn read_block(mcb: *const VmtpMcb) -> io::Result<ControlBlock> {
    if mcb.is_null() {
        return Err(os_error(libc::EFAULT));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { mcb.read() }.block())
}

/// Gives C a message: as much of it as its buffer takes, and its whole length.
///
/// # Safety
///
/// `buffer` points to `size` octets, or `size` is 0; `mcb` points to a control block.
unsafe fn hand_out(
    octets: &[u8],
    block: &ControlBlock,
    mcb: *mut VmtpMcb,
    buffer: *mut libc::c_void,
    size: usize,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe { mcb.write(VmtpMcb::of(block)) };
    if !buffer.is_null() {
        let len = octets.len().min(size);
        // SAFETY: the caller's promise, and no more than `size` octets are written.
        unsafe { std::ptr::copy_nonoverlapping(octets.as_ptr(), buffer.cast::<u8>(), len) };
    }
    octets.len() as isize
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
    let opened = return_to_c(|| {
        // SAFETY: the caller's promise.
        let local = unsafe { address::read(address, len) };
        let local = local.ok_or_else(|| os_error(libc::EAFNOSUPPORT))?;
        transactions::open(local).map(|number| number as isize)
    });
    opened as libc::c_int
}

/// Ends an endpoint.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn towpath_vmtp_close(vmtp: libc::c_int) -> libc::c_int {
    return_to_c(|| transactions::close(vmtp).map(|()| 0)) as libc::c_int
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
    let named = return_to_c(|| {
        let local = transactions::find(vmtp)?.endpoint.local_addr();
        // SAFETY: the caller's promise.
        unsafe { address::write(local, address, len) };
        Ok(0)
    });
    named as libc::c_int
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
    let located = return_to_c(|| {
        // SAFETY: the caller's promise.
        let at = unsafe { address::read(address, len) };
        let at = at.ok_or_else(|| os_error(libc::EAFNOSUPPORT))?;
        transactions::find(vmtp)?
            .endpoint
            .locate(EntityId(entity), at);
        Ok(0)
    });
    located as libc::c_int
}

/// Calls an entity and waits for its reply.
///
/// # Safety
///
/// `mcb` points to a control block, `request` to `len` octets, `reply` to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_invoke(
    vmtp: libc::c_int,
    mcb: *mut VmtpMcb,
    request: *const libc::c_void,
    len: usize,
    reply: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let mut block = unsafe { read_block(mcb) }?;
        // SAFETY: the caller's promise.
        let request = unsafe { message(request, len) };
        let endpoint = transactions::find(vmtp)?;
        let octets = endpoint.invoke(&mut block, request, limit(timeout_ms))?;
        // SAFETY: the caller's promise.
        Ok(unsafe { hand_out(&octets, &block, mcb, reply, size) })
    })
}

/// The next reply to the last call with VMTP_MANY.
///
/// # Safety
///
/// `mcb` points to a control block, `reply` to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_getreply(
    vmtp: libc::c_int,
    mcb: *mut VmtpMcb,
    reply: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let mut block = unsafe { read_block(mcb) }?;
        let endpoint = transactions::find(vmtp)?;
        let octets = endpoint.next_reply(&mut block, limit(timeout_ms))?;
        // SAFETY: the caller's promise.
        Ok(unsafe { hand_out(&octets, &block, mcb, reply, size) })
    })
}

/// The next request.
///
/// # Safety
///
/// `mcb` points to a control block, `buffer` to `size` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_recvreq(
    vmtp: libc::c_int,
    mcb: *mut VmtpMcb,
    buffer: *mut libc::c_void,
    size: usize,
    timeout_ms: libc::c_int,
) -> isize {
    return_to_c(|| {
        // SAFETY: the caller's promise.
        let mut block = unsafe { read_block(mcb) }?;
        let endpoint = transactions::find(vmtp)?;
        let octets = endpoint.receive(&mut block, limit(timeout_ms))?;
        // SAFETY: the caller's promise.
        Ok(unsafe { hand_out(&octets, &block, mcb, buffer, size) })
    })
}

/// Answers a request.
///
/// # Safety
///
/// `mcb` points to a control block, `reply` to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_sendreply(
    vmtp: libc::c_int,
    mcb: *const VmtpMcb,
    reply: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    let replied = return_to_c(|| {
        // SAFETY: the caller's promise.
        let (block, reply) = unsafe { (read_block(mcb)?, message(reply, len)) };
        transactions::find(vmtp)?.reply(&block, reply).map(|()| 0)
    });
    replied as libc::c_int
}

/// Passes a request on to another entity.
///
/// # Safety
///
/// `mcb` points to a control block, `request` to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_forward(
    vmtp: libc::c_int,
    mcb: *const VmtpMcb,
    to: u64,
    request: *const libc::c_void,
    len: usize,
) -> libc::c_int {
    let forwarded = return_to_c(|| {
        // SAFETY: the caller's promise.
        let (block, request) = unsafe { (read_block(mcb)?, message(request, len)) };
        let endpoint = transactions::find(vmtp)?;
        endpoint.forward(&block, EntityId(to), request).map(|()| 0)
    });
    forwarded as libc::c_int
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
    let probed = return_to_c(|| {
        let spacing = Duration::from_millis(u64::from(spacing_ms));
        let found = transactions::find(vmtp)?.probe(EntityId(entity), tries, spacing)?;
        Ok(isize::from(found))
    });
    probed as libc::c_int
}
