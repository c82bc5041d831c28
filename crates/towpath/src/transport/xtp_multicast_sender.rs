//! The sending side of xtp-multicast.

use super::xtp_multicast::{CLOSE_TIMEOUT, one_way_error};
use crate::cells;
use crate::connection_info;
use crate::contract::{BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo};
use crate::parts;
use crate::socket;
use crate::xtp::group::Sender;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

/// The sender's circuit.
pub(super) struct GroupSenderCircuit {
    pub(super) sender: Sender,
    /// A send returns when all members have acknowledged it.
    pub(super) acknowledged: bool,
    /// Options in effect, besides the socket's.
    pub(super) effective: BTreeMap<String, String>,
}

impl GroupSenderCircuit {
    /// Sends a message behind those that are acknowledged, and waits until it is too. One that is not in time has been sent:
    /// what is sent next, or a flush, waits for it.
    fn send_acknowledged(&mut self, message: &[u8]) -> io::Result<()> {
        self.drain()?;
        match self.sender.send_acknowledged(message, BLOCKING_TIMEOUT) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => Ok(()),
            other => other,
        }
    }

    /// Waits until all members have acknowledged all.
    fn drain(&mut self) -> io::Result<()> {
        match self.sender.is_acknowledged() {
            true => Ok(()),
            false => would_block(self.sender.drain(BLOCKING_TIMEOUT)),
        }
    }
}

/// A circuit's caller looks whether to stop.
fn would_block(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
            Err(io::ErrorKind::WouldBlock.into())
        }
        other => other,
    }
}

impl Circuit for GroupSenderCircuit {
    #[inline]
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        if self.acknowledged && !self.sender.is_acknowledged() {
            self.sender.flush()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.sender.try_send(message)
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.acknowledged {
            true => self.send_acknowledged(message),
            false => would_block(self.sender.send(message, BLOCKING_TIMEOUT)),
        }
    }

    fn try_recv(&mut self, _buffer: &mut [u8]) -> io::Result<Option<usize>> {
        Err(one_way_error("the sender to a group receives nothing"))
    }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        match self.acknowledged {
            true => self.drain(),
            false => self.sender.flush(),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.sender.finish()
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        let limit = deadline.saturating_duration_since(Instant::now());
        self.sender.wait(limit)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.sender.descriptor()
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::SEVERAL_PEERS)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.effective.clone();
        if let Some(descriptor) = self.sender.descriptor() {
            effective.extend(socket::buffer_sizes(descriptor));
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counters = self.sender.counters();
        let (sends, receives) = self.sender.wire_calls();
        let mut counts = BTreeMap::from([
            ("retransmissions".into(), counters.retransmissions),
            ("packets_sent".into(), counters.packets_built),
            ("send_calls".into(), sends),
            ("receive_calls".into(), receives),
        ]);
        parts::add_receive_drops(self.sender.receive_drops(), &mut counts);
        cells::add_counts(self.sender.cell_counts(), &mut counts);
        counts
    }

    crate::usual_circuit! { recv send_run send_shared_run recv_run next_deadline }
}

impl Drop for GroupSenderCircuit {
    fn drop(&mut self) {
        // The helper thread ends with the circuit, so unacknowledged data would be lost.
        let _ = self.sender.close(CLOSE_TIMEOUT);
    }
}
