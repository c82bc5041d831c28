//! Looks at what has come, without a wait.

use super::Shared;
use super::drive::ERROR_PAUSE;
use super::state::State;
use super::work::By;
use engine::{Instant, Transactions};
use std::io;
use wire::Wire;

impl<E: Transactions, W: Wire> Shared<E, W> {
    /// Takes in what has come, up to `receives_max` arrivals, unless another thread drives, and sends
    /// what was submitted.
    pub(super) fn look(&self, receives_max: usize) {
        if self.driving.take_as_user() {
            // A broken endpoint says so when something is waited for.
            let _ = self.round(receives_max);
            self.stop_driving(By::Caller);
        } else {
            self.work_off_submissions();
        }
    }

    /// Takes in up to `receives_max` arrivals, and sends what they and submissions caused.
    /// Errors: a panic in the engine.
    fn round(&self, receives_max: usize) -> io::Result<()> {
        let mut state = self.lock()?;
        // Until something comes the clock is not read: the service thread keeps the time of timers.
        let first = state.receive_by(|| self.now());
        let is_idle = matches!(first, Ok(None))
            && !state.pump.wire().has_buffered()
            && !state.pump.is_blocked();
        if is_idle {
            self.unlock(state);
            return Ok(());
        }
        let (now, more) = match first {
            Ok(Some(now)) => (now, receives_max - 1),
            _ => (self.now(), receives_max),
        };
        let taken = first.and_then(|_| self.take_in(&mut state, now, more));
        self.work_off(&mut state, now, By::Caller);
        self.unlock(state);
        if taken.is_err() {
            std::thread::sleep(ERROR_PAUSE);
        }
        Ok(())
    }

    /// Takes in up to so many arrivals; how many there were. Errors are those of the wire.
    pub(super) fn take_in(
        &self,
        state: &mut State<E, W>,
        now: Instant,
        receives_max: usize,
    ) -> io::Result<usize> {
        let mut arrivals = 0;
        while arrivals < receives_max {
            match state.receive(now)? {
                true => arrivals += 1,
                false if state.pump.wire().has_buffered() => {}
                false => break,
            }
        }
        Ok(arrivals)
    }
}
