//! The thread of a datagram socket.
//!
//! Each datagram in the socket pair has a [`DatagramHeader`]. What the program writes is sent in an
//! association of its own; the first message of each association that a peer opens is delivered as
//! a datagram. If the program does not read, unacknowledged datagrams (SOCK_DGRAM) are dropped, as
//! UDP's are, and acknowledged ones (SOCK_RDM) wait, so that their senders wait too.

use crate::datagram_header::{DatagramHeader, HEADER_LEN};
use crate::socket_pair::SocketPairEnd;
use crate::stream_service::RunningEndpoint;
use crate::sys::errno_of;
use library::xtp::{AssociationId, Circuit, Endpoint, EndpointConfig, EndpointWatch};
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The longest datagram, as UDP's.
pub(crate) const DATAGRAM_MAX: usize = 65_507;

/// How often all associations are polled even without an event.
const SCAN_INTERVAL: Duration = Duration::from_millis(100);

/// How long the message of an association may take to arrive, or to be acknowledged.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of associations whose message has not arrived, and of those not yet acknowledged; equal to
/// an endpoint's limit of unvalidated associations.
const PENDING_MAX: usize = 1024;

/// Datagrams queued here for the program at most: 16 MiB of the longest.
const UNDELIVERED_MAX: usize = 256;

/// Datagrams sent per round, before incoming associations are served.
const SENDS_PER_ROUND: usize = 64;

/// A bound datagram socket.
pub(crate) struct DatagramPort {
    address: SocketAddr,
    peer_filter: Arc<Mutex<Option<SocketAddr>>>,
    pub(crate) running: Arc<RunningEndpoint>,
    /// Octets of the longest datagram it can send.
    pub(crate) len_max: usize,
}

impl DatagramPort {
    /// Binds `local` and starts the thread, which ends after the program has closed the socket.
    pub(crate) fn start(
        local: SocketAddr,
        settings: &EndpointConfig,
        link: &Arc<SocketPairEnd>,
        acknowledged: bool,
    ) -> io::Result<DatagramPort> {
        let endpoint = Endpoint::bind_messages(local, settings)?;
        endpoint.listen(true);
        let watch = endpoint.watch()?;
        let peer_filter = Arc::new(Mutex::new(None));
        let running = RunningEndpoint::new(endpoint.clone(), Some(Arc::clone(link)));
        let mut carrier = PortThread::new(
            endpoint,
            watch,
            Arc::clone(link),
            acknowledged,
            &peer_filter,
        )?;
        let kept = Arc::clone(&running);
        let thread = std::thread::Builder::new().name("towpath-port".into());
        thread.spawn(move || {
            if let Err(error) = carrier.run(&kept) {
                carrier.link.abort(errno_of(&error));
            }
            drop(carrier);
            kept.set_input_drained();
            kept.wait_closed();
        })?;
        Ok(DatagramPort {
            address: running.endpoint.local_addr(),
            peer_filter,
            running,
            len_max: DATAGRAM_MAX.min(settings.send_buffer_len / 2),
        })
    }

    /// The local address.
    pub(crate) fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts datagrams from `peer` only; None for any peer.
    pub(crate) fn set_peer_filter(&self, peer: Option<SocketAddr>) {
        *self
            .peer_filter
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = peer;
    }
}

/// An association whose message is being received or acknowledged.
struct PendingAssociation {
    circuit: Circuit,
    deadline: Instant,
}

/// The thread's state.
struct PortThread {
    endpoint: Endpoint,
    watch: EndpointWatch,
    link: Arc<SocketPairEnd>,
    acknowledged: bool,
    peer_filter: Arc<Mutex<Option<SocketAddr>>>,
    epoll: OwnedFd,
    receiving: BTreeMap<AssociationId, PendingAssociation>,
    sent: BTreeMap<AssociationId, PendingAssociation>,
    /// Datagrams, with headers, that the socket pair had no room for.
    undelivered: VecDeque<Vec<u8>>,
    /// The program writes no more.
    input_ended: bool,
    buffer: Vec<u8>,
}

const PROGRAM_TOKEN: u64 = 0;
const READINESS_TOKEN: u64 = 1;

impl PortThread {
    fn new(
        endpoint: Endpoint,
        watch: EndpointWatch,
        link: Arc<SocketPairEnd>,
        acknowledged: bool,
        peer_filter: &Arc<Mutex<Option<SocketAddr>>>,
    ) -> io::Result<PortThread> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let readable = epoll::EventFlags::IN;
        let name = epoll::EventData::new_u64;
        epoll::add(&epoll, link.fd(), name(PROGRAM_TOKEN), readable)?;
        epoll::add(&epoll, watch.descriptor(), name(READINESS_TOKEN), readable)?;
        Ok(PortThread {
            endpoint,
            watch,
            link,
            acknowledged,
            peer_filter: Arc::clone(peer_filter),
            epoll,
            receiving: BTreeMap::new(),
            sent: BTreeMap::new(),
            undelivered: VecDeque::new(),
            input_ended: false,
            buffer: vec![0; HEADER_LEN + DATAGRAM_MAX],
        })
    }

    /// Runs until the program has closed the socket and peers have acknowledged what it sent.
    fn run(&mut self, running: &RunningEndpoint) -> io::Result<()> {
        let mut ready = Vec::new();
        let mut scanned_at = Instant::now();
        while !self.input_ended || !self.sent.is_empty() || !self.link.is_closed_by_program() {
            self.wait()?;
            self.deliver_pending()?;
            if !self.input_ended {
                self.send_pending()?;
            } else if self.sent.is_empty() {
                running.set_input_drained();
            }
            let accepts = self.watch.poll_ready(&mut ready)?;
            for id in ready.drain(..) {
                self.poll_association(id)?;
            }
            if accepts {
                self.accept()?;
            }
            if scanned_at.elapsed() >= SCAN_INTERVAL {
                scanned_at = Instant::now();
                self.poll_all()?;
            }
        }
        Ok(())
    }

    /// Sleeps until an event or the scan interval.
    fn wait(&mut self) -> io::Result<()> {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, !self.input_ended);
        flags.set(epoll::EventFlags::OUT, !self.undelivered.is_empty());
        let name = epoll::EventData::new_u64(PROGRAM_TOKEN);
        epoll::modify(&self.epoll, self.link.fd(), name, flags)?;
        let max_wait = self.watch.prepare_wait()?;
        let limit = max_wait.map_or(SCAN_INTERVAL, |max_wait| max_wait.min(SCAN_INTERVAL));
        if self.input_ended && self.link.is_closed_by_program() {
            // epoll would report the hang-up of a closed socket without end.
            std::thread::sleep(limit.min(Duration::from_millis(2)));
            return Ok(());
        }
        let limit = Timespec {
            tv_sec: limit.as_secs() as i64,
            tv_nsec: i64::from(limit.subsec_nanos()),
        };
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(0),
        }; 2];
        match epoll::wait(&self.epoll, &mut events, Some(&limit)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends the datagrams that the program wrote.
    fn send_pending(&mut self) -> io::Result<()> {
        for _ in 0..SENDS_PER_ROUND {
            if self.sent.len() >= PENDING_MAX {
                return Ok(());
            }
            let mut buffer = std::mem::take(&mut self.buffer);
            let got = rustix::net::recv(self.link.fd(), &mut buffer[..], RecvFlags::DONTWAIT);
            self.buffer = buffer;
            match got {
                Ok((_, 0)) => {
                    self.input_ended = true;
                    return Ok(());
                }
                Ok((_, len)) => self.send(len),
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                // The program closed the socket with unread datagrams in it.
                Err(Errno::CONNRESET) => self.input_ended = true,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn send(&mut self, len: usize) {
        let len = len.min(self.buffer.len());
        let Some(DatagramHeader::Data(to)) = DatagramHeader::parse(&self.buffer[..len]) else {
            return;
        };
        let message = &self.buffer[HEADER_LEN..len];
        let sent = match self.acknowledged {
            false => self.endpoint.send_datagram(to, message),
            true => match self.endpoint.begin_acknowledged(to, message) {
                Ok(circuit) => {
                    let deadline = Instant::now() + MESSAGE_TIMEOUT;
                    self.sent
                        .insert(circuit.id(), PendingAssociation { circuit, deadline });
                    Ok(())
                }
                Err(error) => Err(error),
            },
        };
        if let Err(error) = sent {
            self.report_error(&error);
        }
    }

    /// Makes the program's next call fail with `error`, and wakes it.
    fn report_error(&mut self, error: &io::Error) {
        self.link.set_error(errno_of(error));
        let packet = DatagramHeader::Error.encode();
        // A full socket has woken the program already.
        let _ = rustix::net::send(self.link.fd(), &packet, send_flags());
    }

    fn accept(&mut self) -> io::Result<()> {
        while self.receiving.len() < PENDING_MAX && self.undelivered.len() < UNDELIVERED_MAX {
            let Ok(circuit) = self.endpoint.try_accept() else {
                return Ok(());
            };
            let id = circuit.id();
            let deadline = Instant::now() + MESSAGE_TIMEOUT;
            self.receiving
                .insert(id, PendingAssociation { circuit, deadline });
            self.poll_association(id)?;
        }
        Ok(())
    }

    /// Handles progress of an association.
    fn poll_association(&mut self, id: AssociationId) -> io::Result<()> {
        if let Some(pending) = self.sent.get_mut(&id) {
            match pending.circuit.drain(Duration::ZERO) {
                Err(error) if is_pending(&error, pending.deadline) => {}
                Ok(()) => drop(self.sent.remove(&id)),
                Err(error) => {
                    self.sent.remove(&id);
                    self.report_error(&error);
                }
            }
            return Ok(());
        }
        let Some(pending) = self.receiving.get_mut(&id) else {
            return Ok(());
        };
        if self.undelivered.len() >= UNDELIVERED_MAX {
            return Ok(());
        }
        let peer = pending.circuit.peer();
        let deadline = pending.deadline;
        let got = pending.circuit.try_recv(&mut self.buffer[HEADER_LEN..]);
        if matches!(&got, Err(error) if is_pending(error, deadline)) {
            return Ok(());
        }
        self.receiving.remove(&id);
        match got {
            // An association that ends without a message is an empty datagram.
            Ok(len) => self.deliver(peer, len.unwrap_or(0).min(DATAGRAM_MAX)),
            Err(_) => Ok(()),
        }
    }

    /// Delivers the datagram in the buffer to the program.
    fn deliver(&mut self, from: SocketAddr, len: usize) -> io::Result<()> {
        let peer_filter = *self
            .peer_filter
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if peer_filter.is_some_and(|peer_filter| peer_filter != from) {
            return Ok(());
        }
        self.buffer[..HEADER_LEN].copy_from_slice(&DatagramHeader::Data(from).encode());
        let packet = &self.buffer[..HEADER_LEN + len];
        let is_full = !self.undelivered.is_empty() || !write_to_program(&self.link, packet)?;
        if is_full && self.acknowledged {
            self.undelivered.push_back(packet.to_vec());
        }
        Ok(())
    }

    fn deliver_pending(&mut self) -> io::Result<()> {
        while let Some(packet) = self.undelivered.front() {
            if !write_to_program(&self.link, packet)? {
                return Ok(());
            }
            self.undelivered.pop_front();
        }
        Ok(())
    }

    /// Polls all pending associations.
    fn poll_all(&mut self) -> io::Result<()> {
        let pending = self.receiving.keys().chain(self.sent.keys());
        let ids: Vec<_> = pending.copied().collect();
        for id in ids {
            self.poll_association(id)?;
        }
        self.accept()
    }
}

/// Whether `error` only says that the deadline has not been reached yet.
fn is_pending(error: &io::Error, deadline: Instant) -> bool {
    let waits = matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    );
    waits && Instant::now() < deadline
}

fn send_flags() -> SendFlags {
    SendFlags::DONTWAIT | SendFlags::NOSIGNAL
}

/// Writes a datagram to the program; false when the socket is full. One for a closed socket is
/// dropped.
fn write_to_program(link: &SocketPairEnd, packet: &[u8]) -> io::Result<bool> {
    match rustix::net::send(link.fd(), packet, send_flags()) {
        Ok(_) | Err(Errno::PIPE) => Ok(true),
        Err(Errno::AGAIN) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
