//! The calls that this library stands in front of.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The next definition of `name` behind this library, found once.
pub(super) fn next_symbol(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a null.
    let symbol = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    if symbol.is_null() {
        // There is no libc without these calls, and none of them can be made without it.
        std::process::abort();
    }
    found.store(symbol, Ordering::Relaxed);
    symbol
}

/// Where a symbol is remembered.
pub(super) const fn unknown() -> AtomicPtr<c_void> {
    AtomicPtr::new(null_mut())
}

/// Defines functions that make the system's call of a name.
macro_rules! next_calls {
    ($($name:ident: $text:literal ($($arg:ident: $kind:ty),*) $(-> $result:ty)?;)*) => {$(
        /// The system's call.
        ///
        /// # Safety
        ///
        /// As the call's own.
        pub(super) unsafe fn $name($($arg: $kind),*) -> next_result!($($result)?) {
            static FOUND: AtomicPtr<c_void> = unknown();
            let symbol = next_symbol(&FOUND, $text);
            type Call = unsafe extern "C" fn($($kind),*) -> next_result!($($result)?);
            // SAFETY: libc's function of this name has this type.
            let call = unsafe { std::mem::transmute::<*mut c_void, Call>(symbol) };
            // SAFETY: the caller's promise.
            unsafe { call($($arg),*) }
        }
    )*};
}

/// What a call returns: a number, unless something else is said.
macro_rules! next_result {
    () => {
        libc::c_int
    };
    ($result:ty) => {
        $result
    };
}

pub(super) use next_result;

pub(super) type In = *const libc::sockaddr;
pub(super) type Out = *mut libc::sockaddr;
pub(super) type Len = *mut libc::socklen_t;
pub(super) type Int = libc::c_int;
pub(super) type Octets = *const c_void;
pub(super) type Buffer = *mut c_void;
pub(super) type Parts = *const libc::iovec;
type Message = *const libc::msghdr;
type MessageBuffer = *mut libc::msghdr;
type Messages = *mut libc::mmsghdr;
pub(super) type Events = *mut libc::epoll_event;
type Polls = *mut libc::pollfd;
type Time = *const libc::timespec;
type Mask = *const libc::sigset_t;
type Set = *mut libc::fd_set;
type Place = *mut libc::off_t;
pub(super) type Size = libc::size_t;
pub(super) type Done = libc::ssize_t;
type Text = *const libc::c_char;
type Words = *const *const libc::c_char;

next_calls! {
    bind: c"bind" (fd: Int, address: In, len: libc::socklen_t);
    connect: c"connect" (fd: Int, address: In, len: libc::socklen_t);
    listen: c"listen" (fd: Int, backlog: Int);
    accept: c"accept" (fd: Int, address: Out, len: Len);
    accept4: c"accept4" (fd: Int, address: Out, len: Len, flags: Int);
    getsockname: c"getsockname" (fd: Int, address: Out, len: Len);
    getpeername: c"getpeername" (fd: Int, address: Out, len: Len);
    getsockopt: c"getsockopt" (fd: Int, level: Int, name: Int, value: Buffer, len: Len);
    setsockopt: c"setsockopt" (fd: Int, level: Int, name: Int, value: Octets, len: libc::socklen_t);
    shutdown: c"shutdown" (fd: Int, how: Int);
    close: c"close" (fd: Int);

    read: c"read" (fd: Int, buffer: Buffer, len: Size) -> Done;
    readv: c"readv" (fd: Int, parts: Parts, count: Int) -> Done;
    recv: c"recv" (fd: Int, buffer: Buffer, len: Size, flags: Int) -> Done;
    recvfrom: c"recvfrom" (fd: Int, buffer: Buffer, len: Size, flags: Int, address: Out, address_len: Len) -> Done;
    recvmsg: c"recvmsg" (fd: Int, message: MessageBuffer, flags: Int) -> Done;
    read_chk: c"__read_chk" (fd: Int, buffer: Buffer, len: Size, room: Size) -> Done;
    recv_chk: c"__recv_chk" (fd: Int, buffer: Buffer, len: Size, room: Size, flags: Int) -> Done;
    recvfrom_chk: c"__recvfrom_chk"
        (fd: Int, buffer: Buffer, len: Size, room: Size, flags: Int, address: Out, address_len: Len) -> Done;
    write: c"write" (fd: Int, octets: Octets, len: Size) -> Done;
    writev: c"writev" (fd: Int, parts: Parts, count: Int) -> Done;
    send: c"send" (fd: Int, octets: Octets, len: Size, flags: Int) -> Done;
    sendto: c"sendto" (fd: Int, octets: Octets, len: Size, flags: Int, address: In, address_len: libc::socklen_t) -> Done;
    sendmsg: c"sendmsg" (fd: Int, message: Message, flags: Int) -> Done;

    epoll_ctl: c"epoll_ctl" (set: Int, operation: Int, fd: Int, event: Events);
    epoll_wait: c"epoll_wait" (set: Int, events: Events, count: Int, timeout_ms: Int);
    epoll_pwait: c"epoll_pwait" (set: Int, events: Events, count: Int, timeout_ms: Int, mask: Mask);

    epoll_pwait2: c"epoll_pwait2" (set: Int, events: Events, count: Int, timeout: Time, mask: Mask);
    poll: c"poll" (polls: Polls, count: libc::nfds_t, timeout_ms: Int);
    poll_chk: c"__poll_chk" (polls: Polls, count: libc::nfds_t, timeout_ms: Int, room: Size);
    ppoll: c"ppoll" (polls: Polls, count: libc::nfds_t, timeout: Time, mask: Mask);
    ppoll_chk: c"__ppoll_chk" (polls: Polls, count: libc::nfds_t, timeout: Time, mask: Mask, room: Size);
    select: c"select" (count: Int, reads: Set, writes: Set, excepts: Set, timeout: *mut libc::timeval);
    pselect: c"pselect" (count: Int, reads: Set, writes: Set, excepts: Set, timeout: Time, mask: Mask);
    dup: c"dup" (fd: Int);
    dup2: c"dup2" (fd: Int, target: Int);
    dup3: c"dup3" (fd: Int, target: Int, flags: Int);
    fcntl: c"fcntl" (fd: Int, command: Int, value: usize);
    fcntl64: c"fcntl64" (fd: Int, command: Int, value: usize);
    ioctl: c"ioctl" (fd: Int, request: libc::c_ulong, value: usize);
    fdopen: c"fdopen" (fd: Int, mode: Text) -> *mut libc::FILE;
    recvmmsg: c"recvmmsg" (fd: Int, messages: Messages, count: libc::c_uint, flags: Int, timeout: *mut libc::timespec);
    sendmmsg: c"sendmmsg" (fd: Int, messages: Messages, count: libc::c_uint, flags: Int);
    sendfile: c"sendfile" (to: Int, from: Int, place: Place, len: Size) -> Done;
    sendfile64: c"sendfile64" (to: Int, from: Int, place: Place, len: Size) -> Done;
    splice: c"splice" (from: Int, from_place: Place, to: Int, to_place: Place, len: Size, flags: libc::c_uint) -> Done;
    tee: c"tee" (from: Int, to: Int, len: Size, flags: libc::c_uint) -> Done;
    vmsplice: c"vmsplice" (fd: Int, parts: Parts, count: Size, flags: libc::c_uint) -> Done;
    close_range: c"close_range" (first: libc::c_uint, last: libc::c_uint, flags: Int);
    pipe: c"pipe" (ends: *mut Int);
    pipe2: c"pipe2" (ends: *mut Int, flags: Int);
    socketpair: c"socketpair" (family: Int, kind: Int, protocol: Int, ends: *mut Int);
    posix_spawn: c"posix_spawn" (process: *mut libc::pid_t, path: Text, actions: Buffer, attributes: Buffer, words: Words, environment: Words);
    posix_spawnp: c"posix_spawnp" (process: *mut libc::pid_t, path: Text, actions: Buffer, attributes: Buffer, words: Words, environment: Words);
    system: c"system" (command: Text);
    popen: c"popen" (command: Text, mode: Text) -> *mut libc::FILE;
    execve: c"execve" (path: Text, words: Words, environment: Words);
    execv: c"execv" (path: Text, words: Words);
    execvp: c"execvp" (path: Text, words: Words);
    execvpe: c"execvpe" (path: Text, words: Words, environment: Words);
    fexecve: c"fexecve" (fd: Int, words: Words, environment: Words);
    spawn_dup2: c"posix_spawn_file_actions_adddup2" (actions: Buffer, fd: Int, target: Int);
}
