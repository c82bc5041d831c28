//! Sending and receiving without a copy.

use super::Circuit;
pub use driver::lend::{Buffer, LEND_BYTES_MIN, LOANS_MAX, LendError, LendOutcome, ReturnedBuffer};
use std::io;
use std::time::Duration;

/// A circuit takes memory over and sends it from where it lies, instead of copying it into its send
/// store first; nobody can change it meanwhile. What the peer has acknowledged comes back, in order.
///
/// ```
/// use std::time::Duration;
/// use towpath::xtp::{Endpoint, Settings};
///
/// let limit = Duration::from_secs(5);
/// let server = Endpoint::bind("127.0.0.1:0".parse()?, &Settings::default())?;
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
/// let client = Endpoint::bind("127.0.0.1:0".parse()?, &Settings::default())?;
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
    /// Sends `buffer` - a `Vec<u8>`, `Box<[u8]>` or `Arc<[u8]>` - as [`send`](Circuit::send) sends
    /// its bytes, waiting for room up to `limit`, and keeps it until the peer has them: then it comes
    /// back by [`reclaim`](Circuit::reclaim). Buffers shorter than [`LEND_FROM`] are copied, and are
    /// the caller's at once ([`Lent::Copied`]).
    ///
    /// # Errors
    ///
    /// As [`send`](Circuit::send), with the buffer. `WouldBlock` when [`LENT_MAX`] are lent and some
    /// of them can be reclaimed.
    #[inline]
    pub fn lend(
        &mut self,
        buffer: impl Into<Buffer>,
        limit: Duration,
    ) -> Result<LendOutcome, LendError> {
        self.inner.lend(buffer, limit)
    }

    /// As [`lend`](Circuit::lend), without waiting.
    ///
    /// # Errors
    ///
    /// As [`try_send`](Circuit::try_send), with the buffer; `WouldBlock` also while [`LENT_MAX`]
    /// are lent and not reclaimed.
    #[inline]
    pub fn try_lend(&mut self, buffer: impl Into<Buffer>) -> Result<LendOutcome, LendError> {
        self.inner.try_lend(buffer)
    }

    /// Receives what there is of a stream without copying it: `take` sees it piece by piece where it
    /// lies. Gives the length of all pieces, or None when the peer ended its direction.
    ///
    /// # Errors
    ///
    /// As [`recv`](Circuit::recv), and `Unsupported` where messages are kept apart.
    pub fn recv_in_place(
        &mut self,
        take: impl FnMut(&[u8]),
        limit: Duration,
    ) -> io::Result<Option<usize>> {
        self.inner.recv_in_place(take, limit)
    }

    /// The next buffer to come back, the one lent first, waiting up to `limit` for it; None when
    /// none is lent. What was lent comes back once, unchanged, however the circuit ends.
    ///
    /// # Errors
    ///
    /// `TimedOut`, or the kernel's; the buffers stay lent.
    pub fn reclaim(&mut self, limit: Duration) -> io::Result<Option<ReturnedBuffer>> {
        self.inner.reclaim(limit)
    }

    /// The next buffer that came back already, if any.
    #[inline]
    pub fn try_reclaim(&mut self) -> Option<ReturnedBuffer> {
        self.inner.try_reclaim()
    }

    /// Buffers lent and not reclaimed.
    pub fn lent(&self) -> usize {
        self.inner.loans()
    }

    /// Ends this direction, waits up to `limit` until the peer has all of it, and gives back what is
    /// still lent. The circuit is aborted if the peer does not take everything in time.
    ///
    /// # Errors
    ///
    /// As [`close`](Circuit::close), beside the buffers.
    pub fn close_lent(mut self, limit: Duration) -> (Vec<ReturnedBuffer>, io::Result<()>) {
        let mut back = Vec::new();
        let closed = self.finish_lent(limit, &mut back);
        if closed.is_err() {
            back.extend(self.abort_lent());
        }
        (back, closed)
    }

    fn finish_lent(&mut self, limit: Duration, back: &mut Vec<ReturnedBuffer>) -> io::Result<()> {
        self.inner.finish()?;
        self.inner.drain(limit)?;
        while let Some(returned) = self.inner.reclaim(limit)? {
            back.push(returned);
        }
        Ok(())
    }

    /// As [`abort`](Circuit::abort), and gives back what is still lent.
    pub fn abort_lent(mut self) -> Vec<ReturnedBuffer> {
        // An error of the wire keeps the peer from being told, and the buffers from nobody.
        let _ = self.inner.abort();
        self.inner.reclaim_all()
    }
}
