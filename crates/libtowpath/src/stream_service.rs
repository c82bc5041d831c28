//! The thread of a byte-stream endpoint: tunnels between socket pairs and circuits.

use crate::direct::{self, DirectConnection};
use crate::socket_pair::{ConnState, SocketPairEnd, StreamEnd};
use library::tunnel::{ExternalSockets, LocalSocket, SharedWatch, Tunnel};
use library::xtp::{AssociationId, Circuit, Endpoint, EndpointConfig};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
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

/// The association of a connection, as long as its endpoint runs.
#[derive(Clone)]
pub(crate) struct CircuitHandle {
    running: Weak<RunningEndpoint>,
    id: AssociationId,
}

impl CircuitHandle {
    /// Its endpoint and its number there. Errors: ENOTCONN once the endpoint has ended.
    pub(crate) fn get(&self) -> io::Result<(Endpoint, AssociationId)> {
        let running = self.running.upgrade().ok_or(Errno::NOTCONN)?;
        Ok((running.endpoint.clone(), self.id))
    }
}

/// A connection in the accept queue.
pub(crate) struct PendingConn {
    pub(crate) program: OwnedFd,
    pub(crate) peer: SocketAddr,
    pub(crate) link: Arc<SocketPairEnd>,
    /// Its association; None over a device.
    pub(crate) circuit: Option<CircuitHandle>,
    /// The program's calls, if they move its data.
    pub(crate) direct: Option<Arc<DirectConnection>>,
}

/// The accept queue; the listening socket holds an octet for each entry. None when closed.
#[derive(Clone)]
pub(crate) struct AcceptQueue(Arc<Mutex<Option<VecDeque<PendingConn>>>>, usize);

impl AcceptQueue {
    pub(crate) fn new(len_max: usize) -> AcceptQueue {
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

    /// Whether another one has room.
    pub(crate) fn has_room(&self) -> bool {
        let queue = self.lock();
        queue.as_ref().is_some_and(|queue| queue.len() < self.1)
    }

    pub(crate) fn close(&self) {
        let left = self.lock().take();
        drop(left);
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<PendingConn>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How sockets get to a tunnel's thread, which ends after its last connection when all of these are dropped.
pub(crate) struct Handover {
    circuits_tx: Sender<(Box<dyn LocalSocket>, Circuit)>,
    pub(crate) watch: Arc<SharedWatch>,
    /// Octets that an association of the endpoint takes at once.
    pub(crate) piece_len: usize,
    /// Dropped after the sender, so that the thread finds it gone.
    _last_wake: LastWake,
}

impl Handover {
    /// The thread carries `circuit` by `end`. Without a thread both end.
    pub(crate) fn hand_over(&self, end: StreamEnd, circuit: Circuit) {
        if let Err(refused) = self.circuits_tx.send((Box::new(end), circuit)) {
            let (end, circuit) = refused.0;
            end.reset(None);
            // There is no caller to report an error to.
            let _ = circuit.abort();
        }
        self.watch.wake_tunnel();
    }

    /// Of an endpoint whose tunnel has no thread: nobody looks at it but who calls.
    #[cfg(test)]
    pub(crate) fn without_thread(endpoint: &Endpoint) -> io::Result<Arc<Handover>> {
        let (circuits_tx, _) = channel();
        let watch = SharedWatch::new(endpoint)?;
        Ok(Arc::new(Handover {
            circuits_tx,
            watch: Arc::clone(&watch),
            piece_len: 64 << 10,
            _last_wake: LastWake(watch),
        }))
    }
}

/// Wakes a tunnel's thread when it is dropped.
struct LastWake(Arc<SharedWatch>);

impl Drop for LastWake {
    fn drop(&mut self) {
        self.0.wake_tunnel();
    }
}

/// Handle of a tunnel thread, which ends after its last connection when this is dropped.
pub(crate) struct StreamService {
    pub(crate) running: Arc<RunningEndpoint>,
    handover: Arc<Handover>,
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
        let (circuits_tx, incoming) = channel();
        let watch = SharedWatch::new(&endpoint)?;
        let handover = Arc::new(Handover {
            circuits_tx,
            watch: Arc::clone(&watch),
            // A message may take half of the send store.
            piece_len: (settings.send_buffer_len / 4).clamp(1024, 64 << 10),
            _last_wake: LastWake(Arc::clone(&watch)),
        });
        let queue = listening
            .as_ref()
            .map(|(_, len_max)| AcceptQueue::new(*len_max));
        let listener = listening.map(|(link, _)| link).zip(queue.clone());
        // The tunnel's thread itself does not keep it from ending.
        let of_tunnel = Arc::downgrade(&handover);
        let running = RunningEndpoint::new(endpoint.clone(), None);
        let of_socket = Arc::downgrade(&running);
        let handed = ExternalSockets {
            incoming,
            watch,
            handshake_timeout: CONNECT_TIMEOUT,
            make_socket: Box::new(move |peer, id| {
                let circuit = CircuitHandle {
                    running: Weak::clone(&of_socket),
                    id,
                };
                enqueue_accepted(listener.as_ref(), &of_tunnel, (peer, circuit))
            }),
        };
        let forwarder = Tunnel::external(endpoint, handed, settings)?;
        spawn_tunnel(forwarder, Arc::clone(&running))?;
        Ok(StreamService {
            running,
            handover,
            queue,
        })
    }

    /// The local address.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.running.endpoint.local_addr()
    }

    /// Opens a circuit to the `peer` with its priority for `link`, whose program has the descriptor `fd`.
    pub(crate) fn connect(
        &self,
        (peer, sort): (SocketAddr, Option<u16>),
        link: &Arc<SocketPairEnd>,
        fd: RawFd,
    ) -> io::Result<CircuitHandle> {
        let circuit = self.running.endpoint.begin_connect_sorted(peer, sort)?;
        let direct = self.direct(link);
        if let Some(direct) = &direct {
            direct.enter(fd);
        }
        let end = StreamEnd::for_direct(Arc::clone(link), direct);
        Ok(self.hand_over(end, circuit))
    }

    /// Opens a circuit to `peer` and tunnels `link` over it: its first bytes may be there before the peer's answer.
    pub(crate) fn connect_early(
        &self,
        (peer, sort): (SocketAddr, Option<u16>),
        link: &Arc<SocketPairEnd>,
    ) -> io::Result<CircuitHandle> {
        let circuit = self.running.endpoint.begin_connect_sorted(peer, sort)?;
        Ok(self.hand_over(StreamEnd::new(Arc::clone(link)), circuit))
    }

    fn direct(&self, link: &Arc<SocketPairEnd>) -> Option<Arc<DirectConnection>> {
        let new = || DirectConnection::new(Arc::clone(link), Arc::clone(&self.handover));
        direct::is_enabled().then(new)
    }

    /// Opens a transaction with `peer`; the reply goes to `link`.
    pub(crate) fn transact(
        &self,
        (peer, sort): (SocketAddr, Option<u16>),
        request: &[u8],
        link: &Arc<SocketPairEnd>,
    ) -> io::Result<CircuitHandle> {
        let mut circuit = self.running.endpoint.begin_transaction(peer, request)?;
        if sort.is_some() {
            circuit.set_sort(sort)?;
        }
        Ok(self.hand_over(StreamEnd::new(Arc::clone(link)), circuit))
    }

    /// The thread carries `circuit` by `end`.
    fn hand_over(&self, end: StreamEnd, circuit: Circuit) -> CircuitHandle {
        let handle = CircuitHandle {
            running: Arc::downgrade(&self.running),
            id: circuit.id(),
        };
        self.handover.hand_over(end, circuit);
        handle
    }
}

impl Drop for StreamService {
    fn drop(&mut self) {
        if let Some(queue) = &self.queue {
            queue.close();
        }
        // Connections of the program may keep the thread.
        self.running.endpoint.listen(false);
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
    handover: &Weak<Handover>,
    (peer, circuit): (SocketAddr, CircuitHandle),
) -> io::Result<Box<dyn LocalSocket>> {
    let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
    let (listener, queue) = listener.ok_or_else(refused)?;
    let (program, link) = socket_pair(SocketType::STREAM, ConnState::Established)?;
    let handover = handover.upgrade().filter(|_| direct::is_enabled());
    let direct = handover.map(|handover| DirectConnection::new(Arc::clone(&link), handover));
    let waiting = PendingConn {
        program,
        peer,
        link: Arc::clone(&link),
        circuit: Some(circuit),
        direct: direct.clone(),
    };
    match &direct {
        Some(direct) if queue.has_room() => {
            // The program sees it when its calls can move the data.
            let (listener, queue) = (Arc::clone(listener), queue.clone());
            // A listener that was closed meanwhile drops it, and so ends it.
            direct.set_announce(Box::new(move || drop(announce(&listener, &queue, waiting))));
        }
        Some(_) => return Err(refused()),
        None => announce(listener, queue, waiting)?,
    }
    Ok(Box::new(StreamEnd::for_direct(link, direct)))
}

/// Puts a connection into the accept queue, and makes the listening socket readable.
pub(crate) fn announce(
    listener: &SocketPairEnd,
    queue: &AcceptQueue,
    waiting: PendingConn,
) -> io::Result<()> {
    queue.push(waiting)?;
    let flags = rustix::net::SendFlags::DONTWAIT | rustix::net::SendFlags::NOSIGNAL;
    rustix::net::send(listener.fd(), &[0], flags)?;
    Ok(())
}
