//! t_open, t_bind, t_unbind, t_close, t_look, t_sync, and questions about an endpoint.

use super::errors::return_to_c;
use super::structures::{TBind, TInfo};
use super::{all_fitted, fork, optional, required};
use crate::endpoint::Endpoint;
use crate::table;
use libc::{c_char, c_int, c_long};
use std::ffi::CStr;
use xti::tpi::Information;
use xti::{Error, TliError};

/// t_open: opens an endpoint of a provider. `flags` are O_RDWR, and O_NONBLOCK if calls shall not wait.
///
/// # Safety
///
/// `name` is a C string, `info` null or a structure.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_open(name: *const c_char, flags: c_int, info: *mut TInfo) -> c_int {
    return_to_c(|| {
        if name.is_null() {
            return Err(TliError::BadName.into());
        }
        if flags & !(libc::O_NONBLOCK | libc::O_NDELAY) != libc::O_RDWR {
            return Err(TliError::BadFlag.into());
        }
        // SAFETY: the caller's promise.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_str().map_err(|_| TliError::BadName)?;
        let endpoint = Endpoint::open(name, flags & libc::O_NONBLOCK != 0)?;
        // SAFETY: the caller's promise.
        if let Some(info) = unsafe { optional(info) } {
            *info = to_c(&endpoint.xti().information());
        }
        let fd = endpoint.fd();
        fork::register();
        table::insert(endpoint);
        Ok(fd)
    })
}

fn to_c(information: &Information) -> TInfo {
    TInfo {
        addr: information.address,
        options: information.options,
        tsdu: information.tsdu,
        etsdu: information.etsdu,
        connect: information.connect,
        discon: information.disconnect,
        servtype: information.service as i32,
        flags: information.flags as i32,
    }
}

/// t_close: closes an endpoint in any state; what was sent and is not yet released may be lost.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_close(fd: c_int) -> c_int {
    return_to_c(|| {
        table::remove(fd)?.close_descriptor();
        Ok(0)
    })
}

/// t_bind: binds to an address; `request` null, or without one: the provider chooses.
///
/// # Safety
///
/// Both are null or structures with their buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_bind(fd: c_int, request: *const TBind, bound: *mut TBind) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        let (address, queue_len) = match unsafe { request.as_ref() } {
            // SAFETY: the caller's promise.
            Some(request) => (unsafe { request.addr.octets() }, request.qlen),
            None => (&[][..], 0),
        };
        let result = endpoint.now(|xti| xti.bind(address, queue_len))?;
        // SAFETY: the caller's promise.
        let Some(bound) = (unsafe { optional(bound) }) else {
            return Ok(0);
        };
        bound.qlen = result.queue_len;
        // SAFETY: the caller's promise.
        all_fitted(&[unsafe { bound.addr.put(&result.address) }])
    })
}

/// t_unbind.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_unbind(fd: c_int) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // What has come below refuses it.
        let _ = endpoint.xti().look();
        endpoint.now(|xti| xti.unbind())?;
        Ok(0)
    })
}

/// t_look: the event that waits, 0 for none.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_look(fd: c_int) -> c_int {
    return_to_c(|| Ok(table::find(fd)?.look()? as c_int))
}

/// t_sync: the state as the provider sees it.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_sync(fd: c_int) -> c_int {
    return_to_c(|| Ok(table::find(fd)?.now(|xti| xti.sync())? as c_int))
}

/// t_getstate.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_getstate(fd: c_int) -> c_int {
    return_to_c(|| Ok(table::find(fd)?.xti().state() as c_int))
}

/// t_getinfo.
///
/// # Safety
///
/// `info` is a structure.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_getinfo(fd: c_int, info: *mut TInfo) -> c_int {
    return_to_c(|| {
        let endpoint = table::find(fd)?;
        // SAFETY: the caller's promise.
        *unsafe { required(info) }? = to_c(&endpoint.xti().information());
        Ok(0)
    })
}

/// t_getprotaddr: the own address, and the peer's; each may be null, and is empty where there is none.
///
/// # Safety
///
/// Both are null or structures with their buffers.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_getprotaddr(fd: c_int, own: *mut TBind, peer: *mut TBind) -> c_int {
    return_to_c(|| {
        let (local, remote) = table::find(fd)?.xti().addresses()?;
        let put = |to: *mut TBind, address: &[u8]| {
            // SAFETY: the caller's promise.
            let to = unsafe { optional(to) };
            // SAFETY: the caller's promise.
            to.is_none_or(|to| unsafe { to.addr.put(address) })
        };
        all_fitted(&[put(own, &local), put(peer, &remote)])
    })
}

/// t_sysconf: a limit by its name.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_sysconf(name: c_int) -> c_int {
    return_to_c(|| {
        let limit = xti::error::system_limit(name);
        let limit = limit.ok_or(Error {
            tli: TliError::System,
            errno: libc::EINVAL,
        })?;
        Ok(c_long::try_from(limit).map_or(c_int::MAX, |limit| limit as c_int))
    })
}
