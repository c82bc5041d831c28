//! shm, shm-spin: messages through rings of shared memory, a channel each way. streams-pipe: the same with a
//! stream head on each end, which the registry puts there.
//!
//! The connecting side makes both rings and passes them over a Unix socket, which stays open as the lifeline
//! of both. What is sent is copied into the ring and out of it: the memory is not lent by reference, because the other
//! process can write it at any time, and a reference to it would be no safe Rust. `shm_lent` leaves messages where they
//! lie, `shm_modules` has channels with modules, `shm_shared` one ring for several receivers.

use crate::channel_proxy;
use crate::connection_info;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, Class, ConnectionInfo, Interest, Listener,
    NoConnectionInfo, OptionHelp, Part, Rendezvous, Sharing, Transport, Unavailable, check_names,
};
use crate::options::{Options, invalid, switch};
use crate::parts::{self, MessageRest};
use crate::transport::shm_carrier::{Carrier, broken};
use crate::transport::shm_lent::{self, LentCircuit};
use crate::transport::shm_modules::{self, ModularCircuit, ModuleChoice};
use crate::transport::shm_shared::{self, SharedSink, SharedSource, Whole};
use crate::transport::unix_stream;
use crate::unix_socket::{self, UnixCircuitFactory, UnixSocketListener};
use channel::{
    Anycast, Arrival, Broadcast, ChannelError, ChannelReceiver, ChannelSender, Fanout,
    FanoutReceiver, FanoutSender, Geometry, NextMessage, RING_OCTETS_MAX, ReceivedSlots,
    SLOT_LEN_MIN, Signal,
};
use socket2::{Socket, Type};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// `shm`: an end that waits sleeps, and its peer wakes it.
pub static SHM: Shm = Shm {
    name: "shm",
    summary: "rings of shared memory, an end that waits sleeps (futex)",
    accept: |socket, options| accepted(socket, options, Signal::Futex),
    signal: Signal::Futex,
    options: &shm_modules::HELP,
};

/// `shm-spin`: an end that waits looks at the ring until it changes.
pub static SHM_SPIN: Shm = Shm {
    name: "shm-spin",
    summary: "rings of shared memory, an end that waits keeps looking, and yields",
    accept: |socket, options| accepted(socket, options, Signal::Spin),
    signal: Signal::Spin,
    options: &shm_modules::HELP,
};

/// `streams-pipe`: the rings that join two stream heads, of one process each.
pub static STREAMS_PIPE: Shm = Shm {
    name: "streams-pipe",
    summary: "a STREAMS pipe between two processes: stream heads joined by rings of shared memory",
    accept: |socket, options| accepted(socket, options, Signal::Futex),
    signal: Signal::Futex,
    options: &[],
};

/// Octets of a ring unless the user says otherwise.
const RING_LEN: usize = 1 << 20;

/// How long an end waits for the opening of its peer, which sends it as soon as it has connected.
const OPENING_TIMEOUT: Duration = Duration::from_secs(10);

/// The transport.
#[derive(Debug)]
pub struct Shm {
    name: &'static str,
    summary: &'static str,
    accept: UnixCircuitFactory,
    signal: Signal,
    options: &'static [OptionHelp],
}

impl Transport for Shm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn class(&self) -> Class {
        Class {
            stream: false,
            kernel: false,
            ..unix_stream::CLASS
        }
    }

    fn class_with(&self, own: &BTreeMap<String, String>) -> Class {
        match ModuleChoice::parse(own) {
            Ok(Some(choice)) => choice.class(self.class()),
            _ => self.class(),
        }
    }

    fn options(&self) -> &[OptionHelp] {
        self.options
    }

    fn check_options(&self, own: &BTreeMap<String, String>) -> Result<(), String> {
        check_names(self.name(), self.options(), own)?;
        shm_shared::check(own)?;
        let has_modules = ModuleChoice::parse(own)?.is_some();
        if switch(own, "lent", false)? && has_modules {
            let text = "lent=on leaves a message where it lies, and modules need a copy of it; leave one of them out";
            return Err(text.into());
        }
        Ok(())
    }

    fn is_one_way(&self, own: &BTreeMap<String, String>) -> bool {
        shm_shared::sharing(own).is_some()
    }

    fn option_to_many(
        &self,
        own: &BTreeMap<String, String>,
        sharing: Sharing,
    ) -> Option<(&'static str, &'static str)> {
        let has_option = self.options.contains(&shm_shared::RING);
        has_option
            .then(|| shm_shared::option_to_many(own, sharing))
            .flatten()
    }

    fn available(&self, _options: &Options) -> Result<(), Unavailable> {
        Ok(())
    }

    fn listen(&self, options: &Options) -> io::Result<Box<dyn Listener>> {
        UnixSocketListener::bind(Type::STREAM, options, self.accept)
    }

    fn connect(&self, rendezvous: &Rendezvous, _index: usize, options: &Options) -> CircuitResult {
        if shm_shared::sharing(&options.transport_specific).is_some() {
            return self.connect_to_many(std::slice::from_ref(rendezvous), options);
        }
        let socket = connected(rendezvous, options)?;
        let geometry = geometry(options)?;
        if let Some(choice) = choice(options)? {
            let pair = channel::open_modular_pair(socket, geometry, self.signal, choice.modules());
            let pair = pair.map_err(to_io_error)?;
            return Ok(Box::new(ModularCircuit::new(pair, choice, options)));
        }
        let pair = channel::open_pair(socket, geometry, self.signal);
        let pair = pair.map_err(to_io_error)?;
        Ok(plain_circuit(pair, options))
    }

    fn connect_to_many(&self, rendezvous: &[Rendezvous], options: &Options) -> CircuitResult {
        match shm_shared::sharing(&options.transport_specific) {
            Some(Sharing::One) => admitting::<Anycast>(rendezvous, options, self.signal),
            _ => admitting::<Broadcast>(rendezvous, options, self.signal),
        }
    }

    crate::usual_transport! { is_one_to_many only_answers sends_unanswered carries_empty message_max connect_all }
}

/// The sending end of a ring, with each listener admitted to it.
fn admitting<D: Whole + 'static>(
    rendezvous: &[Rendezvous],
    options: &Options,
    signal: Signal,
) -> CircuitResult {
    let mut sender = FanoutSender::<D>::create(geometry(options)?, signal).map_err(to_io_error)?;
    for listener in rendezvous {
        let socket = connected(listener, options)?;
        sender.admit(socket).map_err(to_io_error)?;
    }
    Ok(Box::new(SharedSource::new(sender, options)))
}

fn connected(rendezvous: &Rendezvous, options: &Options) -> io::Result<UnixStream> {
    let socket = unix_socket::connect(Type::STREAM, rendezvous, options)?;
    Ok(UnixStream::from(OwnedFd::from(socket)))
}

fn accepted(socket: Socket, options: &Options, signal: Signal) -> CircuitResult {
    socket.set_read_timeout(Some(OPENING_TIMEOUT))?;
    let socket = UnixStream::from(OwnedFd::from(socket));
    match shm_shared::sharing(&options.transport_specific) {
        Some(Sharing::All) => return joined::<Broadcast>(socket, options, signal),
        Some(Sharing::One) => return joined::<Anycast>(socket, options, signal),
        None => {}
    }
    if let Some(choice) = choice(options)? {
        let pair = channel::accept_modular_pair(socket, signal, choice.modules());
        let pair = pair.map_err(to_io_error)?;
        return Ok(Box::new(ModularCircuit::new(pair, choice, options)));
    }
    let pair = channel::accept_pair(socket, signal).map_err(to_io_error)?;
    Ok(plain_circuit(pair, options))
}

/// A receiving end of a ring of several.
fn joined<D: Fanout + 'static>(
    socket: UnixStream,
    options: &Options,
    signal: Signal,
) -> CircuitResult {
    let receiver = FanoutReceiver::<D>::join(socket, signal).map_err(to_io_error)?;
    Ok(Box::new(SharedSink::new(receiver, options)))
}

/// A circuit without modules.
fn plain_circuit(pair: (ChannelSender, ChannelReceiver), options: &Options) -> Box<dyn Circuit> {
    let circuit = ShmCircuit::new(pair, options, None);
    match is_lent(&options.transport_specific) {
        true => Box::new(LentCircuit::new(circuit)),
        false => Box::new(circuit),
    }
}

fn is_lent(own: &BTreeMap<String, String>) -> bool {
    matches!(switch(own, "lent", false), Ok(true))
}

/// The modules that the user chose; None for a channel without any.
fn choice(options: &Options) -> io::Result<Option<ModuleChoice>> {
    ModuleChoice::parse(&options.transport_specific).map_err(invalid)
}

/// A ring that holds four messages of the job, or as much as the user's `buffers`. The shortest slots
/// waste the least, and a long message takes many of them in a row.
pub(super) fn geometry(options: &Options) -> io::Result<Geometry> {
    let four = options.message_len.saturating_mul(4);
    let len = options.buffers.unwrap_or(RING_LEN.max(four));
    let len = len.clamp(SLOT_LEN_MIN as usize, RING_OCTETS_MAX as usize);
    if is_lent(&options.transport_specific) {
        return shm_lent::geometry(options, len);
    }
    let slots = len.next_power_of_two() as u32 / SLOT_LEN_MIN;
    Geometry::new(SLOT_LEN_MIN, slots).map_err(to_io_error)
}

/// How long a call waits.
#[inline]
pub(super) fn limit(waits: bool, timeout: Duration) -> Duration {
    if waits { timeout } else { Duration::ZERO }
}

#[cold]
pub(super) fn to_io_error(error: ChannelError) -> io::Error {
    if let ChannelError::TooLong { len, max } = error {
        let text = format!(
            "a message of {len} bytes does not fit into a ring of {max}; raise it with --buffers, or \
             send smaller messages"
        );
        return io::Error::new(io::ErrorKind::InvalidInput, text);
    }
    channel_proxy::to_io_error(error)
}

/// One end of a circuit.
#[derive(Debug)]
pub(super) struct ShmCircuit {
    /// None once this direction is finished.
    sender: Option<ChannelSender>,
    receiver: ChannelReceiver,
    /// Longest wait of a blocking call.
    timeout: Duration,
    /// What is left of a message received in parts.
    rest: MessageRest,
    /// System calls of a sender that is finished.
    finished_calls: u64,
    /// Dropped last, for its proxy ends when the sender does.
    carrier: Option<Carrier>,
}

impl ShmCircuit {
    pub(super) fn new(
        (sender, receiver): (ChannelSender, ChannelReceiver),
        options: &Options,
        carrier: Option<Carrier>,
    ) -> Self {
        ShmCircuit {
            sender: Some(sender),
            receiver,
            timeout: options.blocking_timeout.unwrap_or(BLOCKING_TIMEOUT),
            rest: MessageRest::default(),
            finished_calls: 0,
            carrier,
        }
    }

    /// The sender, and the longest wait of a blocking call. Fails with `BrokenPipe` once this direction is finished.
    #[inline]
    pub(super) fn sender(&mut self) -> io::Result<(&mut ChannelSender, Duration)> {
        let timeout = self.timeout;
        match &mut self.sender {
            Some(sender) => Ok((sender, timeout)),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The next message in its slots, for which it waits as a blocking call does; None at the end.
    #[inline]
    pub(super) fn arrived(&mut self) -> io::Result<Option<ReceivedSlots<'_>>> {
        match self.arrival(self.timeout)? {
            Arrival::End => Ok(None),
            _ => self
                .receiver
                .receive()
                .map_err(|error| broken(self.carrier.as_ref(), error)),
        }
    }

    /// Whether a message was received in part.
    pub(super) fn has_rest(&self) -> bool {
        !self.rest.is_empty()
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.receiver.geometry()
    }

    /// Sends a message if it has room, for which a call that waits waits.
    #[inline]
    fn write(&mut self, message: &[u8], waits: bool) -> io::Result<()> {
        let limit = limit(waits, self.timeout);
        let Some(sender) = &mut self.sender else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        match sender.send_within(message, limit) {
            Ok(true) => Ok(()),
            Ok(false) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => Err(broken(self.carrier.as_ref(), error)),
        }
    }

    /// Receives a message if there is one, for which a call that waits waits.
    #[inline]
    fn read(&mut self, buffer: &mut [u8], waits: bool) -> io::Result<Option<usize>> {
        let limit = limit(waits, self.timeout);
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.take(buffer)));
        }
        match self.receiver.receive_within(limit) {
            Ok(NextMessage::Message(message)) => Ok(Some(message.read(0, buffer))),
            Ok(NextMessage::Nothing) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(NextMessage::End) => Ok(None),
            Err(error) => Err(broken(self.carrier.as_ref(), error)),
        }
    }

    /// What has arrived within `limit`: a message or the end.
    #[inline]
    fn arrival(&mut self, limit: Duration) -> io::Result<Arrival> {
        match self.receiver.wait_for_message(limit) {
            Ok(Arrival::Nothing) => Err(io::ErrorKind::WouldBlock.into()),
            other => other.map_err(|error| broken(self.carrier.as_ref(), error)),
        }
    }
}

impl Circuit for ShmCircuit {
    parts::blocks_by_flag! { write, read }

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        let carrier = self.carrier.as_ref();
        let Some(sender) = &mut self.sender else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        match sender.send_run_within(message, count, self.timeout) {
            Ok(0) if count > 0 => Err(io::ErrorKind::WouldBlock.into()),
            sent => sent.map_err(|error| broken(carrier, error)),
        }
    }

    parts::carries_no_notes! {}

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        if !self.rest.is_empty() {
            return Ok(Some(self.rest.next(buffer)));
        }
        if self.arrival(self.timeout)? == Arrival::End {
            return Ok(None);
        }
        let Some(message) = self
            .receiver
            .receive()
            .map_err(|error| broken(self.carrier.as_ref(), error))?
        else {
            return Ok(None);
        };
        let len = message.len();
        let front = message.read(0, buffer);
        message.read(front, self.rest.room(len - front));
        Ok(Some(self.rest.keep(len, buffer.len())))
    }

    parts::lends_nothing! {}

    fn finish(&mut self) -> io::Result<()> {
        self.finished_calls += self.sender.take().map_or(0, |sender| sender.system_calls());
        Ok(())
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        let waited = match (interest, &mut self.sender) {
            (Interest::Read, _) if !self.rest.is_empty() => Ok(()),
            (Interest::Read, _) => self.receiver.wait_for_message(limit).map(drop),
            (Interest::Write, Some(sender)) => sender.wait_for_room(1, limit).map(drop),
            (Interest::Write, None) => Ok(()),
        };
        waited.map_err(|error| broken(self.carrier.as_ref(), error))
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::NO_PATH)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let ring = self.receiver.geometry().capacity().to_string();
        let carrier = self.carrier.as_ref();
        let mut effective = carrier.map_or_else(BTreeMap::new, |own| own.effective.clone());
        effective.insert("send_buffer".into(), ring.clone());
        effective.insert("receive_buffer".into(), ring);
        effective
    }

    /// The opening is a system call of each end.
    fn counts(&self) -> BTreeMap<String, u64> {
        let sender = self.sender.as_ref().map_or(0, ChannelSender::system_calls);
        let sends = 1 + sender + self.finished_calls;
        parts::call_counts((sends, 1 + self.receiver.system_calls()))
    }

    crate::usual_circuit! { send_shared_run recv_run flush descriptor next_deadline }
}
