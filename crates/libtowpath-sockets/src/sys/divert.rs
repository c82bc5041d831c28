//! A socket of the kernel is replaced by one of libtowpath, under the same descriptor.

use super::library::{Library, loaded};
use super::registrations::Registration;
use super::{address, next, registrations};
use crate::rules::{Carrier, PairCall, Rule, Service};
use std::ffi::c_void;
use std::mem::size_of;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The rules, once the file was read.
pub(super) static RULES: OnceLock<Vec<Rule>> = OnceLock::new();

/// Something was diverted: calls go by libtowpath from then on.
static IS_DIVERTING: AtomicBool = AtomicBool::new(false);

/// The process that has libtowpath's threads; 0 while none has.
static OWNER: AtomicI32 = AtomicI32::new(0);

/// A forked child was notified that its connections are the kernel's.
static CHILD_IS_NOTIFIED: AtomicBool = AtomicBool::new(false);

/// A forked child was notified that it cannot accept.
static ACCEPT_IS_NOTIFIED: AtomicBool = AtomicBool::new(false);

/// The family of libtowpath's sockets, and its options: see `towpath.h`.
const PF_XTP: libc::c_int = 19;
const SOL_XTP: libc::c_int = 0x5854;
const XTP_OPTION: libc::c_int = 1;

/// The library, if this process or its parent has diverted sockets.
pub(super) fn diverting() -> Option<&'static Library> {
    IS_DIVERTING.load(Ordering::Acquire).then(loaded)?
}

/// The library, if a rule diverts the descriptors of a call.
pub(super) fn diverting_pairs(call: PairCall) -> Option<&'static Library> {
    let mut rules = RULES.get()?.iter();
    let rule = rules.find(|rule| rule.is_about(call))?;
    if rule.carrier != Carrier::Pipe {
        return None;
    }
    IS_DIVERTING.store(true, Ordering::Release);
    loaded()
}

/// The options of libtowpath for `address`, if a rule diverts its connections.
pub(super) fn options_for(address: SocketAddr) -> Option<&'static [String]> {
    match carrier_for(Service::Streams, address)? {
        Carrier::Diverted(options) => Some(options),
        _ => None,
    }
}

fn carrier_for(service: Service, address: SocketAddr) -> Option<&'static Carrier> {
    let mut rules = RULES.get()?.iter();
    let rule = rules.find(|rule| rule.matches(service, address))?;
    Some(&rule.carrier)
}

/// Puts a stream over a UDP socket whose `address`, its peer's or its own, a rule names; errno stays as it was.
pub(super) fn adopt_datagrams(fd: libc::c_int, address: Option<SocketAddr>) {
    let carrier = address.and_then(|address| carrier_for(Service::Datagrams, address));
    let (Some(Carrier::Datagrams { deferred }), Some(library)) = (carrier, loaded()) else {
        return;
    };
    // SAFETY: no memory is passed.
    let is_known = unsafe { (library.has_datagrams)(fd) } != 0;
    if is_known || !is_of(fd, libc::IPPROTO_UDP) || !may_divert() {
        return;
    }
    // SAFETY: errno is this thread's own; no memory is passed.
    unsafe {
        let errno = *libc::__errno_location();
        // Where it cannot be, the socket is the kernel's.
        if (library.adopt_datagrams)(fd, (*deferred).into()) == 0 {
            note_owner();
        }
        *libc::__errno_location() = errno;
    }
}

/// This process has libtowpath's threads.
fn note_owner() {
    OWNER.store(std::process::id().cast_signed(), Ordering::Release);
    IS_DIVERTING.store(true, Ordering::Release);
}

/// A number that the kernel says of a socket.
fn number(fd: libc::c_int, name: libc::c_int) -> Option<libc::c_int> {
    let mut value: libc::c_int = 0;
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    let place = (&raw mut value).cast::<c_void>();
    // SAFETY: the number is as long as is said.
    let done = unsafe { next::getsockopt(fd, libc::SOL_SOCKET, name, place, &raw mut len) };
    (done == 0).then_some(value)
}

/// Whether a descriptor is a TCP socket of the kernel.
pub(super) fn is_tcp(fd: libc::c_int) -> bool {
    is_of(fd, libc::IPPROTO_TCP)
}

/// Whether a descriptor is a socket of the kernel of a protocol of the Internet.
fn is_of(fd: libc::c_int, protocol: libc::c_int) -> bool {
    let domain = number(fd, libc::SO_DOMAIN);
    matches!(domain, Some(libc::AF_INET | libc::AF_INET6))
        && number(fd, libc::SO_PROTOCOL) == Some(protocol)
}

/// Whether this process has libtowpath's threads, or none has: a forked child has none of its parent's.
fn owns_threads() -> bool {
    let owner = OWNER.load(Ordering::Acquire);
    owner == 0 || owner == std::process::id().cast_signed()
}

/// Whether `fd` is what a forked child has of its parent's listener, a socket without connections to accept. Says once
/// what to do instead.
pub(super) fn is_parents_listener(fd: libc::c_int) -> bool {
    let is_ours = !owns_threads()
        && number(fd, libc::SO_DOMAIN) == Some(libc::AF_UNIX)
        && number(fd, libc::SO_ACCEPTCONN) == Some(0);
    if is_ours && !ACCEPT_IS_NOTIFIED.swap(true, Ordering::Relaxed) {
        super::start::print_error(
            "towpath: a forked child cannot accept from its parent's listener; accept where listen was called, or fork before listen\n",
        );
    }
    is_ours
}

/// Whether this process may divert.
pub(super) fn may_divert() -> bool {
    if owns_threads() {
        return true;
    }
    if !CHILD_IS_NOTIFIED.swap(true, Ordering::Relaxed) {
        super::start::print_error(
            "towpath: a forked child cannot divert connections; its new ones are the kernel's\n",
        );
    }
    false
}

/// Makes a socket of libtowpath with `options`.
/// Errors: the number of the option that was refused, or None; errno says why.
pub(super) fn make(
    library: &Library,
    options: &[String],
    nonblocking: bool,
) -> Result<libc::c_int, Option<usize>> {
    let nonblocking = if nonblocking { libc::SOCK_NONBLOCK } else { 0 };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | nonblocking;
    // SAFETY: no memory is passed.
    let made = unsafe { (library.socket)(PF_XTP, kind, 0) };
    if made < 0 {
        return Err(None);
    }
    for (index, option) in options.iter().enumerate() {
        let len = option.len() as libc::socklen_t;
        // SAFETY: the text is as long as is said.
        let done =
            unsafe { (library.setsockopt)(made, SOL_XTP, XTP_OPTION, option.as_ptr().cast(), len) };
        if done != 0 {
            discard(library, made);
            return Err(Some(index));
        }
    }
    Ok(made)
}

/// Closes a socket of libtowpath and keeps errno.
pub(super) fn discard(library: &Library, fd: libc::c_int) {
    // SAFETY: errno is this thread's own; the descriptor is the caller's.
    unsafe {
        let errno = *libc::__errno_location();
        (library.close)(fd);
        *libc::__errno_location() = errno;
    }
}

/// Replaces the socket behind `fd`; its address, linger time and time limits are kept. Returns what it was registered
/// for with epoll, to be registered again when it listens or connects.
/// Errors: errno says why, and the socket is as it was.
pub(super) fn replace(fd: libc::c_int, options: &[String]) -> Result<Vec<Registration>, ()> {
    let library = loaded().ok_or(())?;
    // SAFETY: no memory is passed.
    let (status, flags) = unsafe {
        (
            next::fcntl(fd, libc::F_GETFL, 0),
            next::fcntl(fd, libc::F_GETFD, 0),
        )
    };
    let made = make(library, options, status & libc::O_NONBLOCK != 0).map_err(drop)?;
    copy_options(fd, made);
    if let Some((storage, len, local)) = address::bound(fd)
        && local.port() != 0
    {
        let place = (&raw const storage).cast::<libc::sockaddr>();
        // SAFETY: the address is as long as is said.
        if unsafe { (library.bind)(made, place, len) } != 0 {
            discard(library, made);
            return Err(());
        }
    }
    let cloexec = if flags & libc::FD_CLOEXEC != 0 {
        libc::O_CLOEXEC
    } else {
        0
    };
    let registered = registrations::take(fd);
    // SAFETY: `fd` is the program's own socket, which it gives to this call; `made` is this function's.
    let done = unsafe { next::dup3(made, fd, cloexec) };
    if done < 0 {
        registrations::put(None, fd, &registered);
        discard(library, made);
        return Err(());
    }
    // SAFETY: `made` is this function's; `fd` keeps its socket open.
    unsafe { next::close(made) };
    note_owner();
    Ok(registered)
}

fn copy_options(from: libc::c_int, to: libc::c_int) {
    for name in [libc::SO_LINGER, libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let mut value = [0u8; 16];
        let mut len = value.len() as libc::socklen_t;
        let place = value.as_mut_ptr().cast::<c_void>();
        // SAFETY: no more octets are written and read than are there. What cannot be copied has its default.
        unsafe {
            if next::getsockopt(from, libc::SOL_SOCKET, name, place, &raw mut len) == 0 {
                next::setsockopt(to, libc::SOL_SOCKET, name, place, len);
            }
        }
    }
}
