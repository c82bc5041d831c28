//! Binding of raw sockets.

use crate::packet_filter::{destination_filter, pair_filter};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

/// Binds a raw socket, so that it delivers packets to `address` only.
///
/// The kernel queues packets on a raw socket from its creation on, and until it is bound they may be to
/// any address of the host (raw(7)). Therefore a filter passes those to `address`, and what came before
/// the filter is taken out. The filter stays: the kernel may have looked up the socket before it was
/// bound and queue the packet later. An unspecified address has no filter.
///
/// # Errors
///
/// Those of bind(2), and of SO_ATTACH_FILTER.
pub fn bind(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    if address.ip().is_unspecified() {
        return Ok(rustix::net::bind(socket, &address)?);
    }
    SockRef::from(&socket).attach_filter(&destination_filter(address.ip()))?;
    bind_filtered(socket, address)
}

/// The same for packets from `peer` alone, permanently: the filter is locked (SO_LOCK_FILTER), so that who gets the
/// socket from this process cannot receive others. Errors are those of [`bind`].
pub fn bind_to_pair(socket: BorrowedFd<'_>, local: IpAddr, peer: IpAddr) -> io::Result<()> {
    SockRef::from(&socket).attach_filter(&pair_filter(local, peer))?;
    crate::sys::set_option(socket, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, 1)?;
    bind_filtered(socket, SocketAddr::new(local, 0))
}

/// Binds a socket that has its filter, and takes out what came before the filter.
fn bind_filtered(socket: BorrowedFd<'_>, address: SocketAddr) -> io::Result<()> {
    rustix::net::bind(socket, &address)?;
    while matches!(
        recv(socket, &mut [0u8; 1], RecvFlags::DONTWAIT),
        Ok(_) | Err(Errno::INTR)
    ) {}
    Ok(())
}
