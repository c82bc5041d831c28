//! Waiting for a word of the peer's, and noticing that the peer is gone.

use crate::error::{ChannelError, system};
use crate::kernel;
use crate::sync::{AtomicU32, Ordering, fence, store_beside_swaps};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait before the lifeline is looked at: a dead peer is noticed within two of them, 100 ms.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(50);

/// What a wake that brought nothing takes off the time of a wait, so that a peer that wakes all the
/// time cannot make the wait last: 200 of them are 20 ms.
pub(crate) const USELESS_WAKE: Duration = Duration::from_micros(100);

/// Looks at a word before a spinning end yields: about as long as a peer on another processor takes.
const LOOKS_BEFORE_YIELD: u32 = 128;

/// What an end writes where it says how it waits: it is awake.
const AWAKE: u32 = 0;

/// The end sleeps until its peer's position changes, and needs a wake then.
pub(crate) const SLEEPS: u32 = 1;

/// The end never sleeps, so its peer needs no look at this word in step with its position.
const SPINS: u32 = 2;

/// The end sleeps in a poll of its socket, and its peer writes an octet to it then.
const POLLS: u32 = 3;

/// How an end waits for its peer. Each end chooses for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// The end sleeps in the kernel (futex), and its peer wakes it.
    Futex,
    /// The end polls a descriptor, also beside others ([`crate::ChannelReceiver::prepare_poll`]), and its
    /// peer makes it readable.
    Poll,
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
    /// Tells the peer whether a wake is needed.
    pub waits: &'a AtomicU32,
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
    /// `waits` is the word in which this end says how it waits.
    pub(crate) fn new(socket: Arc<UnixStream>, signal: Signal, waits: &AtomicU32) -> Self {
        let spins = signal == Signal::Spin;
        waits.store(if spins { SPINS } else { AWAKE }, Ordering::Release);
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

    /// Hangs up, as the kernel does for a process that is gone.
    pub(crate) fn cut(&self) {
        // A socket that the peer closed already cannot be cut.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Whether this end looks instead of sleeping.
    pub(crate) fn spins(&self) -> bool {
        self.signal == Signal::Spin
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
            Signal::Poll => self.polled_for_change(waited, limit)?,
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
        // The fence stands between store and load here as in `notify`: one of both ends sees what
        // the other stored, so no change goes by unnoticed.
        waited.waits.store(SLEEPS, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let slept = if waited.has_changed(Ordering::Acquire) {
            Ok(true)
        } else {
            self.system_calls += 1;
            kernel::sleep_on(waited.position, waited.seen, limit)
        };
        waited.waits.store(AWAKE, Ordering::Relaxed);
        slept
    }

    /// Asks the peer for a wake of the socket when it moves; false when it has moved.
    pub(crate) fn prepare_poll(&self, waited: Waited<'_>) -> bool {
        // The fence is that of `slept_for_change`.
        store_beside_swaps(waited.waits, POLLS);
        fence(Ordering::SeqCst);
        // The wish stays when it has moved: another thread may be polling, whom the peer has yet to wake.
        !waited.has_changed(Ordering::Acquire)
    }

    fn polled_for_change(
        &mut self,
        waited: Waited<'_>,
        limit: Duration,
    ) -> Result<bool, ChannelError> {
        if !self.prepare_poll(waited) {
            waited.waits.store(AWAKE, Ordering::Relaxed);
            return Ok(true);
        }
        let limit = Timespec {
            tv_sec: 0,
            tv_nsec: limit.subsec_nanos().into(),
        };
        self.system_calls += 1;
        let polled = {
            let mut polled = [PollFd::new(&*self.socket, PollFlags::IN)];
            rustix::event::poll(&mut polled, Some(&limit))
        };
        waited.waits.store(AWAKE, Ordering::Relaxed);
        match polled {
            Ok(0) => Ok(false),
            Ok(_) => {
                self.take_wakes()?;
                Ok(!self.hung_up)
            }
            Err(rustix::io::Errno::INTR) => Ok(true),
            Err(errno) => Err(system("poll of a channel's socket")(errno)),
        }
    }

    /// Takes a wish for a wake back; true when the peer has answered it. One that answers in this moment may go
    /// unnoticed: its wake is a useless one.
    pub(crate) fn stop_polling(&self, waits: &AtomicU32) -> bool {
        let was_answered = waits.load(Ordering::Relaxed) != POLLS;
        waits.store(AWAKE, Ordering::Relaxed);
        was_answered
    }

    /// The socket that a peer writes to in order to wake.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Takes wakes out of the socket; notes when the peer has hung up instead.
    pub(crate) fn take_wakes(&mut self) -> Result<(), ChannelError> {
        self.system_calls += 1;
        match kernel::take_wakes(&self.socket) {
            Ok(0) | Err(rustix::io::Errno::CONNRESET) => self.hung_up = true,
            Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(system("recv of a channel's wakes")(errno)),
        }
        Ok(())
    }

    /// Publishes `value` in `position` and wakes a peer that sleeps. A peer that spins costs no fence;
    /// one that lies about it waits for the end of its own sleep.
    #[inline]
    pub(crate) fn notify(
        &mut self,
        position: &AtomicU32,
        value: u32,
        peer_waits: &AtomicU32,
    ) -> Result<(), ChannelError> {
        position.store(value, Ordering::Release);
        if peer_waits.load(Ordering::Relaxed) == SPINS {
            return Ok(());
        }
        fence(Ordering::SeqCst);
        match peer_waits.load(Ordering::Relaxed) {
            AWAKE => Ok(()),
            POLLS => self.wake_poll(peer_waits),
            _ => self.wake(position),
        }
    }

    /// Answers the peer's wish for a wake, once.
    #[cold]
    fn wake_poll(&mut self, peer_waits: &AtomicU32) -> Result<(), ChannelError> {
        if peer_waits.swap(AWAKE, Ordering::AcqRel) != POLLS {
            return Ok(());
        }
        self.system_calls += 1;
        match kernel::send_wake(&self.socket) {
            // A socket without room is readable at its other end.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {
                self.hung_up = true;
                Ok(())
            }
            Err(errno) => Err(system("send of a channel's wake")(errno)),
        }
    }

    #[cold]
    fn wake(&mut self, position: &AtomicU32) -> Result<(), ChannelError> {
        self.system_calls += 1;
        kernel::wake_one(position)
    }

    /// Looks whether the peer's end of the socket is closed, as the kernel does however the peer ends.
    pub(crate) fn look(&mut self) -> Result<bool, ChannelError> {
        self.system_calls += 1;
        self.hung_up |= has_hung_up(&self.socket)?;
        Ok(self.hung_up)
    }
}

/// Whether the other end of `socket` is closed.
///
/// # Errors
/// A poll that the system refuses.
pub(crate) fn has_hung_up(socket: &UnixStream) -> Result<bool, ChannelError> {
    let mut polled = [PollFd::new(socket, PollFlags::empty())];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match rustix::event::poll(&mut polled, Some(&now)) {
        Ok(_) => Ok(polled[0]
            .revents()
            .intersects(PollFlags::HUP | PollFlags::ERR)),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(system("poll of a channel's socket")(errno)),
    }
}

/// Whether the end whose word this is sleeps, or is about to, and has to be woken.
#[inline]
pub(crate) fn needs_wake(waits: &AtomicU32) -> bool {
    !matches!(waits.load(Ordering::Relaxed), AWAKE | SPINS)
}

fn looked_for_change(waited: Waited<'_>, limit: Duration) -> bool {
    looked_for_any(&[waited], limit)
}

/// Looks at the positions until one has changed, or `limit` is over.
pub(crate) fn looked_for_any(waited: &[Waited<'_>], limit: Duration) -> bool {
    looked_until(|| has_any_changed(waited), limit)
}

/// Looks until `changed`, or `limit` is over; whether it has. The limit is a time and not a number of
/// looks, because a yield lasts as long as others want the processor.
pub(crate) fn looked_until(changed: impl Fn() -> bool, limit: Duration) -> bool {
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

/// Sleeps until one of the positions may have changed, for `limit` at most; whether one may. No end of
/// them may spin.
///
/// # Errors
/// What futex_waitv refuses.
pub(crate) fn slept_for_any(waited: &[Waited<'_>], limit: Duration) -> Result<bool, ChannelError> {
    for words in waited {
        words.waits.store(SLEEPS, Ordering::Relaxed);
    }
    fence(Ordering::SeqCst);
    let slept = if has_any_changed(waited) {
        Ok(true)
    } else {
        kernel::sleep_on_any(waited, limit)
    };
    for words in waited {
        words.waits.store(AWAKE, Ordering::Relaxed);
    }
    slept
}

pub(crate) fn has_any_changed(waited: &[Waited<'_>]) -> bool {
    waited
        .iter()
        .any(|words| words.has_changed(Ordering::Acquire))
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
                waits: &AtomicU32::new(AWAKE),
            };
            let seen = looked_for_change(waited, Duration::ZERO);
            assert_eq!(seen, changed, "position {position}, closed {closed}");
        }
    }
}
