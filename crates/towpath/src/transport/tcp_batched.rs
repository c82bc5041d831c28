//! tcp-batched: the kernel's TCP behind an application buffer.
//!
//! As a careful application does, short messages are coalesced and written 64 KiB at a time. The
//! buffer is written when it is full, at a flush, and when the user waits or receives.

use crate::contract::{Circuit, ConnectionInfo, Interest, NoConnectionInfo};
use crate::parts;
use crate::stream::StreamCircuit;
use crate::transport::tcp_wrapped::WrappedTcp;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The transport.
pub static TCP_BATCHED: WrappedTcp = WrappedTcp {
    name: "tcp-batched",
    summary: "kernel TCP behind the application's own 64 KiB buffer",
    offload: "64 KiB a write; segmentation and coalescing by the kernel",
    available: || Ok(()),
    wrap: |end| Ok(Box::new(TcpBatchedCircuit::new(end))),
};

/// Bytes of the application's buffer: the largest segment the kernel passes down at once (TSO).
const BUFFER_LEN: usize = 64 << 10;

#[derive(Debug)]
struct TcpBatchedCircuit {
    inner: StreamCircuit,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were written.
    written: usize,
}

impl TcpBatchedCircuit {
    fn new(end: StreamCircuit) -> Self {
        TcpBatchedCircuit {
            inner: end,
            buffer: Vec::with_capacity(BUFFER_LEN),
            written: 0,
        }
    }

    #[inline]
    fn append(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        if self.buffer.len() + message.len() > BUFFER_LEN {
            return self.append_to_full(message, block);
        }
        self.buffer.extend_from_slice(message);
        Ok(())
    }

    #[cold]
    fn append_to_full(&mut self, message: &[u8], block: bool) -> io::Result<()> {
        self.write_out(block)?;
        if message.len() < BUFFER_LEN {
            self.buffer.extend_from_slice(message);
            return Ok(());
        }
        if block {
            self.inner.send(message)
        } else {
            self.inner.try_send(message)
        }
    }

    fn write_out(&mut self, block: bool) -> io::Result<()> {
        while self.written < self.buffer.len() {
            self.written += self.inner.write(&self.buffer[self.written..], block)?;
        }
        self.buffer.clear();
        self.written = 0;
        Ok(())
    }

    /// Writes what the socket takes without blocking, before a receive or a wait.
    #[inline]
    fn flush_nonblocking(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        match self.write_out(false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }
}

impl Circuit for TcpBatchedCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.append(message, false)
    }

    #[inline]
    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.flush_nonblocking()?;
        self.inner.try_recv(buffer)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.append(message, true)
    }

    #[inline]
    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.flush_nonblocking()?;
        self.inner.recv(buffer)
    }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.write_out(true)?;
        self.inner.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.write_out(true)?;
        self.inner.finish()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.flush_nonblocking()?;
        self.inner.wait(interest, deadline)
    }

    engine::forward! { self.inner;
        fn descriptor(&self) -> Option<BorrowedFd<'_>>;
        fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo>;
        fn counts(&self) -> BTreeMap<String, u64>;
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.inner.effective();
        effective.insert("batch_bytes".into(), BUFFER_LEN.to_string());
        effective
    }

    crate::usual_circuit! { send_run send_shared_run recv_run next_deadline }
}
