//! Byte allowance and pacing of measuring loops.
//!
//! Circuits of a job with limits are wrapped in [`MeteredCircuit`], so that every loop obeys them.
//! A job without limits uses its circuits directly.

use super::WorkerFlags;
use crate::clock::now_ns;
use control::caps::QUOTA_EXCEEDED;
use control::{ByteAccount, Job};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use towpath::contract::ReceiveCounts;
use towpath::{
    Circuit, ConnectionInfo, Interest, LentArrival, NoConnectionInfo, Note, Part, Reserved,
};

/// Largest grant of an allowance to a circuit, bytes; and 1/[`GRANTS`] of what is left at most. The
/// shared counter is touched seldom, and one circuit leaves enough for the others.
const GRANT_MAX: u64 = 1 << 20;
const GRANTS: u64 = 256;

/// Longest sleep, so that a stopped loop notices.
const SLEEP_MAX: Duration = Duration::from_millis(20);

/// Shortest sleep, ns; shorter ones cost more than they are worth.
const SLEEP_MIN_NS: u64 = 500_000;

/// Most pacing credit that a delayed loop may catch up on, ns.
const BURST_MAX_NS: u64 = 100_000_000;

/// Bytes that all circuits of a worker together may move, in both directions.
#[derive(Debug)]
pub(crate) struct Allowance {
    most: u64,
    left: AtomicU64,
    /// Bytes that last receives brought beyond the allowance.
    excess: AtomicU64,
    account: ByteAccount,
}

impl Allowance {
    /// An allowance of `most` bytes, booked on `account` before they are moved.
    pub(crate) fn new(most: u64, account: ByteAccount) -> Allowance {
        Allowance {
            most,
            left: AtomicU64::new(most),
            excess: AtomicU64::new(0),
            account,
        }
    }

    /// Grants `want` bytes or a little more, or all that are left.
    fn take(&self, want: u64) -> u64 {
        let piece = |left: u64| want.max((left / GRANTS).min(GRANT_MAX)).min(left);
        let take = |left: u64| Some(left - piece(left));
        let Ok(left) = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        else {
            return 0;
        };
        let granted = piece(left);
        if granted > 0 && self.account.add(granted).is_err() {
            // Bytes that cannot be booked may not be moved.
            self.give_back(granted);
            return 0;
        }
        granted
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Bytes moved by circuits whose meters were dropped.
    pub(crate) fn moved_bytes(&self) -> u64 {
        let within = self.most - self.left.load(Ordering::Relaxed);
        within.saturating_add(self.excess.load(Ordering::Relaxed))
    }
}

/// A circuit's share of a worker's limits. Only its own thread uses it.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    flags: &'a WorkerFlags,
    pace: Option<Pace>,
    /// Granted bytes that were not moved yet.
    reserved: AtomicU64,
    /// Time at which the pace has covered the bytes sent, ns.
    pacing_release_ns: AtomicU64,
    end_ns: u64,
}

/// A pace in bytes a second.
#[derive(Clone, Copy, Debug)]
struct Pace(u64);

impl Pace {
    /// Time that `bytes` take at this pace, rounded up.
    fn ns(self, bytes: u64) -> u64 {
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0.max(1)));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl<'a> Meter<'a> {
    /// The meter of a loop that starts now; None for a job without limits.
    pub(crate) fn new(job: &Job, flags: &'a WorkerFlags) -> Option<Meter<'a>> {
        if job.pace_bytes_per_s.is_none() && flags.allowance().is_none() {
            return None;
        }
        let start_ns = now_ns();
        Some(Meter {
            flags,
            pace: job.pace_bytes_per_s.map(Pace),
            reserved: AtomicU64::new(0),
            pacing_release_ns: AtomicU64::new(start_ns),
            end_ns: start_ns.saturating_add(job.limits.time_ns),
        })
    }

    /// Sleeps until a message of `len` bytes may be sent; false when the trial is over.
    pub(crate) fn wait_until_due(&self, len: usize) -> bool {
        while !self.flags.is_stopped() && now_ns() < self.end_ns {
            if self.due(len as u64, true) > 0 {
                return true;
            }
        }
        false
    }

    /// How many of `count` messages of `len` bytes may be sent now, at least one.
    fn sends_allowed(&self, len: usize, count: usize, block: bool) -> io::Result<usize> {
        let (len, count) = (len as u64, count as u64);
        let due = self.due(len, block).min(count);
        if due == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let want = len.saturating_mul(due).min(len.max(GRANT_MAX));
        let count = match self.reserve(want) {
            _ if len == 0 => due,
            reserved => due.min(reserved / len),
        };
        match count {
            0 => Err(quota_exceeded()),
            count => Ok(count as usize),
        }
    }

    /// How many messages of `len` bytes the pace permits now.
    fn due(&self, len: u64, block: bool) -> u64 {
        let Some(pace) = self.pace else {
            return u64::MAX;
        };
        let one_ns = pace.ns(len).max(1);
        let now = now_ns();
        let earliest = now.saturating_sub(BURST_MAX_NS.max(one_ns));
        let release_ns = self.pacing_release_ns.load(Ordering::Relaxed).max(earliest);
        self.pacing_release_ns.store(release_ns, Ordering::Relaxed);
        let saved_ns = now.saturating_sub(release_ns);
        if saved_ns >= one_ns || !block {
            return saved_ns / one_ns;
        }
        let wait_ns = release_ns.saturating_add(one_ns) - now;
        std::thread::sleep(Duration::from_nanos(wait_ns.max(SLEEP_MIN_NS)).min(SLEEP_MAX));
        now_ns().saturating_sub(release_ns) / one_ns
    }

    fn sent(&self, bytes: u64) {
        self.consume(bytes);
        if let Some(pace) = self.pace {
            let release_ns = self.pacing_release_ns.load(Ordering::Relaxed);
            let release_ns = release_ns.saturating_add(pace.ns(bytes));
            self.pacing_release_ns.store(release_ns, Ordering::Relaxed);
        }
    }

    /// How many of `calls` receives into `len` bytes are permitted, at least one; the last may
    /// exceed the allowance.
    fn receives_allowed(&self, len: usize, calls: usize) -> io::Result<usize> {
        let len = len as u64;
        let want = len.saturating_mul(calls as u64).min(len.max(GRANT_MAX));
        match self.reserve(want) {
            0 if len > 0 => Err(quota_exceeded()),
            reserved if reserved < want => Ok(1),
            _ => Ok(calls),
        }
    }

    /// Reserves `want` bytes of the allowance; returns how many are reserved.
    fn reserve(&self, want: u64) -> u64 {
        let Some(allowance) = self.flags.allowance() else {
            return u64::MAX;
        };
        let reserved = self.reserved.load(Ordering::Relaxed);
        if reserved >= want {
            return reserved;
        }
        let reserved = reserved + allowance.take(want - reserved);
        self.reserved.store(reserved, Ordering::Relaxed);
        reserved
    }

    fn consume(&self, bytes: u64) {
        let Some(allowance) = self.flags.allowance() else {
            return;
        };
        let reserved = self.reserve(bytes);
        self.reserved
            .store(reserved.saturating_sub(bytes), Ordering::Relaxed);
        if bytes > reserved {
            allowance
                .excess
                .fetch_add(bytes - reserved, Ordering::Relaxed);
        }
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if let Some(allowance) = self.flags.allowance() {
            allowance.give_back(*self.reserved.get_mut());
        }
    }
}

fn quota_exceeded() -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, QUOTA_EXCEEDED)
}

/// Bytes that an arrival usually has at most: a full receive of the wires.
const ARRIVAL_LEN: usize = 64 << 10;

/// A circuit limited by a meter.
pub(crate) struct MeteredCircuit<'a> {
    circuit: &'a mut dyn Circuit,
    meter: &'a Meter<'a>,
    /// Bytes of the last reservation.
    reserved_len: usize,
}

impl<'a> MeteredCircuit<'a> {
    /// `circuit` limited by `meter`, or itself without one. `storage` keeps the wrapper.
    pub(crate) fn wrap<'b>(
        circuit: &'a mut dyn Circuit,
        meter: Option<&'a Meter<'a>>,
        storage: &'b mut Option<MeteredCircuit<'a>>,
    ) -> &'b mut dyn Circuit
    where
        'a: 'b,
    {
        match meter {
            None => circuit,
            Some(meter) => storage.insert(MeteredCircuit {
                circuit,
                meter,
                reserved_len: 0,
            }),
        }
    }

    fn sent(&self, result: io::Result<()>, len: usize) -> io::Result<()> {
        if result.is_ok() {
            self.meter.sent(len as u64);
        }
        result
    }

    fn received(&self, result: io::Result<Option<usize>>) -> io::Result<Option<usize>> {
        if let Ok(Some(len)) = result {
            self.meter.consume(len as u64);
        }
        result
    }

    fn sent_run(&self, result: io::Result<usize>, len: usize) -> io::Result<usize> {
        if let Ok(count) = result {
            self.meter.sent(len as u64 * count as u64);
        }
        result
    }
}

impl Circuit for MeteredCircuit<'_> {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.meter.sends_allowed(message.len(), 1, false)?;
        let result = self.circuit.try_send(message);
        self.sent(result, message.len())
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.meter.receives_allowed(buffer.len(), 1)?;
        let result = self.circuit.try_recv(buffer);
        self.received(result)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.meter.sends_allowed(message.len(), 1, true)?;
        let result = self.circuit.send(message);
        self.sent(result, message.len())
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.meter.receives_allowed(buffer.len(), 1)?;
        let result = self.circuit.recv(buffer);
        self.received(result)
    }

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        let count = self.meter.sends_allowed(message.len(), count, true)?;
        let result = self.circuit.send_run(message, count);
        self.sent_run(result, message.len())
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        let count = self.meter.sends_allowed(message.len(), count, true)?;
        let result = self.circuit.send_shared_run(message, count);
        self.sent_run(result, message.len())
    }

    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<ReceiveCounts>> {
        let calls = self.meter.receives_allowed(buffer.len(), calls)?;
        let result = self.circuit.recv_run(buffer, calls);
        if let Ok(Some(arrived)) = &result {
            self.meter.consume(arrived.bytes);
        }
        result
    }

    fn send_noted(&mut self, message: &[u8], note: &Note) -> io::Result<()> {
        self.meter.sends_allowed(message.len(), 1, true)?;
        let result = self.circuit.send_noted(message, note);
        self.sent(result, message.len())
    }

    fn receive_part(&mut self, buffer: &mut [u8]) -> io::Result<Option<Part>> {
        self.meter.receives_allowed(buffer.len(), 1)?;
        let result = self.circuit.receive_part(buffer);
        if let Ok(Some(part)) = &result {
            self.meter.consume(part.len as u64);
        }
        result
    }

    fn reserve(&mut self, len: usize) -> io::Result<Reserved<'_>> {
        self.meter.sends_allowed(len, 1, true)?;
        self.reserved_len = len;
        self.circuit.reserve(len)
    }

    fn commit(&mut self, note: &Note) -> io::Result<()> {
        let result = self.circuit.commit(note);
        self.sent(result, self.reserved_len)
    }

    fn take_arrival(&mut self) -> io::Result<Option<LentArrival<'_>>> {
        self.meter.receives_allowed(ARRIVAL_LEN, 1)?;
        let result = self.circuit.take_arrival();
        if let Ok(Some(arrival)) = &result {
            self.meter.consume(arrival.len() as u64);
        }
        result
    }

    fn flush(&mut self) -> io::Result<()> {
        self.circuit.flush()
    }

    fn finish(&mut self) -> io::Result<()> {
        self.circuit.finish()
    }

    fn wait(&mut self, interest: Interest, deadline: Instant) -> io::Result<()> {
        self.circuit.wait(interest, deadline)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.circuit.descriptor()
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.circuit.next_deadline()
    }

    fn connection_info(&self) -> Result<ConnectionInfo, NoConnectionInfo> {
        self.circuit.connection_info()
    }

    fn effective(&self) -> BTreeMap<String, String> {
        self.circuit.effective()
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        self.circuit.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::WorkerFlags;
    use std::os::fd::AsFd;

    fn allowance(most: u64) -> (Allowance, ByteAccount) {
        let account = ByteAccount::new().expect("an account");
        let copy = account.as_fd().try_clone_to_owned().expect("a descriptor");
        (Allowance::new(most, ByteAccount::from(copy)), account)
    }

    fn meter(flags: &WorkerFlags, pace: Option<u64>) -> Meter<'_> {
        Meter {
            flags,
            pace: pace.map(Pace),
            reserved: AtomicU64::new(0),
            pacing_release_ns: AtomicU64::new(now_ns()),
            end_ns: u64::MAX,
        }
    }

    #[test]
    fn pace_delays_sends() {
        assert_eq!(Pace(1000).ns(10), 10_000_000);
        assert_eq!(Pace(3).ns(1), 333_333_334);
        assert_eq!(Pace(1).ns(u64::MAX), u64::MAX);
        let flags = WorkerFlags::default();
        let slow = meter(&flags, Some(1));
        let kind = |result: io::Result<usize>| result.map_err(|error| error.kind());
        // Pacing delays a message before it is sent; this one takes a quarter of an hour.
        let would_block = Err(io::ErrorKind::WouldBlock);
        assert_eq!(kind(slow.sends_allowed(1000, 1, false)), would_block);
        let free = meter(&flags, None);
        assert_eq!(kind(free.sends_allowed(1000, 99, false)), Ok(99));
    }

    #[test]
    fn pacing_catch_up_is_limited() {
        let flags = WorkerFlags::default();
        let meter = meter(&flags, Some(1_000_000));
        meter.pacing_release_ns.store(1, Ordering::Relaxed);
        // A tenth of a second at a million a second.
        assert_eq!(meter.due(1000, false), 100);
        meter.sent(99_000);
        assert!(meter.due(1000, false) >= 1);
        // A message may be longer than that.
        meter.pacing_release_ns.store(1, Ordering::Relaxed);
        assert_eq!(meter.due(500_000, false), 1);
    }

    #[test]
    fn allowance_is_booked_first_and_never_exceeded() {
        let (allowance, account) = allowance(10_000);
        let flags = WorkerFlags::new(Some(allowance));
        let one = meter(&flags, None);
        let other = meter(&flags, None);
        assert_eq!(one.sends_allowed(1000, 4, true).ok(), Some(4));
        one.sent(4000);
        assert_eq!(other.sends_allowed(1000, 9, true).ok(), Some(6));
        assert_eq!(account.take(), 10_000);
        other.sent(2000);
        assert!(one.sends_allowed(1, 1, true).is_err());
        let moved = |flags: &WorkerFlags| flags.allowance().map(Allowance::moved_bytes);
        drop(other);
        assert_eq!(moved(&flags), Some(6000));
        // The last receive may exceed the allowance.
        assert_eq!(one.receives_allowed(5000, 7).ok(), Some(1));
        one.consume(5000);
        assert!(one.receives_allowed(5000, 1).is_err());
        drop(one);
        assert_eq!(moved(&flags), Some(11_000));
    }

    #[test]
    fn grants_are_small_share_of_remaining() {
        let (allowance, account) = allowance(1 << 40);
        assert_eq!(allowance.take(1), GRANT_MAX);
        assert_eq!(allowance.take(GRANT_MAX + 1), GRANT_MAX + 1);
        assert_eq!(account.take(), 2 * GRANT_MAX + 1);
        let (small, _account) = self::allowance(2560);
        assert_eq!(
            (small.take(1), small.take(9999), small.take(1)),
            (10, 2550, 0)
        );
    }
}
