//! The thread of an endpoint: carries between sockets and circuits.

use library::forward::{Forwarder, Handed, Plug};
use library::xtp::{Circuit, Endpoint, Settings};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Connections that wait to be accepted, at most: beyond, peers are turned away.
const BACKLOG: usize = 1024;

/// How long the end of the program waits for what it wrote to arrive.
const LINGER: Duration = Duration::from_secs(3);

/// The library's end of a socket.
pub(crate) struct End {
    stream: UnixStream,
    /// Set when the connection broke, which a socket pair cannot tell.
    broken: Arc<AtomicBool>,
}

impl End {
    /// Both ends of a new socket: the program's and the library's.
    pub(crate) fn pair() -> io::Result<(UnixStream, End)> {
        let (program, stream) = UnixStream::pair()?;
        let broken = Arc::default();
        Ok((program, End { stream, broken }))
    }

    /// Set when the connection broke.
    pub(crate) fn broken(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.broken)
    }
}

impl Read for End {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }
}

impl Write for End {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for End {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Plug for End {
    fn prepare(&self) -> io::Result<()> {
        self.stream.set_nonblocking(true)
    }

    fn end(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    fn take_error(&self) -> io::Result<Option<io::Error>> {
        self.stream.take_error()
    }

    fn reset(&self) {
        self.broken.store(true, Ordering::Relaxed);
        // A child that the program forked may hold this end too. One that is gone needs no end.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A connection that a peer opened and nobody accepted yet.
pub(crate) struct Waiting {
    pub(crate) program: UnixStream,
    pub(crate) peer: SocketAddr,
    pub(crate) broken: Arc<AtomicBool>,
}

/// Connections to accept. For each an octet lies in the listening socket.
#[derive(Clone, Default)]
pub(crate) struct Queue(Arc<Mutex<VecDeque<Waiting>>>);

impl Queue {
    /// The oldest.
    pub(crate) fn pop(&self) -> Option<Waiting> {
        self.lock().pop_front()
    }

    fn push(&self, waiting: Waiting) -> io::Result<()> {
        let mut queue = self.lock();
        if queue.len() >= BACKLOG {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        queue.push_back(waiting);
        Ok(())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An endpoint with its thread, which ends with the program.
pub(crate) struct Service {
    endpoint: Endpoint,
    more: Sender<(Box<dyn Plug>, Circuit)>,
    bell: OwnedFd,
}

impl Service {
    /// Binds `local` and starts the thread. With `listening`, a socket to which an octet is written
    /// for each connection, peers are accepted.
    pub(crate) fn start(
        local: SocketAddr,
        settings: &Settings,
        listening: Option<(UnixStream, Queue)>,
    ) -> io::Result<Service> {
        let endpoint = Endpoint::bind(local, settings)?;
        endpoint.listen(listening.is_some());
        let (more, taken) = channel();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags)?;
        let handed = Handed {
            more: taken,
            bell: bell.try_clone()?,
            accepted: Box::new(move |peer| accept(listening.as_ref(), peer)),
        };
        let mut forwarder = Forwarder::handed(endpoint.clone(), handed, settings)?;
        std::thread::Builder::new()
            .name("towpath-service".into())
            .spawn(move || {
                // It ends with the program; an endpoint that fails breaks its connections.
                let _ = forwarder.run(&AtomicBool::new(false));
            })?;
        Ok(Service {
            endpoint,
            more,
            bell,
        })
    }

    /// Where it is.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.endpoint.local_addr()
    }

    /// Opens a circuit to `peer` and has `end` carried to and from it.
    pub(crate) fn connect(&self, peer: SocketAddr, end: End, limit: Duration) -> io::Result<()> {
        let circuit = self.endpoint.connect(peer, limit)?;
        let gone = || io::Error::other("the library's thread is gone");
        self.more
            .send((Box::new(end), circuit))
            .map_err(|_| gone())?;
        rustix::io::write(&self.bell, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// Waits until peers have everything, for some seconds at most.
    pub(crate) fn drain(&self) {
        let end = Instant::now() + LINGER;
        while self.endpoint.holdings().associations > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Makes a socket for a connection that a peer opened.
fn accept(listening: Option<&(UnixStream, Queue)>, peer: SocketAddr) -> io::Result<Box<dyn Plug>> {
    let Some((told, queue)) = listening else {
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    let (program, end) = End::pair()?;
    let broken = end.broken();
    queue.push(Waiting {
        program,
        peer,
        broken,
    })?;
    let mut told: &UnixStream = told;
    told.write_all(&[0])?;
    Ok(Box::new(end))
}
