//! One association.

use driver::CircuitStatus;
use engine::{Address, CircuitId};
use engine_xtp::{RateLimit, Xtp};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};
use wire_udp::UdpWire;

/// A circuit to a peer. Used by one thread at a time; other circuits of the endpoint may be used
/// by others.
pub struct Circuit {
    inner: driver::Circuit<Xtp, UdpWire>,
}

impl Circuit {
    pub(super) fn new(inner: driver::Circuit<Xtp, UdpWire>) -> Circuit {
        Circuit { inner }
    }

    /// Its number within its endpoint, as a [`super::Watch`] names it.
    pub fn id(&self) -> CircuitId {
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

    /// Sends one message behind a tag of eight octets, which XTP does not look into
    /// ([`super::Endpoint::bind_messages`] only).
    ///
    /// # Errors
    ///
    /// As [`send`](Circuit::send).
    pub fn send_tagged(&mut self, tag: [u8; 8], message: &[u8], limit: Duration) -> io::Result<()> {
        let (id, start) = (self.inner.id(), self.inner.position());
        let whole = [&tag[..], message].concat();
        self.inner.command(|engine, _| engine.tag(id, start))?;
        let sent = self.inner.send(&whole, limit);
        if self.inner.position() == start {
            self.inner.command(|engine, _| engine.untag(id, start))?;
        }
        sent
    }

    /// Receives one message: its tag if it has one, and its length without it. None when the peer
    /// ended its direction.
    ///
    /// # Errors
    ///
    /// As [`recv`](Circuit::recv).
    pub fn recv_tagged(
        &mut self,
        buffer: &mut [u8],
        limit: Duration,
    ) -> io::Result<Option<(Option<[u8; 8]>, usize)>> {
        let mut whole = vec![0; buffer.len() + 8];
        let Some(len) = self.inner.recv(&mut whole, limit)? else {
            return Ok(None);
        };
        let tag = whole.first_chunk::<8>().copied();
        let tag = tag.filter(|_| self.inner.is_tagged() && len >= 8);
        let start = if tag.is_some() { 8 } else { 0 };
        let kept = (len - start).min(buffer.len());
        buffer[..kept].copy_from_slice(&whole[start..start + kept]);
        Ok(Some((tag, len - start)))
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
    pub(super) fn set_patient(&mut self) {
        self.inner.set_patient();
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
        self.inner.damaged()
    }
}
