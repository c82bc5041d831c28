//! The thread of a byte-stream endpoint: tunnels between socket pairs and circuits.

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

/// How long a peer may take to answer a connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// How long exit(3) waits until written data are acknowledged.
const EXIT_DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// How long the thread stays after the program closed a socket: twice the time for which a peer is
/// polled before it is given up (CTIMEOUT).
const CLOSE_TIMEOUT: Duration = Duration::from_secs(60);

/// Creates a socket pair of `kind`: the program's end and the library's.
pub(crate) fn socket_pair(
    kind: SocketType,
    state: ConnState,
) -> io::Result<(OwnedFd, Arc<SocketPairEnd>)> {
    let flags = SocketFlags::CLOEXEC;
    let (program, end) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
    Ok((program, SocketPairEnd::new(end, state)))
}

/// An endpoint that may have unacknowledged data.
pub(crate) struct RunningEndpoint {
    pub(crate) endpoint: Endpoint,
    /// The socket of a datagram endpoint, which may hold unsent datagrams.
    datagram_socket: Option<Arc<SocketPairEnd>>,
    /// The socket holds no unsent datagrams and the program writes no more.
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

    /// Notes that all datagrams were sent and the program writes no more.
    pub(crate) fn set_input_drained(&self) {
        self.input_drained.store(true, Ordering::Release);
    }

    /// Stops the program from writing and waits, up to the exit timeout, until peers have
    /// acknowledged everything.
    pub(crate) fn drain(&self) {
        if let Some(source) = &self.datagram_socket {
            source.stop_program_writes();
        }
        self.wait(EXIT_DRAIN_TIMEOUT, false);
    }

    /// As [`drain`](RunningEndpoint::drain) after close(2): also waits while quarantined keys must
    /// answer peers' status requests.
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

/// A connection in the accept queue.
pub(crate) struct PendingConn {
    pub(crate) program: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) link: Arc<SocketPairEnd>,
}

/// The accept queue; the listening socket holds an octet for each entry. None when closed.
#[derive(Clone)]
pub(crate) struct AcceptQueue(Arc<Mutex<Option<VecDeque<PendingConn>>>>, usize);

impl AcceptQueue {
    fn new(len_max: usize) -> AcceptQueue {
        AcceptQueue(Arc::new(Mutex::new(Some(VecDeque::new()))), len_max)
    }

    /// Takes the oldest.
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

/// Handle of a tunnel thread, which ends after its last connection when this is dropped.
pub(crate) struct StreamService {
    pub(crate) running: Arc<RunningEndpoint>,
    circuits_tx: Option<Sender<(Box<dyn LocalSocket>, Circuit)>>,
    wakeup: OwnedFd,
    pub(crate) queue: Option<AcceptQueue>,
}

impl StreamService {
    /// Binds `local` and starts the thread. With `listening`, the listening socket and its backlog,
    /// incoming associations are accepted.
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

    /// The local address.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.running.endpoint.local_addr()
    }

    /// Opens a circuit to `peer` and tunnels `link` over it.
    pub(crate) fn connect(&self, peer: SocketAddr, link: &Arc<SocketPairEnd>) -> io::Result<()> {
        self.hand_over(self.running.endpoint.begin_connect(peer)?, link)
    }

    /// Opens a transaction with `peer`; the reply goes to `link`.
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
        // Fails only if the counter is full, and then the thread wakes anyway.
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

/// Runs a tunnel in a thread of its own.
fn spawn_tunnel(mut forwarder: Tunnel, running: Arc<RunningEndpoint>) -> io::Result<()> {
    let thread = std::thread::Builder::new().name("towpath-service".into());
    thread.spawn(move || {
        // If the endpoint fails, its connections are reset.
        let _ = forwarder.run(&AtomicBool::new(false));
        running.wait_closed();
    })?;
    Ok(())
}

/// Creates the socket of an incoming connection and puts it into the accept queue.
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
