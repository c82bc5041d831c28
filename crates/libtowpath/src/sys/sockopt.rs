//! getsockopt(2) and setsockopt(2).

use super::address::PF_XTP;
use super::errno::{check_errno, dispatch, dispatch_after_fork};
use super::sctp;
use crate::options;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Option level: `setsockopt(fd, SOL_XTP, XTP_OPTION, "queue=32k", 9)`.
const SOL_XTP: libc::c_int = 0x5854;

/// A text `NAME=VALUE`.
const XTP_OPTION: libc::c_int = 1;
/// Get: what the peer of an accepted connection asks for, as a [`XtpOpening`].
const XTP_OPENING: libc::c_int = 2;
/// Set: answers that peer.
const XTP_ADMIT: libc::c_int = 3;
/// Set: refuses it, with a reason as an int.
const XTP_REFUSE: libc::c_int = 4;

/// struct xtp_opening of `towpath.h`.
#[repr(C)]
struct XtpOpening {
    service: [u8; 24],
    first_data: u64,
    sort: i32,
    reserves: u32,
}

impl XtpOpening {
    fn of(request: &library::xtp::OpeningRequest) -> XtpOpening {
        let mut service = [0; 24];
        let name = request.service.as_bytes();
        // The longest name has 21 octets, and a zero follows.
        service[..name.len().min(23)].copy_from_slice(&name[..name.len().min(23)]);
        XtpOpening {
            service,
            first_data: request.first_data,
            sort: request.sort.map_or(-1, i32::from),
            reserves: request.reserves.into(),
        }
    }

    fn octets(&self) -> Vec<u8> {
        let numbers = [self.sort.to_ne_bytes(), self.reserves.to_ne_bytes()];
        [
            &self.service[..],
            &self.first_data.to_ne_bytes(),
            &numbers.concat(),
        ]
        .concat()
    }
}

/// Octets of the longest option text.
const OPTION_TEXT_MAX: usize = 256;

/// setsockopt(2). SOL_XTP has a text such as `queue=32k`, and decisions about accepted connections; TCP options are
/// stored and have no effect.
///
/// # Safety
///
/// As the system's: `value` points to `len` octets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_setsockopt(
    fd: libc::c_int,
    level: libc::c_int,
    name: libc::c_int,
    value: *const libc::c_void,
    len: libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::setsockopt(fd, (level, name), value, len) } {
        return done;
    }
    // SAFETY: the caller's promise.
    let system = || unsafe { libc::setsockopt(fd, level, name, value, len) };
    dispatch(
        fd,
        |socket, _| match level {
            SOL_XTP if name == XTP_OPTION && !value.is_null() => {
                let len = (len as usize).min(OPTION_TEXT_MAX);
                // SAFETY: the caller says that as many octets are there.
                let octets = unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) };
                let text = String::from_utf8_lossy(octets);
                options::set_option(socket, text.trim_end_matches('\0')).map(|()| 0)
            }
            SOL_XTP if name == XTP_ADMIT => options::admit(socket).map(|()| 0),
            SOL_XTP if name == XTP_REFUSE => {
                // SAFETY: the caller says that `len` octets are there.
                let why = unsafe { read_int(value, len) }?;
                options::refuse(socket, why).map(|()| 0)
            }
            SOL_XTP => Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)),
            libc::IPPROTO_TCP => {
                // SAFETY: the caller says that `len` octets are there.
                let value = unsafe { read_int(value, len) }?;
                options::set_tcp_option(socket, name, value).map(|()| 0)
            }
            _ => check_errno(system()),
        },
        system,
    )
}

/// getsockopt(2). Returns the XTP options that were set, and stored TCP options.
///
/// # Safety
///
/// As the system's: `len` says how many octets `value` points to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn towpath_getsockopt(
    fd: libc::c_int,
    level: libc::c_int,
    name: libc::c_int,
    value: *mut libc::c_void,
    len: *mut libc::socklen_t,
) -> libc::c_int {
    // SAFETY: the caller's promise.
    if let Some(done) = unsafe { sctp::getsockopt(fd, (level, name), value, len) } {
        return done;
    }
    // SAFETY: the caller's promise.
    let system = || unsafe { libc::getsockopt(fd, level, name, value, len) };
    dispatch_after_fork(
        fd,
        |socket, _| {
            let octets = match level {
                libc::SOL_SOCKET => match options::socket_level_option(socket, name, PF_XTP) {
                    Some(number) => number.to_ne_bytes().to_vec(),
                    None => return check_errno(system()),
                },
                libc::IPPROTO_TCP => options::tcp_option(socket, name)?.to_ne_bytes().to_vec(),
                SOL_XTP if name == XTP_OPTION => options::options_text(socket).into_bytes(),
                SOL_XTP if name == XTP_OPENING => {
                    XtpOpening::of(&options::opening(socket)?).octets()
                }
                SOL_XTP => return Err(io::Error::from_raw_os_error(libc::ENOPROTOOPT)),
                _ => return check_errno(system()),
            };
            // SAFETY: the caller's promise.
            unsafe { write_value(&octets, value, len) }.map(|()| 0)
        },
        system,
    )
}

/// The number that C passed, or EINVAL.
///
/// # Safety
///
/// `value` is null or points to `len` octets.
unsafe fn read_int(value: *const libc::c_void, len: libc::socklen_t) -> io::Result<libc::c_int> {
    if value.is_null() || (len as usize) < mem::size_of::<libc::c_int>() {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: as many octets are there.
    Ok(unsafe { value.cast::<libc::c_int>().read_unaligned() })
}

/// Writes the value of an option to C, truncated to its buffer.
///
/// # Safety
///
/// Both are null, or `len` points to a length and `value` to as many octets.
unsafe fn write_value(
    octets: &[u8],
    value: *mut libc::c_void,
    len: *mut libc::socklen_t,
) -> io::Result<()> {
    if value.is_null() || len.is_null() {
        return Err(io::Error::from_raw_os_error(libc::EFAULT));
    }
    // SAFETY: the caller says that a length is there, and as many octets; no more are written.
    unsafe {
        let given = octets.len().min(*len as usize);
        std::ptr::copy_nonoverlapping(octets.as_ptr(), value.cast::<u8>(), given);
        *len = given as libc::socklen_t;
    }
    Ok(())
}

/// Whether close must reset the connection: SO_LINGER with 0 seconds.
pub(super) fn has_zero_linger(fd: BorrowedFd<'_>) -> bool {
    let mut linger = libc::linger {
        l_onoff: 0,
        l_linger: 0,
    };
    let mut len = mem::size_of::<libc::linger>() as libc::socklen_t;
    let (level, name) = (libc::SOL_SOCKET, libc::SO_LINGER);
    // SAFETY: the structure is as long as is said.
    let done = unsafe {
        let value = (&raw mut linger).cast::<libc::c_void>();
        libc::getsockopt(fd.as_raw_fd(), level, name, value, &raw mut len)
    };
    done == 0 && linger.l_onoff != 0 && linger.l_linger == 0
}
