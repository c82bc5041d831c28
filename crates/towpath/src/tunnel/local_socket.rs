//! The local sockets whose connections a tunnel carries.

use super::{CircuitUser, SharedWatch};
use crate::xtp::Circuit;
use engine::AssociationId;
use socket2::SockRef;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// A stream socket.
pub trait LocalSocket: Read + Write + AsFd + Send {
    /// Configures the socket for the tunnel: non-blocking.
    ///
    /// # Errors
    ///
    /// Those of the system call, as for all calls of this trait.
    fn configure(&self) -> io::Result<()>;

    /// Called when the circuit's handshake is complete; the socket is read from now on.
    ///
    /// # Errors
    ///
    /// Any error resets the connection.
    fn on_connected(&self) -> io::Result<()> {
        Ok(())
    }

    /// Reads into `pieces`, one after the other, in one system call. Errors are those of [`Read::read`].
    fn read_pieces(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize>;

    /// Ends the write direction.
    ///
    /// # Errors
    ///
    /// Any error resets the connection.
    fn shutdown_write(&self) -> io::Result<()>;

    /// Returns and clears the pending error (SO_ERROR).
    ///
    /// # Errors
    ///
    /// Any error resets the connection.
    fn take_error(&self) -> io::Result<Option<io::Error>>;

    /// Who may move the circuit's data in place of the tunnel, if anybody.
    fn user(&self) -> Option<Arc<dyn CircuitUser>>;

    /// Makes the coming close a reset; `why` is the error that caused it, if known.
    fn reset(&self, why: Option<&io::Error>);
}

impl LocalSocket for TcpStream {
    fn configure(&self) -> io::Result<()> {
        self.set_nonblocking(true)?;
        // XTP coalesces small messages; Nagle's algorithm would only delay them.
        self.set_nodelay(true)
    }

    fn read_pieces(&mut self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.read_vectored(pieces)
    }

    fn shutdown_write(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        TcpStream::take_error(self)
    }

    fn user(&self) -> Option<Arc<dyn CircuitUser>> {
        None
    }

    fn reset(&self, _why: Option<&io::Error>) {
        // SO_LINGER 0: close sends RST. Fails only if the connection is gone already.
        let _ = SockRef::from(self).set_linger(Some(Duration::ZERO));
    }
}

/// Sockets that a program hands over. The tunnel ends when all senders of `incoming` are gone and
/// all connections have ended.
pub struct ExternalSockets {
    /// Sockets with their circuits.
    pub incoming: Receiver<(Box<dyn LocalSocket>, Circuit)>,
    /// The endpoint's watch; the tunnel is woken by it when `incoming` has entries.
    pub watch: Arc<SharedWatch>,
    /// Timeout of a handshake with a peer.
    pub handshake_timeout: Duration,
    /// Makes the socket for a circuit that the peer at an address opened.
    pub make_socket: MakeSocket,
}

/// Makes the socket for a circuit, from its peer and its number within the endpoint.
pub type MakeSocket =
    Box<dyn FnMut(SocketAddr, AssociationId) -> io::Result<Box<dyn LocalSocket>> + Send>;
