//! The functions of XTI for datagrams straight on the kernel's UDP sockets: each datagram is a system call.

use crate::endpoint::{Bound, Look, XtiReceived, XtiState};
use crate::error::{Error, TliError};
use crate::inet::{DATAGRAM_MAX, Setup, bind_error, decode, encode};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, SendFlags, recvmsg, sendto};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;

/// A transport endpoint of datagrams without a stream. One thread uses it at a time.
pub struct DatagramSocketEndpoint {
    setup: Setup,
    socket: Option<Socket>,
    /// What is left of a datagram that did not fit into the user's buffer, and how much of it the user has.
    rest: Vec<u8>,
    taken: usize,
    /// What a datagram ended with, until the user asks (T_UDERR).
    failed: Option<i32>,
    sends: u64,
    receives: u64,
}

impl DatagramSocketEndpoint {
    /// Opens an endpoint (t_open); its socket gets `setup`, which says how long calls wait.
    pub fn open(setup: Setup) -> DatagramSocketEndpoint {
        DatagramSocketEndpoint {
            setup,
            socket: None,
            rest: Vec::new(),
            taken: 0,
            failed: None,
            sends: 0,
            receives: 0,
        }
    }

    /// The state (t_getstate).
    pub fn state(&self) -> XtiState {
        match self.socket {
            None => XtiState::Unbound,
            Some(_) => XtiState::Idle,
        }
    }

    /// The socket, where there is one.
    pub fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    /// System calls that sent and that received.
    pub fn system_calls(&self) -> (u64, u64) {
        (self.sends, self.receives)
    }

    /// Binds to an address, empty for any (t_bind).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadAddress`, `AddressBusy`, `NoAddress`, `Access`, `System`.
    pub fn bind(&mut self, address: &[u8]) -> Result<Bound, Error> {
        if self.socket.is_some() {
            return Err(TliError::OutOfState.into());
        }
        let wanted = match address {
            [] => SocketAddr::from(([0, 0, 0, 0], 0)),
            octets => decode(octets).ok_or(TliError::BadAddress)?,
        };
        let socket = self.bound_socket(wanted).map_err(|error| {
            let (tli, errno) = bind_error(&error);
            Error { tli, errno }
        })?;
        let bound = socket.local_addr()?.as_socket();
        self.socket = Some(socket);
        Ok(Bound {
            address: encode(bound.unwrap_or(wanted)),
            queue_len: 0,
        })
    }

    fn bound_socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))?;
        (self.setup)(&socket)?;
        socket.bind(&SockAddr::from(address))?;
        Ok(socket)
    }

    /// Gives the address back (t_unbind).
    ///
    /// # Errors
    ///
    /// `OutOfState` before a bind.
    pub fn unbind(&mut self) -> Result<(), Error> {
        self.socket.take().ok_or(TliError::OutOfState)?;
        self.rest.clear();
        (self.taken, self.failed) = (0, None);
        Ok(())
    }

    /// Sends a datagram, waiting for room as long as the socket's own time-out says (t_sndudata).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadAddress`, `BadData` for one that is too long, `Flow` without room, `Look` when one ended
    /// with an error before: see [`DatagramSocketEndpoint::receive_error`].
    #[inline]
    pub fn send(&mut self, to: &[u8], octets: &[u8]) -> Result<(), Error> {
        self.transmit(to, octets, SendFlags::NOSIGNAL)
    }

    /// The same without waiting. Errors are those of [`DatagramSocketEndpoint::send`].
    #[inline]
    pub fn try_send(&mut self, to: &[u8], octets: &[u8]) -> Result<(), Error> {
        self.transmit(to, octets, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    #[inline]
    fn transmit(&mut self, to: &[u8], octets: &[u8], how: SendFlags) -> Result<(), Error> {
        let socket = self.socket.as_ref().ok_or(TliError::OutOfState)?;
        let to = decode(to).ok_or(TliError::BadAddress)?;
        if octets.len() > DATAGRAM_MAX {
            return Err(TliError::BadData.into());
        }
        if self.failed.is_some() {
            return Err(TliError::Look.into());
        }
        self.sends += 1;
        match sendto(socket, octets, how, &to) {
            Ok(_) => Ok(()),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Err(TliError::Flow.into()),
            Err(error) => Err(self.fail(error)),
        }
    }

    #[cold]
    fn fail(&mut self, error: rustix::io::Errno) -> Error {
        self.failed = Some(error.raw_os_error());
        TliError::Look.into()
    }

    /// Receives a datagram or the rest of one, waiting as long as the socket's own time-out says (t_rcvudata); where it
    /// came from is put into `source`.
    ///
    /// # Errors
    ///
    /// `OutOfState`, `NoData` after the time-out, `Look` for an error.
    #[inline]
    pub fn receive(
        &mut self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
    ) -> Result<XtiReceived, Error> {
        self.take(buffer, source, RecvFlags::empty())
    }

    /// The same without waiting.
    /// Errors are those of [`DatagramSocketEndpoint::receive`]; `NoData` when nothing is there.
    #[inline]
    pub fn try_receive(
        &mut self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
    ) -> Result<XtiReceived, Error> {
        self.take(buffer, source, RecvFlags::DONTWAIT)
    }

    fn take(
        &mut self,
        buffer: &mut [u8],
        source: &mut Vec<u8>,
        how: RecvFlags,
    ) -> Result<XtiReceived, Error> {
        let socket = self.socket.as_ref().ok_or(TliError::OutOfState)?;
        if self.taken < self.rest.len() {
            return Ok(self.take_rest(buffer));
        }
        if self.failed.is_some() {
            return Err(TliError::Look.into());
        }
        self.receives += 1;
        let room = buffer.len();
        self.rest.resize(DATAGRAM_MAX.saturating_sub(room), 0);
        let mut parts = [IoSliceMut::new(buffer), IoSliceMut::new(&mut self.rest)];
        let received = recvmsg(socket, &mut parts, &mut RecvAncillaryBuffer::default(), how);
        let (len, address) = match received {
            Ok(message) => (message.bytes, message.address),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                self.rest.clear();
                return Err(TliError::NoData.into());
            }
            Err(error) => {
                self.rest.clear();
                return Err(self.fail(error));
            }
        };
        if let Some(from) = address.and_then(|from| SocketAddr::try_from(from).ok()) {
            source.clear();
            source.extend_from_slice(&encode(from));
        }
        self.rest.truncate(len.saturating_sub(room));
        self.taken = 0;
        Ok(datagram(len.min(room), !self.rest.is_empty()))
    }

    fn take_rest(&mut self, buffer: &mut [u8]) -> XtiReceived {
        let rest = &self.rest[self.taken..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        datagram(len, self.taken < self.rest.len())
    }

    /// The system's number of what a datagram ended with (t_rcvuderr).
    ///
    /// # Errors
    ///
    /// `NoDatagramError` when there is none.
    pub fn receive_error(&mut self) -> Result<i32, Error> {
        Ok(self.failed.take().ok_or(TliError::NoDatagramError)?)
    }

    /// The event that waits (t_look): what a call has met, or what the socket has now.
    pub fn look(&self) -> Option<Look> {
        if self.failed.is_some() {
            return Some(Look::DatagramError);
        }
        let has_rest = self.taken < self.rest.len();
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let waits = |socket: &Socket| rustix::net::recv(socket, &mut [0], flags).is_ok();
        (has_rest || self.socket.as_ref().is_some_and(waits)).then_some(Look::Data)
    }
}

fn datagram(len: usize, more: bool) -> XtiReceived {
    XtiReceived {
        len,
        more,
        expedited: false,
    }
}
