//! TCP circuits that send shared, immutable messages in another way than all others: without copying
//! them, or from a file. What a user lends only for the call is sent as by `tcp`.

use crate::contract::{
    Circuit, ConnectionInfo, Interest, LentArrival, NoConnectionInfo, Note, Part, Reserved,
};
use crate::runs::send_each;
use crate::stream::StreamCircuit;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// A way to send a shared message.
pub(crate) trait SharedSender: Send {
    /// Sends `message` from octet `from` on, blocking as the socket does; gives how many octets.
    fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        message: &Arc<[u8]>,
        from: usize,
    ) -> io::Result<usize>;

    /// Notes what the kernel is done with, without blocking.
    fn note_done(&mut self, socket: BorrowedFd<'_>);

    /// Waits for what the kernel is not done with, for a moment.
    fn settle(&mut self, socket: BorrowedFd<'_>);

    /// Adds options in effect.
    fn effective(&self, into: &mut BTreeMap<String, String>);

    /// Adds counters.
    fn counts(&self, into: &mut BTreeMap<String, u64>);
}

/// A circuit whose shared messages leave by a [`SharedSender`].
pub(crate) struct SharedSendCircuit<S: SharedSender> {
    inner: StreamCircuit,
    sender: S,
    /// Calls of the sender.
    calls: u64,
}

impl<S: SharedSender> SharedSendCircuit<S> {
    pub(crate) fn new(inner: StreamCircuit, sender: S) -> SharedSendCircuit<S> {
        SharedSendCircuit {
            inner,
            sender,
            calls: 0,
        }
    }

    /// Sends one message whole. Of one that is sent in part, the rest is copied and sent first in the
    /// next call, as by every byte stream.
    fn send_shared(&mut self, message: &Arc<[u8]>) -> io::Result<()> {
        self.inner.flush()?;
        if message.is_empty() {
            return self.inner.send(message);
        }
        let mut sent = self.send_from(message, 0)?;
        while sent < message.len() {
            match self.send_from(message, sent) {
                Ok(more) => sent += more,
                Err(_) => {
                    // The next call sends what is left, and reports any error.
                    self.inner.keep_unsent(&message[sent..]);
                    break;
                }
            }
        }
        Ok(())
    }

    fn send_from(&mut self, message: &Arc<[u8]>, from: usize) -> io::Result<usize> {
        self.calls += 1;
        self.sender.send(self.inner.socket.as_fd(), message, from)
    }
}

impl<S: SharedSender> Drop for SharedSendCircuit<S> {
    /// Messages that the peer has are released.
    fn drop(&mut self) {
        self.sender.settle(self.inner.socket.as_fd());
    }
}

impl<S: SharedSender> Circuit for SharedSendCircuit<S> {
    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        send_each(count, || self.send_shared(message))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.inner.finish()?;
        self.sender.settle(self.inner.socket.as_fd());
        Ok(())
    }

    /// A notice that is not read makes the socket ready for everything (POLLERR).
    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.sender.note_done(self.inner.socket.as_fd());
        self.inner.wait(interest, deadline)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.inner.effective();
        self.sender.effective(&mut effective);
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = self.inner.counts();
        *counts.entry("send_calls".into()).or_default() += self.calls;
        self.sender.counts(&mut counts);
        counts
    }

    engine::forward! { self.inner;
        #[inline]
        fn try_send(&mut self, message: &[u8]) -> io::Result<()>;
        #[inline]
        fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
        #[inline]
        fn send(&mut self, message: &[u8]) -> io::Result<()>;
        #[inline]
        fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;
        fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()>;
        fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>>;
        fn reserve(&mut self, len: usize) -> io::Result<Reserved<'_>>;
        fn commit(&mut self, note: &Note) -> io::Result<()>;
        fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>>;
        fn flush(&mut self) -> io::Result<()>;
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo>;
    }

    crate::usual_circuit! { send_run recv_run next_deadline }
}
