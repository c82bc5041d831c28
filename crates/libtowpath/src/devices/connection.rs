//! A connection of a device, and the two threads that carry it.

use super::{Device, Path};
use crate::socket_pair::{ConnState, SocketPairEnd};
use rustix::net::{SendFlags, Shutdown};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};
use xti::modules::so_state;
use xti::{Error, Flags, Look, TliError, XtiEndpoint, XtiState, inet};

/// How long a peer may take to answer a connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long exit(3) waits until what was written has left.
const EXIT_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a peer that does not end may keep a connection that the program has closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// One wait of a receive: how often it looks whether the program has closed its socket.
const TURN: Duration = Duration::from_secs(1);

/// Octets that are read from the program, or received, at once.
const CHUNK: usize = 64 << 10;

/// Connections that may hold what the program has written.
static ACTIVE: Mutex<Vec<Weak<DeviceConnection>>> = Mutex::new(Vec::new());

/// An endpoint of XTI and the library's end of a socket pair.
pub(crate) struct DeviceConnection {
    path: Path,
    end: XtiEndpoint,
    link: Arc<SocketPairEnd>,
    /// All that the program writes was sent, or will not be.
    has_sent: AtomicBool,
}

impl DeviceConnection {
    pub(super) fn new(
        path: Path,
        end: XtiEndpoint,
        link: Arc<SocketPairEnd>,
    ) -> Arc<DeviceConnection> {
        let connection = Arc::new(DeviceConnection {
            path,
            end,
            link,
            has_sent: AtomicBool::new(false),
        });
        let mut active = ACTIVE.lock().unwrap_or_else(PoisonError::into_inner);
        active.retain(|known| known.strong_count() > 0);
        active.push(Arc::downgrade(&connection));
        connection
    }

    /// Begins to connect to `peer` for `link`, whose socket is writable, or has an error, when the peer has answered.
    pub(crate) fn connect(
        path: Path,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        link: &Arc<SocketPairEnd>,
    ) -> io::Result<Arc<DeviceConnection>> {
        let end = path.open()?;
        let local = local.map(inet::encode).unwrap_or_default();
        end.bind(&local, 0).map_err(to_io_error)?;
        let connection = DeviceConnection::new(path, end, Arc::clone(link));
        let opening = Arc::clone(&connection);
        spawn(move || opening.open(peer))?;
        Ok(connection)
    }

    fn open(self: Arc<Self>, peer: SocketAddr) {
        let connected = self
            .end
            .connect(&inet::encode(peer), Instant::now() + CONNECT_TIMEOUT);
        if let Err(error) = connected {
            self.has_sent.store(true, Ordering::Release);
            return self.link.abort(self.why(error));
        }
        self.link.set_state(ConnState::Established);
        self.link.drain_filler();
        if self.carry().is_err() {
            self.link.abort(libc::ENOMEM);
        }
    }

    /// The address of this end, once it is connected.
    pub(crate) fn local(&self) -> Option<SocketAddr> {
        let (local, _) = self.end.addresses().ok()?;
        inet::decode(&local)
    }

    /// Starts the threads.
    pub(super) fn carry(self: &Arc<Self>) -> io::Result<()> {
        let sending = Arc::clone(self);
        spawn(move || sending.send_all())?;
        let receiving = Arc::clone(self);
        spawn(move || receiving.receive_all())
    }

    /// Sends what the program writes, and its end.
    fn send_all(&self) {
        let mut buffer = vec![0; CHUNK];
        loop {
            match rustix::io::read(self.link.fd(), &mut buffer) {
                Err(rustix::io::Errno::INTR) => {}
                Err(_) | Ok(0) => break,
                Ok(len) if self.send(&buffer[..len]) => {}
                // The receiving thread hears why.
                Ok(_) => break,
            }
        }
        // What fails here is known to the receiving thread too.
        let _ = match self.link.aborts_on_close() {
            true => self.end.send_disconnect(None),
            false => self
                .end
                .flush(CLOSE_TIMEOUT)
                .and_then(|()| self.release())
                .and_then(|()| self.end.flush(CLOSE_TIMEOUT)),
        };
        self.has_sent.store(true, Ordering::Release);
    }

    /// No more is sent.
    fn release(&self) -> Result<(), Error> {
        match self.path.has_sockmod {
            true => self.end.shutdown(xti::Shutdown::Write),
            false => self.end.send_release(),
        }
    }

    /// Sends a piece, which leaves at once; false when the connection is lost.
    fn send(&self, octets: &[u8]) -> bool {
        let mut done = 0;
        while done < octets.len() {
            match self.end.send(&octets[done..], Flags::default(), TURN) {
                Ok(len) => done += len,
                Err(error) if error.tli == TliError::Flow => {}
                Err(_) => return false,
            }
        }
        self.end.run();
        true
    }

    /// Hands the program what comes, and the peer's end.
    fn receive_all(&self) {
        let mut buffer = vec![0; CHUNK];
        let mut closed_at = None;
        loop {
            match self.end.receive_within(&mut buffer, TURN) {
                // What `sockmod` makes of the peer's release.
                Ok(received) if received.len == 0 && self.path.has_sockmod => {
                    return self.end_program_reads();
                }
                Ok(received) => {
                    if self.hand_over(&buffer[..received.len]).is_err() {
                        // The program has closed its socket, and nobody reads: the peer gets a reset, as from TCP.
                        let _ = self.end.send_disconnect(None);
                        return;
                    }
                }
                Err(error) if error.tli == TliError::NoData => {
                    let is_closed = self.link.is_closed_by_program();
                    let closed_at = closed_at.get_or_insert_with(Instant::now);
                    if !is_closed {
                        *closed_at = Instant::now();
                    } else if closed_at.elapsed() > CLOSE_TIMEOUT {
                        let _ = self.end.send_disconnect(None);
                        return;
                    }
                }
                Err(error) => {
                    if self.has_ended(error) {
                        return;
                    }
                }
            }
        }
    }

    fn hand_over(&self, mut octets: &[u8]) -> io::Result<()> {
        while !octets.is_empty() {
            match rustix::net::send(self.link.fd(), octets, SendFlags::NOSIGNAL) {
                Ok(len) => octets = &octets[len..],
                Err(rustix::io::Errno::INTR) => {}
                // What comes after shutdown(SHUT_RD) is dropped.
                Err(rustix::io::Errno::PIPE) if self.link.reads_are_shut_down() => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn end_program_reads(&self) {
        // Fails only where the program has closed its end.
        let _ = rustix::net::shutdown(self.link.fd(), Shutdown::Write);
    }

    /// Whether both directions have ended.
    fn is_over(&self) -> bool {
        const ENDED: u32 = so_state::CANNOT_SEND | so_state::CANNOT_RECEIVE;
        match self.path.has_sockmod {
            true => self
                .end
                .socket_state()
                .is_ok_and(|state| state & ENDED == ENDED),
            false => matches!(self.end.state(), XtiState::Idle | XtiState::Unbound),
        }
    }

    /// What an event means for the program; true when nothing more is received.
    fn has_ended(&self, error: Error) -> bool {
        match (error.tli, self.end.look()) {
            (TliError::Look, Some(Look::Release)) => {
                let _ = self.end.receive_release();
                self.end_program_reads();
                true
            }
            // Data overtook the event.
            (TliError::Look, Some(Look::Data | Look::Expedited)) => false,
            _ => {
                self.link.abort(self.why(error));
                true
            }
        }
    }

    /// The system's number of an error.
    fn why(&self, error: Error) -> i32 {
        match (error.tli, self.end.receive_disconnect()) {
            (_, Ok(end)) => end.reason,
            (TliError::NoData, _) => libc::ETIMEDOUT,
            _ => io::Error::from(error)
                .raw_os_error()
                .unwrap_or(libc::ECONNRESET),
        }
    }

    /// Waits until what the program has written has left, or until `end`.
    fn drain(&self, end: Instant) {
        while !self.has_sent.load(Ordering::Acquire) && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
        // The kernel's TCP goes on without the process; an engine needs the peer's answer.
        while self.path.device != Device::Tcp && !self.is_over() && Instant::now() < end {
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Waits at exit until what was written to all sockets has left.
pub(crate) fn drain_all() {
    let active = std::mem::take(&mut *ACTIVE.lock().unwrap_or_else(PoisonError::into_inner));
    let active: Vec<_> = active.iter().filter_map(Weak::upgrade).collect();
    for connection in &active {
        connection.link.stop_program_writes();
    }
    let end = Instant::now() + EXIT_TIMEOUT;
    for connection in &active {
        connection.drain(end);
    }
}

fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let thread = thread::Builder::new().name("towpath-stream".into());
    thread.spawn(run).map(drop)
}

/// An error of XTI as the system's.
pub(super) fn to_io_error(error: Error) -> io::Error {
    match error.tli {
        TliError::AddressBusy => io::Error::from_raw_os_error(libc::EADDRINUSE),
        TliError::NoAddress => io::Error::from_raw_os_error(libc::EADDRNOTAVAIL),
        TliError::Access => io::Error::from_raw_os_error(libc::EACCES),
        _ => error.into(),
    }
}
