//! XTP and SCTP as carriers of XTI's connections, over UDP: [`xtp`] and [`sctp`]; drivers that make their packets
//! themselves as carriers of its datagrams, over raw IP: [`udp`] and [`rawip`].
//!
//! ```no_run
//! use towpath::xti_carrier;
//! use xti::{StreamOptions, XtiEndpoint, inet};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let carrier = xti_carrier::sctp(&towpath::sctp::EndpointConfig::default());
//! let listener = XtiEndpoint::open_over(carrier, StreamOptions::default())?;
//! let address = listener.bind(&inet::encode("127.0.0.1:0".parse()?), 5)?.address;
//! println!("SCTP connections come to {:?}", inet::decode(&address));
//! # Ok(())
//! # }
//! ```

use crate::engine_circuit::CLOSE_TIMEOUT;
use crate::engine_endpoint::{EngineEndpoint, open_endpoint};
use crate::engine_setup::EngineSetup;
use crate::ip_datagrams::{Header, IpDatagrams};
use crate::medium::{Medium, UdpMedium};
use crate::options::Options;
use crate::sctp::EndpointConfig;
use crate::socket;
use crate::transport;
use crate::xti_sctp;
use driver::Waiter;
use engine::{Address, AssociationId, Associations, Framing};
use engine_sctp::Sctp;
use socket2::Socket;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use wire::trace::Traced;
use wire_udp::UdpWire;
use xti::carrier::{Carried, Carrier, Piece};
use xti::datagrams::DatagramCarrier;
use xti::inet;
use xti::sctp::{MessageOptions, SctpOptions, SctpPath, SctpStatus};

/// Carries byte streams of XTP 4.0; the provider is called `xtp`. The configuration's shortcut and services are
/// not used.
pub fn xtp(config: &crate::xtp::EndpointConfig) -> Box<dyn Carrier> {
    let (config, options) = (config.clone(), Options::default());
    let own = options.clone();
    let host = options.bind_address();
    let make =
        move |_: Option<&SctpOptions>, _: IpAddr| transport::xtp::STREAM.setup(&config, &own, host);
    Box::new(EngineCarrier::new(
        (XTP, None),
        &options,
        Arc::new(make),
        None,
    ))
}

/// Carries messages of SCTP, or one message without end ([`engine::Framing::Stream`]); the provider is called
/// `sctp`.
pub fn sctp(config: &crate::sctp::EndpointConfig) -> Box<dyn Carrier> {
    Box::new(sctp_carrier(config.clone(), &Options::default()))
}

/// The same for an endpoint with options of a transport.
pub(crate) fn sctp_carrier(settings: EndpointConfig, options: &Options) -> EngineCarrier<Sctp> {
    let keeps_messages = settings.config.framing == Framing::Messages;
    // Half the send store.
    let message_max = keeps_messages.then_some(settings.send_buffer_len / 2);
    let user = xti_sctp::of_config(&settings.config);
    let of_engine = EngineOptions {
        default: user,
        user,
        read: xti_sctp::of_association,
        read_status: xti_sctp::status_of,
        set_path: xti_sctp::set_path,
    };
    let own = options.clone();
    let make = move |user: Option<&SctpOptions>, host: IpAddr| {
        // What the user has not changed stays as it was given.
        let changed = user.filter(|user| **user != xti_sctp::of_config(&settings.config));
        let settings = changed.map_or(settings.clone(), |user| {
            xti_sctp::configured(&settings, user)
        });
        let settings = transport::sctp::with_long_packets(&settings, &own, Some(host));
        transport::sctp::udp_setup(&settings, &own)
    };
    EngineCarrier::new(
        (SCTP, message_max),
        options,
        Arc::new(make),
        Some(of_engine),
    )
}

/// Carries datagrams of UDP (RFC 768) whose headers the driver makes itself, over raw IP; the provider is called `udp`.
/// A bind is refused without the right to raw sockets (CAP_NET_RAW), and to the unspecified address; without an
/// address it is 127.0.0.1.
pub fn udp() -> Box<dyn DatagramCarrier> {
    Box::new(IpDatagrams::new(Header::Udp, None))
}

/// The same over IP's protocol 253, for experiments, with two ports in front of each datagram and no checksum; the
/// provider is called `rawip`.
pub fn rawip() -> Box<dyn DatagramCarrier> {
    Box::new(IpDatagrams::new(Header::Ports, None))
}

/// Names of providers.
pub(crate) const XTP: &str = "xtp";
pub(crate) const SCTP: &str = "sctp";

/// The wire of a carrier's endpoint.
type CarrierWire = Traced<UdpWire>;

/// Makes the engine of an endpoint that listens on a host, or connects to one, with what its user has set.
pub(crate) type MakeEngine<E> =
    Arc<dyn Fn(Option<&SctpOptions>, IpAddr) -> EngineSetup<E> + Send + Sync>;

/// The options of an association, of those that its engine was made with.
type ReadOptions<E> = fn(&E, AssociationId, &SctpOptions) -> SctpOptions;

/// How an association stands.
type ReadStatus<E> = fn(&E, AssociationId) -> SctpStatus;

/// Decides what a user may of one path.
type SetPath<E> = fn(&mut E, engine::Instant, AssociationId, &SctpPath);

/// The options of an engine that has some.
pub(crate) struct EngineOptions<E> {
    default: SctpOptions,
    user: SctpOptions,
    read: ReadOptions<E>,
    read_status: ReadStatus<E>,
    set_path: SetPath<E>,
}

/// Carries connections by an engine. An endpoint that listens, or was bound to an address, has one UDP port;
/// one that only connects gets it when the peer's family is known.
pub(crate) struct EngineCarrier<E: Associations> {
    name: &'static str,
    message_max: Option<usize>,
    has_half_close: bool,
    options: Options,
    make_engine: MakeEngine<E>,
    of_engine: Option<EngineOptions<E>>,
    /// The user bound it to an address, or it listens.
    has_address: bool,
    bound: Option<Bound<E>>,
}

struct Bound<E: Associations> {
    end: EngineEndpoint<UdpMedium, E>,
    waiter: Arc<EngineWaiter<E>>,
    /// Arrivals before the last look for connections.
    seen: u64,
    /// What its engine was made with.
    made_with: Option<SctpOptions>,
}

impl<E: Associations + Send + 'static> EngineCarrier<E> {
    /// A carrier called `name`. Messages have at most `message_max` octets; None for a byte stream.
    pub(crate) fn new(
        (name, message_max): (&'static str, Option<usize>),
        options: &Options,
        make_engine: MakeEngine<E>,
        of_engine: Option<EngineOptions<E>>,
    ) -> EngineCarrier<E> {
        EngineCarrier {
            name,
            message_max,
            has_half_close: name == XTP,
            // The endpoint waits, not its wire.
            options: Options {
                blocking_timeout: None,
                ..options.clone()
            },
            make_engine,
            of_engine,
            has_address: false,
            bound: None,
        }
    }

    /// Opens an endpoint at `local`, for associations with `host`.
    fn open(&mut self, local: SocketAddr, host: IpAddr) -> io::Result<SocketAddr> {
        let opened = UdpMedium::opened(local, &self.options)?;
        let address = opened.wire.local_addr()?;
        let made_with = self.of_engine.as_ref().map(|options| options.user);
        let setup = (self.make_engine)(made_with.as_ref(), host);
        let end = open_endpoint::<UdpMedium, E>(opened, &self.options, setup)?;
        let waiter = Arc::new(EngineWaiter(end.endpoint.waiter()));
        self.bound = Some(Bound {
            end,
            waiter,
            seen: 0,
            made_with,
        });
        Ok(address)
    }

    fn carried(
        &self,
        circuit: driver::Circuit<E, CarrierWire>,
        bound: &Bound<E>,
    ) -> Box<dyn Carried> {
        let peer = match circuit.peer() {
            Address::Socket(peer) => inet::encode(peer),
            _ => Vec::new(),
        };
        Box::new(EngineConnection {
            circuit,
            peer,
            options: bound
                .made_with
                .zip(self.of_engine.as_ref().map(|options| options.read)),
            read_status: self.of_engine.as_ref().map(|options| options.read_status),
            set_path: self.of_engine.as_ref().map(|options| options.set_path),
            waiter: Arc::clone(&bound.waiter),
            seen_by_sends: 0,
            seen_by_receives: 0,
            is_aborted: false,
        })
    }
}

impl<E: Associations + Send + 'static> Carrier for EngineCarrier<E> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn message_max(&self) -> Option<usize> {
        self.message_max
    }

    fn has_half_close(&self) -> bool {
        self.has_half_close
    }

    fn bind(&mut self, address: Option<&[u8]>, listens: bool) -> io::Result<Vec<u8>> {
        let wanted = address.and_then(inet::decode);
        let any = SocketAddr::from(([0, 0, 0, 0], 0));
        (self.bound, self.has_address) = (None, false);
        if wanted.is_none() && !listens {
            return Ok(inet::encode(any));
        }
        let local = wanted.unwrap_or(any);
        let address = self.open(local, local.ip())?;
        self.has_address = true;
        if let Some(bound) = &self.bound {
            bound.end.endpoint.listen(listens);
        }
        Ok(inet::encode(address))
    }

    fn stop_listening(&mut self) {
        if let Some(bound) = &self.bound {
            bound.end.endpoint.listen(false);
        }
    }

    fn try_accept(&mut self) -> io::Result<Box<dyn Carried>> {
        let bound = self.bound.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        bound.seen = bound.waiter.0.arrivals()?;
        let circuit = bound.end.endpoint.try_accept()?;
        if self.options.one_peer {
            let peer = circuit.peer();
            circuit.with_pump(|pump| UdpMedium::restrict_to_peer(pump.wire().wire(), peer))?;
        }
        match &self.bound {
            Some(bound) => Ok(self.carried(circuit, bound)),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    fn options(&self) -> Option<SctpOptions> {
        self.of_engine.as_ref().map(|options| options.default)
    }

    fn set_options(&mut self, options: &SctpOptions) {
        if let Some(of_engine) = &mut self.of_engine {
            of_engine.user = *options;
        }
    }

    fn running_options(&self) -> Option<SctpOptions> {
        let bound = self.bound.as_ref().filter(|_| self.has_address);
        bound?.made_with
    }

    fn begin_connect(&mut self, destination: &[u8]) -> io::Result<Box<dyn Carried>> {
        let to = inet::decode(destination).ok_or(io::ErrorKind::InvalidInput)?;
        let peer = Address::Socket(to);
        if !self.has_address {
            // A port for each connection, and for its peer alone: so the kernel says if nobody is there.
            self.open(socket::wildcard_address(&to), to.ip())?;
        }
        let bound = self.bound.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let endpoint = &bound.end.endpoint;
        if !self.has_address {
            endpoint.with_pump(|pump| UdpMedium::restrict_to_peer(pump.wire().wire(), peer))?;
        }
        let mut circuit = endpoint.open(peer, |engine, now| engine.connect(now, &[peer]))?;
        circuit.flush()?;
        Ok(self.carried(circuit, bound))
    }

    fn waiter(&self) -> Option<(Arc<dyn xti::Waiter>, u64)> {
        let bound = self.bound.as_ref()?;
        let waiter: Arc<dyn xti::Waiter> = Arc::<EngineWaiter<E>>::clone(&bound.waiter);
        Some((waiter, bound.seen))
    }
}

struct EngineWaiter<E>(Waiter<E, CarrierWire>);

impl<E: Associations + Send + 'static> xti::Waiter for EngineWaiter<E> {
    fn wait(&self, seen: u64, limit: Duration) -> io::Result<()> {
        self.0.wait(seen, limit)
    }
}

/// A circuit of an engine.
struct EngineConnection<E: Associations + Send + 'static> {
    circuit: driver::Circuit<E, CarrierWire>,
    peer: Vec<u8>,
    /// What its engine was made with, and how to read what became of that.
    options: Option<(SctpOptions, ReadOptions<E>)>,
    read_status: Option<ReadStatus<E>>,
    set_path: Option<SetPath<E>>,
    waiter: Arc<EngineWaiter<E>>,
    /// Arrivals at the endpoint at the last look of each.
    seen_by_sends: u64,
    seen_by_receives: u64,
    is_aborted: bool,
}

impl<E: Associations + Send + 'static> EngineConnection<E> {
    #[cold]
    fn send_noted(&mut self, octets: &[u8], options: &MessageOptions) -> io::Result<()> {
        let streams = self.options().map(|options| options.outbound_streams);
        if streams.is_some_and(|streams| options.stream >= streams) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let note = xti_sctp::note_of(options);
        self.circuit.try_send_noted(octets, &note)
    }
}

impl<E: Associations + Send + 'static> Carried for EngineConnection<E> {
    fn peer(&self) -> &[u8] {
        &self.peer
    }

    fn is_open(&mut self) -> io::Result<bool> {
        let is_open = self.circuit.poll_connected();
        self.seen_by_receives = self.circuit.seen_arrivals();
        is_open
    }

    fn options(&self) -> Option<SctpOptions> {
        let (made_with, read) = self.options.as_ref()?;
        let id = self.circuit.id();
        let options = |pump: &mut driver::Pump<E, CarrierWire>| read(pump.engine(), id, made_with);
        Some(self.circuit.with_pump(options))
    }

    fn status(&self) -> Option<SctpStatus> {
        let (read, id) = (self.read_status?, self.circuit.id());
        let status = |pump: &mut driver::Pump<E, CarrierWire>| read(pump.engine(), id);
        Some(self.circuit.with_pump(status))
    }

    fn set_path(&mut self, path: &SctpPath) {
        let (Some(set), id) = (self.set_path, self.circuit.id()) else {
            return;
        };
        // A wire that failed ends the connection at the next call.
        let _ = self
            .circuit
            .command(|engine, now| set(engine, now, id, path));
    }

    fn try_send(&mut self, octets: &[u8], options: &MessageOptions) -> io::Result<()> {
        let sent = match *options == MessageOptions::default() {
            true => self.circuit.try_send(octets),
            false => self.send_noted(octets, options),
        };
        if sent.is_err() || self.circuit.has_unsent() {
            self.seen_by_sends = self.circuit.seen_arrivals();
        }
        sent
    }

    fn try_receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<Piece>> {
        let part = self.circuit.try_receive_part(buffer);
        self.seen_by_receives = self.circuit.seen_arrivals();
        Ok(part?.map(|part| Piece {
            len: part.len,
            more: !part.end,
            options: xti_sctp::of_part(&part),
        }))
    }

    fn flush(&mut self) -> io::Result<()> {
        let flushed = self.circuit.flush();
        self.seen_by_sends = self.circuit.seen_arrivals();
        flushed
    }

    fn finish(&mut self) -> io::Result<()> {
        self.circuit.finish()
    }

    fn has_unsent(&self) -> bool {
        self.circuit.has_unsent()
    }

    fn socket(&self) -> Option<Socket> {
        let descriptor = self.circuit.descriptor()?.try_clone_to_owned().ok()?;
        Some(Socket::from(descriptor))
    }

    fn abort(&mut self) {
        self.is_aborted = true;
        // A wire that failed tells the peer nothing.
        let _ = self.circuit.abort();
    }

    fn waiter(&self, for_room: bool) -> (Arc<dyn xti::Waiter>, u64) {
        let waiter: Arc<dyn xti::Waiter> = Arc::<EngineWaiter<E>>::clone(&self.waiter);
        match for_room {
            true => (waiter, self.seen_by_sends),
            false => (waiter, self.seen_by_receives),
        }
    }

    fn system_calls(&self) -> (u64, u64) {
        self.circuit.counters().1
    }
}

impl<E: Associations + Send + 'static> Drop for EngineConnection<E> {
    /// What was sent arrives: the helper thread ends with the endpoint.
    fn drop(&mut self) {
        if !self.is_aborted {
            let _ = self.circuit.finish();
            let _ = self.circuit.drain(CLOSE_TIMEOUT);
        }
    }
}
