//! The calls of libtowpath, loaded when a rule needs them.

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

type In = *const libc::sockaddr;
type Out = *mut libc::sockaddr;
type Len = *mut libc::socklen_t;
type Int = libc::c_int;
// SAFETY: types only; callers pass what `towpath.h` asks for.
type SocketCall = unsafe extern "C" fn(Int, Int, Int) -> Int;
type AddressCall = unsafe extern "C" fn(Int, In, libc::socklen_t) -> Int;
type NumberCall = unsafe extern "C" fn(Int, Int) -> Int;
type AcceptCall = unsafe extern "C" fn(Int, Out, Len, Int) -> Int;
// SAFETY: as above.
type NameCall = unsafe extern "C" fn(Int, Out, Len) -> Int;
type GetCall = unsafe extern "C" fn(Int, Int, Int, *mut c_void, Len) -> Int;
type SetCall = unsafe extern "C" fn(Int, Int, Int, *const c_void, libc::socklen_t) -> Int;
// SAFETY: as above.
type CloseCall = unsafe extern "C" fn(Int) -> Int;

/// libtowpath's calls, as its `towpath.h` has them.
pub(super) struct Library {
    pub(super) socket: SocketCall,
    pub(super) bind: AddressCall,
    pub(super) listen: NumberCall,
    pub(super) accept4: AcceptCall,
    pub(super) connect: AddressCall,
    pub(super) getsockname: NameCall,
    pub(super) getpeername: NameCall,
    pub(super) getsockopt: GetCall,
    pub(super) setsockopt: SetCall,
    pub(super) shutdown: NumberCall,
    pub(super) close: CloseCall,
}

static LIBRARY: OnceLock<Library> = OnceLock::new();

/// The library, once it was loaded.
pub(super) fn loaded() -> Option<&'static Library> {
    LIBRARY.get()
}

/// Loads libtowpath.so: the one beside this library, or else where the system looks for libraries.
///
/// # Errors
///
/// The loader's text.
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

fn read_symbols(handle: *mut c_void) -> Result<Library, String> {
    let find = |name: &CStr| {
        // SAFETY: the handle is open and the name ends with a null.
        let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
        if symbol.is_null() {
            Err(loader_error())
        } else {
            Ok(symbol)
        }
    };
    macro_rules! symbol {
        ($name:literal, $kind:ty) => {
            // SAFETY: the library's function of this name has this type.
            unsafe { std::mem::transmute::<*mut c_void, $kind>(find($name)?) }
        };
    }
    Ok(Library {
        socket: symbol!(c"towpath_socket", SocketCall),
        bind: symbol!(c"towpath_bind", AddressCall),
        listen: symbol!(c"towpath_listen", NumberCall),
        accept4: symbol!(c"towpath_accept4", AcceptCall),
        connect: symbol!(c"towpath_connect", AddressCall),
        getsockname: symbol!(c"towpath_getsockname", NameCall),
        getpeername: symbol!(c"towpath_getpeername", NameCall),
        getsockopt: symbol!(c"towpath_getsockopt", GetCall),
        setsockopt: symbol!(c"towpath_setsockopt", SetCall),
        shutdown: symbol!(c"towpath_shutdown", NumberCall),
        close: symbol!(c"towpath_close", CloseCall),
    })
}
