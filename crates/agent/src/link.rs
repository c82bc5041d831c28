//! A connection after its preface: frames in both directions, through TLS where there are keys.
//!
//! Nothing here blocks but [`Link::wait`]; whoever owns a link polls it together with other things.
//! A frame that has begun must end soon, and what is to be sent must go out soon: both ends are alive
//! and the frames small.

use crate::keys::Trusted;
use control::frame::{FrameError, Frames, encode};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::Connection;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

/// How long a frame may take from its first octet to its last, in either direction: a cut of five
/// seconds, and what TCP takes to notice that it is over.
pub(crate) const FRAME_LIMIT: Duration = Duration::from_secs(9);

/// Octets that may wait to be sent: reports of two workers.
const WAITING_MAX: usize = 2 * control::frame::ANSWER_MAX + (64 << 10);

/// Octets handed to TLS at a time, and read at a time.
const PIECE: usize = 16 << 10;

/// Octets read before others have their turn.
const TURN: usize = 16 * PIECE;

/// Why a link is of no use any more.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The other end closed it.
    #[error("the other end closed the connection")]
    Closed,
    /// The other end is silent.
    #[error("the other end was not heard for {0:?}")]
    Silent(Duration),
    /// It proved no key that is trusted, or trusts none that was proved.
    #[error("{0}")]
    Keys(String),
    /// What it sent is no message.
    #[error("the other end sent {0}")]
    Frame(#[from] FrameError),
    /// The system refused.
    #[error("the connection broke: {0}")]
    Io(io::Error),
}

impl From<io::Error> for LinkError {
    fn from(error: io::Error) -> LinkError {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => LinkError::Closed,
            _ => LinkError::Io(error),
        }
    }
}

/// A connection that frames travel on.
pub struct Link {
    socket: TcpStream,
    tls: Option<Connection>,
    frames: Frames,
    /// Octets of frames that TLS or the socket has not taken.
    waiting: Vec<u8>,
    heard: Instant,
    partial_since: Option<Instant>,
    stuck_since: Option<Instant>,
}

impl Link {
    /// A link on `socket` that takes frames of at most `limit` octets.
    ///
    /// # Errors
    ///
    /// What the system says.
    pub fn new(socket: TcpStream, tls: Option<Connection>, limit: usize) -> io::Result<Link> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // Loss on the way back is found at a steady pace, so that a short cut stays short.
        let _ = socket2::SockRef::from(&socket).set_tcp_thin_linear_timeouts(true);
        Ok(Link {
            socket,
            tls,
            frames: Frames::new(limit),
            waiting: Vec::new(),
            heard: Instant::now(),
            partial_since: None,
            stuck_since: None,
        })
    }

    /// The socket, to poll.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What to poll it for.
    pub fn interest(&self) -> PollFlags {
        let writes = self.tls.as_ref().is_some_and(|tls| tls.wants_write());
        if writes || (!self.waiting.is_empty() && !self.is_handshaking()) {
            PollFlags::IN | PollFlags::OUT
        } else {
            PollFlags::IN
        }
    }

    /// When something last came.
    pub fn heard(&self) -> Instant {
        self.heard
    }

    fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Proves keys, both ways, until `end`.
    ///
    /// # Errors
    ///
    /// [`LinkError::Keys`] when either end does not trust the other.
    pub fn shake_hands(&mut self, end: Instant) -> Result<(), LinkError> {
        while self.is_handshaking() {
            self.flush()?;
            if !self.is_handshaking() {
                break;
            }
            self.wait(end)?;
            self.fill()?;
        }
        self.flush()
    }

    /// Which of these keys the other end has proved; None where no keys were asked for.
    pub(crate) fn proved(&self, trusted: &[Trusted]) -> Option<Trusted> {
        let shown = self.tls.as_ref()?.peer_certificates()?.first()?;
        let is_shown = |one: &&Trusted| rawkeys::spki(one.key.octets()) == shown.as_ref();
        trusted.iter().find(is_shown).cloned()
    }

    /// Puts a message into the queue and sends what can be sent.
    ///
    /// # Errors
    ///
    /// A [`LinkError`].
    pub fn send(&mut self, message: &impl Serialize, limit: usize) -> Result<(), LinkError> {
        let frame = encode(message, limit)?;
        if self.waiting.len() + frame.len() > WAITING_MAX {
            return Err(LinkError::Silent(FRAME_LIMIT));
        }
        self.waiting.extend_from_slice(&frame);
        self.flush()
    }

    /// Sends what can be sent now.
    ///
    /// # Errors
    ///
    /// A [`LinkError`].
    pub fn flush(&mut self) -> Result<(), LinkError> {
        let before = self.waiting.len();
        let done = self.push()?;
        if done {
            self.stuck_since = None;
        } else if self.waiting.len() < before || self.stuck_since.is_none() {
            self.stuck_since = Some(Instant::now());
        }
        Ok(())
    }

    /// True when nothing is left.
    fn push(&mut self) -> Result<bool, LinkError> {
        let Some(tls) = &mut self.tls else {
            while !self.waiting.is_empty() {
                match self.socket.write(&self.waiting) {
                    Ok(len) => drop(self.waiting.drain(..len)),
                    Err(error) if is_pause(&error) => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            return Ok(true);
        };
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => {}
                    Err(error) if is_pause(&error) => return Ok(false),
                    Err(error) => return Err(error.into()),
                }
            }
            if self.waiting.is_empty() || tls.is_handshaking() {
                return Ok(true);
            }
            let piece = self.waiting.len().min(PIECE);
            let taken = tls.writer().write(&self.waiting[..piece])?;
            self.waiting.drain(..taken);
        }
    }

    /// Takes in what has come.
    ///
    /// # Errors
    ///
    /// A [`LinkError`].
    pub fn fill(&mut self) -> Result<(), LinkError> {
        let mut taken = 0;
        while taken < TURN {
            match self.fill_once() {
                Ok(0) => break,
                Ok(len) => taken += len,
                // What came before the end is read first.
                Err(LinkError::Closed) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if taken > 0 {
            self.heard = Instant::now();
        }
        if !self.frames.is_partial() {
            self.partial_since = None;
        } else if self.partial_since.is_none() {
            self.partial_since = Some(Instant::now());
        }
        Ok(())
    }

    /// One read; 0 when there is nothing more.
    fn fill_once(&mut self) -> Result<usize, LinkError> {
        let Some(tls) = &mut self.tls else {
            let mut piece = [0; PIECE];
            return match self.socket.read(&mut piece) {
                Ok(0) => Err(LinkError::Closed),
                Ok(len) => {
                    self.frames.push(&piece[..len]);
                    Ok(len)
                }
                Err(error) if is_pause(&error) => Ok(0),
                Err(error) => Err(error.into()),
            };
        };
        let len = match tls.read_tls(&mut self.socket) {
            Ok(0) => return Err(LinkError::Closed),
            Ok(len) => len,
            Err(error) if is_pause(&error) => return Ok(0),
            Err(error) => return Err(error.into()),
        };
        if let Err(error) = tls.process_new_packets() {
            // The other end hears why, if it still listens.
            let _ = tls.write_tls(&mut self.socket);
            return Err(refused(&error));
        }
        let mut piece = [0; PIECE];
        loop {
            match tls.reader().read(&mut piece) {
                Ok(0) => return Err(LinkError::Closed),
                Ok(len) => self.frames.push(&piece[..len]),
                Err(error) if is_pause(&error) => return Ok(len),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The next message that came.
    ///
    /// # Errors
    ///
    /// [`LinkError::Frame`].
    pub fn take<T: DeserializeOwned>(&mut self) -> Result<Option<T>, LinkError> {
        let next = self.frames.take()?;
        if next.is_some() {
            self.partial_since = self.frames.is_partial().then(Instant::now);
        }
        Ok(next)
    }

    /// Whether a frame hangs in either direction.
    ///
    /// # Errors
    ///
    /// [`LinkError::Silent`] when one does.
    pub fn check(&self) -> Result<(), LinkError> {
        let hangs =
            |since: Option<Instant>| since.is_some_and(|since| since.elapsed() > FRAME_LIMIT);
        if hangs(self.partial_since) || hangs(self.stuck_since) {
            return Err(LinkError::Silent(FRAME_LIMIT));
        }
        Ok(())
    }

    /// Sleeps until something came or can be sent, at most until `end`.
    ///
    /// # Errors
    ///
    /// [`LinkError::Silent`] at `end`.
    pub fn wait(&self, end: Instant) -> Result<(), LinkError> {
        let left = end.saturating_duration_since(Instant::now());
        let span = timespec(left);
        let mut ready = [PollFd::new(&self.socket, self.interest())];
        match poll(&mut ready, Some(&span)) {
            Ok(0) => Err(LinkError::Silent(left)),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(LinkError::Io(error.into())),
        }
    }

    /// Receives one message until `end`.
    ///
    /// # Errors
    ///
    /// A [`LinkError`].
    pub fn receive<T: DeserializeOwned>(&mut self, end: Instant) -> Result<T, LinkError> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(message);
            }
            self.wait(end)?;
            self.flush()?;
            self.fill()?;
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The other end is told where it still listens; else it notices by itself.
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            let _ = tls.write_tls(&mut self.socket);
        }
    }
}

/// A duration for poll.
pub(crate) fn timespec(span: Duration) -> Timespec {
    Timespec {
        tv_sec: span.as_secs() as i64,
        tv_nsec: i64::from(span.subsec_nanos()),
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// What is said of another end whose key nobody here has trusted.
pub(crate) const UNTRUSTED: &str = "the other end's key is not trusted here; if it is the right one, run \
     `towpath key trust` with what `towpath key show` prints there";

fn refused(error: &rustls::Error) -> LinkError {
    use rustls::Error::{AlertReceived, InvalidCertificate, NoCertificatesPresented};
    LinkError::Keys(match error {
        AlertReceived(_) => "the other end does not trust this one's key; on its host, run \
             `towpath key trust` with what `towpath key show` prints here"
            .into(),
        InvalidCertificate(_) | NoCertificatesPresented => UNTRUSTED.into(),
        other => format!("the other end speaks no TLS that can be used: {other}"),
    })
}
