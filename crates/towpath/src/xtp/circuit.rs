//! The circuit: what the user holds of one association.

use super::endpoint::socket_address;
use super::endpoint_address::AnyWire;
use driver::timeout::finite;
use driver::{CircuitStatus, Part};
use engine::{Address, AssociationId, Note};
use engine_xtp::{RateLimit, Xtp};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::trace::Traced;

/// A circuit to a peer. Used by one thread at a time; different circuits of an endpoint may be used
/// by different threads.
pub struct Circuit {
    pub(super) inner: driver::Circuit<Xtp, Traced<AnyWire>>,
}

/// The tags of a message (XTP 4.0: BTAG; XTP 3.x: BTAG and ETAG).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// Before it (BTAG).
    pub begin: Option<[u8; 8]>,
    /// After it (ETAG); XTP 3.x only.
    pub end: Option<[u8; 8]>,
}

impl Circuit {
    pub(super) fn new(inner: driver::Circuit<Xtp, Traced<AnyWire>>) -> Circuit {
        Circuit { inner }
    }

    /// Its identifier within the endpoint, as an [`super::EndpointWatch`] reports it.
    pub fn id(&self) -> AssociationId {
        self.inner.id()
    }

    /// The peer's address when the circuit was opened.
    pub fn peer_address(&self) -> Address {
        self.inner.peer()
    }

    /// The same of an endpoint on UDP, or on IP (with port 0); 0.0.0.0:0 of one on Ethernet.
    pub fn peer(&self) -> SocketAddr {
        socket_address(self.inner.peer())
    }

    /// Its state.
    pub fn status(&self) -> CircuitStatus {
        self.inner.status()
    }

    /// Sends one message, or bytes of a stream, whole; waits up to `limit` for space in the send
    /// buffer.
    ///
    /// The data leave at once if nothing is in flight; otherwise they may be coalesced for about a
    /// millisecond. [`flush`](Circuit::flush) or a receive sends them. A byte stream takes more
    /// bytes at once than its send buffer: those that have no space when `limit` is over count as
    /// sent, and go first in the next call of any kind.
    ///
    /// # Errors
    ///
    /// `TimedOut` without space for any of it, `InvalidInput` for a message larger than half the send
    /// buffer where boundaries are kept, `BrokenPipe` when the circuit has ended.
    #[inline]
    pub fn send(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.inner.send(message, finite(limit))
    }

    /// [`send`](Circuit::send) without waiting; see [`has_unsent`](Circuit::has_unsent).
    ///
    /// # Errors
    ///
    /// `WouldBlock` without space, else those of `send`.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.inner.try_send(message)
    }

    /// Whether a byte stream keeps bytes for which the send buffer has no space yet. Every call sends
    /// what it can of them; a circuit that is dropped before aborts.
    pub fn has_unsent(&self) -> bool {
        self.inner.has_unsent()
    }

    /// Sends the last message; it shares a packet with the end of this direction (WCLOSE) if it
    /// fits.
    /// Errors are those of [`send`](Circuit::send); `InvalidInput` for more than half the send buffer, on a byte
    /// stream too.
    pub fn send_last(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.inner.send_last(message, finite(limit))
    }

    /// Receives one message, or the bytes a stream has. Returns the length, or None when the peer
    /// ended its direction. A message longer than the buffer is truncated; the length returned is
    /// that of the whole message.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or `ConnectionReset` when the circuit failed.
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        self.inner.recv(buffer, finite(limit))
    }

    /// [`recv`](Circuit::recv) without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is nothing to receive, else those of `recv`.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.inner.try_recv(buffer)
    }

    /// Receives everything up to the end of the peer's direction; drops what exceeds the buffer.
    /// Returns the length of all data. Errors are those of [`recv`](Circuit::recv).
    pub fn recv_all(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.inner.recv_all(buffer, finite(limit))
    }

    /// Sends one message with tags of eight octets, opaque to XTP
    /// ([`super::Endpoint::bind_messages`] only). Only XTP 3.x has a tag after the message (ETAG).
    ///
    /// # Errors
    ///
    /// `Unsupported` for an ETAG in 4.0 and on a byte stream, else those of [`send`](Circuit::send).
    pub fn send_tagged(&mut self, tags: Tags, message: &[u8], limit: Duration) -> io::Result<()> {
        let [tag, end_tag] = [tags.begin, tags.end].map(|tag| tag.map(u64::from_be_bytes));
        let note = Note {
            tag,
            end_tag,
            ..Note::default()
        };
        match self.send_noted(message, &note, limit) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported && tags.end.is_some() => {
                let text = "XTP 4.0 has no tag behind a message, and a byte stream has no tags; \
                            choose dialect=3.6, 3.5 or 3.3, and messages";
                Err(io::Error::new(io::ErrorKind::Unsupported, text))
            }
            sent => sent,
        }
    }

    /// Receives one message: its tags, and its length without them. None when the peer ended its
    /// direction. Errors are those of [`recv`](Circuit::recv).
    pub fn recv_tagged(
        &mut self,
        buffer: &mut [u8],
        limit: Duration,
    ) -> io::Result<Option<(Tags, usize)>> {
        let Some(part) = self.receive_part(buffer, limit)? else {
            return Ok(None);
        };
        let more = match part.end {
            true => None,
            // What did not fit is dropped.
            false => self.inner.try_recv(&mut [])?,
        };
        let tags = Tags {
            begin: part.note.tag.map(u64::to_be_bytes),
            end: part.note.end_tag.map(u64::to_be_bytes),
        };
        Ok(Some((tags, part.len + more.unwrap_or(0))))
    }

    /// Sends one message with a note ([`super::Endpoint::bind_messages`] only): XTP carries
    /// [`Note::tag`] (BTAG), and XTP 3.x [`Note::end_tag`] (ETAG).
    ///
    /// # Errors
    ///
    /// `Unsupported` when the note says anything else, else those of [`send`](Circuit::send).
    pub fn send_noted(&mut self, message: &[u8], note: &Note, limit: Duration) -> io::Result<()> {
        self.inner.send_noted(message, note, finite(limit))
    }

    /// Receives the next part of a message, without its tags, or the bytes a stream has. What does
    /// not fit into `buffer` stays for the next receive. None when the peer ended its direction.
    /// Errors are those of [`recv`](Circuit::recv).
    pub fn receive_part(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<Part>> {
        self.inner.receive_part(buffer, finite(limit))
    }

    /// Posts a receive buffer of `bytes` more: the peer of a bulk transfer may send as much, see
    /// [`super::Endpoint::connect_bulk`].
    pub fn post(&mut self, bytes: u64) -> io::Result<()> {
        let id = self.inner.id();
        self.inner
            .command(|engine, now| engine.post(now, id, bytes))
    }

    /// Limits the rate at which this side sends; None for no limit of its own.
    pub fn set_rate(&mut self, rate: Option<RateLimit>) -> io::Result<()> {
        let id = self.inner.id();
        self.inner
            .command(|engine, now| engine.set_rate(now, id, rate))
    }

    /// Limits the rate at which the peer sends, and sends it the limit.
    pub fn impose_rate(&mut self, rate: Option<RateLimit>) -> io::Result<()> {
        let id = self.inner.id();
        self.inner
            .command(|engine, now| engine.impose_rate(now, id, rate))
    }

    /// Sets the priority among the endpoint's circuits (XTP's sort value): the lowest is served
    /// first, None last.
    pub fn set_sort(&mut self, sort: Option<u16>) -> io::Result<()> {
        let id = self.inner.id();
        self.inner.command(|engine, _| engine.set_sort(id, sort))
    }

    /// Its priority: its own, or that of its peer.
    pub fn sort(&self) -> Option<u16> {
        let id = self.inner.id();
        self.inner.with_pump(|pump| pump.engine().sort(id))
    }

    /// Sends all submitted data, as far as the send window allows.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// [`flush`](Circuit::flush), which does nothing when all data were submitted already.
    pub fn flush_unsubmitted(&mut self) -> io::Result<()> {
        self.inner.flush_unsubmitted()
    }

    /// Ends this direction after the data submitted (half-close); the peer may go on sending.
    ///
    /// # Errors
    ///
    /// `WouldBlock` while the circuit [`has_unsent`](Circuit::has_unsent) bytes: call again.
    pub fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()
    }

    /// Waits up to `limit` until the peer has acknowledged all data.
    ///
    /// # Errors
    ///
    /// `TimedOut` or `ConnectionRefused`.
    pub fn drain(&mut self, limit: Duration) -> io::Result<()> {
        self.inner.drain(finite(limit))
    }

    /// Ends this direction and waits up to `limit` until the peer has acknowledged all of it.
    /// Errors are those of [`drain`](Circuit::drain).
    pub fn close(mut self, limit: Duration) -> io::Result<()> {
        let end = Instant::now() + finite(limit);
        self.inner.send_unsent(finite(limit))?;
        self.inner.finish()?;
        self.inner
            .drain(end.saturating_duration_since(Instant::now()))
    }

    /// Aborts both directions and notifies the peer; data in flight are lost.
    pub fn abort(mut self) -> io::Result<()> {
        self.inner.abort()
    }

    /// Waits up to `limit` for what another call may go on with.
    pub(crate) fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.inner.wait(limit)
    }

    /// Messages dropped because parts of them were lost (without error control).
    pub fn damaged(&self) -> u64 {
        self.inner.messages_damaged()
    }
}
