//! On which processor the helper thread runs service procedures.

use rustix::process::getpid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Processors that a set of the kernel has room for.
const PROCESSORS_MAX: usize = CpuSet::MAX_CPU;

/// Where service procedures run that were put off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Affinity {
    /// Where the kernel puts the helper.
    #[default]
    Any,
    /// On the processor on which the caller queued last, as in the study's systems.
    Same,
    /// On another one.
    Other,
}

impl Affinity {
    /// Whether this process has processors for it.
    ///
    /// # Errors
    ///
    /// A sentence when it has one alone.
    pub fn check(self) -> Result<(), String> {
        match self {
            Affinity::Other if allowed().count() < 2 => {
                let text = "affinity=other needs a second processor, and this process may run on one; leave it out";
                Err(text.into())
            }
            _ => Ok(()),
        }
    }
}

/// Processors of the process: its first thread's, as others may be bound more narrowly.
fn allowed() -> CpuSet {
    sched_getaffinity(Some(getpid())).unwrap_or_default()
}

/// Where the helper is.
#[derive(Default)]
pub(crate) struct Place {
    /// The processor that it is bound to.
    bound: Option<usize>,
}

impl Place {
    /// Moves the calling thread to where work is to run that was queued on processor `from`; returns whether it is on
    /// that one.
    pub(crate) fn go(&mut self, affinity: Affinity, from: usize) -> bool {
        let wanted = match affinity {
            Affinity::Any => None,
            Affinity::Same => Some(from),
            Affinity::Other => {
                let all = allowed();
                (0..PROCESSORS_MAX).find(|one| *one != from && all.is_set(*one))
            }
        };
        if wanted != self.bound && self.bind(wanted) {
            self.bound = wanted;
        }
        sched_getcpu() == from
    }

    /// Binds the calling thread to a processor, or to none; false when the kernel refuses.
    fn bind(&self, processor: Option<usize>) -> bool {
        let set = processor.map_or_else(allowed, |one| {
            let mut set = CpuSet::new();
            set.set(one);
            set
        });
        sched_setaffinity(None, &set).is_ok()
    }
}
