//! A connection after the version exchange: frames in both directions, over TLS if there are keys.
//!
//! Only [`FramedConnection::wait`] and the calls built on it block; owners poll the connection
//! together with other descriptors. A frame must be complete, and queued data sent, within a
//! timeout.

use crate::keys::TrustedKey;
use control::frame::{FrameDecoder, FrameError, encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Time from a frame's first octet to its last, in either direction: an outage of five seconds, and
/// TCP's recovery from it.
pub const FRAME_TIMEOUT: Duration = Duration::from_secs(9);

/// Limit of the send buffer: reports of two workers.
const SEND_BUFFER_MAX: usize = 2 * control::frame::RESPONSE_MAX + (64 << 10);

/// Octets given to TLS, or read, at a time.
const CHUNK_LEN: usize = 16 << 10;

/// Octets read per call, so that one connection does not starve others.
const READ_QUOTA: usize = 16 * CHUNK_LEN;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The peer closed it.
    #[error("the peer closed the connection")]
    Closed,
    /// The peer was silent for too long.
    #[error("the peer was silent for {0:?}")]
    TimedOut(Duration),
    /// Mutual authentication failed, or the peer refused the session.
    #[error("{0}")]
    Refused(String),
    /// The peer sent a malformed frame.
    #[error("the peer sent {0}")]
    Frame(#[from] FrameError),
    /// The system refused.
    #[error("the connection broke: {0}")]
    Io(io::Error),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> ConnectionError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => ConnectionError::Closed,
            _ => ConnectionError::Io(error),
        }
    }
}

/// A connection that carries frames.
pub struct FramedConnection {
    socket: TcpStream,
    tls: Option<Connection>,
    frames: FrameDecoder,
    /// Encoded frames that TLS or the socket has not accepted.
    send_buffer: Vec<u8>,
    last_received_at: Instant,
    partial_since: Option<Instant>,
    send_stalled_since: Option<Instant>,
}

impl FramedConnection {
    /// Wraps `socket`; frames of more than `limit` octets are refused.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new(
        socket: TcpStream,
        tls: Option<Connection>,
        limit: usize,
    ) -> io::Result<FramedConnection> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // Linear RTO backoff (TCP_THIN_LINEAR_TIMEOUTS), so that a short outage stays short.
        let _ = socket2::SockRef::from(&socket).set_tcp_thin_linear_timeouts(true);
        Ok(FramedConnection {
            socket,
            tls,
            frames: FrameDecoder::new(limit),
            send_buffer: Vec::new(),
            last_received_at: Instant::now(),
            partial_since: None,
            send_stalled_since: None,
        })
    }

    /// The socket, for poll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// The events to poll for.
    pub fn poll_flags(&self) -> PollFlags {
        let writes = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        if writes || (!self.send_buffer.is_empty() && !self.is_handshaking()) {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// When data last arrived.
    pub fn last_received_at(&self) -> Instant {
        self.last_received_at
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Completes the TLS handshake until `end`.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::Refused`] when either end does not trust the other.
    pub fn handshake(&mut self, end: Instant) -> Result<(), ConnectionError> {
        while self.is_handshaking() {
            self.flush()?;
            if !self.is_handshaking() {
                break;
            }
            self.wait(end)?;
            self.read_available()?;
        }
        self.flush()
    }

    /// The one of these keys that the peer proved in TLS; None without TLS.
    pub fn authenticated_key(&self, trusted: &[TrustedKey]) -> Option<TrustedKey> {
        let shown = self.tls.as_ref()?.peer_certificates()?.first()?;
        let is_shown = |one: &&TrustedKey| rawkeys::spki(one.key.octets()) == shown.as_ref();
        trusted.iter().find(is_shown).cloned()
    }

    /// Queues a message and sends what the socket accepts.
    pub fn send(&mut self, message: &impl Serialize, limit: usize) -> Result<(), ConnectionError> {
        let frame = encode(message, limit)?;
        if self.send_buffer.len() + frame.len() > SEND_BUFFER_MAX {
            return Err(ConnectionError::TimedOut(FRAME_TIMEOUT));
        }
        self.send_buffer.extend_from_slice(&frame);
        self.flush()
    }

    /// Sends what the socket accepts.
    pub fn flush(&mut self) -> Result<(), ConnectionError> {
        let before = self.send_buffer.len();
        let done = self.write_pending()?;
        if done {
            self.send_stalled_since = None;
        } else if self.send_buffer.len() < before || self.send_stalled_since.is_none() {
            self.send_stalled_since = Some(Instant::now());
        }
        Ok(())
    }

    /// Writes the send buffer; true when it is empty.
    fn write_pending(&mut self) -> Result<bool, ConnectionError> {
        let Some(tls) = &mut self.tls else {
            while !self.send_buffer.is_empty() {
                match self.socket.write(&self.send_buffer) {
                    Ok(len) => drop(self.send_buffer.drain(..len)),
                    Err(error) if is_retryable(&error) => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(true);
        };
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if is_retryable(&error) => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            if self.send_buffer.is_empty() || tls.is_handshaking() {
                return Ok(true);
            }
            let chunk = self.send_buffer.len().min(CHUNK_LEN);
            let taken = tls.writer().write(&self.send_buffer[..chunk])?;
            self.send_buffer.drain(..taken);
        }
    }

    /// Reads what has arrived, up to the quota.
    pub fn read_available(&mut self) -> Result<(), ConnectionError> {
        let mut taken = 0;
        while taken < READ_QUOTA {
            match self.read_once() {
                Ok(0) => break,
                Ok(len) => taken += len,
                // Data before the end of file are handled first.
                Err(ConnectionError::Closed) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if taken > 0 {
            self.last_received_at = Instant::now();
        }
        if !self.frames.is_partial() {
            self.partial_since = None;
        } else if self.partial_since.is_none() {
            self.partial_since = Some(Instant::now());
        }
        Ok(())
    }

    /// One read; 0 if nothing is available.
    fn read_once(&mut self) -> Result<usize, ConnectionError> {
        let Some(tls) = &mut self.tls else {
            let mut chunk = [0; CHUNK_LEN];
            return match self.socket.read(&mut chunk) {
                Ok(0) => Err(ConnectionError::Closed),
                Ok(len) => {
                    self.frames.push(&chunk[..len]);
                    Ok(len)
                }
                Err(error) if is_retryable(&error) => Ok(0),
                Err(error) => Err(error.into()),
            };
        };
        let len = match tls.read_tls(&mut self.socket) {
            Ok(0) => return Err(ConnectionError::Closed),
            Ok(len) => len,
            Err(error) if is_retryable(&error) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = tls.process_new_packets() {
            // Sends the TLS alert, if possible.
            let _ = tls.write_tls(&mut self.socket);
            return Err(tls_error(&error));
        }
        let mut chunk = [0; CHUNK_LEN];
        loop {
            match tls.reader().read(&mut chunk) {
                Ok(0) => return Err(ConnectionError::Closed),
                Ok(len) => self.frames.push(&chunk[..len]),
                Err(error) if is_retryable(&error) => return Ok(len),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes the next received message.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::Frame`].
    pub fn take_message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ConnectionError> {
        let next = self.frames.next_message()?;
        if next.is_some() {
            self.partial_since = self.frames.is_partial().then(Instant::now);
        }
        Ok(next)
    }

    /// Checks the frame timeout in both directions.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::TimedOut`].
    pub fn check_timeouts(&self) -> Result<(), ConnectionError> {
        let hangs =
            |since: Option<Instant>| since.is_some_and(|since| since.elapsed() > FRAME_TIMEOUT);
        if hangs(self.partial_since) || hangs(self.send_stalled_since) {
            return Err(ConnectionError::TimedOut(FRAME_TIMEOUT));
        }
        Ok(())
    }

    /// Sleeps until data arrived or can be sent, at most until `end`.
    ///
    /// # Errors
    ///
    /// [`ConnectionError::TimedOut`] at `end`.
    pub fn wait(&self, end: Instant) -> Result<(), ConnectionError> {
        let left = end.saturating_duration_since(Instant::now());
        let span = timespec(left);
        let mut ready = [PollFd::new(&self.socket, self.poll_flags())];
        match poll(&mut ready, Some(&span)) {
            Ok(0) => Err(ConnectionError::TimedOut(left)),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(ConnectionError::Io(error.into())),
        }
    }

    /// Receives one message until `end`.
    pub fn receive<T: DeserializeOwned>(&mut self, end: Instant) -> Result<T, ConnectionError> {
        loop {
            if let Some(message) = self.take_message()? {
                return Ok(message);
            }
            self.wait(end)?;
            self.flush()?;
            self.read_available()?;
        }
    }
}

impl Drop for FramedConnection {
    fn drop(&mut self) {
        // Sends close_notify, if possible.
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.socket);
        }
    }
}

/// A duration as a timespec for poll.
pub fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

fn is_retryable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Error text: the peer's key is not trusted here.
pub const UNTRUSTED: &str = "the peer's key is not trusted here; if it is the right one, run \
     `towpath key trust` with what `towpath key show` prints there";

fn tls_error(error: &rustls::Error) -> ConnectionError {
    use rustls::Error::{AlertReceived, InvalidCertificate, NoCertificatesPresented};
    ConnectionError::Refused(match error {
        AlertReceived(_) => "the peer does not trust this host's key; on its host, run \
             `towpath key trust` with what `towpath key show` prints here"
            .into(),
        InvalidCertificate(_) | NoCertificatesPresented => UNTRUSTED.into(),
        other => format!("TLS with the peer failed: {other}"),
    })
}
