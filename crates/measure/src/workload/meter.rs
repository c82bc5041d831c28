//! What a loop may move: how many bytes, and how many of them a second.
//!
//! A job with a limit has its circuits wrapped in [`Metered`], so that whatever a loop does passes one
//! place. A job without one gets its circuits as they are.

use super::Flags;
use crate::clock::now_ns;
use control::caps::SPENT;
use control::{Account, Job};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use towpath::contract::Arrived;
use towpath::{Circuit, Interest};

/// Circuits take their part of an allowance in pieces of at most so many bytes, and of so small a part of
/// what is left: what they share is touched seldom, and none takes what another needs.
const PIECE_MAX: u64 = 1 << 20;
const PIECES: u64 = 256;

/// Sleeps are cut into pieces, so that a loop that was stopped notices.
const NAP: Duration = Duration::from_millis(20);

/// What is due sooner is waited for this long, so that a sleep is worth its while, ns.
const AHEAD_NS: u64 = 500_000;

/// A loop that was held up makes up for so much of it at most, ns.
const BEHIND_NS: u64 = 100_000_000;

/// Bytes that all circuits of a worker together may move, in both directions.
#[derive(Debug)]
pub(crate) struct Allowance {
    most: u64,
    left: AtomicU64,
    /// What the last reads brought more than was left.
    beyond: AtomicU64,
    account: Account,
}

impl Allowance {
    /// Of `most` bytes, booked on `account` before they are moved.
    pub(crate) fn new(most: u64, account: Account) -> Allowance {
        Allowance {
            most,
            left: AtomicU64::new(most),
            beyond: AtomicU64::new(0),
            account,
        }
    }

    /// Takes `want` bytes or some more, or all that are left.
    fn take(&self, want: u64) -> u64 {
        let piece = |left: u64| want.max((left / PIECES).min(PIECE_MAX)).min(left);
        let take = |left: u64| Some(left - piece(left));
        let Ok(left) = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
        else {
            return 0;
        };
        let taken = piece(left);
        if taken > 0 && self.account.add(taken).is_err() {
            // What cannot be booked is not moved.
            self.give_back(taken);
            return 0;
        }
        taken
    }

    fn give_back(&self, bytes: u64) {
        self.left.fetch_add(bytes, Ordering::Relaxed);
    }

    /// What was moved by circuits whose meters are gone.
    pub(crate) fn moved(&self) -> u64 {
        let within = self.most - self.left.load(Ordering::Relaxed);
        within.saturating_add(self.beyond.load(Ordering::Relaxed))
    }
}

/// A circuit's part of a worker's limits. Only its own thread uses it.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    flags: &'a Flags,
    pace: Option<Pace>,
    /// Taken from the allowance and not moved yet.
    unspent: AtomicU64,
    /// Up to when what was sent is paid for with time.
    paid_ns: AtomicU64,
    end_ns: u64,
}

/// A number of bytes a second, as time.
#[derive(Clone, Copy, Debug)]
struct Pace(u64);

impl Pace {
    /// How long `bytes` take, rounded up.
    fn ns(self, bytes: u64) -> u64 {
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(self.0.max(1)));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl<'a> Meter<'a> {
    /// The meter of a loop that starts now; None for a job without limits.
    pub(crate) fn new(job: &Job, flags: &'a Flags) -> Option<Meter<'a>> {
        if job.pace_bytes_per_s.is_none() && flags.allowance().is_none() {
            return None;
        }
        let start_ns = now_ns();
        Some(Meter {
            flags,
            pace: job.pace_bytes_per_s.map(Pace),
            unspent: AtomicU64::new(0),
            paid_ns: AtomicU64::new(start_ns),
            end_ns: start_ns.saturating_add(job.limits.time_ns),
        })
    }

    /// Sleeps until a message of `len` bytes may be sent; false when it is too late for it.
    pub(crate) fn hold(&self, len: usize) -> bool {
        while !self.flags.is_stopped() && now_ns() < self.end_ns {
            if self.due(len as u64, true) > 0 {
                return true;
            }
        }
        false
    }

    /// How many of `count` messages of `len` bytes may be sent now, at least one.
    fn ready(&self, len: usize, count: usize, block: bool) -> io::Result<usize> {
        let (len, count) = (len as u64, count as u64);
        let due = self.due(len, block).min(count);
        if due == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let want = len.saturating_mul(due).min(len.max(PIECE_MAX));
        let count = match self.provide(want) {
            _ if len == 0 => due,
            unspent => due.min(unspent / len),
        };
        match count {
            0 => Err(spent()),
            count => Ok(count as usize),
        }
    }

    /// How many messages of `len` bytes have come due.
    fn due(&self, len: u64, block: bool) -> u64 {
        let Some(pace) = self.pace else {
            return u64::MAX;
        };
        let one_ns = pace.ns(len).max(1);
        let now = now_ns();
        let earliest = now.saturating_sub(BEHIND_NS.max(one_ns));
        let paid_ns = self.paid_ns.load(Ordering::Relaxed).max(earliest);
        self.paid_ns.store(paid_ns, Ordering::Relaxed);
        let saved_ns = now.saturating_sub(paid_ns);
        if saved_ns >= one_ns || !block {
            return saved_ns / one_ns;
        }
        let wait_ns = paid_ns.saturating_add(one_ns) - now;
        std::thread::sleep(Duration::from_nanos(wait_ns.max(AHEAD_NS)).min(NAP));
        now_ns().saturating_sub(paid_ns) / one_ns
    }

    fn sent(&self, bytes: u64) {
        self.spend(bytes);
        if let Some(pace) = self.pace {
            let paid_ns = self.paid_ns.load(Ordering::Relaxed);
            let paid_ns = paid_ns.saturating_add(pace.ns(bytes));
            self.paid_ns.store(paid_ns, Ordering::Relaxed);
        }
    }

    /// How many of `calls` receives into `len` bytes there may be, at least one; the last may bring more
    /// than is left.
    fn expect(&self, len: usize, calls: usize) -> io::Result<usize> {
        let len = len as u64;
        let want = len.saturating_mul(calls as u64).min(len.max(PIECE_MAX));
        match self.provide(want) {
            0 if len > 0 => Err(spent()),
            unspent if unspent < want => Ok(1),
            _ => Ok(calls),
        }
    }

    /// Takes from the allowance until `want` bytes may be moved; what may be then.
    fn provide(&self, want: u64) -> u64 {
        let Some(allowance) = self.flags.allowance() else {
            return u64::MAX;
        };
        let unspent = self.unspent.load(Ordering::Relaxed);
        if unspent >= want {
            return unspent;
        }
        let unspent = unspent + allowance.take(want - unspent);
        self.unspent.store(unspent, Ordering::Relaxed);
        unspent
    }

    fn spend(&self, bytes: u64) {
        let Some(allowance) = self.flags.allowance() else {
            return;
        };
        let unspent = self.provide(bytes);
        self.unspent
            .store(unspent.saturating_sub(bytes), Ordering::Relaxed);
        if bytes > unspent {
            allowance
                .beyond
                .fetch_add(bytes - unspent, Ordering::Relaxed);
        }
    }
}

impl Drop for Meter<'_> {
    fn drop(&mut self) {
        if let Some(allowance) = self.flags.allowance() {
            allowance.give_back(*self.unspent.get_mut());
        }
    }
}

fn spent() -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, SPENT)
}

/// A circuit under a meter.
pub(crate) struct Metered<'a> {
    circuit: &'a mut dyn Circuit,
    meter: &'a Meter<'a>,
}

impl<'a> Metered<'a> {
    /// `circuit` as `meter` allows; itself where there is none. `room` is where the other is kept.
    pub(crate) fn wrap<'b>(
        circuit: &'a mut dyn Circuit,
        meter: Option<&'a Meter<'a>>,
        room: &'b mut Option<Metered<'a>>,
    ) -> &'b mut dyn Circuit
    where
        'a: 'b,
    {
        match meter {
            None => circuit,
            Some(meter) => room.insert(Metered { circuit, meter }),
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
            self.meter.spend(len as u64);
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

impl Circuit for Metered<'_> {
    fn try_send(&mut self, message: &[u8]) -> io::Result<()> {
        self.meter.ready(message.len(), 1, false)?;
        let result = self.circuit.try_send(message);
        self.sent(result, message.len())
    }

    fn try_recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.meter.expect(buffer.len(), 1)?;
        let result = self.circuit.try_recv(buffer);
        self.received(result)
    }

    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.meter.ready(message.len(), 1, true)?;
        let result = self.circuit.send(message);
        self.sent(result, message.len())
    }

    fn recv(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.meter.expect(buffer.len(), 1)?;
        let result = self.circuit.recv(buffer);
        self.received(result)
    }

    fn send_run(&mut self, message: &[u8], count: usize) -> io::Result<usize> {
        let count = self.meter.ready(message.len(), count, true)?;
        let result = self.circuit.send_run(message, count);
        self.sent_run(result, message.len())
    }

    fn send_shared_run(&mut self, message: &Arc<[u8]>, count: usize) -> io::Result<usize> {
        let count = self.meter.ready(message.len(), count, true)?;
        let result = self.circuit.send_shared_run(message, count);
        self.sent_run(result, message.len())
    }

    fn recv_run(&mut self, buffer: &mut [u8], calls: usize) -> io::Result<Option<Arrived>> {
        let calls = self.meter.expect(buffer.len(), calls)?;
        let result = self.circuit.recv_run(buffer, calls);
        if let Ok(Some(arrived)) = &result {
            self.meter.spend(arrived.bytes);
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
    use crate::workload::Flags;
    use std::os::fd::AsFd;

    fn allowance(most: u64) -> (Allowance, Account) {
        let account = Account::new().expect("an account");
        let copy = account.as_fd().try_clone_to_owned().expect("a descriptor");
        (Allowance::new(most, Account::from(copy)), account)
    }

    fn meter(flags: &Flags, pace: Option<u64>) -> Meter<'_> {
        Meter {
            flags,
            pace: pace.map(Pace),
            unspent: AtomicU64::new(0),
            paid_ns: AtomicU64::new(now_ns()),
            end_ns: u64::MAX,
        }
    }

    #[test]
    fn bytes_take_their_time() {
        assert_eq!(Pace(1000).ns(10), 10_000_000);
        assert_eq!(Pace(3).ns(1), 333_333_334);
        assert_eq!(Pace(1).ns(u64::MAX), u64::MAX);
        let flags = Flags::default();
        let slow = meter(&flags, Some(1));
        let kind = |result: io::Result<usize>| result.map_err(|error| error.kind());
        // A message is paid for before it goes; this one takes a quarter of an hour.
        let late = Err(io::ErrorKind::WouldBlock);
        assert_eq!(kind(slow.ready(1000, 1, false)), late);
        let free = meter(&flags, None);
        assert_eq!(kind(free.ready(1000, 99, false)), Ok(99));
    }

    #[test]
    fn a_loop_that_was_held_up_makes_up_for_a_part() {
        let flags = Flags::default();
        let meter = meter(&flags, Some(1_000_000));
        meter.paid_ns.store(1, Ordering::Relaxed);
        // A tenth of a second at a million a second.
        assert_eq!(meter.due(1000, false), 100);
        meter.sent(99_000);
        assert!(meter.due(1000, false) >= 1);
        // A message may be longer than that.
        meter.paid_ns.store(1, Ordering::Relaxed);
        assert_eq!(meter.due(500_000, false), 1);
    }

    #[test]
    fn what_is_moved_is_booked_before_and_never_more_than_allowed() {
        let (allowance, account) = allowance(10_000);
        let flags = Flags::new(Some(allowance));
        let one = meter(&flags, None);
        let other = meter(&flags, None);
        assert_eq!(one.ready(1000, 4, true).ok(), Some(4));
        one.sent(4000);
        assert_eq!(other.ready(1000, 9, true).ok(), Some(6));
        assert_eq!(account.take(), 10_000);
        other.sent(2000);
        assert!(one.ready(1, 1, true).is_err());
        let moved = |flags: &Flags| flags.allowance().map(Allowance::moved);
        drop(other);
        assert_eq!(moved(&flags), Some(6000));
        // A receive may bring more than was left, and is the last.
        assert_eq!(one.expect(5000, 7).ok(), Some(1));
        one.spend(5000);
        assert!(one.expect(5000, 1).is_err());
        drop(one);
        assert_eq!(moved(&flags), Some(11_000));
    }

    #[test]
    fn pieces_are_small_beside_what_is_left() {
        let (allowance, account) = allowance(1 << 40);
        assert_eq!(allowance.take(1), PIECE_MAX);
        assert_eq!(allowance.take(PIECE_MAX + 1), PIECE_MAX + 1);
        assert_eq!(account.take(), 2 * PIECE_MAX + 1);
        let (small, _account) = self::allowance(2560);
        assert_eq!(
            (small.take(1), small.take(9999), small.take(1)),
            (10, 2550, 0)
        );
    }
}
