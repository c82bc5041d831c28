//! Addresses of the loop-back, and the sockets behind them.

use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Octets of the longest address.
pub(super) const NAME_MAX: usize = 64;

/// Connections that the kernel keeps before they are looked at.
const BACKLOG: i32 = 1024;

/// Names that are tried for an end that does not care: others may have taken some.
const TRIES: u32 = 1000;

static NEXT_NAME: AtomicU32 = AtomicU32::new(1);

/// The abstract name behind an address of a provider.
/// Fails with `InvalidInput` for an address of no octets, or more than [`NAME_MAX`].
fn socket_name(provider: &str, address: &[u8]) -> io::Result<SockAddr> {
    if address.is_empty() || address.len() > NAME_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    use std::os::unix::ffi::OsStrExt;
    let name = [b"\0towpath-", provider.as_bytes(), b"/", address].concat();
    SockAddr::unix(std::ffi::OsStr::from_bytes(&name))
}

/// A name that this process has not given yet.
pub(super) fn new_address() -> Vec<u8> {
    let number = NEXT_NAME.fetch_add(1, Ordering::Relaxed);
    format!("{}-{number}", std::process::id()).into_bytes()
}

/// A socket that accepts at an address, or at a new one for an address of no octets, and the address.
/// Errors: that of the address, `AddrInUse`, and what the system refuses.
pub(super) fn listen(provider: &str, address: &[u8]) -> io::Result<(Socket, Vec<u8>)> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let address = match address {
        [] => bind_anywhere(&socket, provider)?,
        address => {
            socket.bind(&socket_name(provider, address)?)?;
            address.to_vec()
        }
    };
    socket.set_nonblocking(true)?;
    socket.listen(BACKLOG)?;
    Ok((socket, address))
}

fn bind_anywhere(socket: &Socket, provider: &str) -> io::Result<Vec<u8>> {
    for _ in 0..TRIES {
        let address = new_address();
        match socket.bind(&socket_name(provider, &address)?) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            bound => return bound.map(|()| address),
        }
    }
    Err(io::ErrorKind::AddrNotAvailable.into())
}

/// A socket that is connected to an address. It does not wait: where as many wait to be accepted as may, the
/// kernel refuses. Errors: that of the address; `ConnectionRefused` when nobody listens there.
pub(super) fn connect(provider: &str, address: &[u8]) -> io::Result<Socket> {
    let name = socket_name(provider, address)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&name)?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// The next socket that a peer connected; None when there is none.
pub(super) fn accept(listener: &Socket) -> Option<Socket> {
    loop {
        match listener.accept() {
            Ok((socket, _)) => return Some(socket),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(_) => return None,
        }
    }
}

/// Whether the opening of a channel has come over a socket, which goes as one piece. Errors: the peer is gone.
pub(super) fn has_opening(socket: &Socket) -> io::Result<bool> {
    use rustix::net::{RecvFlags, recv};
    let mut first = [0; 1];
    match recv(socket, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((0, _)) => Err(io::ErrorKind::ConnectionReset.into()),
        Ok(_) => Ok(true),
        Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Sockets of peers that have connected and sent nothing yet, at most.
pub(super) const ARRIVING_MAX: usize = 64;
