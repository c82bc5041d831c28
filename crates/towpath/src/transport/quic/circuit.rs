//! One connection and its two streams.

use super::hub::{Hub, Slot};
use super::keys;
use super::shared::Shared;
use crate::contract::{Circuit, Interest, PATIENCE};
use crate::options::Options;
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

/// Bytes written before blocking sends turn to the network: one segmented send.
const BATCH_LEN: usize = 64 << 10;

/// How long a circuit that goes away waits until its peer has everything.
const LINGER: Duration = Duration::from_millis(500);

/// The code of an orderly close.
const DONE: VarInt = VarInt::from_u32(0);

pub(super) struct QuicCircuit {
    shared: Arc<Shared>,
    handle: ConnectionHandle,
    /// The stream this end writes.
    writes: Option<StreamId>,
    /// The stream the peer writes, once heard of.
    reads: Option<StreamId>,
    /// The end of the peer's stream was read.
    ended: bool,
    /// The tail of a message of which the library took only the front.
    rest: Vec<u8>,
    /// Bytes written, or read and to be told of, since the last turn to the network.
    pending: usize,
    /// Arrivals when this circuit last looked.
    seen: u64,
    read_len: usize,
    congestion: String,
}

impl QuicCircuit {
    pub(super) fn new(shared: Arc<Shared>, handle: ConnectionHandle, options: &Options) -> Self {
        QuicCircuit {
            shared,
            handle,
            writes: None,
            reads: None,
            ended: false,
            rest: Vec::new(),
            pending: 0,
            seen: 0,
            read_len: options.read_len,
            congestion: options.congestion.clone(),
        }
    }

    /// Completes the opening; false when `deadline` comes first, and it can be tried again.
    pub(super) fn establish(&mut self, deadline: Instant) -> io::Result<bool> {
        loop {
            if let Some(stream) = self.turn(true, open_stream)? {
                self.writes = Some(stream);
                return Ok(true);
            }
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.sleep(deadline)?;
        }
    }

    /// Turns to the network: takes in what arrived if `receive`, sends what there is to send. Then
    /// looks at the connection while still alone with it.
    fn turn<R>(
        &mut self,
        receive: bool,
        look: impl FnOnce(&mut Slot) -> io::Result<R>,
    ) -> io::Result<R> {
        let mut hub = self.shared.lock();
        if receive {
            hub.receive_all()?;
        }
        hub.serve(self.handle)?;
        self.pending = 0;
        self.seen = hub.arrivals();
        look(hub.slot(self.handle)?)
    }

    fn sleep(&self, deadline: Instant) -> io::Result<()> {
        self.shared.sleep(Some(self.handle), self.seen, deadline)
    }

    /// Writes what fits of `bytes` to the stream.
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let stream = self.writes.ok_or(io::ErrorKind::NotConnected)?;
        let mut hub = self.shared.lock();
        let slot = hub.slot(self.handle)?;
        let written = match &slot.lost {
            None => slot.connection.send_stream(stream).write(bytes),
            Some(lost) => return Err(lost_while_writing(lost)),
        };
        match written {
            Ok(len) => {
                self.pending += len;
                Ok(len)
            }
            Err(WriteError::Blocked) => Err(io::ErrorKind::WouldBlock.into()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Appends one message whole, or what fits of it and keeps the rest.
    #[inline]
    fn append(&mut self, message: &[u8]) -> io::Result<()> {
        if message.is_empty() {
            return Ok(());
        }
        if !self.rest.is_empty() {
            self.push()?;
        }
        let written = match self.write(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.turn(true, |_| Ok(()))?;
                self.write(message)?
            }
            written => written?,
        };
        if written < message.len() {
            self.rest.extend_from_slice(&message[written..]);
        }
        Ok(())
    }

    /// Writes what is left of the message before.
    fn push(&mut self) -> io::Result<()> {
        let mut turned = false;
        while !self.rest.is_empty() {
            let rest = std::mem::take(&mut self.rest);
            let written = self.write(&rest);
            self.rest = rest;
            match written {
                Ok(len) => drop(self.rest.drain(..len)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !turned => {
                    self.turn(true, |_| Ok(()))?;
                    turned = true;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn push_waiting(&mut self) -> io::Result<()> {
        self.patiently(QuicCircuit::push)
    }

    /// Tries until it does not block, or [`PATIENCE`] is over.
    fn patiently(&mut self, mut act: impl FnMut(&mut Self) -> io::Result<()>) -> io::Result<()> {
        let mut deadline = None;
        loop {
            match act(self) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now() + PATIENCE);
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.sleep(deadline)?;
                }
                other => return other,
            }
        }
    }

    /// Copies what the peer's stream has into `buffer`; None is its end, `WouldBlock` nothing yet.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        if self.ended {
            return Ok(None);
        }
        let shared = Arc::clone(&self.shared);
        let mut hub = shared.lock();
        let slot = hub.slot(self.handle)?;
        if self.reads.is_none() {
            self.reads = slot.connection.streams().accept(Dir::Uni);
        }
        let limit = buffer.len().min(self.read_len);
        let (filled, outcome) = match self.reads {
            Some(stream) => self.read_stream(slot, stream, &mut buffer[..limit]),
            None => (0, Outcome::Nothing),
        };
        match (filled, outcome) {
            (0, Outcome::Nothing) => nothing(slot),
            (0, Outcome::Reset) => Err(io::ErrorKind::ConnectionReset.into()),
            (0, Outcome::End) => Ok(None),
            (filled, _) => Ok(Some(filled)),
        }
    }

    fn read_stream(
        &mut self,
        slot: &mut Slot,
        stream: StreamId,
        buffer: &mut [u8],
    ) -> (usize, Outcome) {
        let mut stream = slot.connection.recv_stream(stream);
        let Ok(mut chunks) = stream.read(true) else {
            return (0, Outcome::End);
        };
        let mut filled = 0;
        let mut outcome = Outcome::Nothing;
        while filled < buffer.len() {
            match chunks.next(buffer.len() - filled) {
                Ok(Some(chunk)) => {
                    buffer[filled..][..chunk.bytes.len()].copy_from_slice(&chunk.bytes);
                    filled += chunk.bytes.len();
                    continue;
                }
                Ok(None) => {
                    self.ended = true;
                    outcome = Outcome::End;
                }
                Err(ReadError::Blocked) => {}
                Err(ReadError::Reset(_)) => outcome = Outcome::Reset,
            }
            break;
        }
        if chunks.finalize().should_transmit() {
            // The peer may send on, and learns so at the next turn to the network.
            self.pending = self.pending.max(1);
        }
        (filled, outcome)
    }

    fn linger(&mut self) {
        let deadline = Instant::now() + LINGER;
        let told = |slot: &mut Slot| Ok(slot.acknowledged || slot.lost.is_some());
        while let Ok(false) = self.turn(true, told) {
            if Instant::now() >= deadline || self.sleep(deadline).is_err() {
                return;
            }
        }
    }
}

/// How a read of the stream ended.
enum Outcome {
    Nothing,
    End,
    Reset,
}

/// Opens this end's stream once the connection is there.
fn open_stream(slot: &mut Slot) -> io::Result<Option<StreamId>> {
    if let Some(lost) = &slot.lost {
        return Err(lost.clone().into());
    }
    if !slot.connected {
        return Ok(None);
    }
    let stream = slot.connection.streams().open(Dir::Uni);
    let stream = stream.ok_or_else(|| io::Error::other("the peer allows no stream"))?;
    Ok(Some(stream))
}

#[cold]
fn lost_while_writing(lost: &ConnectionError) -> io::Error {
    if is_orderly(lost) {
        return io::ErrorKind::BrokenPipe.into();
    }
    lost.clone().into()
}

/// What a receive says when the stream has nothing.
fn nothing(slot: &Slot) -> io::Result<Option<usize>> {
    match &slot.lost {
        None => Err(io::ErrorKind::WouldBlock.into()),
        Some(lost) if is_orderly(lost) => Ok(None),
        Some(lost) => Err(lost.clone().into()),
    }
}

fn is_orderly(lost: &ConnectionError) -> bool {
    match lost {
        ConnectionError::ApplicationClosed(close) => close.error_code == DONE,
        ConnectionError::LocallyClosed => true,
        _ => false,
    }
}

impl Circuit for QuicCircuit {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.append(message)?;
        self.turn(false, |_| Ok(()))
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.turn(true, |_| Ok(()))?;
                self.read(buffer)
            }
            other => other,
        }
    }

    #[inline]
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        match self.append(message) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.patiently(|circuit| circuit.append(message))?;
            }
            other => other?,
        }
        if self.pending >= BATCH_LEN {
            self.turn(true, |_| Ok(()))?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.push_waiting()?;
        self.turn(true, |_| Ok(()))
    }

    fn finish(&mut self) -> io::Result<()> {
        self.push_waiting()?;
        if let Some(stream) = self.writes.take() {
            let mut hub = self.shared.lock();
            let slot = hub.slot(self.handle)?;
            let finished = slot.connection.send_stream(stream).finish();
            slot.acknowledged |= matches!(finished, Err(FinishError::Stopped(_)));
        }
        self.turn(false, |_| Ok(()))
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        if self.pending > 0 {
            let seen = self.seen;
            self.turn(false, |_| Ok(()))?;
            self.seen = seen;
        }
        self.sleep(deadline)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.shared.descriptor())
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = BTreeMap::new();
        let mut hub = self.shared.lock();
        socket::effective_buffers(hub.socket().as_fd(), &mut effective);
        effective.insert("cipher".into(), keys::CIPHER.into());
        effective.insert("congestion".into(), self.congestion.clone());
        effective.insert("read_len".into(), self.read_len.to_string());
        let len = hub
            .slot(self.handle)
            .map(|slot| slot.connection.current_mtu());
        if let Ok(len) = len {
            effective.insert("packet_len".into(), len.to_string());
            let segmentation = match hub.segments(len.into()) {
                1 => "off".to_owned(),
                segments => format!("on, {segments} segments"),
            };
            effective.insert("segmentation".into(), segmentation);
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut hub = self.shared.lock();
        let mut counts = BTreeMap::new();
        counts.insert("send_calls".into(), hub.sends);
        counts.insert("receive_calls".into(), hub.receives);
        if let Ok(drops) = wire_udp::sys::receive_drops(hub.socket().as_fd()) {
            counts.insert("receive_drops".into(), drops);
        }
        count_packets(&mut hub, self.handle, &mut counts);
        counts
    }
}

fn count_packets(hub: &mut Hub, handle: ConnectionHandle, counts: &mut BTreeMap<String, u64>) {
    if let Ok(slot) = hub.slot(handle) {
        let stats = slot.connection.stats();
        counts.insert("packets_sent".into(), stats.udp_tx.datagrams);
        counts.insert("packets_received".into(), stats.udp_rx.datagrams);
        // What was lost in a packet is sent again in others; the library counts the packets.
        counts.insert("retransmissions".into(), stats.path.lost_packets);
    }
}

impl Drop for QuicCircuit {
    fn drop(&mut self) {
        if self.finish().is_ok() {
            self.linger();
        }
        let mut hub = self.shared.lock();
        if let Ok(slot) = hub.slot(self.handle) {
            slot.connection.close(Instant::now(), DONE, Bytes::new());
        }
        hub.orphan(self.handle);
        // Tells the peer, as far as the socket takes it; nobody is left to hear of an error.
        let _ = hub.serve(self.handle);
    }
}
