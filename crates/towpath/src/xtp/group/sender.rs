//! The end that sends.

use super::config::{ack_address, check_multicast, ipv6_scope};
use super::{GroupEndpointConfig, Member};
use driver::Endpoint;
use engine::{Address, Counters, Engine};
use engine_xtp::group::{GroupEndpoint, Holdings};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use wire::Wire;
use wire_udp::UdpWire;

/// A stream to a group.
pub struct Sender {
    endpoint: Endpoint<GroupEndpoint, UdpWire>,
    circuit: driver::Circuit<GroupEndpoint, UdpWire>,
    is_finished: bool,
}

impl Sender {
    /// Opens a stream to `group` by the interface that has the address `local` (unspecified: the
    /// system's choice; IPv6: the group's scope). Receivers hear of it at once and join; more may come later.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `group` is none and nothing is replicated, or the kernel's.
    pub fn open(
        group: SocketAddr,
        local: IpAddr,
        settings: &GroupEndpointConfig,
    ) -> io::Result<Sender> {
        if settings.config.replicate.is_empty() {
            check_multicast(group)?;
        }
        let mut wire = settings.bind_wire(local, ipv6_scope(group), 0)?;
        if settings.ack_to_group {
            wire.join(Address::Socket(ack_address(group)))?;
        }
        let engine = GroupEndpoint::new(settings.engine_config(Some(group)));
        let endpoint = Endpoint::new(engine, wire, settings.send_buffer_len)?;
        let to = Address::Socket(group);
        let mut circuit = endpoint.open(to, |engine, now| engine.connect(now, to))?;
        circuit.flush()?;
        Ok(Sender {
            endpoint,
            circuit,
            is_finished: false,
        })
    }

    /// Waits up to `limit` until as many members have joined as the settings ask for.
    ///
    /// # Errors
    ///
    /// `TimedOut` with the number of those who did - [`members`](Sender::members) names them, and the
    /// sender goes on waiting for the others - or the kernel's.
    pub fn wait_ready(&mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + limit;
        loop {
            let status = self.circuit.status();
            if status.connected {
                return Ok(());
            }
            if status.closed.is_some() {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let text = format!("{} members joined in time", self.members().len());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.serve(left.min(READY_POLL_INTERVAL))?;
        }
    }

    /// Takes in what came, and waits up to `limit` for more.
    fn serve(&mut self, limit: Duration) -> io::Result<()> {
        let mut none = [0; 1];
        match self.circuit.recv(&mut none, limit) {
            // A group never sends anything back.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            // How the stream ended is for the caller to see.
            Err(_) if self.circuit.status().closed.is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends bytes, or a message, whole; waits for room up to `limit`, while some member is behind.
    ///
    /// # Errors
    ///
    /// `TimedOut` without room, `InvalidInput` for a message larger than half the store, `BrokenPipe`
    /// when the stream ended because too few members are left, or the kernel's.
    #[inline]
    pub fn send(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.circuit.send(message, limit)
    }

    /// As [`send`](Sender::send), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, else as `send`.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.circuit.try_send(message)
    }

    /// Sends everything handed over so far, as far as the members let it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.circuit.flush()
    }

    /// Waits up to `limit` until something may have changed.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.wait(limit)
    }

    /// Who is, or was, in the group: those that are gone first, then the others by address. Empty
    /// when receivers are not counted.
    pub fn members(&self) -> Vec<Member> {
        let id = self.circuit.id();
        self.endpoint.with_pump(|pump| pump.engine().members(id))
    }

    /// What happened to members since the last call: joins, leaves, losses.
    pub fn member_events(&self) -> Vec<Member> {
        self.endpoint.with_pump(|pump| {
            let news = std::iter::from_fn(|| pump.engine().poll_member_event());
            news.map(|(_, member)| member).collect()
        })
    }

    /// Takes a member out of the group, which is told so: for one that is too slow for the others.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn expel(&self, member: Address) -> io::Result<()> {
        let id = self.circuit.id();
        self.endpoint
            .command(|engine, now| engine.expel(now, id, member))
    }

    /// Ends the stream after what was sent, and waits for nothing.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.is_finished, true) {
            true => Ok(()),
            false => self.circuit.finish(),
        }
    }

    /// Ends the stream after what was sent, waits up to `limit` until all members have everything, and
    /// gives the report on each, as [`members`](Sender::members).
    ///
    /// # Errors
    ///
    /// `TimedOut`, also when no receiver of a group without members was heard; `ConnectionReset` when
    /// too few members were left; or the kernel's. The report is to be had from `members` then too.
    pub fn close(&mut self, limit: Duration) -> io::Result<Vec<Member>> {
        self.finish()?;
        self.circuit.drain(limit)?;
        Ok(self.members())
    }

    /// Ends the stream at once; members are told so.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn abort(mut self) -> io::Result<()> {
        self.circuit.abort()
    }

    /// The work done so far.
    pub fn counters(&self) -> Counters {
        self.endpoint.with_pump(|pump| pump.engine().counters())
    }

    /// Calls of the wire that sent, and that received something.
    pub fn wire_calls(&self) -> (u64, u64) {
        self.endpoint.with_pump(|pump| pump.wire_calls())
    }

    /// A descriptor that is readable when something arrived.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    /// What the sender holds right now.
    pub fn holdings(&self) -> Holdings {
        self.endpoint.with_pump(|pump| pump.engine().holdings())
    }
}

/// The longest wait between two looks at whether a stream is ready.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);
