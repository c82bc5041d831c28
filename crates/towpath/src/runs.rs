//! What runs of receives brought.

use std::io;

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
