//! What the kernel does for waits: sleeps on words that both ends map (futex), and wakes through a socket.

use crate::error::{ChannelError, system};
use crate::wait::{Waited, has_any_changed};
use rustix::event::Timespec;
use rustix::net::{RecvFlags, SendFlags};
use rustix::thread::futex;
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Sleeps while `word` is `seen`, for `limit` at most, which is less than a second; false when that is over.
///
/// # Errors
/// What futex refuses.
pub(crate) fn sleep_on(word: &AtomicU32, seen: u32, limit: Duration) -> Result<bool, ChannelError> {
    let limit = Timespec {
        tv_sec: 0,
        tv_nsec: limit.subsec_nanos().into(),
    };
    match futex::wait(word, futex::Flags::empty(), seen, Some(&limit)) {
        Ok(()) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(true),
        Err(rustix::io::Errno::TIMEDOUT) => Ok(false),
        Err(errno) => Err(system("futex wait of a channel")(errno)),
    }
}

/// Wakes an end that sleeps on `word`.
///
/// # Errors
/// What futex refuses.
pub(crate) fn wake_one(word: &AtomicU32) -> Result<(), ChannelError> {
    futex::wake(word, futex::Flags::empty(), 1).map_err(system("futex wake of a channel"))?;
    Ok(())
}

/// Wakes all ends that sleep on `word`.
///
/// # Errors
/// What futex refuses.
pub(crate) fn wake_all(word: &AtomicU32) -> Result<(), ChannelError> {
    futex::wake(word, futex::Flags::empty(), i32::MAX as u32)
        .map_err(system("futex wake of a channel"))?;
    Ok(())
}

/// The octet by which a peer wakes an end that polls. Any other one does it too.
const WAKE: [u8; 1] = [1];

/// Makes the other end of `socket` readable.
///
/// # Errors
/// `AGAIN` when it is, by more than the socket holds; those of a peer that is gone.
pub(crate) fn send_wake(socket: &UnixStream) -> rustix::io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::send(socket, &WAKE, flags)
}

/// Takes wakes out of `socket`; 0 when the peer has hung up.
///
/// # Errors
/// `AGAIN` when there are none; those of a peer that is gone.
pub(crate) fn take_wakes(socket: &UnixStream) -> rustix::io::Result<usize> {
    // A peer that sends more leaves the socket readable, as one that wakes again does.
    let mut wakes = [0; 64];
    let (taken, _) = rustix::net::recv(socket, &mut wakes, RecvFlags::DONTWAIT)?;
    Ok(taken)
}

/// Most words that futex_waitv takes (futex.h, FUTEX_WAITV_MAX).
const WAITV_MAX: usize = 128;

/// Time between looks where the kernel cannot wake for all of the words: before Linux 5.16, and for more
/// than [`WAITV_MAX`].
const BLIND_SLEEP: Duration = Duration::from_millis(1);

/// Sleeps until one of the positions may have changed, for `limit` at most; whether one may.
///
/// # Errors
/// What futex_waitv refuses.
pub(crate) fn sleep_on_any(waited: &[Waited<'_>], limit: Duration) -> Result<bool, ChannelError> {
    if waited.len() > WAITV_MAX {
        return Ok(blind_sleep(waited, limit));
    }
    let entries: Vec<futex::Wait> = waited.iter().map(entry).collect();
    let flags = futex::WaitvFlags::empty();
    let clock = rustix::thread::ClockId::Monotonic;
    match futex::waitv(&entries, flags, Some(&from_now(limit)), clock) {
        Ok(_) | Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(true),
        Err(rustix::io::Errno::TIMEDOUT) => Ok(false),
        Err(rustix::io::Errno::NOSYS) => Ok(blind_sleep(waited, limit)),
        Err(errno) => Err(system("futex_waitv of channels")(errno)),
    }
}

/// When `limit`, which is less than a second, is over, as futex_waitv wants it.
fn from_now(limit: Duration) -> Timespec {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = now.tv_nsec + i64::from(limit.subsec_nanos());
    Timespec {
        tv_sec: now.tv_sec + nanos / 1_000_000_000,
        tv_nsec: nanos % 1_000_000_000,
    }
}

fn blind_sleep(waited: &[Waited<'_>], limit: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < limit {
        std::thread::sleep(limit.min(BLIND_SLEEP));
        if has_any_changed(waited) {
            return true;
        }
    }
    false
}

fn entry(words: &Waited<'_>) -> futex::Wait {
    let mut entry = futex::Wait::new();
    entry.val = u64::from(words.seen);
    entry.uaddr = futex::WaitPtr::new(words.position.as_ptr().cast());
    entry.flags = futex::WaitFlags::SIZE_U32;
    entry
}
