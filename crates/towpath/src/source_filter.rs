//! A socket filter (SO_ATTACH_FILTER) that passes packets of one source address.
//!
//! Packets from other addresses are dropped before TCP answers a SYN or an engine sees a packet, so
//! that a spoofed source address never causes a reply.
//!
//! Some kernels refuse such filters on TCP sockets of unprivileged users. There the kernel
//! completes the handshake of a connection from another address, which validates that address, and
//! the connection is closed before any data.

use socket2::{Domain, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use wire_udp::packet_filter;

/// Attaches a filter that passes packets from `only`; None attaches nothing.
pub(crate) fn attach(socket: BorrowedFd<'_>, only: Option<IpAddr>) -> io::Result<()> {
    match only {
        Some(address) => {
            SockRef::from(&socket).attach_filter(&packet_filter::source_filter(address))
        }
        None => Ok(()),
    }
}

/// [`attach`], if the kernel permits it to this user; otherwise [`accepts_source`] must check each
/// accepted connection.
pub(crate) fn attach_if_permitted(socket: BorrowedFd<'_>, only: Option<IpAddr>) -> io::Result<()> {
    let refused = [libc::EPERM, libc::EOPNOTSUPP, libc::ENOPROTOOPT].map(Some);
    match attach(socket, only) {
        Err(error) if refused.contains(&error.raw_os_error()) => Ok(()),
        other => other,
    }
}

/// A UDP socket at `local` with the filter attached before it is bound, so that no packet of another
/// source is ever queued.
pub(crate) fn bind_udp(local: SocketAddr, only: Option<IpAddr>) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, None)?;
    attach(socket.as_fd(), only)?;
    socket.bind(&local.into())?;
    Ok(socket.into())
}

/// Whether an accepted connection comes from `only`.
pub(crate) fn accepts_source(socket: &Socket, only: Option<IpAddr>) -> bool {
    let Some(only) = only else {
        return true;
    };
    let from = socket.peer_addr().ok().and_then(|from| from.as_socket());
    from.is_some_and(|from| from.ip().to_canonical() == only)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Whether what `client` sends passes the filter. Loop-back delivers packets of one thread in order: what passed is there once
    /// the second packet is, which has no filter before it.
    fn receives(server: &str, only: &str, client: &str) -> bool {
        let bound = |at: &str| UdpSocket::bind((at, 0)).expect("a socket");
        let (filtered, open, client) = (bound(server), bound(server), bound(client));
        let only = only.parse().expect("an address");
        attach(filtered.as_fd(), Some(only)).expect("a filter");
        for socket in [&filtered, &open] {
            let to = socket.local_addr().expect("an address");
            client.send_to(b"knock", to).expect("it is sent");
        }
        open.recv(&mut [0; 9]).expect("no filter refuses it");
        filtered.set_nonblocking(true).expect("a flag");
        filtered.recv(&mut [0; 9]).is_ok()
    }

    #[test]
    fn bind_udp_under_a_flood_queues_nothing_of_others() {
        let mut bound = 0;
        // Another program may take the port between two binds; the next round has another one.
        for _ in 0..20 {
            bound += bind_under_a_flood(100);
        }
        assert!(bound >= 1000, "only {bound} binds found a free port");
    }

    /// Binds one address `most` times, or until its port is taken, while another source sends to it;
    /// returns how often it was bound.
    fn bind_under_a_flood(most: usize) -> usize {
        let only: IpAddr = "127.0.0.2".parse().expect("an address");
        let local = format!("127.91.{}.1:0", std::process::id() % 250);
        let local = UdpSocket::bind(local).expect("a socket").local_addr();
        let local = local.expect("an address");
        // Dropped when the binds end, also by a panic, and ends the flood.
        let (binds, binds_over) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let flood = UdpSocket::bind("127.0.0.3:0").expect("a socket");
                while binds_over.try_recv() == Err(mpsc::TryRecvError::Empty) {
                    // Refused as long as nothing is bound there.
                    let _ = flood.send_to(b"knock", local);
                }
            });
            let _binds = binds;
            let is_bound = |_: &usize| match bind_udp(local, Some(only)) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => false,
                socket => {
                    let socket = socket.expect("a socket");
                    socket.set_nonblocking(true).expect("a flag");
                    assert!(socket.recv(&mut [0; 9]).is_err());
                    true
                }
            };
            (0..most).take_while(is_bound).count()
        })
    }

    #[test]
    fn filter_passes_only_the_permitted_source() {
        assert!(receives("127.0.0.1", "127.0.0.2", "127.0.0.2"));
        assert!(!receives("127.0.0.1", "127.0.0.2", "127.0.0.3"));
        if UdpSocket::bind("[::1]:0").is_err() {
            eprintln!("SKIPPED: this host has no IPv6");
            return;
        }
        assert!(receives("::1", "::1", "::1"));
        for other in ["::2", "1::1", "0:0:1::1", "::1:0:1"] {
            assert!(!receives("::1", other, "::1"), "{other}");
        }
    }
}
