//! Shared by the transports whose protocol engine runs in the user's thread: listener and circuit.

mod device;
mod kept;
mod lent_messages;

pub(crate) use device::{connect_device, listen_devices};
pub(crate) use kept::{connect_again, connect_shared, listen_shared};

use crate::cells;
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, ConnectionInfo, Interest, LentArrival, Listener,
    NoConnectionInfo, Note, Part, ReceiveCounts, Rendezvous, Reserved,
};
use crate::engine_endpoint::{EngineEndpoint, open_endpoint};
use crate::engine_setup::{EngineSetup, ReadConnection, ReceiveBufferPosting};
use crate::medium::Medium;
use crate::options::Options;
use crate::parts;
use crate::runs::{receive_run, send_each};
use crate::socket;
use driver::Pump;
use driver::lend::Buffer;
use engine::{Address, Associations};
use lent_messages::LentMessages;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Wire;
use wire::trace::Traced;
use wire_shortcut::ShortcutHandle;

/// Timeout of a handshake; engines themselves may retry for longer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Octets that a receiver in place reads at each end of what arrived.
const READ_LEN: usize = 8;

/// How long a dropped circuit waits until the peer has acknowledged all data.
pub(crate) const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// Listens with one endpoint per circuit, so that circuits in different threads share nothing.
/// `setup` gets the port that distinguishes engines on one address.
pub(crate) fn listen<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<Box<dyn Listener>> {
    let listener = open_listener(medium, options, options.circuits.max(1), setup)?;
    Ok(Box::new(listener))
}

fn open_listener<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    options: &Options,
    endpoints: usize,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<EngineListener<M, E>> {
    let open = |_| {
        let opened = medium.listen(options)?;
        let setup = setup(opened.port);
        let end = open_endpoint::<M, E>(opened, options, setup)?;
        end.endpoint.listen(true);
        Ok(end)
    };
    Ok(EngineListener {
        endpoints: (0..endpoints).map(open).collect::<io::Result<_>>()?,
        accepted: 0,
        one_peer: options.one_peer,
    })
}

/// Opens circuit `index` to a listener.
pub(crate) fn connect<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    (rendezvous, index): (&Rendezvous, usize),
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> CircuitResult {
    let circuit = open_circuit(medium, (rendezvous, index), options, setup)?;
    Ok(Box::new(circuit))
}

fn open_circuit<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    (rendezvous, index): (&Rendezvous, usize),
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<EngineCircuit<E, Traced<M::Wire>>> {
    let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
    let (end, peer) = open_to(medium, line, options, setup)?;
    let circuit = end.endpoint.connect(peer, CONNECT_TIMEOUT)?;
    end.circuit(circuit)
}

/// Opens an endpoint to the listener of rendezvous entry `line`, and its address.
fn open_to<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    line: &[u8],
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<(EngineEndpoint<M, E>, Address)> {
    let (opened, peer) = medium.connect(line, options)?;
    M::restrict_to_peer(&opened.wire, peer)?;
    let setup = setup(opened.port);
    Ok((open_endpoint(opened, options, setup)?, peer))
}

impl<M: Medium, E: Associations> EngineEndpoint<M, E> {
    fn circuit(
        &self,
        circuit: driver::Circuit<E, Traced<M::Wire>>,
    ) -> io::Result<EngineCircuit<E, Traced<M::Wire>>> {
        let mut circuit = EngineCircuit {
            circuit,
            effective: self.effective.clone(),
            empty_message_error: self.empty_message_error,
            zero_copy: self.zero_copy,
            lent: LentMessages::default(),
            sends_by_reference: is_on(self.effective.get("splice")),
            ends_by_handshake: self.ends_by_handshake,
            recv_timeout: self.recv_timeout,
            buffer_posting: self.buffer_posting.clone(),
            connection_info: self.connection_info,
            shortcut: self.shortcut.clone(),
            is_outlived: false,
            is_counted: true,
            keep_endpoint: None,
        };
        circuit.post_consumed(0)?;
        Ok(circuit)
    }
}

/// Whether an option in effect is on.
fn is_on(value: Option<&String>) -> bool {
    value.is_some_and(|value| value == "on")
}

struct EngineListener<M: Medium, E: Associations> {
    endpoints: Vec<EngineEndpoint<M, E>>,
    accepted: usize,
    one_peer: bool,
}

impl<M: Medium, E: Associations + Send + 'static> Listener for EngineListener<M, E> {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        Ok(socket::rendezvous_of(
            self.endpoints.iter().map(|end| &end.line),
        ))
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        Ok(Box::new(self.accept_circuit(deadline)?))
    }
}

impl<M: Medium, E: Associations> EngineListener<M, E> {
    fn accept_circuit(
        &mut self,
        deadline: Instant,
    ) -> io::Result<EngineCircuit<E, Traced<M::Wire>>> {
        let end = &self.endpoints[self.accepted % self.endpoints.len()];
        let limit = deadline.saturating_duration_since(Instant::now());
        let circuit = end.endpoint.accept(limit)?;
        let splice = match self.one_peer {
            true => end.restrict_to_peer(circuit.peer())?,
            false => None,
        };
        let is_first = !self.one_peer || self.accepted < self.endpoints.len();
        self.accepted += 1;
        let mut circuit = end.circuit(circuit)?;
        if let Some(splice) = splice {
            circuit.effective.insert("splice".into(), splice.into());
            circuit.sends_by_reference = is_on(circuit.effective.get("splice"));
        }
        circuit.is_counted = is_first;
        circuit.is_outlived = end.ends_by_handshake && !self.one_peer;
        Ok(circuit)
    }
}

impl<M: Medium, E: Associations> Drop for EngineListener<M, E> {
    fn drop(&mut self) {
        // Circuits that were dropped before go on with their ends.
        for end in &self.endpoints {
            end.await_ends();
        }
    }
}

struct EngineCircuit<E: Associations, W: Wire> {
    circuit: driver::Circuit<E, W>,
    effective: BTreeMap<String, String>,
    empty_message_error: Option<&'static str>,
    zero_copy: bool,
    lent: LentMessages,
    sends_by_reference: bool,
    ends_by_handshake: bool,
    recv_timeout: Duration,
    buffer_posting: Option<ReceiveBufferPosting<E>>,
    connection_info: ReadConnection<E>,
    shortcut: Option<ShortcutHandle>,
    /// Its endpoint lives on when it is dropped, and goes on with its end.
    is_outlived: bool,
    /// What its endpoint counts is this circuit's to say: those that share it would each say the same.
    is_counted: bool,
    /// Keeps the endpoint for the next circuit.
    keep_endpoint: Option<Box<dyn FnOnce() + Send>>,
}

impl<E: Associations, W: Wire> EngineCircuit<E, W> {
    /// Posts buffers again for `bytes` consumed, once enough have been.
    #[inline(always)]
    fn post_consumed(&mut self, bytes: u64) -> io::Result<()> {
        let Some(buffer_posting) = &mut self.buffer_posting else {
            return Ok(());
        };
        let Some(bytes) = buffer_posting.consume(bytes) else {
            return Ok(());
        };
        let (post, id) = (buffer_posting.post, self.circuit.id());
        self.circuit
            .command(|engine, now| post(engine, now, id, bytes))
    }

    #[inline]
    fn check_message(&self, len: usize) -> io::Result<()> {
        match self.empty_message_error {
            Some(why) if len == 0 => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
            _ => Ok(()),
        }
    }

    /// Lends a message to the engine, without a copy.
    fn send_lent(&mut self, message: &Arc<[u8]>) -> io::Result<()> {
        // Release the buffers that were acknowledged.
        while self.circuit.try_reclaim().is_some() {}
        let buffer = self.lent_buffer(message);
        match self.circuit.lend(buffer, BLOCKING_TIMEOUT) {
            Err(refused) if refused.error.kind() == io::ErrorKind::TimedOut => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            lent => lent.map(drop).map_err(io::Error::from),
        }
    }

    /// What is lent for `message`: pages, if packets leave by reference.
    #[inline]
    fn lent_buffer(&mut self, message: &Arc<[u8]>) -> Buffer {
        self.lent.buffer(message, self.sends_by_reference)
    }

    /// Receives what is there, and reads the first and the last octets of it where it lies.
    #[inline]
    fn read_in_place(&mut self) -> io::Result<Option<usize>> {
        let read = |bytes: &[u8]| {
            std::hint::black_box((
                bytes.first_chunk::<READ_LEN>(),
                bytes.last_chunk::<READ_LEN>(),
            ));
        };
        let got = self.circuit.recv_in_place(read, self.recv_timeout);
        let got = got.map_err(would_block)?;
        self.post_consumed(got.unwrap_or(0) as u64)?;
        Ok(got)
    }

    #[cold]
    fn send_blocking(&mut self, message: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.circuit.wait(left)?;
            match self.circuit.try_send(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                }
                Ok(()) => return self.send_unsent(),
                other => return other,
            }
        }
    }

    /// Waits until the store has taken the unsent tail of a message; the next call goes on with what
    /// has no room until then.
    #[cold]
    fn send_unsent(&mut self) -> io::Result<()> {
        match self.circuit.send_unsent(BLOCKING_TIMEOUT) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            other => other,
        }
    }

    /// Waits until the store has taken the unsent tail of a message.
    fn require_no_unsent(&mut self) -> io::Result<()> {
        let sent = self.circuit.send_unsent(BLOCKING_TIMEOUT);
        sent.map_err(would_block)
    }
}

impl<E: Associations + Send, W: Wire + Send> Circuit for EngineCircuit<E, W> {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.check_message(message.len())?;
        self.circuit.try_send(message)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let got = self.circuit.try_recv(buffer)?;
        self.post_consumed(got.unwrap_or(0) as u64)?;
        Ok(got.map(|len| len.min(buffer.len())))
    }

    #[inline(always)]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.check_message(message.len())?;
        match self.circuit.try_send(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.send_blocking(message),
            Ok(()) if self.circuit.has_unsent() => self.send_unsent(),
            other => other,
        }
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        if !self.zero_copy {
            return self.send_run(message, count);
        }
        self.check_message(message.len())?;
        send_each(count, || self.send_lent(message))
    }

    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        if self.zero_copy {
            return receive_run(calls, || self.read_in_place());
        }
        receive_run(calls, || self.recv(buffer))
    }

    #[inline(always)]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.circuit.recv(buffer, self.recv_timeout) {
            Ok(got) => {
                self.post_consumed(got.unwrap_or(0) as u64)?;
                Ok(got.map(|len| len.min(buffer.len())))
            }
            Err(error) => Err(would_block(error)),
        }
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        if note.is_plain() {
            self.check_message(message.len())?;
        }
        let sent = self.circuit.send_noted(message, note, BLOCKING_TIMEOUT);
        sent.map_err(would_block)
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        let received = self.circuit.receive_part(buffer, self.recv_timeout);
        let part = received.map_err(would_block)?;
        self.post_consumed(part.map_or(0, |part| part.len as u64))?;
        Ok(part)
    }

    fn reserve(&mut self, len: usize) -> io::Result<Reserved<'_>> {
        self.check_message(len)?;
        let reserved = self.circuit.reserve(len, BLOCKING_TIMEOUT);
        reserved.map_err(would_block)
    }

    fn commit(&mut self, note: &Note) -> io::Result<()> {
        self.circuit.commit(note)
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        let prepared = self.circuit.prepare_arrival(self.recv_timeout);
        let Some(bytes) = prepared.map_err(would_block)? else {
            return Ok(None);
        };
        self.post_consumed(bytes)?;
        Ok(Some(self.circuit.prepared_arrival()))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.require_no_unsent()?;
        self.circuit.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.require_no_unsent()?;
        self.circuit.finish()
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        self.circuit.wait(limit)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        let id = self.circuit.id();
        self.circuit
            .with_pump(|pump| (self.connection_info)(pump.engine(), id))
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.effective.clone();
        if let Some(descriptor) = self.circuit.descriptor() {
            effective.extend(socket::buffer_sizes(descriptor));
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        if !self.is_counted {
            return BTreeMap::new();
        }
        let mut counts = self.circuit.with_pump(|pump| pump_counts(pump));
        let damaged = self.circuit.messages_damaged();
        counts.insert("messages_damaged".into(), damaged);
        if let Some(shortcut) = &self.shortcut {
            let (sends, receives) = shortcut.calls();
            counts.insert("shortcut_sends".into(), sends);
            counts.insert("shortcut_receives".into(), receives);
        }
        counts
    }

    crate::usual_circuit! { send_run next_deadline }
}

/// What an engine, its wire and the layer between them count, by the names of [`Circuit::counts`].
pub(crate) fn pump_counts<E: Associations, W: Wire>(
    pump: &mut Pump<E, W>,
) -> BTreeMap<String, u64> {
    let engine = pump.engine().counters();
    let (sends, receives) = pump.wire_calls();
    let mut counts = BTreeMap::from([
        ("retransmissions".into(), engine.retransmissions),
        ("packets_sent".into(), engine.packets_built),
        ("packets_received".into(), engine.packets_parsed),
        ("packets_discarded".into(), engine.packets_discarded),
        ("bytes_lost".into(), engine.bytes_lost),
        ("gaps".into(), engine.gaps),
        ("bytes_copied".into(), engine.bytes_copied),
        ("bytes_summed".into(), engine.bytes_summed),
        ("timers_set".into(), engine.timers_set),
        ("send_calls".into(), sends),
        ("receive_calls".into(), receives),
    ]);
    parts::add_receive_drops(pump.receive_drops(), &mut counts);
    cells::add_counts(pump.layer_counts(), &mut counts);
    counts
}

/// The contract's word for a wait that ended.
#[cold]
fn would_block(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::TimedOut => io::ErrorKind::WouldBlock.into(),
        _ => error,
    }
}

impl<E: Associations, W: Wire> Drop for EngineCircuit<E, W> {
    fn drop(&mut self) {
        if self.ends_by_handshake {
            // Else the peer would wait for the rest of it. A circuit that broke has no end to announce.
            let _ = self.circuit.finish();
        }
        // The helper thread ends with the last circuit, so unacknowledged data would be lost. What the
        // endpoint goes on with once the peer has them is the handshake alone.
        if !self.is_outlived || !self.circuit.is_acknowledged() {
            let _ = self.circuit.drain(CLOSE_TIMEOUT);
        }
        if let Some(keep) = self.keep_endpoint.take() {
            keep();
        }
    }
}
