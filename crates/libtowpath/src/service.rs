//! The thread of an endpoint of byte streams: carries between sockets and circuits.

use crate::link::{End, Link, Stage};
use library::forward::{Forwarder, Handed, Plug};
use library::xtp::{Circuit, Endpoint, Settings};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a peer may take to answer an opening.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long the end of the program waits for what it wrote to arrive.
const LINGER: Duration = Duration::from_secs(3);

/// How long a thread waits for that after the program closed a socket: twice as long as a peer is
/// asked (CTIMEOUT).
const CLOSING: Duration = Duration::from_secs(60);

/// Both ends of a new socket of `kind`: the program's and the library's.
pub(crate) fn pair(kind: SocketType, stage: Stage) -> io::Result<(OwnedFd, Arc<Link>)> {
    let flags = SocketFlags::CLOEXEC;
    let (program, end) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    Ok((program, Link::new(end, stage)))
}

/// An endpoint that may still have something to bring to a peer.
pub(crate) struct Running {
    pub(crate) endpoint: Endpoint,
    /// The socket of an endpoint of datagrams, which may hold some that have not left.
    source: Option<Arc<Link>>,
    /// All of them have.
    is_empty: AtomicBool,
}

impl Running {
    pub(crate) fn new(endpoint: Endpoint, source: Option<Arc<Link>>) -> Arc<Running> {
        let is_empty = AtomicBool::new(source.is_none());
        Arc::new(Running {
            endpoint,
            source,
            is_empty,
        })
    }

    /// Nothing that the program wrote is left in its socket, and it writes no more.
    pub(crate) fn set_empty(&self) {
        self.is_empty.store(true, Ordering::Release);
    }

    /// Waits until peers have everything, for some seconds at most. The program writes no more.
    pub(crate) fn drain(&self) {
        if let Some(source) = &self.source {
            source.end_writing();
        }
        self.wait(LINGER, false);
    }

    /// As [`drain`](Running::drain) after a socket was closed; questions about its end are answered.
    pub(crate) fn close(&self) {
        self.wait(CLOSING, true);
    }

    fn wait(&self, limit: Duration, answers: bool) {
        let end = Instant::now() + limit;
        let is_busy = || {
            let holdings = self.endpoint.holdings();
            let left = holdings.associations > 0 || !self.is_empty.load(Ordering::Acquire);
            left || answers && holdings.quarantined > 0
        };
        while is_busy() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A connection that a peer opened and nobody accepted yet.
pub(crate) struct Waiting {
    pub(crate) program: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) link: Arc<Link>,
}

/// Connections to accept. For each an octet lies in the listening socket. None when it is closed.
#[derive(Clone)]
pub(crate) struct Queue(Arc<Mutex<Option<VecDeque<Waiting>>>>, usize);

impl Queue {
    fn new(len_max: usize) -> Queue {
        Queue(Arc::new(Mutex::new(Some(VecDeque::new()))), len_max)
    }

    /// The oldest.
    pub(crate) fn pop(&self) -> Option<Waiting> {
        self.lock().as_mut()?.pop_front()
    }

    fn push(&self, waiting: Waiting) -> io::Result<()> {
        match self.lock().as_mut() {
            Some(queue) if queue.len() < self.1 => {
                queue.push_back(waiting);
                Ok(())
            }
            _ => Err(io::ErrorKind::ConnectionRefused.into()),
        }
    }

    fn close(&self) {
        let left = self.lock().take();
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A way to a thread that carries. When it is dropped, the thread ends after its last connection.
pub(crate) struct Service {
    pub(crate) running: Arc<Running>,
    more: Option<Sender<(Box<dyn Plug>, Circuit)>>,
    bell: OwnedFd,
    pub(crate) queue: Option<Queue>,
}

impl Service {
    /// Binds `local` and starts the thread. With `listening`, a socket to which an octet is written
    /// for each connection, and how many may wait, peers are accepted.
    pub(crate) fn start(
        local: SocketAddr,
        settings: &Settings,
        listening: Option<(Arc<Link>, usize)>,
    ) -> io::Result<Service> {
        let endpoint = Endpoint::bind(local, settings)?;
        endpoint.listen(listening.is_some());
        let (more, taken) = channel();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let bell = rustix::event::eventfd(0, flags)?;
        let told = listening.map(|(link, len_max)| (link, Queue::new(len_max)));
        let queue = told.as_ref().map(|(_, queue)| queue.clone());
        let handed = Handed {
            more: taken,
            bell: bell.try_clone()?,
            opening_limit: CONNECT_LIMIT,
            accepted: Box::new(move |peer| accept(told.as_ref(), peer)),
        };
        let forwarder = Forwarder::handed(endpoint.clone(), handed, settings)?;
        let running = Running::new(endpoint, None);
        carry(forwarder, Arc::clone(&running))?;
        Ok(Service {
            running,
            more: Some(more),
            bell,
            queue,
        })
    }

    /// Where it is.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.running.endpoint.local_addr()
    }

    /// Begins a circuit to `peer` and has `link` carried to and from it.
    pub(crate) fn connect(&self, peer: SocketAddr, link: &Arc<Link>) -> io::Result<()> {
        self.hand(self.running.endpoint.begin(peer)?, link)
    }

    /// Sends a request to `peer` and has the reply carried to `link`.
    pub(crate) fn transact(
        &self,
        peer: SocketAddr,
        request: &[u8],
        link: &Arc<Link>,
    ) -> io::Result<()> {
        self.hand(
            self.running.endpoint.begin_transaction(peer, request)?,
            link,
        )
    }

    fn hand(&self, circuit: Circuit, link: &Arc<Link>) -> io::Result<()> {
        let gone = || io::Error::other("the library's thread is gone");
        let more = self.more.as_ref().ok_or_else(gone)?;
        let end = End(Arc::clone(link));
        more.send((Box::new(end), circuit)).map_err(|_| gone())?;
        self.ring();
        Ok(())
    }

    fn ring(&self) {
        // A bell that is full has been rung.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.close();
        }
        self.more = None;
        self.ring();
    }
}

/// Runs a forwarder in a thread, until nobody needs it.
fn carry(mut forwarder: Forwarder, running: Arc<Running>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("towpath-service".into());
    thread.spawn(move || {
        // An endpoint that fails breaks its connections.
        let _ = forwarder.run(&AtomicBool::new(false));
        running.close();
    })?;
    Ok(())
}

/// Makes a socket for a connection that a peer opened.
fn accept(told: Option<&(Arc<Link>, Queue)>, peer: SocketAddr) -> io::Result<Box<dyn Plug>> {
    let Some((told, queue)) = told else {
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    let (program, link) = pair(SocketType::STREAM, Stage::Open)?;
    queue.push(Waiting {
        program,
        peer,
        link: Arc::clone(&link),
    })?;
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    rustix::net::send(told.end(), &[0], flags)?;
    Ok(Box::new(End(link)))
}
