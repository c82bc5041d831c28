//! t_alloc and t_free: structures whose buffers are as long as the provider's longest. Memory is malloc's.

use super::errors::{fail, return_to_c};
use super::structures::{NetBuf, TBind, TCall, TDiscon, TInfo, TOptMgmt, TUdErr, TUnitData};
use crate::table;
use libc::{c_int, c_uint, c_void};
use std::ptr;
use xti::tpi::Information;
use xti::{Error, TliError};

const T_BIND: c_int = 1;
const T_OPTMGMT: c_int = 2;
const T_CALL: c_int = 3;
const T_DIS: c_int = 4;
const T_UNITDATA: c_int = 5;
const T_UDERROR: c_int = 6;
const T_INFO: c_int = 7;

const T_ADDR: c_int = 1;
const T_OPT: c_int = 2;
const T_UDATA: c_int = 4;
/// All fields that the provider has.
const T_ALL: c_int = 0xffff;

/// A buffer of a structure: which field, and where it lies.
type Field = (c_int, usize);

/// A structure's octets and buffers.
struct Layout {
    len: usize,
    fields: &'static [Field],
}

macro_rules! layout {
    ($of:ty $(, $bit:ident $field:ident)*) => {
        Layout { len: size_of::<$of>(), fields: &[$(($bit, std::mem::offset_of!($of, $field))),*] }
    };
}

fn layout(kind: c_int) -> Option<Layout> {
    Some(match kind {
        T_BIND => layout!(TBind, T_ADDR addr),
        T_OPTMGMT => layout!(TOptMgmt, T_OPT opt),
        T_CALL => layout!(TCall, T_ADDR addr, T_OPT opt, T_UDATA udata),
        T_DIS => layout!(TDiscon, T_UDATA udata),
        T_UNITDATA => layout!(TUnitData, T_ADDR addr, T_OPT opt, T_UDATA udata),
        T_UDERROR => layout!(TUdErr, T_ADDR addr, T_OPT opt),
        T_INFO => layout!(TInfo),
        _ => return None,
    })
}

/// Octets of a field's buffer in a structure of a kind: 0 without limit is taken as what a call can use, -1 and -2
/// have none (XTI: t_alloc).
fn buffer_len(kind: c_int, field: c_int, of: &Information) -> i32 {
    match (field, kind) {
        (T_ADDR, _) => of.address,
        (T_OPT, _) => of.options,
        (_, T_CALL) => of.connect.max(of.disconnect),
        (_, T_DIS) => of.disconnect,
        _ => of.tsdu,
    }
}

/// t_alloc: a structure for calls on `fd`, with buffers for `fields`; null with `t_errno` when there is none.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub extern "C" fn t_alloc(fd: c_int, kind: c_int, fields: c_int) -> *mut c_void {
    allocate(fd, kind, fields).unwrap_or_else(|error| {
        fail(error);
        ptr::null_mut()
    })
}

fn allocate(fd: c_int, kind: c_int, fields: c_int) -> Result<*mut c_void, Error> {
    let information = table::find(fd)?.xti().information();
    let layout = layout(kind).ok_or(TliError::NoStructure)?;
    let mut lens = Vec::new();
    for &(field, offset) in layout.fields {
        if fields & field == 0 {
            continue;
        }
        match buffer_len(kind, field, &information) {
            // T_ALL leaves out what has no longest length; who names it is told (XTI: TSYSERR, EINVAL).
            -2 | -1 if fields == T_ALL => {}
            len => lens.push((offset, c_uint::try_from(len).map_err(|_| invalid())?)),
        }
    }
    let structure = zeroed(layout.len)?;
    for (offset, len) in lens {
        let buf = match len {
            0 => ptr::null_mut(),
            len => zeroed(len as usize).inspect_err(|_| free(structure, &layout))?,
        };
        let buffer = NetBuf {
            maxlen: len,
            len: 0,
            buf,
        };
        // SAFETY: the structure is ours, zeroed, and has a buffer at this offset.
        unsafe { structure.byte_add(offset).cast::<NetBuf>().write(buffer) };
    }
    Ok(structure)
}

fn invalid() -> Error {
    Error {
        tli: TliError::System,
        errno: libc::EINVAL,
    }
}

fn zeroed(len: usize) -> Result<*mut c_void, Error> {
    // SAFETY: calloc takes any numbers.
    let memory = unsafe { libc::calloc(1, len) };
    match memory.is_null() {
        true => Err(Error {
            tli: TliError::System,
            errno: libc::ENOMEM,
        }),
        false => Ok(memory),
    }
}

fn free(structure: *mut c_void, layout: &Layout) {
    for (_, offset) in layout.fields {
        // SAFETY: the structure is t_alloc's, and has a buffer at this offset, null or malloc's.
        unsafe {
            let buffer = structure.byte_add(*offset).cast::<NetBuf>();
            libc::free((*buffer).buf);
        }
    }
    // SAFETY: it is malloc's.
    unsafe { libc::free(structure) };
}

/// t_free: gives a structure of t_alloc back with its buffers.
///
/// # Safety
///
/// `structure` is null or of t_alloc with this `kind`; its buffers are null, t_alloc's or malloc's.
// SAFETY: no other symbol has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn t_free(structure: *mut c_void, kind: c_int) -> c_int {
    return_to_c(|| {
        let layout = layout(kind).ok_or(TliError::NoStructure)?;
        if structure.is_null() {
            return Err(invalid());
        }
        free(structure, &layout);
        Ok(0)
    })
}
