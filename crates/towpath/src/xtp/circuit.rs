//! One association.

use driver::CircuitStatus;
use engine::{Address, AssociationId};
use engine_xtp::{RateLimit, Xtp};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use wire::trace::Traced;
use wire_udp::UdpWire;

/// A circuit to a peer. Used by one thread at a time; other circuits of the endpoint may be used
/// by others.
pub struct Circuit {
    pub(super) inner: driver::Circuit<Xtp, Traced<UdpWire>>,
}

/// Octets of a tag.
const TAG_LEN: usize = 8;

/// What travels beside a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tags {
    /// In front of it (BTAG).
    pub begin: Option<[u8; 8]>,
    /// Behind it (ETAG), in the third revision.
    pub end: Option<[u8; 8]>,
}

impl Circuit {
    pub(super) fn new(inner: driver::Circuit<Xtp, Traced<UdpWire>>) -> Circuit {
        Circuit { inner }
    }

    /// Its number within its endpoint, as a [`super::Watch`] names it.
    pub fn id(&self) -> AssociationId {
        self.inner.id()
    }

    /// Where its peer was when it was opened.
    pub fn peer(&self) -> SocketAddr {
        match self.inner.peer() {
            Address::Socket(peer) => peer,
            // An endpoint on UDP has no other peers.
            _ => (Ipv4Addr::UNSPECIFIED, 0).into(),
        }
    }

    /// How it stands.
    pub fn status(&self) -> CircuitStatus {
        self.inner.status()
    }

    /// Sends one message, or bytes of a stream, whole; waits for room up to `limit`.
    ///
    /// It leaves at once when nothing is on its way, else it may wait about a millisecond for
    /// others to share a packet; [`flush`](Circuit::flush) ends that wait, and so does a receive.
    ///
    /// # Errors
    ///
    /// `TimedOut` without room, `InvalidInput` for a message larger than the send store can ever
    /// hold, `BrokenPipe` when the circuit ended, or the kernel's.
    #[inline]
    pub fn send(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        self.inner.send(message, limit)
    }

    /// As [`send`](Circuit::send), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room, else as `send`.
    #[inline]
    pub fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.inner.try_send(message)
    }

    /// Sends the last message: it and the end of this direction share a packet where they fit.
    ///
    /// # Errors
    ///
    /// As [`send`](Circuit::send).
    pub fn send_last(&mut self, message: &[u8], limit: Duration) -> io::Result<()> {
        let mut end = None;
        loop {
            match self.inner.try_send_last(message) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let end = *end.get_or_insert_with(|| Instant::now() + limit);
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.inner.wait(left)?;
        }
    }

    /// Receives one message, or what there is of a stream: its length, or None when the peer ended
    /// its direction. The part of a message beyond the buffer is dropped; the length tells.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `ConnectionReset` when the circuit broke, or the kernel's.
    #[inline]
    pub fn recv(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        self.inner.recv(buffer, limit)
    }

    /// As [`recv`](Circuit::recv), without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there, else as `recv`.
    #[inline]
    pub fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.inner.try_recv(buffer)
    }

    /// Receives everything up to the end of the peer's direction; what does not fit into the
    /// buffer is dropped. Gives the length of all.
    ///
    /// # Errors
    ///
    /// As [`recv`](Circuit::recv).
    pub fn recv_all(&mut self, buffer: &mut [u8], limit: Duration) -> io::Result<usize> {
        self.inner.recv_all(buffer, limit)
    }

    /// Sends one message between tags of eight octets, which XTP does not look into
    /// ([`super::Endpoint::bind_messages`] only). A tag behind a message is known to the dialects of
    /// the third revision alone.
    ///
    /// # Errors
    ///
    /// `Unsupported` for a tag behind the message in 4.0, else as [`send`](Circuit::send).
    pub fn send_tagged(&mut self, tags: Tags, message: &[u8], limit: Duration) -> io::Result<()> {
        let (id, start) = (self.inner.id(), self.inner.position());
        let octets = |tag: &Option<[u8; TAG_LEN]>| tag.map_or(Vec::new(), Vec::from);
        let parts = [&octets(&tags.begin), message, &octets(&tags.end)];
        let whole = parts.concat();
        let end = start + whole.len() as u64;
        let mut knows = true;
        self.inner.command(|engine, _| {
            knows = tags.end.is_none() || engine.tag_end(id, end);
            if knows && tags.begin.is_some() {
                engine.tag(id, start);
            }
        })?;
        if !knows {
            let text = "XTP 4.0 has no tag behind a message; choose dialect=3.6, 3.5 or 3.3";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text));
        }
        let sent = self.inner.send(&whole, limit);
        if self.inner.position() == start {
            self.inner.command(|engine, _| {
                engine.untag(id, start);
                engine.untag_end(id, end);
            })?;
        }
        sent
    }

    /// Receives one message: its tags, and its length without them. None when the peer ended its
    /// direction.
    ///
    /// # Errors
    ///
    /// As [`recv`](Circuit::recv).
    pub fn recv_tagged(
        &mut self,
        buffer: &mut [u8],
        limit: Duration,
    ) -> io::Result<Option<(Tags, usize)>> {
        let mut whole = vec![0; buffer.len() + 2 * TAG_LEN];
        let Some(len) = self.inner.recv(&mut whole, limit)? else {
            return Ok(None);
        };
        let (begins, ends) = (self.inner.is_tagged(), self.inner.is_end_tagged());
        let front = if begins { TAG_LEN.min(len) } else { 0 };
        let back = if ends { TAG_LEN.min(len - front) } else { 0 };
        // A tag behind a message that the buffer does not hold is lost with what it does not hold.
        let behind = whole.get(len - back..).and_then(|rest| rest.first_chunk());
        let tags = Tags {
            begin: whole.first_chunk().copied().filter(|_| front == TAG_LEN),
            end: behind.copied().filter(|_| back == TAG_LEN),
        };
        let kept = (len - front - back).min(buffer.len());
        buffer[..kept].copy_from_slice(&whole[front..front + kept]);
        Ok(Some((tags, len - front - back)))
    }

    /// Says that there is room for `bytes` more: the peer of a bulk may send as much, see
    /// [`super::Endpoint::connect_bulk`].
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn post(&mut self, bytes: u64) -> io::Result<()> {
        let id = self.inner.id();
        self.inner
            .command(|engine, now| engine.post(now, id, bytes))
    }

    /// Sets the rate this side keeps to; None for no limit of its own.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_rate(&mut self, rate: Option<RateLimit>) -> io::Result<()> {
        let id = self.inner.id();
        self.inner
            .command(|engine, now| engine.set_rate(now, id, rate))
    }

    /// Sets the rate the peer is to keep to, and tells it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn impose_rate(&mut self, rate: Option<RateLimit>) -> io::Result<()> {
        let id = self.inner.id();
        self.inner
            .command(|engine, now| engine.impose_rate(now, id, rate))
    }

    /// Sets the priority among the endpoint's circuits: the lowest value is served first, None
    /// last.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn set_sort(&mut self, sort: Option<u16>) -> io::Result<()> {
        let id = self.inner.id();
        self.inner.command(|engine, _| engine.set_sort(id, sort))
    }

    /// Lets answers wait a little for the next request.
    pub(super) fn set_delayed_ack(&mut self) {
        self.inner.set_delayed_ack();
    }

    /// Sends everything handed over so far, as far as the peer lets it.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }

    /// Ends this direction after what was sent; the peer may go on sending.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()
    }

    /// Waits up to `limit` until the peer has everything that was sent.
    ///
    /// # Errors
    ///
    /// `TimedOut`, `ConnectionRefused`, or the kernel's.
    pub fn drain(&mut self, limit: Duration) -> io::Result<()> {
        self.inner.drain(limit)
    }

    /// Ends this direction and waits up to `limit` until the peer has all of it.
    ///
    /// # Errors
    ///
    /// As [`drain`](Circuit::drain).
    pub fn close(mut self, limit: Duration) -> io::Result<()> {
        self.inner.finish()?;
        self.inner.drain(limit)
    }

    /// Ends both directions at once; what is on its way is lost, and the peer is told.
    ///
    /// # Errors
    ///
    /// The kernel's.
    pub fn abort(mut self) -> io::Result<()> {
        self.inner.abort()
    }

    /// Messages that were dropped because bytes of them were lost (without error control).
    pub fn damaged(&self) -> u64 {
        self.inner.messages_damaged()
    }
}
