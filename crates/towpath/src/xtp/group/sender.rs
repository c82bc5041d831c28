//! The sending end of a group.

use super::config::{GroupCircuit, HostedGroup, ack_address, check_multicast, ipv6_scope};
use super::{GroupEndpointConfig, Member};
use driver::timeout::finite;
use engine::{Address, Associations, Counters, Protocol};
use engine_xtp::group::{GroupEndpoint, Holdings};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};
use wire::Wire;

/// A stream to a group.
pub struct Sender {
    endpoint: HostedGroup,
    circuit: GroupCircuit,
    is_finished: bool,
}

impl Sender {
    /// Opens a stream to `group` on the interface that has the address `local` (unspecified: the
    /// system's choice; IPv6: the group's scope). Receivers join at once; others may join later.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when `group` is no multicast address and nothing is replicated.
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
        let endpoint = settings.host(engine, wire, settings.send_buffer_len)?;
        let to = Address::Socket(group);
        let mut circuit = endpoint.open(to, |engine, now| engine.connect(now, &[to]))?;
        circuit.flush()?;
        Ok(Sender {
            endpoint,
            circuit,
            is_finished: false,
        })
    }

    /// Waits up to `limit` until [`super::Config::members_min`] members have joined.
    ///
    /// # Errors
    ///
    /// `TimedOut`, with the number that joined; [`members`](Sender::members) lists them. The others
    /// may still join.
    pub fn wait_ready(&mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + finite(limit);
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

    /// Processes arrived packets, and waits up to `limit` for more.
    fn serve(&mut self, limit: Duration) -> io::Result<()> {
        let mut none = [0; 1];
        match self.circuit.recv(&mut none, limit) {
            // A group sends no user data back.
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            // The caller reads from the status how the stream ended.
            Err(_) if self.circuit.status().closed.is_some() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Sends bytes, or a message, whole; waits up to `limit` for space in the send buffer, which
    /// the slowest member frees.
    ///
    /// # Errors
    ///
    /// `TimedOut` without space, `InvalidInput` for a message larger than half the send buffer,
    /// `BrokenPipe` when the stream ended because too few members are left.
    #[inline]
    pub fn send(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.circuit.send(message, finite(limit))
    }

    /// [`send`](Sender::send) without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without space, else those of `send`.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.circuit.try_send(message)
    }

    /// Sends all submitted data, as far as the send window allows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.circuit.flush()
    }

    /// Sends bytes, or a message, whole, and waits up to `limit` until all members have acknowledged it and all before it.
    /// The packet with its last byte asks them.
    /// Errors are those of [`try_send`](Sender::try_send), then nothing of it was sent; those of
    /// [`drain`](Sender::drain), then it may have been.
    pub fn send_acknowledged(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.circuit.send_acknowledged(message, finite(limit))
    }

    /// Waits up to `limit` until all members have acknowledged everything that was sent.
    ///
    /// # Errors
    ///
    /// `TimedOut`; `ConnectionReset` when too few members were left.
    pub fn drain(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.drain(finite(limit))
    }

    /// Whether all members have acknowledged everything that was sent, as far as was heard.
    pub fn is_acknowledged(&self) -> bool {
        self.circuit.is_acknowledged()
    }

    /// Waits up to `limit` until packets arrived or a timer expired.
    pub fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.circuit.wait(finite(limit))
    }

    /// Present and former members: those that are gone first, then the others by address. Empty
    /// when members are not tracked ([`super::Reliability`]).
    pub fn members(&self) -> Vec<Member> {
        let id = self.circuit.id();
        self.endpoint.with_pump(|pump| pump.engine().members(id))
    }

    /// Changes of members since the last call: joins, leaves, losses.
    pub fn member_events(&self) -> Vec<Member> {
        self.endpoint.with_pump(|pump| {
            let news = std::iter::from_fn(|| pump.engine().poll_member_event());
            news.map(|(_, member)| member).collect()
        })
    }

    /// Expels a member, for example one too slow for the others, and notifies it.
    pub fn expel(&self, member: Address) -> io::Result<()> {
        let id = self.circuit.id();
        self.endpoint
            .command(|engine, now| engine.expel(now, id, member))
    }

    /// Ends the stream after the data submitted, without waiting.
    pub fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.is_finished, true) {
            true => Ok(()),
            false => self.circuit.finish(),
        }
    }

    /// Ends the stream after the data submitted, waits up to `limit` until all members have
    /// acknowledged everything, and returns [`members`](Sender::members).
    ///
    /// # Errors
    ///
    /// `TimedOut`, also when members are not tracked and no receiver responded; `ConnectionReset`
    /// when too few members were left. `members` has the report then too.
    pub fn close(&mut self, limit: Duration) -> io::Result<Vec<Member>> {
        self.finish()?;
        self.circuit.drain(finite(limit))?;
        Ok(self.members())
    }

    /// Aborts the stream and notifies the members.
    pub fn abort(mut self) -> io::Result<()> {
        self.circuit.abort()
    }

    /// Its counters.
    pub fn counters(&self) -> Counters {
        self.endpoint.with_pump(|pump| pump.engine().counters())
    }

    /// Send calls and successful receive calls of the wire.
    pub fn wire_calls(&self) -> (u64, u64) {
        self.endpoint.with_pump(|pump| pump.wire_calls())
    }

    /// Packets that the system dropped because a buffer was full, see [`wire::Wire::receive_drops`].
    pub fn receive_drops(&self) -> Option<u64> {
        self.endpoint.with_pump(|pump| pump.receive_drops())
    }

    /// What its layer of cells counts ([`GroupEndpointConfig::cells`]); empty without one.
    pub fn cell_counts(&self) -> Vec<(&'static str, u64)> {
        self.endpoint.with_pump(|pump| pump.layer_counts())
    }

    /// A descriptor that is readable when packets arrived.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    /// Resources the sender holds now.
    pub fn holdings(&self) -> Holdings {
        self.endpoint.with_pump(|pump| pump.engine().holdings())
    }
}

/// The longest wait between two checks whether the members have joined.
const READY_POLL_INTERVAL: Duration = Duration::from_millis(20);
