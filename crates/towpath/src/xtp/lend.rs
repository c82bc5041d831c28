//! Zero-copy send and receive.

use super::Circuit;
pub use driver::lend::{
    Buffer, LEND_BYTES_MIN, LOANS_MAX, LendError, LendOutcome, PageBuffer, ReturnedBuffer,
};
use driver::timeout::finite;
use driver::{LentArrival, Reserved};
use engine::Note;
use std::io;
use std::time::Duration;

/// A circuit takes ownership of a buffer and sends from it, instead of copying it into its send
/// buffer. Buffers return, in order, when the peer has acknowledged them.
///
/// ```
/// use std::time::Duration;
/// use towpath::xtp::{Endpoint, EndpointConfig};
///
/// let limit = Duration::from_secs(5);
/// let server = Endpoint::bind("127.0.0.1:0".parse()?, &EndpointConfig::default())?;
/// server.listen(true);
/// let address = server.local_addr();
/// let serving = std::thread::spawn(move || -> std::io::Result<usize> {
///     let mut circuit = server.accept(limit)?;
///     let mut all = vec![0; 64 << 10];
///     let len = circuit.recv_all(&mut all, limit)?;
///     circuit.close(limit)?;
///     Ok(len)
/// });
///
/// let client = Endpoint::bind("127.0.0.1:0".parse()?, &EndpointConfig::default())?;
/// let mut circuit = client.connect(address, limit)?;
/// circuit.lend(vec![7; 40_000], limit)?;
/// circuit.finish()?;
/// let returned = circuit.reclaim(limit)?.expect("a buffer is lent");
/// assert!(returned.is_complete);
/// assert_eq!(returned.buffer.len(), 40_000);
/// circuit.close(limit)?;
/// assert_eq!(serving.join().expect("the server does not panic")?, 40_000);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl Circuit {
    /// Sends `buffer` - a `Vec<u8>`, `Box<[u8]>`, `Arc<[u8]>` or [`PageBuffer`] - without a copy; waits up to
    /// `limit` for space. The circuit keeps it until the peer has acknowledged it; then
    /// [`reclaim`](Circuit::reclaim) returns it. Buffers shorter than [`LEND_BYTES_MIN`] are copied
    /// and returned at once ([`LendOutcome::Copied`]).
    /// Errors are those of [`send`](Circuit::send), with the buffer. `WouldBlock` when [`LOANS_MAX`] are lent and
    /// some of them can be reclaimed.
    #[inline]
    pub fn lend(
        &mut self,
        buffer: impl Into<Buffer>,
        limit: Duration,
    ) -> Result<LendOutcome, LendError> {
        self.inner.lend(buffer, finite(limit))
    }

    /// [`lend`](Circuit::lend) without waiting.
    /// Errors are those of [`try_send`](Circuit::try_send), with the buffer; `WouldBlock` also while [`LOANS_MAX`]
    /// are lent and not reclaimed.
    #[inline]
    pub fn try_lend(&mut self, buffer: impl Into<Buffer>) -> Result<LendOutcome, LendError> {
        self.inner.try_lend(buffer)
    }

    /// Reserves room for a message of `len` bytes in the send buffer, waiting for it up to `limit`;
    /// write all pieces of it, then call [`commit`](Circuit::commit). Whatever is sent before that
    /// takes the place. Errors are those of [`send`](Circuit::send).
    pub fn reserve(&mut self, len: usize, limit: Duration) -> io::Result<Reserved<'_>> {
        self.inner.reserve(len, limit)
    }

    /// Sends what was written where room was reserved last.
    ///
    /// # Errors
    ///
    /// `InvalidInput` when nothing is reserved, or something was sent since.
    pub fn commit(&mut self) -> io::Result<()> {
        self.inner.commit(&Note::default())
    }

    /// Has `write` put up to `len` bytes of a stream into the send buffer, without waiting; sends as many as it says that
    /// it wrote, and returns their number.
    ///
    /// # Errors
    ///
    /// `WouldBlock` without room for `len` bytes; those of `write`; those of [`try_send`](Circuit::try_send).
    pub fn try_fill(
        &mut self,
        len: usize,
        write: impl FnOnce(Reserved<'_>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.inner.try_fill(len, write)
    }

    /// Lends what arrived next where it lies, waiting for it up to `limit`: bytes of a stream, or
    /// messages and parts of them. None when the peer ended its direction. Errors are those of [`recv`](Circuit::recv).
    pub fn take_arrival(&mut self, limit: Duration) -> io::Result<Option<LentArrival<'_>>> {
        self.inner.take_arrival(limit)
    }

    /// Receives the bytes a stream has without a copy: calls `take` with each chunk in place.
    /// Returns their total length, or None when the peer ended its direction.
    /// Errors are those of [`recv`](Circuit::recv), and `Unsupported` for messages.
    pub fn recv_in_place(
        &mut self,
        take: impl FnMut(&[u8]),
        limit: Duration,
    ) -> io::Result<Option<usize>> {
        self.inner.recv_in_place(take, finite(limit))
    }

    /// Returns the next buffer, in the order lent; waits up to `limit` for it. None when none is
    /// lent. Each buffer returns once, unchanged, however the circuit ends.
    ///
    /// # Errors
    ///
    /// `TimedOut`; the buffers stay lent.
    pub fn reclaim(&mut self, limit: Duration) -> io::Result<Option<ReturnedBuffer>> {
        self.inner.reclaim(finite(limit))
    }

    /// The next buffer already acknowledged, if any.
    #[inline]
    pub fn try_reclaim(&mut self) -> Option<ReturnedBuffer> {
        self.inner.try_reclaim()
    }

    /// Number of buffers lent and not reclaimed.
    pub fn lent(&self) -> usize {
        self.inner.loans()
    }

    /// Ends this direction, waits up to `limit` until the peer has acknowledged all of it, and
    /// returns the buffers still lent. Aborts the circuit on timeout.
    /// Errors are those of [`close`](Circuit::close), beside the buffers.
    pub fn close_lent(mut self, limit: Duration) -> (Vec<ReturnedBuffer>, io::Result<()>) {
        let mut back = Vec::new();
        let closed = self.finish_lent(limit, &mut back);
        if closed.is_err() {
            back.extend(self.abort_lent());
        }
        (back, closed)
    }

    fn finish_lent(&mut self, limit: Duration, back: &mut Vec<ReturnedBuffer>) -> io::Result<()> {
        self.inner.send_unsent(finite(limit))?;
        self.inner.finish()?;
        self.inner.drain(finite(limit))?;
        while let Some(returned) = self.inner.reclaim(finite(limit))? {
            back.push(returned);
        }
        Ok(())
    }

    /// [`abort`](Circuit::abort) that returns the buffers still lent.
    pub fn abort_lent(mut self) -> Vec<ReturnedBuffer> {
        // If the wire fails the peer is not notified, but the buffers return all the same.
        let _ = self.inner.abort();
        self.inner.reclaim_all()
    }
}
