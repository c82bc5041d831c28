//! Receives that copy what arrives next directly into the user's buffer: where messages go to and fro, and nothing else
//! is to be done before the user waits.

use super::Circuit;
use super::receive::time_left;
use crate::pump::{DirectCopy, Pump};
use crate::shared::{EndpointShared, WaitOutcome};
use engine::{Associations, Framing, Instant};
use std::io;
use std::time::Duration;
use wire::Wire;

/// Of so many receives that do not wait, one runs timers and asks what paths said, for which it reads the clock: while
/// nothing comes, one in some 5 us.
const POLLS_PER_CLOCK: u32 = 16;

impl<E: Associations, W: Wire> Circuit<E, W> {
    /// Whether nothing of this circuit's is in the way: nothing unread, unsent or due before a wait.
    #[inline]
    fn may_receive_direct(&self) -> bool {
        self.framing == Framing::Stream
            && !self.has_unsent()
            && self.has_submitted_all()
            && !self.shared.pool.permits.has_unnotified()
    }

    /// Waits for the next arrival until `end`, which is `limit` after the first wait; None when it was something else
    /// than bytes that fit into `buffer`, or there is more to do first. Fails with `TimedOut`, or errors of the wire.
    #[inline]
    pub(super) fn recv_direct(
        &mut self,
        buffer: &mut [u8],
        end: &mut Option<Instant>,
        limit: Duration,
    ) -> io::Result<Option<usize>> {
        if !self.may_receive_direct() {
            return Ok(None);
        }
        let shared = &**self.shared;
        let pump = shared.lock()?;
        if !pump.may_copy_direct(self.id) {
            return Ok(None);
        }
        let mut now = match pump.settled_at() {
            // As `wait_start` has it.
            Some(at) if limit == Duration::MAX => at,
            _ => shared.now(),
        };
        let left = time_left(end, now, limit)?;
        self.producer.leave();
        if self.delays_acks {
            shared.hint_busy_poll();
        }
        let mut place = DirectCopy {
            id: self.id,
            buffer,
            filled: None,
        };
        let (mut pump, outcome) =
            shared.wait_in_receive_with(pump, &mut now, left, |pump, now, octets, arrival| {
                pump.handle_arrival_for(now, octets, arrival, &mut place)
            })?;
        if outcome == WaitOutcome::Woken {
            self.submits = 0;
        }
        let filled = place.filled;
        if filled.is_some() {
            self.seen_arrivals = pump.arrivals();
            self.is_last_chunk = pump.status(self.id).finished;
            answer(shared, &mut pump, now, self.delays_acks)?;
        }
        Ok(filled)
    }

    /// As [`recv_direct`](Circuit::recv_direct) without waiting.
    /// Fails with `WouldBlock` when nothing is there, or errors of the wire.
    #[inline]
    pub(super) fn try_recv_direct(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.polls = self.polls.wrapping_add(1);
        if self.delays_acks || !self.may_receive_direct() {
            return Ok(None);
        }
        let shared = &**self.shared;
        let mut pump = shared.lock()?;
        if pump.is_watched() || shared.wakeup.receive.is_claimed() {
            return Ok(None);
        }
        if pump.settled_at().is_none() || self.polls.is_multiple_of(POLLS_PER_CLOCK) {
            pump.settle(shared.now())?;
        }
        if !pump.may_copy_direct(self.id) {
            return Ok(None);
        }
        shared.wakeup.activity.count_poll();
        let mut place = DirectCopy {
            id: self.id,
            buffer,
            filled: None,
        };
        let arrived_at = pump.receive_for(|| shared.now(), &mut place)?;
        self.seen_arrivals = pump.arrivals();
        let Some(now) = arrived_at else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        self.submits = 0;
        shared.wake_waiters(&pump);
        let filled = place.filled;
        if filled.is_some() {
            self.is_last_chunk = pump.status(self.id).finished;
            answer(shared, &mut pump, now, false)?;
        }
        Ok(filled)
    }
}

/// Runs timers, and answers what was copied to its user, now or with that user's next request.
#[inline]
fn answer<E: Associations, W: Wire>(
    shared: &EndpointShared<E, W>,
    pump: &mut Pump<E, W>,
    now: Instant,
    delays_acks: bool,
) -> io::Result<()> {
    shared.notify_granted(pump);
    if delays_acks {
        pump.handle_timeout(now);
        shared.wakeup.helper.defer_flush();
        return Ok(());
    }
    pump.answer(now)
}
