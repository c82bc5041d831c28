//! A byte stream of XTP with modules on it, or with none.

use super::chain::ModuleChain;
use super::stack::ModuleStack;
use crate::xtp::Circuit;
use driver::{CircuitStatus, Reserved};
use engine::AssociationId;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longest wait before what a module holds or the circuit refused is tried again.
const TURN: Duration = Duration::from_millis(10);

/// Octets that are taken from the circuit at once: what a hostile peer compressed expands to 16 MiB at
/// most before the user has taken it.
const ARRIVAL_LEN: usize = 16 << 10;

/// A circuit of a byte stream, whose octets pass the modules that are pushed on it. What the circuit
/// has no room for waits here and goes first in the next call of any kind.
pub(crate) struct PushedStream {
    circuit: Circuit,
    modules: Option<Box<Modules>>,
}

/// The modules of a stream, and what waits on either side of them.
struct Modules {
    chain: ModuleChain,
    /// Octets for which the circuit had no room.
    unsent: Vec<u8>,
    /// Octets that the user has not taken, from `taken` on.
    received: Vec<u8>,
    taken: usize,
    /// The modules know that no more is sent.
    is_finishing: bool,
    /// The peer has ended its direction.
    has_ended: bool,
}

impl PushedStream {
    /// `circuit` with the modules of `stack`, at the end that connects or at the other.
    /// Errors: that of a module that cannot be on it, such as a file that cannot be made. The circuit is aborted.
    pub(crate) fn new(
        circuit: Circuit,
        stack: Option<&ModuleStack>,
        connects: bool,
    ) -> io::Result<PushedStream> {
        let chain = stack.map(|stack| ModuleChain::new(stack, connects));
        match chain.transpose() {
            Ok(chain) => Ok(PushedStream {
                circuit,
                modules: chain.map(|chain| Box::new(Modules::new(chain))),
            }),
            Err(error) => {
                let _ = circuit.abort();
                Err(error)
            }
        }
    }

    /// Offers the circuit of a stream without modules to `take`, which returns it if it does not take it. The stream, if it
    /// goes on.
    pub(crate) fn offer(
        self,
        take: impl FnOnce(Circuit) -> Option<Circuit>,
    ) -> Option<PushedStream> {
        if self.modules.is_some() {
            return Some(self);
        }
        let circuit = take(self.circuit)?;
        Some(PushedStream {
            circuit,
            modules: None,
        })
    }

    pub(crate) fn id(&self) -> AssociationId {
        self.circuit.id()
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.circuit.peer()
    }

    pub(crate) fn status(&self) -> CircuitStatus {
        self.circuit.status()
    }

    /// What its modules counted.
    pub(crate) fn counts(&self) -> BTreeMap<String, u64> {
        let counts = self.modules.as_ref().map(|modules| modules.chain.counts());
        counts.unwrap_or_default()
    }

    /// When a module has something to do, whatever arrives.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.modules.as_ref()?.chain.next_deadline()
    }

    /// Sends octets whole.
    /// Fails with `WouldBlock` while there is room for none of them; those of the circuit and of the modules.
    pub(crate) fn try_send(&mut self, octets: &[u8]) -> io::Result<()> {
        let Some(modules) = &mut self.modules else {
            return self.circuit.try_send(octets);
        };
        modules.send_waiting(&mut self.circuit)?;
        if !modules.chain.has_room() {
            return Err(ErrorKind::WouldBlock.into());
        }
        modules.chain.send(octets, &mut modules.unsent)?;
        settled(modules.send_waiting(&mut self.circuit))
    }

    /// Whether octets go to the circuit as they are: it has no modules.
    pub(crate) fn is_plain(&self) -> bool {
        self.modules.is_none()
    }

    /// [`Circuit::try_fill`] of a stream without modules. Errors are those of the circuit; `Unsupported` with modules.
    pub(crate) fn try_fill(
        &mut self,
        len: usize,
        write: impl FnOnce(Reserved<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match self.modules {
            None => self.circuit.try_fill(len, write),
            Some(_) => Err(ErrorKind::Unsupported.into()),
        }
    }

    /// Room in the circuit's send buffer for the next `len` octets, waiting for it up to `limit`; None with modules, which change
    /// them. Written whole, they are sent by [`commit`](PushedStream::commit). Errors are those of the circuit.
    pub(crate) fn reserve(
        &mut self,
        len: usize,
        limit: Duration,
    ) -> io::Result<Option<Reserved<'_>>> {
        match self.modules {
            None => self.circuit.reserve(len, limit).map(Some),
            Some(_) => Ok(None),
        }
    }

    /// Sends what was written where room was reserved last. Errors are those of the circuit.
    pub(crate) fn commit(&mut self) -> io::Result<()> {
        self.circuit.commit()
    }

    /// Sends what waits, as far as the circuit has room. Errors are those of the circuit.
    pub(crate) fn carry_on(&mut self) -> io::Result<()> {
        match &mut self.modules {
            Some(modules) => settled(modules.send_waiting(&mut self.circuit)),
            None => Ok(()),
        }
    }

    /// Receives what there is; None when the peer has ended its direction.
    /// Fails with `WouldBlock` when there is nothing; `InvalidData` when what arrived is not of the peer's modules;
    /// those of the circuit.
    pub(crate) fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(modules) = &mut self.modules else {
            let received = self.circuit.try_recv(buffer)?;
            return Ok(received.map(|len| len.min(buffer.len())));
        };
        settled(modules.send_waiting(&mut self.circuit))?;
        loop {
            if let Some(len) = modules.take(buffer) {
                return Ok(Some(len));
            }
            if modules.has_ended {
                return Ok(None);
            }
            let room = buffer.len().min(ARRIVAL_LEN);
            let arrived = self.circuit.try_recv(&mut buffer[..room])?;
            modules.take_in(arrived.map(|len| &buffer[..len.min(room)]))?;
        }
    }

    /// [`try_send`](PushedStream::try_send) that waits up to `limit` for room.
    /// Fails with `TimedOut`, else those of `try_send`.
    pub(crate) fn send(&mut self, octets: &[u8], limit: Duration) -> io::Result<()> {
        if self.modules.is_none() {
            return self.circuit.send(octets, limit);
        }
        self.until(limit, |stream| stream.try_send(octets))
    }

    /// [`try_recv`](PushedStream::try_recv) that waits up to `limit`. Fails with `TimedOut`, else those of `try_recv`.
    pub(crate) fn recv(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        if self.modules.is_none() {
            return self.circuit.recv(buffer, limit);
        }
        self.until(limit, |stream| stream.try_recv(buffer))
    }

    /// Sends what is coalesced, then waits up to `limit`, or until something may have changed.
    /// Errors are those of the circuit.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        let until_next = self
            .next_deadline()
            .map(|next| next.saturating_duration_since(Instant::now()));
        let turn = match self.modules {
            Some(_) => TURN.min(until_next.unwrap_or(TURN)),
            None => limit,
        };
        self.circuit.wait(turn.min(limit))
    }

    /// Sends what is coalesced, without waiting for what a module holds. Errors are those of the circuit.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.carry_on()?;
        self.circuit.flush()
    }

    /// Sends the last octets, and the end of this direction with them.
    /// Errors are those of [`send`](PushedStream::send).
    pub(crate) fn send_last(&mut self, octets: &[u8], limit: Duration) -> io::Result<()> {
        if self.modules.is_none() {
            return self.circuit.send_last(octets, limit);
        }
        self.send(octets, limit)?;
        self.until(limit, PushedStream::finish)
    }

    /// Ends this direction, behind what was sent. Fails with `WouldBlock` while some of it waits; those of the circuit.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        if let Some(modules) = &mut self.modules {
            modules.send_waiting(&mut self.circuit)?;
            if !modules.is_finishing {
                modules.chain.send_end(&mut modules.unsent)?;
                modules.is_finishing = true;
            }
            modules.send_waiting(&mut self.circuit)?;
            if modules.chain.holds_any() {
                return Err(ErrorKind::WouldBlock.into());
            }
        }
        self.circuit.finish()
    }

    /// Waits until the peer has acknowledged all that was sent. Errors are those of the circuit.
    pub(crate) fn drain(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.drain(limit)
    }

    /// Ends this direction and waits up to `limit` until the peer has acknowledged all of it.
    /// Errors are those of the circuit.
    pub(crate) fn close(mut self, limit: Duration) -> io::Result<()> {
        self.until(limit, PushedStream::finish)?;
        self.circuit.close(limit)
    }

    /// Aborts both directions. Errors are those of the circuit.
    pub(crate) fn abort(self) -> io::Result<()> {
        self.circuit.abort()
    }

    /// Repeats `action` until it does not refuse for want of room or data.
    fn until<T>(
        &mut self,
        limit: Duration,
        mut action: impl FnMut(&mut PushedStream) -> io::Result<T>,
    ) -> io::Result<T> {
        let end = Instant::now() + limit;
        loop {
            match action(self) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                other => return other,
            }
            let now = Instant::now();
            if now >= end {
                return Err(ErrorKind::TimedOut.into());
            }
            let next = self.next_deadline().map_or(end, |next| next.min(end));
            let turn = next.saturating_duration_since(now).min(TURN);
            self.circuit.wait(turn)?;
        }
    }
}

impl Modules {
    fn new(chain: ModuleChain) -> Modules {
        Modules {
            chain,
            unsent: Vec::new(),
            received: Vec::new(),
            taken: 0,
            is_finishing: false,
            has_ended: false,
        }
    }

    /// Sends what waits; `WouldBlock` when the circuit has no room for it.
    fn send_waiting(&mut self, circuit: &mut Circuit) -> io::Result<()> {
        loop {
            if !self.unsent.is_empty() {
                circuit.try_send(&self.unsent)?;
                self.unsent.clear();
            }
            self.chain.carry_on(&mut self.unsent);
            if self.unsent.is_empty() {
                return Ok(());
            }
        }
    }

    /// Copies what the user has not taken; None when there is nothing.
    fn take(&mut self, buffer: &mut [u8]) -> Option<usize> {
        let rest = &self.received[self.taken..];
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        self.taken += len;
        if self.taken == self.received.len() {
            self.received.clear();
            self.taken = 0;
        }
        (len > 0).then_some(len)
    }

    /// Takes in what arrived, or the end.
    fn take_in(&mut self, arrived: Option<&[u8]>) -> io::Result<()> {
        match arrived {
            Some(octets) => self.chain.receive(octets, &mut self.received),
            None => {
                self.has_ended = true;
                self.chain.receive_end(&mut self.received)
            }
        }
    }
}

/// What waits goes with the next call.
fn settled(sent: io::Result<()>) -> io::Result<()> {
    match sent {
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
        other => other,
    }
}
