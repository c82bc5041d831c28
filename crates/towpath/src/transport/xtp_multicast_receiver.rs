//! The receiving side of xtp-multicast: the circuit of the first receiver, and the threads of the
//! others.

use super::xtp_multicast::{CLOSE_TIMEOUT, one_way_error};
use crate::connection_info;
use crate::contract::{BLOCKING_TIMEOUT, Circuit, ConnectionInfo, Interest, NoConnectionInfo};
use crate::parts;
use crate::socket;
use crate::xtp::group::{Receiver, Stream};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a receiver's thread checks whether to stop.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// The receivers besides the one that delivers to the user.
pub(super) struct OtherReceivers {
    /// Bytes each has received; `u64::MAX` once its stream ended.
    received: Vec<AtomicU64>,
    bytes: Vec<AtomicU64>,
    failed: Mutex<Option<String>>,
    stopped: AtomicBool,
    /// The position that a waiting circuit needs all to reach; 0 if none waits.
    awaited_position: AtomicU64,
    all_received: (Mutex<()>, Condvar),
}

impl OtherReceivers {
    pub(super) fn new(count: usize) -> OtherReceivers {
        let zeros = || (0..count).map(|_| AtomicU64::new(0)).collect();
        OtherReceivers {
            received: zeros(),
            bytes: zeros(),
            failed: Mutex::new(None),
            stopped: AtomicBool::new(false),
            awaited_position: AtomicU64::new(0),
            all_received: (Mutex::new(()), Condvar::new()),
        }
    }

    /// One receiver's thread; ends with its stream or the circuit.
    pub(super) fn receive(&self, index: usize, receiver: &Receiver, limit: Duration) {
        let done = receiver.accept(limit).and_then(|mut stream| {
            while !self.stopped.load(Ordering::Relaxed) {
                match stream.recv_in_place(|_| (), STOP_POLL_INTERVAL) {
                    Ok(Some(len)) => self.record_received(index, len as u64),
                    Ok(None) => return stream.close(CLOSE_TIMEOUT).or(Ok(())),
                    Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        });
        if let Err(error) = done {
            let text = format!("receiver {} beside the first: {error}", index + 1);
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert(text);
        }
        self.received[index].store(u64::MAX, Ordering::SeqCst);
        self.notify_waiter();
    }

    fn record_received(&self, index: usize, len: u64) {
        let bytes = self.bytes[index].fetch_add(len, Ordering::Relaxed) + len;
        self.received[index].store(bytes, Ordering::SeqCst);
        self.notify_waiter();
    }

    /// Wakes the waiting circuit once all receivers have reached its position. A wake-up for each
    /// receiver would take as long as their work when they share a CPU.
    fn notify_waiter(&self) {
        let awaited = self.awaited_position.load(Ordering::SeqCst);
        if awaited != 0
            && self.min_received() >= awaited
            && self.awaited_position.swap(0, Ordering::AcqRel) != 0
        {
            let _lock = self
                .all_received
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            self.all_received.1.notify_all();
        }
    }

    /// Bytes that all of them have received.
    fn min_received(&self) -> u64 {
        let received = self.received.iter();
        let least = received.map(|bytes| bytes.load(Ordering::SeqCst)).min();
        least.unwrap_or(u64::MAX)
    }

    /// Waits until all of them have more than `position` bytes, at most a millisecond.
    fn wait(&self, position: u64) {
        let lock = self
            .all_received
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.awaited_position.store(position + 1, Ordering::SeqCst);
        if self.min_received() <= position {
            let short = Duration::from_millis(1);
            drop(self.all_received.1.wait_timeout(lock, short));
        }
    }

    fn check_failed(&self) -> io::Result<()> {
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        match &*failed {
            Some(text) => Err(io::Error::other(text.clone())),
            None => Ok(()),
        }
    }
}

/// The circuit of the first receiver. It delivers what all receivers have.
pub(super) struct GroupReceiverCircuit {
    pub(super) stream: Stream,
    pub(super) first_receiver: Receiver,
    pub(super) others: Arc<OtherReceivers>,
    /// Bytes delivered to the user; all receivers have them.
    pub(super) received: u64,
    /// Options in effect, besides the socket's.
    pub(super) effective: BTreeMap<String, String>,
}

impl GroupReceiverCircuit {
    /// The part of `buffer` that may be filled: bytes that all other receivers have.
    fn readable_part<'a>(&self, buffer: &'a mut [u8]) -> io::Result<&'a mut [u8]> {
        let ahead = self.others.min_received().saturating_sub(self.received);
        let len = usize::try_from(ahead)
            .unwrap_or(usize::MAX)
            .min(buffer.len());
        if len == 0 && !buffer.is_empty() {
            self.others.check_failed()?;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(&mut buffer[..len])
    }

    fn record_read(&mut self, got: Option<usize>) -> io::Result<Option<usize>> {
        match got {
            Some(len) => self.received += len as u64,
            None => self.others.check_failed()?,
        }
        Ok(got)
    }
}

impl Circuit for GroupReceiverCircuit {
    fn try_send(&mut self, _message: &[u8]) -> io::Result<()> {
        Err(one_way_error("a receiver of a group sends nothing"))
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let room = self.readable_part(buffer)?;
        let got = self.stream.try_recv(room)?;
        self.record_read(got)
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let deadline = Instant::now() + BLOCKING_TIMEOUT;
        loop {
            match self.readable_part(buffer) {
                Ok(room) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    return match self.stream.recv(room, left) {
                        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                            Err(io::ErrorKind::WouldBlock.into())
                        }
                        Err(error) => Err(error),
                        Ok(got) => self.record_read(got),
                    };
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= deadline {
                        return Err(error);
                    }
                    self.stream.serve()?;
                    self.others.wait(self.received);
                }
                Err(error) => return Err(error),
            }
        }
    }

    parts::copies_stream! {}

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn wait(&mut self, _interest: Interest, deadline: Instant) -> io::Result<()> {
        if self.others.min_received() <= self.received {
            self.others.wait(self.received);
            return Ok(());
        }
        let limit = deadline.saturating_duration_since(Instant::now());
        self.stream.wait(limit)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.stream.descriptor()
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        Err(connection_info::SEVERAL_PEERS)
    }

    fn effective(&self) -> BTreeMap<String, String> {
        let mut effective = self.effective.clone();
        if let Some(descriptor) = self.stream.descriptor() {
            effective.extend(socket::buffer_sizes(descriptor));
        }
        let others = self.others.bytes.iter();
        let others = others.map(|bytes| bytes.load(Ordering::Relaxed));
        let all: Vec<u64> = std::iter::once(self.received).chain(others).collect();
        let slowest = all.iter().enumerate().min_by_key(|(_, bytes)| **bytes);
        effective.insert("receivers".into(), all.len().to_string());
        if let (Some((index, least)), Some(most)) = (slowest, all.iter().max()) {
            let text = format!("receiver {index} with {least} bytes; the fastest has {most}");
            effective.insert("slowest".into(), text);
        }
        effective
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let counters = self.first_receiver.counters();
        let (answers, damped) = self.first_receiver.control_packet_counts();
        let mut counts = BTreeMap::from([
            ("packets_received".into(), counters.packets_parsed),
            ("packets_discarded".into(), counters.packets_discarded),
            ("bytes_copied".into(), counters.bytes_copied),
            ("answers".into(), answers),
            ("answers_damped".into(), damped),
        ]);
        parts::add_receive_drops(self.first_receiver.receive_drops(), &mut counts);
        counts
    }

    crate::usual_circuit! { send send_run send_shared_run recv_run flush next_deadline }
}

impl Drop for GroupReceiverCircuit {
    fn drop(&mut self) {
        self.others.stopped.store(true, Ordering::Relaxed);
    }
}
