//! Pairs of devices: one association a direction, and a write that returns when the peer has
//! acknowledged it, as those to a character device of a protocol do.
//!
//! The connecting side writes to the first association of a pair and reads from the second.

use super::{
    CONNECT_TIMEOUT, EngineCircuit, EngineListener, open_circuit, open_listener, would_block,
};
use crate::contract::{
    BLOCKING_TIMEOUT, Circuit, CircuitResult, ConnectionInfo, Interest, LentArrival, Listener,
    NoConnectionInfo, Note, Part, ReceiveCounts, Rendezvous, Reserved,
};
use crate::engine_setup::EngineSetup;
use crate::medium::Medium;
use crate::options::Options;
use crate::runs::{receive_run, send_each};
use engine::Associations;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::Wire;
use wire::trace::Traced;

/// How long a receive waits before what is left to send is looked at again.
const TURN: Duration = Duration::from_millis(1);

/// Listens with two endpoints per circuit.
pub(crate) fn listen_devices<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<Box<dyn Listener>> {
    let endpoints = 2 * options.circuits.max(1);
    let listener = open_listener::<M, E>(medium, options, endpoints, setup)?;
    Ok(Box::new(DeviceListener {
        listener,
        first: None,
    }))
}

/// Opens circuit `index` to a listener of [`listen_devices`].
pub(crate) fn connect_device<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    (rendezvous, index): (&Rendezvous, usize),
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> CircuitResult {
    let open = |place| open_circuit(medium, (rendezvous, 2 * index + place), options, &setup);
    Ok(Box::new(DevicePair {
        written: open(0)?,
        read: open(1)?,
    }))
}

/// Takes associations in pairs, in the order in which they come: two peers that open theirs at once may
/// be mixed.
struct DeviceListener<M: Medium, E: Associations> {
    listener: EngineListener<M, E>,
    first: Option<First<E, Traced<M::Wire>>>,
}

/// The first association of a pair whose second has not come yet.
struct First<E: Associations, W: Wire> {
    read: EngineCircuit<E, W>,
    accepted_at: Instant,
}

impl<E: Associations, W: Wire> First<E, W> {
    /// Its peer has gone, or has waited longer for the second than it does.
    fn is_abandoned(&self) -> bool {
        let status = self.read.circuit.status();
        status.finished || status.closed.is_some() || self.accepted_at.elapsed() > CONNECT_TIMEOUT
    }
}

impl<M: Medium, E: Associations + Send + 'static> Listener for DeviceListener<M, E> {
    fn rendezvous(&self) -> io::Result<Rendezvous> {
        self.listener.rendezvous()
    }

    fn accept(&mut self, deadline: Instant) -> CircuitResult {
        let first = match self.first.take() {
            Some(first) => first,
            None => First {
                read: self.listener.accept_circuit(deadline)?,
                accepted_at: Instant::now(),
            },
        };
        match self.listener.accept_circuit(deadline) {
            Ok(written) => Ok(Box::new(DevicePair {
                written,
                read: first.read,
            })),
            Err(error) => {
                match first.is_abandoned() {
                    // The next pair begins at the same endpoint.
                    true => self.listener.accepted -= 1,
                    false => self.first = Some(first),
                }
                Err(error)
            }
        }
    }
}

struct DevicePair<E: Associations, W: Wire> {
    written: EngineCircuit<E, Traced<W>>,
    read: EngineCircuit<E, Traced<W>>,
}

impl<E: Associations + Send, W: Wire + Send> DevicePair<E, W> {
    /// Waits until the peer has acknowledged all that was written: what is written next goes behind it.
    fn drain(&mut self) -> io::Result<()> {
        if self.written.circuit.is_acknowledged() {
            return Ok(());
        }
        let drained = self.written.circuit.drain(BLOCKING_TIMEOUT);
        drained.map_err(would_block)
    }

    /// What came of a write: one that is not acknowledged in time has been sent, and the next waits for it.
    fn written(result: io::Result<()>) -> io::Result<()> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            other => other,
        }
    }

    /// Sends on what is left of a message that is longer than the store, while its user receives.
    #[inline]
    fn send_unsent(&mut self) -> io::Result<()> {
        match self.written.circuit.has_unsent() {
            true => self.written.circuit.drive(),
            false => Ok(()),
        }
    }

    /// Receives while something is left to send; None once all is sent.
    #[cold]
    fn recv_and_send(&mut self, buffer: &mut [u8]) -> io::Result<Option<Option<usize>>> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        while self.written.circuit.has_unsent() {
            match self.try_recv(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.read.wait(Interest::Read, Instant::now() + TURN)?;
                }
                other => return other.map(Some),
            }
        }
        Ok(None)
    }
}

impl<E: Associations + Send, W: Wire + Send> Circuit for DevicePair<E, W> {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        let circuit = &mut self.written.circuit;
        if !circuit.is_acknowledged() {
            circuit.drive()?;
            if !circuit.is_acknowledged() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        circuit.try_send_asking(message)
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.send_unsent()?;
        self.read.try_recv(buffer)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        // One that is not acknowledged goes before it, and may fill the store.
        self.drain()?;
        let circuit = &mut self.written.circuit;
        Self::written(circuit.send_acknowledged(message, BLOCKING_TIMEOUT))
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        send_each(count, || {
            self.drain()?;
            let buffer = self.written.lent_buffer(message);
            let circuit = &mut self.written.circuit;
            Self::written(circuit.lend_acknowledged(buffer, BLOCKING_TIMEOUT))
        })
    }

    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        if self.written.circuit.has_unsent() {
            return receive_run(calls, || self.recv(buffer));
        }
        self.read.recv_run(buffer, calls)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.written.circuit.has_unsent()
            && let Some(received) = self.recv_and_send(buffer)?
        {
            return Ok(received);
        }
        self.read.recv(buffer)
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        self.drain()?;
        self.written.send_noted(message, note)?;
        Self::written(self.written.circuit.drain(BLOCKING_TIMEOUT))
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.read.receive_part(buffer)
    }

    fn commit(&mut self, note: &Note) -> io::Result<()> {
        self.written.commit(note)?;
        Self::written(self.written.circuit.drain(BLOCKING_TIMEOUT))
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        self.read.take_arrival()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        match interest {
            Interest::Read if self.written.circuit.has_unsent() => {
                self.send_unsent()?;
                self.read
                    .wait(interest, deadline.min(Instant::now() + TURN))
            }
            Interest::Read => self.read.wait(interest, deadline),
            Interest::Write => self.written.wait(interest, deadline),
        }
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = self.written.counts();
        for (name, count) in self.read.counts() {
            *counts.entry(name).or_default() += count;
        }
        counts
    }

    engine::forward! { self.written;
        fn reserve(&mut self, len: usize) -> io::Result<Reserved<'_>>;
        fn flush(&mut self) -> io::Result<()>;
        fn finish(&mut self) -> io::Result<()>;
        fn effective(&self) -> BTreeMap<String, String>;
        fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo>;
    }

    crate::usual_circuit! { send_run descriptor next_deadline }
}
