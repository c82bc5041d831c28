//! Offload settings of interfaces (ethtool(8)).

use std::io;
use std::mem;
use std::os::fd::AsRawFd;

/// Set commands of `<linux/ethtool.h>`: transmit checksum, TSO, GSO.
const OFFLOADS: [u32; 3] = [0x17, 0x1f, 0x24];

/// `SIOCETHTOOL` of `<linux/sockios.h>`.
const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    value: u32,
}

/// Switches these offloads off, so that the interface called `name` passes on frames as on the
/// wire: none larger than its MTU, all with checksums.
pub(crate) fn disable_offloads(name: &str) -> io::Result<()> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    OFFLOADS.iter().try_for_each(|&command| {
        let mut setting = EthtoolValue { command, value: 0 };
        // SAFETY: ifreq is plain data for which all zeros is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        let room = request.ifr_name.len() - 1;
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut setting).cast();
        // SAFETY: the request is a live ifreq that points to a live setting, which the kernel
        // reads.
        let result = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
        check(result)
    })
}

fn check(result: i32) -> io::Result<()> {
    if result >= 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
