//! Word of loops that send and receive at once: all is sent, while they still receive.

use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Becomes readable when the last of a worker's loops has sent all.
#[derive(Debug)]
pub(crate) struct SentNotice {
    loops_left: AtomicUsize,
    sent: AtomicU64,
    event: OwnedFd,
}

impl SentNotice {
    /// For this many loops. Errors: no descriptor is left.
    pub(crate) fn new(loops: usize) -> std::io::Result<SentNotice> {
        Ok(SentNotice {
            loops_left: AtomicUsize::new(loops),
            sent: AtomicU64::new(0),
            event: eventfd(0, EventfdFlags::CLOEXEC)?,
        })
    }

    /// A loop has sent this many messages, and sends no more.
    pub(crate) fn add(&self, sent: u64) {
        self.sent.fetch_add(sent, Ordering::Relaxed);
        if self.loops_left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // A counter that was never read takes another one.
            let _ = rustix::io::write(&self.event, &1u64.to_ne_bytes());
        }
    }

    /// Messages of the loops that have sent all.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl AsFd for SentNotice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(notice: &SentNotice) -> bool {
        let mut ready = [PollFd::new(notice, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::default())).expect("it can be polled") == 1
    }

    #[test]
    fn last_loop_makes_it_readable() {
        let notice = SentNotice::new(2).expect("a descriptor");
        notice.add(5);
        assert!(!is_readable(&notice));
        notice.add(7);
        assert!(is_readable(&notice));
        assert_eq!(notice.sent(), 12);
    }
}
