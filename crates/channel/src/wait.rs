//! Waiting for a word of the peer's, and noticing that the peer is gone.

use crate::error::{ChannelError, system};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::thread::futex;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longest wait before the lifeline is looked at: a dead peer is noticed within two of them, 100 ms.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(50);

/// What a wake that brought nothing takes off the time of a wait, so that a peer that wakes all the
/// time cannot make the wait last: 200 of them are 20 ms.
const USELESS_WAKE: Duration = Duration::from_micros(100);

/// Looks at a word before a spinning end yields: about as long as a peer on another processor takes.
const LOOKS_BEFORE_YIELD: u32 = 128;

/// How an end waits for its peer. Each end chooses for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The end sleeps in the kernel (futex), and its peer wakes it.
    Futex,
    /// The end looks at the word until it changes, and yields its processor in between. It needs no
    /// system call of its peer, and a processor of its own.
    Spin,
}

/// The words of one direction: what an end waits for, and where it says that it sleeps.
#[derive(Clone, Copy)]
pub(crate) struct Waited<'a> {
    /// The position that the peer writes.
    pub position: &'a AtomicU32,
    /// Its value that brought nothing.
    pub seen: u32,
    /// Set when the peer has closed its end.
    pub peer_closed: &'a AtomicU32,
    /// Tells the peer that a wake is needed.
    pub sleeps: &'a AtomicU32,
}

impl Waited<'_> {
    /// Whether the peer has moved its position, or closed its end.
    #[inline]
    fn has_changed(&self, order: Ordering) -> bool {
        self.position.load(order) != self.seen || self.peer_closed.load(order) != 0
    }
}

/// The socket that hangs up when the peer is gone, and how this end waits for the peer.
#[derive(Debug)]
pub(crate) struct Lifeline {
    socket: Arc<UnixStream>,
    signal: Signal,
    hung_up: bool,
    system_calls: u64,
}

impl Lifeline {
    pub(crate) fn new(socket: Arc<UnixStream>, signal: Signal) -> Self {
        Self {
            socket,
            signal,
            hung_up: false,
            system_calls: 0,
        }
    }

    /// Whether the peer was found gone. What it wrote before is still there.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.hung_up
    }

    /// System calls made so far.
    pub(crate) fn system_calls(&self) -> u64 {
        self.system_calls
    }

    /// Waits until the position may have changed, the peer is gone, or `left` is over, and takes the
    /// time off `left`. Returns after [`SLEEP_MAX`] at the latest.
    ///
    /// # Errors
    /// What poll or futex refuse.
    pub(crate) fn wait(
        &mut self,
        waited: Waited<'_>,
        left: &mut Duration,
    ) -> Result<(), ChannelError> {
        let limit = SLEEP_MAX.min(*left);
        let changed = match self.signal {
            Signal::Spin => looked_for_change(waited, limit),
            Signal::Futex => self.slept_for_change(waited, limit)?,
        };
        *left = left.saturating_sub(if changed { USELESS_WAKE } else { limit });
        if !changed {
            self.look()?;
        }
        Ok(())
    }

    fn slept_for_change(
        &mut self,
        waited: Waited<'_>,
        limit: Duration,
    ) -> Result<bool, ChannelError> {
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: limit.subsec_nanos().into(),
        };
        // Sequentially consistent, as the peer's store and load in `notify`: one of both sees the
        // other's, so no change goes by unnoticed.
        waited.sleeps.store(1, Ordering::SeqCst);
        let slept = if waited.has_changed(Ordering::SeqCst) {
            Ok(())
        } else {
            self.system_calls += 1;
            let flags = futex::Flags::empty();
            futex::wait(waited.position, flags, waited.seen, Some(&limit))
        };
        waited.sleeps.store(0, Ordering::Relaxed);
        match slept {
            Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(true),
            Err(rustix::io::Errno::TIMEDOUT) => Ok(false),
            Err(errno) => Err(system("futex wait of a channel")(errno)),
        }
    }

    /// Publishes `value` in `position` and wakes a peer that sleeps.
    pub(crate) fn notify(
        &mut self,
        position: &AtomicU32,
        value: u32,
        peer_sleeps: &AtomicU32,
    ) -> Result<(), ChannelError> {
        position.store(value, Ordering::SeqCst);
        if peer_sleeps.load(Ordering::SeqCst) != 0 {
            self.wake(position)?;
        }
        Ok(())
    }

    #[cold]
    fn wake(&mut self, position: &AtomicU32) -> Result<(), ChannelError> {
        self.system_calls += 1;
        futex::wake(position, futex::Flags::empty(), 1)
            .map_err(system("futex wake of a channel"))?;
        Ok(())
    }

    /// Looks whether the peer's end of the socket is closed, as the kernel does however the peer ends.
    pub(crate) fn look(&mut self) -> Result<bool, ChannelError> {
        let mut polled = [PollFd::new(&*self.socket, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        self.system_calls += 1;
        match rustix::event::poll(&mut polled, Some(&now)) {
            Ok(_) => {
                let ends = PollFlags::HUP | PollFlags::ERR;
                self.hung_up |= polled[0].revents().intersects(ends);
                Ok(self.hung_up)
            }
            Err(rustix::io::Errno::INTR) => Ok(self.hung_up),
            Err(errno) => Err(system("poll of a channel's socket")(errno)),
        }
    }
}

/// Looks at the position until it has changed, or `limit` is over. The limit is a time and not a number of
/// looks, because a yield lasts as long as others want the processor.
fn looked_for_change(waited: Waited<'_>, limit: Duration) -> bool {
    let changed = || waited.has_changed(Ordering::Acquire);
    for _ in 0..LOOKS_BEFORE_YIELD {
        if changed() {
            return true;
        }
        std::hint::spin_loop();
    }
    let started = Instant::now();
    while started.elapsed() < limit {
        if changed() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_end_sees_a_move_and_a_close_and_nothing_else() {
        for (position, closed, changed) in [(7, 0, false), (8, 0, true), (7, 1, true)] {
            let waited = Waited {
                position: &AtomicU32::new(position),
                seen: 7,
                peer_closed: &AtomicU32::new(closed),
                sleeps: &AtomicU32::new(0),
            };
            let seen = looked_for_change(waited, Duration::ZERO);
            assert_eq!(seen, changed, "position {position}, closed {closed}");
        }
    }
}
