//! Runs of sends and receives: several calls as one, of which what was done counts.

use std::io;

/// Calls `send` with the number of messages that are left, until `count` were sent or it fails; how many were sent. `send` says
/// how many it sent. Errors: those of `send`, if nothing was sent before.
#[inline]
pub(crate) fn send_run(
    count: usize,
    mut send: impl FnMut(usize) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while done < count {
        match send(count - done) {
            Ok(sent) => done += sent,
            Err(_) if done > 0 => return Ok(done),
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// As [`send_run`] of messages that `send` sends one by one. Errors are those of [`send_run`].
#[inline]
pub(crate) fn send_each(
    count: usize,
    mut send: impl FnMut() -> io::Result<()>,
) -> io::Result<usize> {
    send_run(count, |_| send().map(|()| 1))
}

/// Calls `receive` up to `calls` times, as [`Circuit::recv_run`](crate::Circuit::recv_run) receives.
#[inline]
pub(crate) fn receive_run(
    calls: usize,
    mut receive: impl FnMut() -> io::Result<Option<usize>>,
) -> io::Result<Option<ReceiveCounts>> {
    let mut arrived = ReceiveCounts::default();
    for _ in 0..calls {
        match receive() {
            Ok(Some(len)) => arrived.add(len),
            Ok(None) if arrived.calls > 0 => return Ok(Some(arrived)),
            Ok(None) => return Ok(None),
            Err(_) if arrived.calls > 0 => return Ok(Some(arrived)),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(arrived))
}

/// Calls `receive`, which receives several messages, up to `calls` times.
/// Errors: those of `receive`, if nothing was received before.
#[inline]
pub(crate) fn receive_calls(
    calls: usize,
    mut receive: impl FnMut() -> io::Result<ReceiveCounts>,
) -> io::Result<ReceiveCounts> {
    let mut arrived = ReceiveCounts::default();
    for _ in 0..calls {
        match receive() {
            Ok(more) => arrived.merge(more),
            Err(_) if arrived.calls > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(arrived)
}

/// Messages, bytes and calls of a run of receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Messages on a message transport, reads on a byte stream.
    pub messages: u64,
    /// User bytes.
    pub bytes: u64,
    /// Calls that received something.
    pub calls: u64,
}

impl ReceiveCounts {
    /// Counts a call that brought one message, or one read, of `len` bytes.
    #[inline]
    pub fn add(&mut self, len: usize) {
        self.messages += 1;
        self.bytes += len as u64;
        self.calls += 1;
    }

    /// Adds the counts of another call or run.
    #[inline]
    pub fn merge(&mut self, more: ReceiveCounts) {
        self.messages += more.messages;
        self.bytes += more.bytes;
        self.calls += more.calls;
    }
}
