//! The functions of XTI straight on the kernel's TCP sockets, as a compatibility library has them: no stream, no
//! message, no queue. Each send and each receive is a system call. Those on its UDP sockets are in `datagrams`.

mod datagrams;

pub use datagrams::DatagramSocketEndpoint;

use crate::endpoint::{Bound, Disconnection, Flags, Look, XtiCall, XtiReceived, XtiState};
use crate::error::{Error, TliError};
use crate::inet::{BACKLOG, Setup, bind_error, decode, encode, receive};
use crate::provider::NO_SEQUENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Instant;

/// A transport endpoint without a stream. One thread uses it at a time.
pub struct SocketEndpoint {
    setup: Setup,
    state: XtiState,
    socket: Option<Socket>,
    /// Connections that may wait to be answered: the queue length of the bind.
    queue_len: u32,
    /// Those that wait, by number.
    waiting: VecDeque<(u32, Socket)>,
    next_sequence: u32,
    /// What ended the peer's direction, or the connection, until the user has handled it.
    ended: Option<Ended>,
    sends: u64,
    receives: u64,
}

/// The end of the peer's direction, or of the connection with the system's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ended {
    Released,
    Lost(i32),
}

impl SocketEndpoint {
    /// Opens an endpoint (t_open); its sockets get `setup`, which says how long their calls wait.
    pub fn open(setup: Setup) -> SocketEndpoint {
        SocketEndpoint {
            setup,
            state: XtiState::Unbound,
            socket: None,
            queue_len: 0,
            waiting: VecDeque::new(),
            next_sequence: 1,
            ended: None,
            sends: 0,
            receives: 0,
        }
    }

    /// The state (t_getstate).
    pub fn state(&self) -> XtiState {
        self.state
    }

    /// The socket, where there is one.
    pub fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    /// System calls that sent and that received.
    pub fn system_calls(&self) -> (u64, u64) {
        (self.sends, self.receives)
    }

    /// Binds to an address, empty for any; up to `queue_len` connections may wait (t_bind).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadAddress`, `AddressBusy`, `NoAddress`, `Access`, `System`.
    pub fn bind(&mut self, address: &[u8], queue_len: u32) -> Result<Bound, Error> {
        self.require(&[XtiState::Unbound])?;
        let wanted = match address {
            [] => SocketAddr::from(([0, 0, 0, 0], 0)),
            octets => decode(octets).ok_or(TliError::BadAddress)?,
        };
        let mut bound = encode(wanted);
        if !address.is_empty() || queue_len > 0 {
            let socket = self.bound_socket(wanted, queue_len);
            let socket = socket.map_err(|error| {
                let (tli, errno) = bind_error(&error);
                Error { tli, errno }
            })?;
            bound = address_of(socket.local_addr()).unwrap_or(bound);
            self.socket = Some(socket);
        }
        (self.state, self.queue_len) = (XtiState::Idle, queue_len);
        Ok(Bound {
            address: bound,
            queue_len,
        })
    }

    fn bound_socket(&self, address: SocketAddr, queue_len: u32) -> io::Result<Socket> {
        let socket = self.new_socket(address)?;
        socket.bind(&SockAddr::from(address))?;
        if queue_len > 0 {
            socket.listen(BACKLOG)?;
        }
        Ok(socket)
    }

    fn new_socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let domain = Domain::for_address(address);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        (self.setup)(&socket)?;
        Ok(socket)
    }

    /// Connects, at most until `deadline` (t_connect).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadAddress`; `Look` when the peer refused: see [`SocketEndpoint::receive_disconnect`];
    /// `NoData` at the deadline, and the endpoint is idle again.
    pub fn connect(&mut self, address: &[u8], deadline: Instant) -> Result<(), Error> {
        self.require(&[XtiState::Idle])?;
        let to = decode(address).ok_or(TliError::BadAddress)?;
        let socket = match self.socket.take() {
            Some(socket) => socket,
            None => self.new_socket(to)?,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        match socket.connect_timeout(&SockAddr::from(to), left) {
            Ok(()) => {
                (self.socket, self.state) = (Some(socket), XtiState::DataTransfer);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Err(TliError::NoData.into()),
            Err(error) => {
                self.state = XtiState::Connecting;
                Err(self.lost(&error))
            }
        }
    }

    /// The next connection that came, at most until `deadline` (t_listen).
    ///
    /// # Errors
    ///
    /// `BadQueueLength` for an end that accepts none, `QueueFull` when as many as allowed wait for an answer,
    /// `NoData` at the deadline, `System`.
    pub fn listen(&mut self, deadline: Instant) -> Result<XtiCall, Error> {
        self.require(&[XtiState::Idle, XtiState::Incoming])?;
        let Some(listener) = self.socket.as_ref().filter(|_| self.queue_len > 0) else {
            return Err(TliError::BadQueueLength.into());
        };
        if self.waiting.len() >= self.queue_len as usize {
            return Err(TliError::QueueFull.into());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let limit = Timespec::try_from(left).ok();
        let ready = poll(&mut [PollFd::new(listener, PollFlags::IN)], limit.as_ref());
        if ready.map_err(io::Error::from)? == 0 {
            return Err(TliError::NoData.into());
        }
        let (socket, from) = listener.accept()?;
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.waiting.push_back((sequence, socket));
        self.state = XtiState::Incoming;
        Ok(XtiCall {
            address: from.as_socket().map(encode).unwrap_or_default(),
            sequence,
            user_data: Vec::new(),
            options: Vec::new(),
        })
    }

    /// Accepts a connection on another endpoint (t_accept).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadSequence`, `AcceptorListens` when the other end listens itself, `System`.
    pub fn accept(&mut self, on: &mut SocketEndpoint, sequence: u32) -> Result<(), Error> {
        self.require(&[XtiState::Incoming])?;
        on.require(&[XtiState::Unbound, XtiState::Idle])?;
        if on.queue_len > 0 {
            return Err(TliError::AcceptorListens.into());
        }
        let socket = self.take_waiting(sequence)?;
        (on.setup)(&socket)?;
        (on.socket, on.state) = (Some(socket), XtiState::DataTransfer);
        Ok(())
    }

    fn take_waiting(&mut self, sequence: u32) -> Result<Socket, Error> {
        let mut numbers = self.waiting.iter();
        let at = numbers.position(|(number, _)| *number == sequence);
        let taken = at.and_then(|at| self.waiting.remove(at));
        if self.waiting.is_empty() {
            self.state = XtiState::Idle;
        }
        Ok(taken.ok_or(TliError::BadSequence)?.1)
    }

    /// Sends, waiting for room as long as the socket's own time-out says (t_snd); returns how many octets were taken.
    /// [`Flags::more`] means nothing on a byte stream.
    ///
    /// # Errors
    ///
    /// `OutOfState`, `NotSupported` for expedited data, `BadData` for none, `Flow` after the time-out, `Look` when
    /// the connection is lost.
    #[inline]
    pub fn send(&mut self, octets: &[u8], flags: Flags) -> Result<usize, Error> {
        self.transmit(octets, flags, SendFlags::NOSIGNAL)
    }

    /// The same without waiting. Errors are those of [`SocketEndpoint::send`]; `Flow` when no octet is taken now.
    #[inline]
    pub fn try_send(&mut self, octets: &[u8], flags: Flags) -> Result<usize, Error> {
        self.transmit(octets, flags, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    #[inline]
    fn transmit(&mut self, octets: &[u8], flags: Flags, how: SendFlags) -> Result<usize, Error> {
        self.require(&[XtiState::DataTransfer, XtiState::PeerReleased])?;
        if flags.expedited {
            return Err(TliError::NotSupported.into());
        }
        if octets.is_empty() {
            return Err(TliError::BadData.into());
        }
        if let Some(Ended::Lost(_)) = self.ended {
            return Err(TliError::Look.into());
        }
        let socket = self.socket.as_ref().ok_or(TliError::OutOfState)?;
        self.sends += 1;
        match rustix::net::send(socket, octets, how) {
            Ok(len) => Ok(len),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Err(TliError::Flow.into()),
            Err(error) => Err(self.lost(&error.into())),
        }
    }

    /// Receives, waiting as long as the socket's own time-out says (t_rcv).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `NoData` after the time-out, `Look` when the peer released or the connection is lost.
    #[inline]
    pub fn receive(&mut self, buffer: &mut [u8]) -> Result<XtiReceived, Error> {
        self.take(buffer, RecvFlags::empty())
    }

    /// The same without waiting. Errors are those of [`SocketEndpoint::receive`]; `NoData` when nothing is there.
    #[inline]
    pub fn try_receive(&mut self, buffer: &mut [u8]) -> Result<XtiReceived, Error> {
        self.take(buffer, RecvFlags::DONTWAIT)
    }

    #[inline]
    fn take(&mut self, buffer: &mut [u8], how: RecvFlags) -> Result<XtiReceived, Error> {
        self.require(&[XtiState::DataTransfer, XtiState::Released])?;
        if self.ended.is_some() {
            return Err(TliError::Look.into());
        }
        let socket = self.socket.as_ref().ok_or(TliError::OutOfState)?;
        let received = XtiReceived {
            len: 0,
            more: false,
            expedited: false,
        };
        if buffer.is_empty() {
            return Ok(received);
        }
        self.receives += 1;
        match receive(socket, buffer, how) {
            Ok(0) => {
                self.ended = Some(Ended::Released);
                Err(TliError::Look.into())
            }
            Ok(len) => Ok(XtiReceived { len, ..received }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(TliError::NoData.into()),
            Err(error) => Err(self.lost(&error)),
        }
    }

    #[cold]
    fn lost(&mut self, error: &io::Error) -> Error {
        self.ended = Some(Ended::Lost(error.raw_os_error().unwrap_or(0)));
        TliError::Look.into()
    }

    /// The event that waits (t_look): what a call has met, or what the socket has now.
    pub fn look(&mut self) -> Option<Look> {
        if self.ended.is_none()
            && matches!(self.state, XtiState::DataTransfer | XtiState::Released)
            && let Some(socket) = &self.socket
        {
            match receive(socket, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT) {
                Ok(0) => self.ended = Some(Ended::Released),
                Ok(_) => return Some(Look::Data),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => {
                    self.lost(&error);
                }
            }
        }
        self.ended.map(|ended| match ended {
            Ended::Released => Look::Release,
            Ended::Lost(_) => Look::Disconnect,
        })
    }

    /// Sends no more (t_sndrel).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `Look` when the connection is lost.
    pub fn send_release(&mut self) -> Result<(), Error> {
        self.require(&[XtiState::DataTransfer, XtiState::PeerReleased])?;
        let socket = self.socket.as_ref().ok_or(TliError::OutOfState)?;
        if let Err(error) = socket.shutdown(std::net::Shutdown::Write) {
            return Err(self.lost(&error));
        }
        self.set_state(match self.state {
            XtiState::DataTransfer => XtiState::Released,
            _ => XtiState::Idle,
        });
        Ok(())
    }

    /// Takes the peer's release (t_rcvrel).
    ///
    /// # Errors
    ///
    /// `OutOfState`, `NoRelease` when there is none, `Look` when the connection is lost.
    pub fn receive_release(&mut self) -> Result<(), Error> {
        self.require(&[XtiState::DataTransfer, XtiState::Released])?;
        match self.look() {
            Some(Look::Release) => {}
            Some(Look::Disconnect) => return Err(TliError::Look.into()),
            _ => return Err(TliError::NoRelease.into()),
        }
        self.ended = None;
        self.set_state(match self.state {
            XtiState::DataTransfer => XtiState::PeerReleased,
            _ => XtiState::Idle,
        });
        Ok(())
    }

    /// Ends the connection at once (t_snddis), or refuses one that came.
    ///
    /// # Errors
    ///
    /// `OutOfState`, `BadSequence`.
    pub fn send_disconnect(&mut self, sequence: Option<u32>) -> Result<(), Error> {
        if self.state == XtiState::Incoming {
            let socket = self.take_waiting(sequence.ok_or(TliError::BadSequence)?)?;
            return Ok(abort(&socket)?);
        }
        self.require(&[
            XtiState::DataTransfer,
            XtiState::Released,
            XtiState::PeerReleased,
        ])?;
        if let Some(socket) = &self.socket {
            abort(socket)?;
        }
        self.ended = None;
        self.set_state(XtiState::Idle);
        Ok(())
    }

    /// Why the connection was lost or refused (t_rcvdis).
    ///
    /// # Errors
    ///
    /// `NoDisconnect` when it was not.
    pub fn receive_disconnect(&mut self) -> Result<Disconnection, Error> {
        let Some(Ended::Lost(reason)) = self.ended else {
            return Err(TliError::NoDisconnect.into());
        };
        self.ended = None;
        self.set_state(XtiState::Idle);
        Ok(Disconnection {
            reason,
            sequence: NO_SEQUENCE,
            user_data: Vec::new(),
        })
    }

    /// An idle endpoint has no connection.
    fn set_state(&mut self, state: XtiState) {
        if state == XtiState::Idle {
            self.socket = None;
        }
        self.state = state;
    }

    #[inline]
    fn require(&self, allowed: &[XtiState]) -> Result<(), Error> {
        match allowed.contains(&self.state) {
            true => Ok(()),
            false => Err(TliError::OutOfState.into()),
        }
    }
}

/// The peer gets a reset, not an end, when the socket is closed.
fn abort(socket: &Socket) -> io::Result<()> {
    socket.set_linger(Some(std::time::Duration::ZERO))
}

fn address_of(address: io::Result<SockAddr>) -> Option<Vec<u8>> {
    address.ok()?.as_socket().map(encode)
}
