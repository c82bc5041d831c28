//! TAP devices.

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Offloads that the device accepts from the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TapOffloads {
    /// None: frames as on the wire.
    None,
    /// Checksums and segmentation, described in a virtio header.
    Full,
}

/// UDP segmentation, missing in the C library's headers (`<linux/if_tun.h>`).
const TUN_F_USO: u32 = 0x20 | 0x40;

/// Creates a non-blocking TAP device called `name` in the calling thread's network namespace. It is
/// removed with the descriptor.
pub(crate) fn open_tap(name: &str, offloads: TapOffloads) -> io::Result<OwnedFd> {
    let path = c"/dev/net/tun";
    let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
    // SAFETY: the path is a constant string with its zero.
    let raw = unsafe { libc::open(path.as_ptr(), flags) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, owned from here on.
    let tap = unsafe { OwnedFd::from_raw_fd(raw) };
    attach(&tap, name, offloads)?;
    if offloads == TapOffloads::Full {
        enable_offloads(&tap)?;
    }
    Ok(tap)
}

fn attach(tap: &OwnedFd, name: &str, offloads: TapOffloads) -> io::Result<()> {
    // SAFETY: ifreq is plain data for which all zeros is a value.
    let mut request: libc::ifreq = unsafe { mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    let header = match offloads {
        TapOffloads::None => 0,
        TapOffloads::Full => libc::IFF_VNET_HDR,
    };
    request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI | header) as libc::c_short;
    // SAFETY: the request is a live ifreq, which the kernel reads and writes.
    let result = unsafe { libc::ioctl(tap.as_raw_fd(), libc::TUNSETIFF as _, &raw mut request) };
    check(result)
}

/// Older kernels lack UDP segmentation.
fn enable_offloads(tap: &OwnedFd) -> io::Result<()> {
    let known = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
    let take = |flags: u32| {
        // SAFETY: this request takes a number and no pointer.
        let result = unsafe {
            libc::ioctl(
                tap.as_raw_fd(),
                libc::TUNSETOFFLOAD as _,
                libc::c_ulong::from(flags),
            )
        };
        check(result)
    };
    take(known | TUN_F_USO).or_else(|_| take(known))
}

fn check(result: i32) -> io::Result<()> {
    if result >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
