//! xti-tcp: the kernel's TCP under XTI over STREAMS in the user's process, as the study of 2007 raced
//! it against sockets.

use super::xti_connections::RUN_LENS;
use super::xti_sockets;
use super::xti_words::{self, StreamWords};
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, Class, ConnectionInfo, Interest, Listener,
    NoConnectionInfo, OptionHelp, Rendezvous, Transport, Unavailable,
};
use crate::options::Options;
use crate::transport::tcp;
use crate::{parts, socket, source_filter};
use rustix::net::AddressFamily;
use socket2::Socket;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use xti::{Flags, Look, Shutdown, TliError, XtiEndpoint, XtiState, inet};

/// The transport.
#[derive(Debug)]
pub struct XtiTcp;

/// Connections that may wait to be accepted.
const QUEUE_LEN: u32 = 1024;

/// The longest that a connect takes: three lost SYNs, which TCP sends again after 1, 3 and 7 s.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// Its options: those of all streams, and those of sends.
const OPTIONS: [OptionHelp; 11] = {
    let [hysteresis, deferred, affinity, marks, crossing] = xti_words::OF_STREAMS;
    let (more, hold, lent) = (xti_words::MORE, xti_words::HOLD, xti_words::LENT);
    let (expedited, streams) = (xti_words::EXPEDITED, xti_words::STREAMS);
    let sockmod = xti_words::SOCKMOD;
    [
        hysteresis, deferred, affinity, hold, lent, marks, more, crossing, expedited, streams,
        sockmod,
    ]
};

impl Transport for XtiTcp {
    fn name(&self) -> &'static str {
        "xti-tcp"
    }

    fn summary(&self) -> &'static str {
        "kernel TCP under XTI over STREAMS, with queues and deferred service procedures"
    }

    fn class(&self) -> Class {
        Class {
            offload: "32 KiB of queued messages a send; segmentation and coalescing by the kernel",
            ..tcp::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        match StreamWords::parse(self.name(), &OPTIONS, own) {
            Ok(words) if words.is_plain => tcp::CLASS,
            _ => self.class(),
        }
    }

    fn available(&self, options: &Options) -> Result<(), Unavailable> {
        tcp::congestion_available(options)
    }

    fn options(&self) -> &[OptionHelp] {
        &OPTIONS
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        StreamWords::parse("xti-tcp", &OPTIONS, own).map(|_| ())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        let words = words(options)?;
        if words.is_plain {
            let listener = xti_sockets::listen(setup(options), QUEUE_LEN, options)?;
            return Ok(Box::new(listener));
        }
        let end = open(options, words)?;
        let address = SocketAddr::new(options.bind_address(), 0);
        let bound = end.bind(&inet::encode(address), QUEUE_LEN)?;
        Ok(Box::new(XtiListener {
            end,
            address: inet::decode(&bound.address).ok_or(io::ErrorKind::AddrNotAvailable)?,
            options: options.clone(),
            words,
        }))
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        let words = words(options)?;
        let address = socket::decode_address(&rendezvous.bytes)?;
        let deadline = Instant::now() + CONNECT_MAX;
        if words.is_plain {
            return xti_sockets::connect(setup(options), address, deadline, options);
        }
        let end = open(options, words)?;
        end.bind(&[], 0)?;
        let connected = end.connect(&inet::encode(address), deadline);
        connected.map_err(|error| xti_words::connect_error(&end, error))?;
        Ok(Box::new(XtiCircuit::new(end, options, words)?))
    }

    crate::usual_transport! {
        is_one_to_many only_answers is_one_way sends_unanswered carries_empty option_to_many message_max connect_all connect_to_many
    }
}

fn words(options: &Options) -> io::Result<StreamWords> {
    let own = &options.transport_specific;
    StreamWords::parse("xti-tcp", &OPTIONS, own).map_err(crate::options::invalid)
}

/// An endpoint, with the module of a socket library where its calls are used.
fn open(options: &Options, words: StreamWords) -> io::Result<XtiEndpoint> {
    let end = XtiEndpoint::open_tcp(setup(options), words.stream)?;
    if words.has_sockmod {
        end.push_sockmod(domain_of(options.bind_address()))?;
    }
    Ok(end)
}

/// The domain of a socket.
fn domain_of(address: std::net::IpAddr) -> u32 {
    let family = match address.is_ipv6() {
        true => AddressFamily::INET6,
        false => AddressFamily::INET,
    };
    family.as_raw().into()
}

/// What each socket of an endpoint gets.
fn setup(options: &Options) -> inet::Setup {
    let options = options.clone();
    Arc::new(move |socket: &Socket| tcp::set_up(socket, &options))
}

struct XtiListener {
    end: XtiEndpoint,
    address: SocketAddr,
    options: Options,
    words: StreamWords,
}

impl Listener for XtiListener {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of([self.address]))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        loop {
            let call = xti_words::arrived(self.end.listen(deadline))?;
            let end = open(&self.options, self.words)?;
            self.end.accept(&end, call.sequence)?;
            if self.words.has_sockmod {
                end.socket_accepted(&call.address)?;
            }
            let socket = end.socket().ok_or(io::ErrorKind::NotConnected)?;
            if source_filter::accepts_source(&socket, self.options.only_from) {
                return Ok(Box::new(XtiCircuit::new(end, &self.options, self.words)?));
            }
        }
    }
}

struct XtiCircuit {
    end: XtiEndpoint,
    flags: Flags,
    read_len: usize,
    /// The rest of a message of which part was taken: it goes first.
    unsent: Vec<u8>,
    calls: Calls,
}

/// Whose calls a circuit makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Calls {
    OfXti,
    /// Those of a socket library, over module sockmod.
    OfSockets {
        peer_has_ended: bool,
    },
}

impl XtiCircuit {
    fn new(end: XtiEndpoint, options: &Options, words: StreamWords) -> io::Result<XtiCircuit> {
        if let Some(socket) = end.socket() {
            socket::set_blocking_timeout(&socket, options.blocking_timeout)?;
        }
        Ok(XtiCircuit {
            end,
            flags: words.flags,
            read_len: options.read_len,
            unsent: Vec::new(),
            calls: match words.has_sockmod {
                true => Calls::OfSockets {
                    peer_has_ended: false,
                },
                false => Calls::OfXti,
            },
        })
    }

    /// Sends the rest of the last message, then this one.
    #[inline]
    fn transmit(&mut self, message: &[u8], limit: Option<Duration>) -> io::Result<()> {
        if !self.unsent.is_empty() {
            self.send_rest(limit)?;
        }
        if message.is_empty() {
            return Ok(());
        }
        let sent = self.send_once(message, limit)?;
        if sent < message.len() {
            self.unsent.extend_from_slice(&message[sent..]);
        }
        Ok(())
    }

    #[inline]
    fn send_once(&self, octets: &[u8], limit: Option<Duration>) -> io::Result<usize> {
        Ok(match limit {
            Some(limit) => self.end.send(octets, self.flags, limit)?,
            None => self.end.try_send(octets, self.flags)?,
        })
    }

    #[cold]
    fn send_rest(&mut self, limit: Option<Duration>) -> io::Result<()> {
        while !self.unsent.is_empty() {
            let sent = self.send_once(&self.unsent, limit)?;
            self.unsent.drain(..sent);
        }
        Ok(())
    }

    /// What a receive that ended with an event means: the peer's release is the end of the stream.
    fn ended(&mut self, error: xti::Error) -> io::Result<Option<usize>> {
        match error.tli {
            TliError::Look => match self.end.look() {
                Some(Look::Release) => {
                    self.end.receive_release()?;
                    Ok(None)
                }
                Some(Look::Disconnect) => {
                    let reason = self.end.receive_disconnect()?.reason;
                    Err(io::Error::from_raw_os_error(reason))
                }
                _ => Err(error.into()),
            },
            TliError::OutOfState if self.has_ended() => Ok(None),
            _ => Err(error.into()),
        }
    }

    fn has_ended(&self) -> bool {
        if let Calls::OfSockets { peer_has_ended } = self.calls {
            return peer_has_ended;
        }
        matches!(self.end.state(), XtiState::PeerReleased | XtiState::Idle)
    }

    fn received(
        &mut self,
        result: Result<xti::XtiReceived, xti::Error>,
    ) -> io::Result<Option<usize>> {
        match (result, self.calls) {
            (Ok(received), Calls::OfSockets { .. }) if received.len == 0 => {
                self.calls = Calls::OfSockets {
                    peer_has_ended: true,
                };
                Ok(None)
            }
            (Ok(received), _) => Ok(Some(received.len)),
            (Err(error), _) => self.ended(error),
        }
    }

    /// Whether a socket has received its end: there is no event that says so again.
    #[inline]
    fn has_ended_before(&self) -> bool {
        self.calls != Calls::OfXti && self.has_ended()
    }
}

impl Circuit for XtiCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, None)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.has_ended_before() {
            return Ok(None);
        }
        let len = buffer.len().min(self.read_len);
        let result = self.end.try_receive(&mut buffer[..len]);
        self.received(result)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.transmit(message, Some(BLOCKING_TIMEOUT))
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.has_ended_before() {
            return Ok(None);
        }
        let len = buffer.len().min(self.read_len);
        let result = self.end.receive(&mut buffer[..len]);
        self.received(result)
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        let is_plain = self.flags == Flags::default() && self.unsent.is_empty();
        if is_plain && RUN_LENS.contains(&message.len()) {
            match self.end.try_send_run(message, count) {
                Err(error) if error.tli == TliError::Flow => {}
                taken => return Ok(taken?),
            }
        }
        self.send(message)?;
        Ok(1)
    }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.send_rest(Some(BLOCKING_TIMEOUT))?;
        Ok(self.end.flush(BLOCKING_TIMEOUT)?)
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        match self.calls {
            Calls::OfXti => self.end.send_release()?,
            Calls::OfSockets { .. } => self.end.shutdown(Shutdown::Write)?,
        }
        self.end.run();
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.end.run();
        match self.end.socket() {
            Some(socket) => socket::wait(socket.as_fd(), interest, deadline),
            None => Ok(()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        let socket = self.end.socket().ok_or(connection_info::NOT_READABLE)?;
        tcp::connection_info(&socket)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        if let Some(socket) = self.end.socket() {
            effective.extend(socket::buffer_sizes(socket.as_fd()));
            tcp::effective(&socket, &mut effective);
        }
        effective.insert("read_len".into(), self.read_len.to_string());
        xti_words::effective(&self.end, &mut effective);
        effective.insert("more".into(), xti_words::on_off(self.flags.more));
        let options = self.end.options();
        effective.insert("hold".into(), xti_words::on_off(options.hold));
        effective.insert("lent".into(), xti_words::on_off(options.lent));
        effective.insert("expedited".into(), xti_words::on_off(options.expedited));
        let sockmod = self.calls != Calls::OfXti;
        effective.insert("sockmod".into(), xti_words::on_off(sockmod));
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = xti_words::counts(&self.end);
        if let Some(socket) = self.end.socket() {
            tcp::counts(&socket, &mut counts);
        }
        counts
    }

    crate::usual_circuit! { send_run recv_run next_deadline }
}
