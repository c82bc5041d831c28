//! Service procedures that are scheduled at a time (qtimeout). The host says what time it is: nothing
//! here reads a clock.

use super::{QueueId, Runtime};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What is scheduled, by time, then in the order of the calls.
#[derive(Debug, Default)]
pub(super) struct Timers {
    now: u64,
    due: BinaryHeap<Reverse<(u64, u64, QueueId)>>,
    calls: u64,
}

impl Runtime {
    /// The time on the host's clock, in nanoseconds: what is due by then is scheduled. A time before
    /// the last one changes nothing.
    pub fn set_now(&mut self, now: u64) {
        self.timers.now = self.timers.now.max(now);
        while let Some(&Reverse((at, _, queue))) = self.timers.due.peek() {
            if at > self.timers.now {
                return;
            }
            self.timers.due.pop();
            self.enable(queue);
        }
    }

    /// When the next service procedure is due; None when none waits for a time.
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.due.peek().map(|Reverse((at, _, _))| *at)
    }

    pub(crate) fn now(&self) -> u64 {
        self.timers.now
    }

    pub(crate) fn enable_at(&mut self, queue: QueueId, at: u64) {
        self.timers.calls += 1;
        let call = self.timers.calls;
        self.timers.due.push(Reverse((at, call, queue)));
    }

    /// A level goes: its number may soon be another's.
    pub(super) fn forget_timers(&mut self, level: u32) {
        self.timers
            .due
            .retain(|Reverse((_, _, queue))| queue.level() != level);
    }
}
