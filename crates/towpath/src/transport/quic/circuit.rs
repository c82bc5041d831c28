//! One connection and its two streams.

use super::endpoint::{ConnectionState, QuicEndpoint};
use super::shared_endpoint::SharedEndpoint;
use crate::contract::{BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo};
use crate::listener_keys;
use crate::options::Options;
use crate::parts;
use crate::socket;
use bytes::Bytes;
use quinn_proto::{
    ConnectionError, ConnectionHandle, Dir, FinishError, ReadError, StreamId, VarInt, WriteError,
};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes written before a blocking send drives the endpoint: one segmented send.
const BATCH_LEN: usize = 64 << 10;

/// How long a dropped circuit waits until the peer has acknowledged all data.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);

/// The application error code of an orderly close.
const ORDERLY_CLOSE: VarInt = VarInt::from_u32(0);

pub(super) struct QuicCircuit {
    shared: Arc<SharedEndpoint>,
    handle: ConnectionHandle,
    /// This end's stream.
    send_stream_id: Option<StreamId>,
    /// The peer's stream, once opened.
    recv_stream_id: Option<StreamId>,
    /// The peer's stream was read to its end.
    recv_finished: bool,
    /// The unsent tail of a message after a short write.
    unsent: Vec<u8>,
    /// Bytes written since the endpoint was last driven; at least 1 if flow control credit is due.
    pending_bytes: usize,
    /// The endpoint's receives when this circuit last drove it.
    arrivals_seen: u64,
    read_len: usize,
    congestion: String,
}

impl QuicCircuit {
    pub(super) fn new(
        shared: Arc<SharedEndpoint>,
        handle: ConnectionHandle,
        options: &Options,
    ) -> Self {
        QuicCircuit {
            shared,
            handle,
            send_stream_id: None,
            recv_stream_id: None,
            recv_finished: false,
            unsent: Vec::new(),
            pending_bytes: 0,
            arrivals_seen: 0,
            read_len: options.read_len,
            congestion: options.congestion.clone(),
        }
    }

    /// Completes the handshake; false at `deadline`, and it can be called again.
    pub(super) fn establish(&mut self, deadline: Instant) -> io::Result<bool> {
        loop {
            if let Some(stream) = self.drive(true, open_stream)? {
                self.send_stream_id = Some(stream);
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.sleep(deadline)?;
        }
    }

    /// Drives the endpoint: receives pending datagrams if `receive`, runs timers and sends. Then
    /// calls `inspect` under the same lock.
    fn drive<R>(
        &mut self,
        receive: bool,
        inspect: impl FnOnce(&mut ConnectionState) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut endpoint = self.shared.lock();
        if receive {
            endpoint.receive_pending()?;
        }
        endpoint.serve(self.handle)?;
        self.pending_bytes = 0;
        self.arrivals_seen = endpoint.arrivals();
        inspect(endpoint.slot(self.handle)?)
    }

    fn sleep(&self, deadline: Instant) -> io::Result<()> {
        self.shared
            .sleep(Some(self.handle), self.arrivals_seen, deadline)
    }

    /// Writes as much of `bytes` as flow control allows.
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stream = self.send_stream_id.ok_or(io::ErrorKind::NotConnected)?;
        let mut endpoint = self.shared.lock();
        let slot = endpoint.slot(self.handle)?;
        let written = match &slot.close_reason {
            None => slot.connection.send_stream(stream).write(bytes),
            Some(close_reason) => return Err(write_error(close_reason)),
        };
        match written {
            Ok(len) => {
                self.pending_bytes += len;
                Ok(len)
            }
            Err(WriteError::Blocked) => Err(io::ErrorKind::WouldBlock.into()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Writes one message; if only part of it fits, keeps the rest as unsent.
    #[inline]
    fn append(&mut self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() {
            return Ok(());
        }
        if !self.unsent.is_empty() {
            self.flush_unsent()?;
        }
        let written = match self.write(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.drive(true, |_| Ok(()))?;
                self.write(message)?
            }
            written => written?,
        };
        if written < message.len() {
            self.unsent.extend_from_slice(&message[written..]);
        }
        Ok(())
    }

    /// Writes the unsent tail of the previous message.
    fn flush_unsent(&mut self) -> io::Result<()> {
        let mut driven = false;
        while !self.unsent.is_empty() {
            let unsent = std::mem::take(&mut self.unsent);
            let written = self.write(&unsent);
            self.unsent = unsent;
            match written {
                Ok(len) => drop(self.unsent.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !driven => {
                    self.drive(true, |_| Ok(()))?;
                    driven = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn flush_unsent_blocking(&mut self) -> io::Result<()> {
        self.retry_until_timeout(QuicCircuit::flush_unsent)
    }

    /// Calls `act` until it does not return `WouldBlock`, for at most [`BLOCKING_TIMEOUT`].
    fn retry_until_timeout(
        &mut self,
        mut act: impl FnMut(&mut Self) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut deadline = None;
        loop {
            match act(self) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let deadline =
                        *deadline.get_or_insert_with(|| Instant::now() + BLOCKING_TIMEOUT);
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.sleep(deadline)?;
                }
                other => return other,
            }
        }
    }

    /// Reads the peer's stream into `buffer`. None: end of stream; `WouldBlock`: no data yet.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.recv_finished {
            return Ok(None);
        }
        let shared = Arc::clone(&self.shared);
        let mut endpoint = shared.lock();
        let slot = endpoint.slot(self.handle)?;
        if self.recv_stream_id.is_none() {
            self.recv_stream_id = slot.connection.streams().accept(Dir::Uni);
        }
        let limit = buffer.len().min(self.read_len);
        let (filled, outcome) = match self.recv_stream_id {
            Some(stream) => self.read_stream(slot, stream, &mut buffer[..limit]),
            None => (0, ReadOutcome::Nothing),
        };
        match (filled, outcome) {
            (0, ReadOutcome::Nothing) => no_data(slot),
            (0, ReadOutcome::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
            (0, ReadOutcome::End) => Ok(None),
            (filled, _) => Ok(Some(filled)),
        }
    }

    fn read_stream(
        &mut self,
        slot: &mut ConnectionState,
        stream: StreamId,
        buffer: &mut [u8],
    ) -> (usize, ReadOutcome) {
        let mut stream = slot.connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else {
            return (0, ReadOutcome::End);
        };
        let mut filled = 0;
        let mut outcome = ReadOutcome::Nothing;
        while filled < buffer.len() {
            match chunks.next(buffer.len() - filled) {
                Ok(Some(chunk)) => {
                    buffer[filled..][..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    filled += chunk.bytes.len();
                    continue;
                }
                Ok(None) => {
                    self.recv_finished = true;
                    outcome = ReadOutcome::End;
                }
                Err(ReadError::Blocked) => {}
                Err(ReadError::Reset(_)) => outcome = ReadOutcome::Reset,
            }
            break;
        }
        if chunks.finalize().should_transmit() {
            // Flow control credit (MAX_STREAM_DATA) is due; the next drive sends it.
            self.pending_bytes = self.pending_bytes.max(1);
        }
        (filled, outcome)
    }

    fn drain(&mut self) {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        let drained =
            |slot: &mut ConnectionState| Ok(slot.acknowledged || slot.close_reason.is_some());
        while let Ok(false) = self.drive(true, drained) {
            if Instant::now() >= deadline || self.sleep(deadline).is_err() {
                return;
            }
        }
    }
}

/// How a read of the stream ended.
enum ReadOutcome {
    Nothing,
    End,
    Reset,
}

/// Opens this end's stream once the handshake is complete.
fn open_stream(slot: &mut ConnectionState) -> io::Result<Option<StreamId>> {
    if let Some(close_reason) = &slot.close_reason {
        return Err(close_reason.clone().into());
    }
    if !slot.connected {
        return Ok(None);
    }
    let stream = slot.connection.streams().open(Dir::Uni);
    let stream = stream.ok_or_else(|| io::Error::other("the peer allows no stream"))?;
    Ok(Some(stream))
}

#[cold]
fn write_error(close_reason: &ConnectionError) -> io::Error {
    if is_orderly(close_reason) {
        return io::ErrorKind::BrokenPipe.into();
    }
    close_reason.clone().into()
}

/// The result of a receive when the stream has no data.
fn no_data(slot: &ConnectionState) -> io::Result<Option<usize>> {
    match &slot.close_reason {
        None => Err(io::ErrorKind::WouldBlock.into()),
        Some(close_reason) if is_orderly(close_reason) => Ok(None),
        Some(close_reason) => Err(close_reason.clone().into()),
    }
}

fn is_orderly(close_reason: &ConnectionError) -> bool {
    match close_reason {
        ConnectionError::ApplicationClosed(close) => close.error_code == ORDERLY_CLOSE,
        ConnectionError::LocallyClosed => true,
        _ => false,
    }
}

impl Circuit for QuicCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.append(message)?;
        self.drive(false, |_| Ok(()))
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.drive(true, |_| Ok(()))?;
                self.read(buffer)
            }
            other => other,
        }
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.append(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.retry_until_timeout(|circuit| circuit.append(message))?;
            }
            other => other?,
        }
        if self.pending_bytes >= BATCH_LEN {
            self.drive(true, |_| Ok(()))?;
        }
        Ok(())
    }

    parts::copies_stream! {}

    fn flush(&mut self) -> io::Result<()> {
        self.flush_unsent_blocking()?;
        self.drive(true, |_| Ok(()))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.flush_unsent_blocking()?;
        if let Some(stream) = self.send_stream_id.take() {
            let mut endpoint = self.shared.lock();
            let slot = endpoint.slot(self.handle)?;
            let finished = slot.connection.send_stream(stream).finish();
            slot.acknowledged |= matches!(finished, Err(FinishError::Stopped(_)));
        }
        self.drive(false, |_| Ok(()))
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        if self.pending_bytes > 0 {
            let arrivals_seen = self.arrivals_seen;
            self.drive(false, |_| Ok(()))?;
            self.arrivals_seen = arrivals_seen;
        }
        self.sleep(deadline)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.descriptor())
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        let mut endpoint = self.shared.lock();
        let slot = endpoint.slot(self.handle);
        let slot = slot.map_err(|_| "has ended")?;
        let path = slot.connection.stats().path;
        Ok(ConnectionInfo {
            congestion_window: Some(path.cwnd),
            smoothed_rtt: Some(path.rtt),
            // Lost data are retransmitted in new packets; the library counts the lost packets.
            retransmissions: Some(path.lost_packets),
            ..ConnectionInfo::default()
        })
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        let mut endpoint = self.shared.lock();
        effective.extend(socket::buffer_sizes(endpoint.socket().as_fd()));
        effective.insert("cipher".into(), listener_keys::CIPHER.into());
        effective.insert("congestion".into(), self.congestion.clone());
        effective.insert("read_len".into(), self.read_len.to_string());
        let len = endpoint
            .slot(self.handle)
            .map(|slot| slot.connection.current_mtu());
        if let Ok(len) = len {
            effective.insert("packet_len".into(), len.to_string());
            let segmentation = match endpoint.segments(len.into()) {
                1 => "off".to_owned(),
                segments => format!("on, {segments} segments"),
            };
            effective.insert("segmentation".into(), segmentation);
        }
        let coalescing = if endpoint.coalesces() { "on" } else { "off" };
        effective.insert("coalescing".into(), coalescing.into());
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut endpoint = self.shared.lock();
        let mut counts = BTreeMap::new();
        counts.insert("send_calls".into(), endpoint.sends);
        counts.insert("receive_calls".into(), endpoint.receives);
        let drops = wire_udp::sys::receive_drops(endpoint.socket().as_fd());
        parts::add_receive_drops(drops.ok(), &mut counts);
        count_packets(&mut endpoint, self.handle, &mut counts);
        counts
    }

    crate::usual_circuit! { recv send_run send_shared_run recv_run next_deadline }
}

fn count_packets(
    endpoint: &mut QuicEndpoint,
    handle: ConnectionHandle,
    counts: &mut BTreeMap<String, u64>,
) {
    if let Ok(slot) = endpoint.slot(handle) {
        let stats = slot.connection.stats();
        counts.insert("packets_sent".into(), stats.udp_tx.datagrams);
        counts.insert("packets_received".into(), stats.udp_rx.datagrams);
        // Lost data are retransmitted in new packets; the library counts the lost packets.
        counts.insert("retransmissions".into(), stats.path.lost_packets);
    }
}

impl Drop for QuicCircuit {
    fn drop(&mut self) {
        if self.finish().is_ok() {
            self.drain();
        }
        let mut endpoint = self.shared.lock();
        if let Ok(slot) = endpoint.slot(self.handle) {
            slot.connection
                .close(Instant::now(), ORDERLY_CLOSE, Bytes::new());
        }
        endpoint.release(self.handle);
        // Sends CONNECTION_CLOSE if the socket has space; there is no caller to report an error to.
        let _ = endpoint.serve(self.handle);
    }
}
