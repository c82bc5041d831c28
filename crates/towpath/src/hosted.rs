//! What transports have in common that run an engine of this project in the user's thread.

use crate::contract::{Circuit, Interest, Listener, PATIENCE, Reach, Rendezvous};
use crate::doorkeeper::hear_only;
use crate::medium::{Medium, Opened};
use crate::options::Options;
use crate::socket;
use crate::xtp::Settings;
use crate::xtp::contexts::{self, Facts, Look};
use driver::Endpoint;
use engine::{AssociationId, Engine};
use engine_xtp::Xtp;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Wire;
use wire::trace::{Log, Traced};

/// How long an opening may take; engines themselves may go on longer.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a circuit that goes away waits for its peer to take what is on its way.
const LINGER: Duration = Duration::from_millis(500);

/// An engine, and what its host needs to know.
pub(crate) struct Setup<E> {
    /// The engine, new.
    pub(crate) engine: E,
    /// Bytes of a circuit's send store.
    pub(crate) store_len: usize,
    /// Whether the kernel's segmentation is used where it exists.
    pub(crate) segmented: bool,
    /// Settings as they took effect, besides the socket's.
    pub(crate) effective: BTreeMap<String, String>,
    /// Why a message without bytes cannot be sent, if so.
    pub(crate) no_empty: Option<&'static str>,
    /// Shared messages are lent and not copied.
    pub(crate) lends: bool,
    /// How others may look at it.
    pub(crate) sight: Sight<E>,
    /// How receivers post their buffers, if they do.
    pub(crate) posting: Option<Posting<E>>,
}

/// Says to an engine that the user of a circuit has room for so many bytes more.
type Post<E> = fn(&mut E, engine::Instant, AssociationId, u64);

/// Buffers that a receiving user posts, and posts anew when it has emptied a quarter of them.
pub(crate) struct Posting<E> {
    post: Post<E>,
    room: u64,
    /// Bytes taken and not posted anew.
    taken: u64,
}

impl<E> Clone for Posting<E> {
    fn clone(&self) -> Self {
        Posting { ..*self }
    }
}

impl<E> Posting<E> {
    /// Buffers of `room` bytes, posted by `post`.
    pub(crate) fn new(room: u64, post: Post<E>) -> Posting<E> {
        let taken = room;
        Posting { post, room, taken }
    }

    /// The user took `bytes`: how many to post now, if any.
    fn take(&mut self, bytes: u64) -> Option<u64> {
        self.taken += bytes;
        let due = self.taken >= self.room / 4;
        due.then(|| std::mem::take(&mut self.taken))
    }
}

/// How others may look at an endpoint.
pub(crate) struct Sight<E> {
    /// Its packets are written down here.
    pub(crate) log: io::Result<Option<Arc<Log>>>,
    /// Its user can ask it what it is doing.
    pub(crate) answers: Option<(Facts, Look<E>)>,
}

impl<E> Default for Sight<E> {
    fn default() -> Self {
        Sight {
            log: Ok(None),
            answers: None,
        }
    }
}

impl Sight<Xtp> {
    /// As its settings and the environment want it.
    pub(crate) fn of(settings: &Settings) -> Sight<Xtp> {
        let answers = settings.answers_contexts();
        let look: Look<Xtp> = contexts::look_at_xtp;
        Sight {
            log: settings.log(),
            answers: answers.then(|| (settings.facts(String::new()), look)),
        }
    }
}

/// A seed for an engine, different each time: a port used again soon must not look like the last
/// circuit of that port.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Octets of a UDP datagram that fills an Ethernet frame: 1500 less 28 for the headers of IPv4 and
/// UDP, which is what engines take if not told otherwise, or 48 for those of IPv6.
const PACKET_V4: usize = 1472;
const PACKET_V6: usize = 1452;

/// The length of packets instead of `len`, where that is the usual one and the headers are IPv6's.
pub(crate) fn packet_len(len: usize, options: &Options) -> usize {
    match options.bind_address() {
        IpAddr::V6(_) if len == PACKET_V4 => PACKET_V6,
        _ => len,
    }
}

/// The length of packets on the loopback at `host`: what its MTU has room for, as TCP takes it there;
/// None for other hosts, whose way here may be narrower than any interface.
pub(crate) fn loopback_packet_len(host: IpAddr) -> Option<usize> {
    let probe = UdpSocket::bind(SocketAddr::new(host, 0)).ok()?;
    // Any port will do: nothing is sent.
    probe.connect(SocketAddr::new(host, 9)).ok()?;
    let (level, name, headers) = match host {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, 28),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48),
    };
    let mtu = wire_udp::sys::option(probe.as_fd(), level, name).ok()?;
    let room = usize::try_from(mtu).ok()?.checked_sub(headers)?;
    host.is_loopback()
        .then(|| room.min(wire_udp::UDP_PAYLOAD_MAX))
}

/// Waits for peers with an endpoint for each circuit it prepares for, so that circuits in several
/// threads share nothing. `setup` gets the port that engines share an address by.
pub(crate) fn listen<M: Medium, E: Engine + Send + 'static>(
    options: &Options,
    setup: impl Fn(u16) -> Setup<E>,
) -> io::Result<Box<dyn Listener>> {
    let mut ends = Vec::new();
    for _ in 0..options.circuits.max(1) {
        let opened = M::listen(options)?;
        let setup = setup(opened.port);
        let end = end::<M, E>(opened, options, setup)?;
        end.endpoint.listen(true);
        ends.push(end);
    }
    Ok(Box::new(Listening {
        ends,
        accepted: 0,
        one_peer: options.one_peer,
    }))
}

/// Opens circuit `index` to a listener.
pub(crate) fn connect<M: Medium, E: Engine + Send + 'static>(
    rendezvous: &Rendezvous,
    index: usize,
    options: &Options,
    setup: impl Fn(u16) -> Setup<E>,
) -> io::Result<Box<dyn Circuit>> {
    let line = socket::line(&rendezvous.bytes, index)?;
    let (opened, peer) = M::connect(line, options)?;
    M::close_to(&opened.wire, peer)?;
    let setup = setup(opened.port);
    let end = end::<M, E>(opened, options, setup)?;
    let circuit = end.endpoint.connect(peer, CONNECT_LIMIT)?;
    Ok(Box::new(end.circuit(circuit)?))
}

struct End<M: Medium, E> {
    endpoint: Endpoint<E, Traced<M::Wire>>,
    line: String,
    effective: BTreeMap<String, String>,
    no_empty: Option<&'static str>,
    lends: bool,
    patience: Duration,
    posting: Option<Posting<E>>,
}

impl<M: Medium, E: Engine> End<M, E> {
    fn circuit(
        &self,
        circuit: driver::Circuit<E, Traced<M::Wire>>,
    ) -> io::Result<Hosted<E, Traced<M::Wire>>> {
        let mut hosted = Hosted {
            circuit,
            effective: self.effective.clone(),
            no_empty: self.no_empty,
            lends: self.lends,
            patience: self.patience,
            posting: self.posting.clone(),
        };
        hosted.post_taken(0)?;
        Ok(hosted)
    }
}

fn end<M: Medium, E: Engine + Send + 'static>(
    opened: Opened<M::Wire>,
    options: &Options,
    setup: Setup<E>,
) -> io::Result<End<M, E>> {
    let own = opened.own();
    let Opened { mut wire, line, .. } = opened;
    if let Some(socket) = wire.descriptor() {
        hear_only(socket, options.only_from)?;
    }
    if let (Some(len), Some(socket)) = (options.buffers, wire.descriptor()) {
        wire_udp::sys::set_buffers(socket, len);
    }
    if options.patience.is_none() {
        M::wait_for_ever(&mut wire)?;
    }
    let packet_len = setup.engine.layout().packet();
    let most = wire.capabilities().packet_max;
    if packet_len > most {
        let text = format!(
            "packets of {packet_len} octets do not fit the interface, which takes {most}; give \
             packet={most}, or raise its MTU"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let segmentation = M::segmentation(&mut wire, setup.segmented, packet_len)?;
    let mut effective = setup.effective;
    effective.insert("segmentation".into(), segmentation);
    effective.insert("packet_len".into(), packet_len.to_string());
    let wire = Traced::new(wire, setup.sight.log?, own);
    let endpoint = Endpoint::new(setup.engine, wire, setup.store_len)?;
    if let Some((facts, look)) = setup.sight.answers {
        let address = contexts::report::address(own);
        contexts::answer(&endpoint, Facts { address, ..facts }, look)?;
    }
    Ok(End {
        endpoint,
        line,
        effective,
        no_empty: setup.no_empty,
        lends: setup.lends,
        // A wait without limit needs the wire to have none either.
        patience: options.patience.map_or(Duration::MAX, |_| PATIENCE),
        posting: setup.posting,
    })
}

struct Listening<M: Medium, E> {
    ends: Vec<End<M, E>>,
    accepted: usize,
    one_peer: bool,
}

impl<M: Medium, E: Engine + Send + 'static> Listener for Listening<M, E> {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        let lines: Vec<&str> = self.ends.iter().map(|end| end.line.as_str()).collect();
        Ok(Rendezvous {
            reach: Reach::Network,
            bytes: lines.join("\n").into_bytes(),
            descriptors: Vec::new(),
        })
    }

    fn accept(&mut self, deadline: Instant) -> io::Result<Box<dyn Circuit>> {
        let end = &self.ends[self.accepted % self.ends.len()];
        let limit = deadline.saturating_duration_since(Instant::now());
        let circuit = end.endpoint.accept(limit)?;
        if self.one_peer {
            let peer = circuit.peer();
            end.endpoint
                .with_pump(|pump| M::close_to(pump.wire().wire(), peer))?;
        }
        self.accepted += 1;
        Ok(Box::new(end.circuit(circuit)?))
    }
}

struct Hosted<E: Engine, W: Wire> {
    circuit: driver::Circuit<E, W>,
    effective: BTreeMap<String, String>,
    no_empty: Option<&'static str>,
    lends: bool,
    patience: Duration,
    posting: Option<Posting<E>>,
}

impl<E: Engine, W: Wire> Hosted<E, W> {
    /// Posts anew what the user took, if it posts at all and that is much.
    #[inline]
    fn post_taken(&mut self, bytes: u64) -> io::Result<()> {
        let Some(posting) = &mut self.posting else {
            return Ok(());
        };
        let Some(bytes) = posting.take(bytes) else {
            return Ok(());
        };
        let (post, id) = (posting.post, self.circuit.id());
        self.circuit
            .command(|engine, now| post(engine, now, id, bytes))
    }

    #[inline]
    fn check(&self, message: &[u8]) -> io::Result<()> {
        match self.no_empty {
            Some(why) if message.is_empty() => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, why))
            }
            _ => Ok(()),
        }
    }

    /// Sends a message from where it lies.
    fn lend(&mut self, message: &Arc<[u8]>) -> io::Result<()> {
        // What came back is let go of.
        while self.circuit.try_reclaim().is_some() {}
        match self.circuit.lend(Arc::clone(message), PATIENCE) {
            Err(refused) if refused.error.kind() == io::ErrorKind::TimedOut => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            lent => lent.map(drop).map_err(io::Error::from),
        }
    }

    #[cold]
    fn send_waiting(&mut self, message: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.circuit.wait(left)?;
            match self.circuit.try_send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                }
                other => return other,
            }
        }
    }
}

impl<E: Engine + Send, W: Wire + Send> Circuit for Hosted<E, W> {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.check(message)?;
        self.circuit.try_send(message)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let got = self.circuit.try_recv(buffer)?;
        self.post_taken(got.unwrap_or(0) as u64)?;
        Ok(got.map(|len| len.min(buffer.len())))
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.check(message)?;
        match self.circuit.try_send(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.send_waiting(message),
            other => other,
        }
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        if !self.lends {
            return self.send_run(message, count);
        }
        self.check(message)?;
        for done in 0..count {
            match self.lend(message) {
                Ok(()) => {}
                Err(_) if done > 0 => return Ok(done),
                Err(error) => return Err(error),
            }
        }
        Ok(count)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.circuit.recv(buffer, self.patience) {
            Ok(got) => {
                self.post_taken(got.unwrap_or(0) as u64)?;
                Ok(got.map(|len| len.min(buffer.len())))
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.circuit.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.circuit.finish()
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        self.circuit.wait(limit)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.effective.clone();
        if let Some(descriptor) = self.circuit.descriptor() {
            socket::effective_buffers(descriptor, &mut effective);
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let (engine, (sends, receives)) = self.circuit.counters();
        BTreeMap::from([
            ("retransmissions".into(), engine.retransmissions),
            ("packets_sent".into(), engine.packets_built),
            ("packets_received".into(), engine.packets_parsed),
            ("packets_discarded".into(), engine.packets_discarded),
            ("bytes_lost".into(), engine.bytes_lost),
            ("bytes_copied".into(), engine.bytes_copied),
            ("bytes_summed".into(), engine.bytes_summed),
            ("timers_set".into(), engine.timers_set),
            ("messages_damaged".into(), self.circuit.damaged()),
            ("send_calls".into(), sends),
            ("receive_calls".into(), receives),
        ])
    }
}

impl<E: Engine, W: Wire> Drop for Hosted<E, W> {
    fn drop(&mut self) {
        // The helper thread goes with the circuit, and with it what is still on its way.
        let _ = self.circuit.drain(LINGER);
    }
}
