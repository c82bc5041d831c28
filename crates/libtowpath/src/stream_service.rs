//! The thread of an endpoint of byte streams: carries between sockets and circuits.

use crate::socket_pair::{ConnState, SocketPairEnd, StreamEnd};
use library::tunnel::{ExternalSockets, LocalSocket, Tunnel};
use library::xtp::{Circuit, Endpoint, EndpointConfig};
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
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the end of the program waits for what it wrote to arrive.
const EXIT_DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// How long a thread waits for that after the program closed a socket: twice as long as a peer is
/// asked (CTIMEOUT).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Both ends of a new socket of `kind`: the program's and the library's.
pub(crate) fn socket_pair(
    kind: SocketType,
    state: ConnState,
) -> io::Result<(OwnedFd, Arc<SocketPairEnd>)> {
    let flags = SocketFlags::CLOEXEC;
    let (program, end) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    Ok((program, SocketPairEnd::new(end, state)))
}

/// An endpoint that may still have something to bring to a peer.
pub(crate) struct RunningEndpoint {
    pub(crate) endpoint: Endpoint,
    /// The socket of an endpoint of datagrams, which may hold some that have not left.
    datagram_socket: Option<Arc<SocketPairEnd>>,
    /// All of them have.
    input_drained: AtomicBool,
}

impl RunningEndpoint {
    pub(crate) fn new(
        endpoint: Endpoint,
        source: Option<Arc<SocketPairEnd>>,
    ) -> Arc<RunningEndpoint> {
        let is_empty = AtomicBool::new(source.is_none());
        Arc::new(RunningEndpoint {
            endpoint,
            datagram_socket: source,
            input_drained: is_empty,
        })
    }

    /// Nothing that the program wrote is left in its socket, and it writes no more.
    pub(crate) fn set_input_drained(&self) {
        self.input_drained.store(true, Ordering::Release);
    }

    /// Waits until peers have everything, for some seconds at most. The program writes no more.
    pub(crate) fn drain(&self) {
        if let Some(source) = &self.datagram_socket {
            source.stop_program_writes();
        }
        self.wait(EXIT_DRAIN_TIMEOUT, false);
    }

    /// As [`drain`](Running::drain) after a socket was closed; questions about its end are answered.
    pub(crate) fn wait_closed(&self) {
        self.wait(CLOSE_TIMEOUT, true);
    }

    fn wait(&self, limit: Duration, answers: bool) {
        let end = Instant::now() + limit;
        let is_busy = || {
            let holdings = self.endpoint.holdings();
            let left = holdings.associations > 0 || !self.input_drained.load(Ordering::Acquire);
            left || answers && holdings.quarantined > 0
        };
        while is_busy() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// A connection that a peer opened and nobody accepted yet.
pub(crate) struct PendingConn {
    pub(crate) program: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) link: Arc<SocketPairEnd>,
}

/// Connections to accept. For each an octet lies in the listening socket. None when it is closed.
#[derive(Clone)]
pub(crate) struct AcceptQueue(Arc<Mutex<Option<VecDeque<PendingConn>>>>, usize);

impl AcceptQueue {
    fn new(len_max: usize) -> AcceptQueue {
        AcceptQueue(Arc::new(Mutex::new(Some(VecDeque::new()))), len_max)
    }

    /// The oldest.
    pub(crate) fn pop(&self) -> Option<PendingConn> {
        self.lock().as_mut()?.pop_front()
    }

    fn push(&self, waiting: PendingConn) -> io::Result<()> {
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

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<PendingConn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A way to a thread that carries. When it is dropped, the thread ends after its last connection.
pub(crate) struct StreamService {
    pub(crate) running: Arc<RunningEndpoint>,
    circuits_tx: Option<Sender<(Box<dyn LocalSocket>, Circuit)>>,
    wakeup: OwnedFd,
    pub(crate) queue: Option<AcceptQueue>,
}

impl StreamService {
    /// Binds `local` and starts the thread. With `listening`, a socket to which an octet is written
    /// for each connection, and how many may wait, peers are accepted.
    pub(crate) fn start(
        local: SocketAddr,
        settings: &EndpointConfig,
        listening: Option<(Arc<SocketPairEnd>, usize)>,
    ) -> io::Result<StreamService> {
        let endpoint = Endpoint::bind(local, settings)?;
        endpoint.listen(listening.is_some());
        let (more, taken) = channel();
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let wakeup = rustix::event::eventfd(0, flags)?;
        let listener = listening.map(|(link, len_max)| (link, AcceptQueue::new(len_max)));
        let queue = listener.as_ref().map(|(_, queue)| queue.clone());
        let handed = ExternalSockets {
            incoming: taken,
            event_fd: wakeup.try_clone()?,
            handshake_timeout: CONNECT_TIMEOUT,
            make_socket: Box::new(move |peer| enqueue_accepted(listener.as_ref(), peer)),
        };
        let forwarder = Tunnel::external(endpoint.clone(), handed, settings)?;
        let running = RunningEndpoint::new(endpoint, None);
        spawn_tunnel(forwarder, Arc::clone(&running))?;
        Ok(StreamService {
            running,
            circuits_tx: Some(more),
            wakeup,
            queue,
        })
    }

    /// Where it is.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.running.endpoint.local_addr()
    }

    /// Begins a circuit to `peer` and has `link` carried to and from it.
    pub(crate) fn connect(&self, peer: SocketAddr, link: &Arc<SocketPairEnd>) -> io::Result<()> {
        self.hand_over(self.running.endpoint.begin_connect(peer)?, link)
    }

    /// Sends a request to `peer` and has the reply carried to `link`.
    pub(crate) fn transact(
        &self,
        peer: SocketAddr,
        request: &[u8],
        link: &Arc<SocketPairEnd>,
    ) -> io::Result<()> {
        self.hand_over(
            self.running.endpoint.begin_transaction(peer, request)?,
            link,
        )
    }

    fn hand_over(&self, circuit: Circuit, link: &Arc<SocketPairEnd>) -> io::Result<()> {
        let gone = || io::Error::other("the library's thread is gone");
        let more = self.circuits_tx.as_ref().ok_or_else(gone)?;
        let end = StreamEnd(Arc::clone(link));
        more.send((Box::new(end), circuit)).map_err(|_| gone())?;
        self.wake();
        Ok(())
    }

    fn wake(&self) {
        // A bell that is full has been rung.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }
}

impl Drop for StreamService {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.close();
        }
        self.circuits_tx = None;
        self.wake();
    }
}

/// Runs a forwarder in a thread, until nobody needs it.
fn spawn_tunnel(mut forwarder: Tunnel, running: Arc<RunningEndpoint>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("towpath-service".into());
    thread.spawn(move || {
        // An endpoint that fails breaks its connections.
        let _ = forwarder.run(&AtomicBool::new(false));
        running.wait_closed();
    })?;
    Ok(())
}

/// Makes a socket for a connection that a peer opened.
fn enqueue_accepted(
    listener: Option<&(Arc<SocketPairEnd>, AcceptQueue)>,
    peer: SocketAddr,
) -> io::Result<Box<dyn LocalSocket>> {
    let Some((listener, queue)) = listener else {
        return Err(io::ErrorKind::ConnectionRefused.into());
    };
    let (program, link) = socket_pair(SocketType::STREAM, ConnState::Established)?;
    queue.push(PendingConn {
        program,
        peer,
        link: Arc::clone(&link),
    })?;
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    rustix::net::send(listener.fd(), &[0], flags)?;
    Ok(Box::new(StreamEnd(link)))
}
