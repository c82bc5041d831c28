//! The claim of one user to the wire's receiver.

use crate::sync::{AtomicBool, AtomicU64, Ordering};
use engine::Instant;

/// A user blocked in a receive; no other thread may receive meanwhile.
#[derive(Debug)]
pub(crate) struct ReceiveClaim {
    is_claimed: AtomicBool,
    /// When the receive must end. The helper interrupts it then.
    deadline_ns: AtomicU64,
}

impl Default for ReceiveClaim {
    fn default() -> ReceiveClaim {
        ReceiveClaim {
            is_claimed: AtomicBool::new(false),
            deadline_ns: AtomicU64::new(u64::MAX),
        }
    }
}

impl ReceiveClaim {
    /// The caller, who holds the lock of the pump, receives without it until `deadline_ns`.
    pub(crate) fn claim(&self, deadline_ns: u64) {
        self.deadline_ns.store(deadline_ns, Ordering::Relaxed);
        self.is_claimed.store(true, Ordering::Relaxed);
    }

    /// The caller holds the lock of the pump again.
    pub(crate) fn end(&self) {
        self.is_claimed.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn is_claimed(&self) -> bool {
        self.is_claimed.load(Ordering::Relaxed)
    }

    /// When the receive must end, if there is one with a limit.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let until = self.deadline_ns.load(Ordering::Relaxed);
        (self.is_claimed() && until < u64::MAX).then(|| Instant::from_nanos(until))
    }
}
