//! The calls of libtowpath, loaded when a rule needs them.

use super::next::{Buffer, Done, Events, In, Int, Len, Octets, Out, Parts, Size, next_result};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

/// Defines libtowpath's calls, and how they are found.
macro_rules! library {
    ($($name:ident: $text:literal ($($kind:ty),*) $(-> $result:ty)?;)*) => {
        /// libtowpath's calls, as its `towpath.h` has them, and those for direct connections, which are in no header.
        pub(super) struct Library {
            // SAFETY: a type only; callers pass what the library asks for.
            $(pub(super) $name: unsafe extern "C" fn($($kind),*) -> next_result!($($result)?),)*
        }

        fn read_symbols(handle: *mut c_void) -> Result<Library, String> {
            Ok(Library {
                $($name: {
                    let found = symbol(handle, $text)?;
                    // SAFETY: a type only.
                    type Call = unsafe extern "C" fn($($kind),*) -> next_result!($($result)?);
                    // SAFETY: the library's function of this name has this type.
                    unsafe { std::mem::transmute::<*mut c_void, Call>(found) }
                },)*
            })
        }
    };
}

library! {
    socket: c"towpath_socket" (Int, Int, Int);
    bind: c"towpath_bind" (Int, In, libc::socklen_t);
    listen: c"towpath_listen" (Int, Int);
    accept4: c"towpath_accept4" (Int, Out, Len, Int);
    connect: c"towpath_connect" (Int, In, libc::socklen_t);
    getsockname: c"towpath_getsockname" (Int, Out, Len);
    getpeername: c"towpath_getpeername" (Int, Out, Len);
    getsockopt: c"towpath_getsockopt" (Int, Int, Int, Buffer, Len);
    setsockopt: c"towpath_setsockopt" (Int, Int, Int, Octets, libc::socklen_t);
    shutdown: c"towpath_shutdown" (Int, Int);
    close: c"towpath_close" (Int);
    read: c"towpath_read" (Int, Buffer, Size) -> Done;
    readv: c"towpath_readv" (Int, Parts, Int) -> Done;
    recv: c"towpath_recv" (Int, Buffer, Size, Int) -> Done;
    recvfrom: c"towpath_recvfrom" (Int, Buffer, Size, Int, Out, Len) -> Done;
    recvmsg: c"towpath_recvmsg" (Int, *mut libc::msghdr, Int) -> Done;
    write: c"towpath_write" (Int, Octets, Size) -> Done;
    writev: c"towpath_writev" (Int, Parts, Int) -> Done;
    send: c"towpath_send" (Int, Octets, Size, Int) -> Done;
    sendto: c"towpath_sendto" (Int, Octets, Size, Int, In, libc::socklen_t) -> Done;
    sendmsg: c"towpath_sendmsg" (Int, *const libc::msghdr, Int) -> Done;
    adopt_datagrams: c"towpath_adopt_datagrams" (Int, Int);
    has_datagrams: c"towpath_has_datagrams" (Int);
    pipe2: c"towpath_pipe2" (*mut Int, Int);
    socketpair: c"towpath_socketpair" (Int, Int, Int, *mut Int);
    before_spawn: c"towpath_before_spawn" () -> ();
    direct_enable: c"towpath_direct_enable" ();
    leave_to_kernel: c"towpath_leave_to_kernel" (Int);
    before_close: c"towpath_before_close" (Int, Int) -> ();
    epoll_ctl: c"towpath_epoll_ctl" (Int, Int, Int, Events);
    epoll_pwait: c"towpath_epoll_pwait" (Int, Events, Int, Int, *const libc::sigset_t);
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// The library, once it was loaded.
pub(super) fn loaded() -> Option<&'static Library> {
    LIBRARY.get()
}

/// Loads libtowpath.so: the one beside this library, or else where the system looks for libraries.
/// Errors: the loader's text.
pub(super) fn load() -> Result<&'static Library, String> {
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let beside = own_path().map(|path| path.with_file_name("libtowpath.so"));
    let beside = beside.filter(|path| path.exists());
    let path = beside.as_deref().unwrap_or(Path::new("libtowpath.so"));
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    // The library finds the system's calls before the ones interposed here, also in its own threads.
    let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_DEEPBIND;
    // SAFETY: the path ends with a null, and the library's initialization is Rust's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), flags) };
    if handle.is_null() {
        return Err(loader_error());
    }
    let library = read_symbols(handle)?;
    // Where it cannot be, a thread of the library moves the data.
    // SAFETY: no memory is passed.
    unsafe { (library.direct_enable)() };
    Ok(LIBRARY.get_or_init(|| library))
}

/// The file that this library was loaded from.
fn own_path() -> Option<std::path::PathBuf> {
    // SAFETY: all fields of the structure may be null.
    let mut about: libc::Dl_info = unsafe { std::mem::zeroed() };
    let here = (own_path as fn() -> Option<std::path::PathBuf>) as *const c_void;
    // SAFETY: the structure is there; the address is this function's.
    if unsafe { libc::dladdr(here, &raw mut about) } == 0 || about.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's text ends with a null and stays.
    let name = unsafe { CStr::from_ptr(about.dli_fname) };
    Some(std::ffi::OsStr::from_bytes(name.to_bytes()).into())
}

fn loader_error() -> String {
    // SAFETY: the text is this thread's until its next call of the loader.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "the loader gives no reason".into();
    }
    // SAFETY: it ends with a null.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_string_lossy().into_owned()
}

/// The library's symbol of a name.
fn symbol(handle: *mut c_void, name: &CStr) -> Result<*mut c_void, String> {
    // SAFETY: the handle is open and the name ends with a null.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    match symbol.is_null() {
        true => Err(loader_error()),
        false => Ok(symbol),
    }
}
