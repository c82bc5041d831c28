//! Circuits of one message each way, or one: transactions and datagrams.

use super::circuit::Circuit;
use super::endpoint::Endpoint;
use super::endpoint_address::AnyWire;
use driver::timeout::finite;
use engine::Address;
use engine_xtp::Xtp;
use engine_xtp::pdu::Service;
use std::io;
use std::time::{Duration, Instant};
use wire::trace::Traced;

/// A request of a peer that waits for its reply, from [`Endpoint::accept_request`]. Dropped, its circuit ends without one.
pub struct AcceptedRequest<'a> {
    inner: driver::endpoint::OpenRequest<'a, Xtp, Traced<AnyWire>>,
}

impl AcceptedRequest<'_> {
    /// Sends the reply, and leaves the circuit: the endpoint repeats the reply until the caller has it. Waits up to `limit`
    /// for space in the send buffer.
    ///
    /// # Errors
    ///
    /// `TimedOut` without space, `InvalidInput` for more than half the send buffer, `BrokenPipe` when the circuit has ended.
    #[inline]
    pub fn reply(self, reply: &[u8], limit: Duration) -> io::Result<()> {
        self.inner.reply(reply, finite(limit))
    }

    /// The caller's address.
    pub fn peer_address(&self) -> Address {
        self.inner.peer()
    }

    /// Its circuit, for a reply of several messages. Errors: a panic of the endpoint's engine, earlier.
    pub fn into_circuit(self) -> io::Result<Circuit> {
        self.inner.into_circuit().map(Circuit::new)
    }
}

impl Endpoint {
    /// Sends a request and receives its reply, truncated to the buffer; returns the reply's length.
    /// Set-up and close add no round trip: three packets in all, the last of which may be delayed
    /// up to a millisecond and coalesced with those of other transactions. The caller busy-polls
    /// for the reply for up to 100 us before it sleeps.
    ///
    /// # Errors
    ///
    /// `ConnectionRefused`, `TimedOut` or `ConnectionReset`.
    pub fn transact(
        &self,
        to: impl Into<Address>,
        request: &[u8],
        reply: &mut [u8],
        limit: Duration,
    ) -> io::Result<usize> {
        let to = to.into();
        self.prepare_opening(to)?;
        let open = |engine: &mut Xtp, now| engine.open(now, to, Service::Transaction);
        self.inner
            .exchange(to, open, (request, reply), finite(limit))
    }

    /// The next circuit a peer opened, and all that the peer sends on it: a request, cut off at the end of the buffer, and
    /// its length. The counterpart of [`transact`](Endpoint::transact); answer with [`AcceptedRequest::reply`], as in the
    /// [module's](super) example. Waits up to `limit` for the circuit, and as long for each part of a request of several
    /// packets.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or `ConnectionReset` when the circuit failed, which is dropped then.
    pub fn accept_request(
        &self,
        request: &mut [u8],
        limit: Duration,
    ) -> io::Result<(AcceptedRequest<'_>, usize)> {
        let (inner, len) = self.inner.accept_request(request, finite(limit))?;
        Ok((AcceptedRequest { inner }, len))
    }

    /// Sends the request of a transaction without waiting; the reply is all that the circuit
    /// receives.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the request is longer than half the send buffer.
    pub fn begin_transaction(&self, to: impl Into<Address>, request: &[u8]) -> io::Result<Circuit> {
        self.open_with_last(to, Service::Transaction, request, Duration::ZERO)
    }

    /// Sends one message as an unacknowledged datagram.
    pub fn send_datagram(&self, to: impl Into<Address>, message: &[u8]) -> io::Result<()> {
        self.open_with_last(to, Service::Datagram, message, Duration::ZERO)
            .map(drop)
    }

    /// Sends one message as an acknowledged datagram; waits up to `limit` for the acknowledgement.
    ///
    /// # Errors
    ///
    /// `TimedOut` or `ConnectionRefused`.
    pub fn send_acknowledged(
        &self,
        to: impl Into<Address>,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<()> {
        let end = Instant::now() + finite(limit);
        let mut circuit = self.open_with_last(to, Service::AckedDatagram, message, limit)?;
        circuit.drain(end.saturating_duration_since(Instant::now()))
    }

    /// Sends one message as an acknowledged datagram without waiting; the circuit is drained once
    /// the peer has acknowledged it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when the message is longer than half the send buffer.
    pub fn begin_acknowledged(
        &self,
        to: impl Into<Address>,
        message: &[u8],
    ) -> io::Result<Circuit> {
        self.open_with_last(to, Service::AckedDatagram, message, Duration::ZERO)
    }

    /// Opens a circuit and sends its last message, which may wait up to `limit` for room.
    #[inline]
    fn open_with_last(
        &self,
        to: impl Into<Address>,
        service: Service,
        message: &[u8],
        limit: Duration,
    ) -> io::Result<Circuit> {
        let to = to.into();
        self.prepare_opening(to)?;
        let open = |engine: &mut Xtp, now| engine.open(now, to, service);
        let opened = self.inner.open_with_last(to, open, message, finite(limit));
        opened.map(Circuit::new)
    }
}
