//! The measuring loops.

pub(crate) mod bidirectional;
pub(crate) mod client;
pub(crate) mod connect;
pub(crate) mod connection;
pub mod discarded;
pub(crate) mod fan_out;
pub(crate) mod fan_out_delay;
pub(crate) mod message;
pub(crate) mod meter;
pub(crate) mod offered;
pub mod responsive;
pub(crate) mod sent_notice;
pub(crate) mod server;
pub mod silence;
pub(crate) mod sink;
pub mod slices;
pub mod slowdown;
pub(crate) mod source;
pub mod transactions;
pub(crate) mod turns;

use control::Turns;
use meter::Allowance;
use sent_notice::SentNotice;
use slowdown::Slowdown;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use towpath::BLOCKING_TIMEOUT;

/// Flags from the worker's control thread to its measuring threads.
#[derive(Debug, Default)]
pub(crate) struct WorkerFlags {
    stop: AtomicBool,
    peer_done: AtomicBool,
    peer_sent: AtomicU64,
    allowance: Option<Allowance>,
    turns: Option<Turns>,
    slowdown: Slowdown,
    sent_notice: Option<SentNotice>,
}

impl WorkerFlags {
    /// Flags of a worker with this allowance; None for no limit.
    pub(crate) fn new(allowance: Option<Allowance>) -> WorkerFlags {
        WorkerFlags {
            allowance,
            ..WorkerFlags::default()
        }
    }

    /// The same, for loops that run in these turns; None for loops that run throughout.
    pub(crate) fn in_turns(self, turns: Option<Turns>) -> WorkerFlags {
        WorkerFlags { turns, ..self }
    }

    /// The same, for loops with a planted slowdown.
    pub(crate) fn slowed(self, slowdown: Slowdown) -> WorkerFlags {
        WorkerFlags { slowdown, ..self }
    }

    /// The same, for loops that give this notice once all have sent all.
    pub(crate) fn noticed(self, sent_notice: Option<SentNotice>) -> WorkerFlags {
        WorkerFlags {
            sent_notice,
            ..self
        }
    }

    /// The notice that all loops have sent all; None for loops that end with that, or do not send.
    pub(crate) fn sent_notice(&self) -> Option<&SentNotice> {
        self.sent_notice.as_ref()
    }

    /// A loop has sent this many messages, and sends no more.
    pub(crate) fn note_sent(&self, sent: u64) {
        if let Some(notice) = &self.sent_notice {
            notice.add(sent);
        }
    }

    /// The slowdown of a loop, from its start.
    pub(crate) fn slowdown(&self) -> Slowdown {
        self.slowdown
    }

    pub(crate) fn turns(&self) -> Option<&Turns> {
        self.turns.as_ref()
    }

    pub(crate) fn allowance(&self) -> Option<&Allowance> {
        self.allowance.as_ref()
    }

    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    pub(crate) fn set_peer_done(&self, sent: u64) {
        self.peer_sent.store(sent, Ordering::Relaxed);
        self.peer_done.store(true, Ordering::Release);
    }

    /// Number of messages the peer sent, once it has finished.
    pub(crate) fn peer_sent(&self) -> Option<u64> {
        let done = self.peer_done.load(Ordering::Acquire);
        done.then(|| self.peer_sent.load(Ordering::Relaxed))
    }
}

pub(crate) fn is_retryable(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Number of messages between two clock reads.
///
/// A run is made longer while it takes less than 20 us, so that the clock's 20 to 30 ns stay
/// below two in a thousand, and shorter when it takes more than 100 us, so that slices and limits
/// are kept.
#[derive(Debug)]
pub(crate) struct RunLength {
    pub(crate) messages: usize,
    last_ns: u64,
    /// Time and messages of the last run that was as long as asked for.
    full: (u64, u64),
}

const RUN_SHORT_NS: u64 = 20_000;
const RUN_LONG_NS: u64 = 100_000;
const RUN_MAX: usize = 8192;

impl RunLength {
    pub(crate) fn new(now_ns: u64) -> RunLength {
        RunLength {
            messages: 1,
            last_ns: now_ns,
            full: (0, 1),
        }
    }

    /// When the last of `arrived` messages of a run came that returned at `now_ns`. A receive that timed out
    /// adds [`BLOCKING_TIMEOUT`] to its run; the messages before it took as long as in the last full run.
    pub(crate) fn arrived_ns(&mut self, arrived: u64, now_ns: u64) -> u64 {
        if arrived >= self.messages as u64 {
            self.full = (now_ns - self.last_ns, self.messages as u64);
            return now_ns;
        }
        let latest_ns = now_ns.saturating_sub(BLOCKING_TIMEOUT.as_nanos() as u64);
        if latest_ns < self.last_ns {
            return now_ns;
        }
        let (full_ns, messages) = self.full;
        let took_ns = full_ns.saturating_mul(arrived) / messages;
        self.last_ns.saturating_add(took_ns).min(latest_ns)
    }

    /// The same after a run of `messages`; a shorter one than asked for teaches nothing.
    pub(crate) fn adapt_after(&mut self, messages: usize, now_ns: u64) {
        match messages < self.messages {
            true => self.last_ns = now_ns,
            false => self.adapt(now_ns),
        }
    }

    pub(crate) fn adapt(&mut self, now_ns: u64) {
        let took_ns = now_ns - self.last_ns;
        self.last_ns = now_ns;
        if took_ns < RUN_SHORT_NS {
            self.messages = (self.messages * 2).min(RUN_MAX);
        } else if took_ns > RUN_LONG_NS {
            self.messages = (self.messages / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_message_of_a_run_that_timed_out_came_before_the_wait() {
        const MS: u64 = 1_000_000;
        let mut length = RunLength::new(0);
        assert_eq!(length.arrived_ns(1, 10_000), 10_000);
        length.adapt(10_000);
        assert_eq!(length.messages, 2);
        assert_eq!(length.arrived_ns(2, 30_000), 30_000, "10 us a message");
        length.adapt(30_000);
        assert_eq!(length.arrived_ns(1, 24 * MS), 40_000);
        assert_eq!(
            length.arrived_ns(1, 5 * MS),
            5 * MS,
            "the end of a stream comes at once"
        );
        length.adapt_after(1, 24 * MS);
        let next_ns = 24 * MS + 20 * MS + 5_000;
        assert_eq!(
            length.arrived_ns(1, next_ns),
            24 * MS + 5_000,
            "not within the wait"
        );
    }
}
