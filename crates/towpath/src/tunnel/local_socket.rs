//! The sockets that connections are carried between and circuits.

use crate::xtp::Circuit;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A socket of a byte stream.
pub trait LocalSocket: Read + Write + AsFd + Send {
    /// Makes it ready to be carried: its calls must not wait.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn configure(&self) -> io::Result<()>;

    /// The peer's answer has come: what its other end sends may be read from now on.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn on_connected(&self) -> io::Result<()> {
        Ok(())
    }

    /// Ends the direction towards its other end.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn shutdown_write(&self) -> io::Result<()>;

    /// The error it had, if any, which is forgotten then.
    ///
    /// # Errors
    ///
    /// The kernel's.
    fn take_error(&self) -> io::Result<Option<io::Error>>;

    /// Makes its end a break, which the other end sees as one; `why`, if it is not the socket's own.
    fn reset(&self, why: Option<&io::Error>);
}

impl LocalSocket for TcpStream {
    fn configure(&self) -> io::Result<()> {
        self.set_nonblocking(true)?;
        // What is to wait for company waits in XTP.
        self.set_nodelay(true)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        TcpStream::take_error(self)
    }

    fn reset(&self, _why: Option<&io::Error>) {
        // One that is gone needs no break.
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

/// What a program hands over to be carried, until nobody is left who could: the forwarder ends when
/// all senders of `more` are gone and all connections have ended.
pub struct ExternalSockets {
    /// Sockets with the circuits they belong to.
    pub incoming: Receiver<(Box<dyn LocalSocket>, Circuit)>,
    /// An event descriptor that does not block; a number is written to it when there are some.
    pub event_fd: OwnedFd,
    /// How long a peer may take to answer an opening.
    pub handshake_timeout: Duration,
    /// Gives a socket for a circuit that a peer opened from an address.
    pub make_socket: Box<dyn FnMut(SocketAddr) -> io::Result<Box<dyn LocalSocket>> + Send>,
}
