//! The processes of a main processor that wait for it.

use crate::host::{PROCESSES, Process};

/// Processes in the order in which they are to be served, each at most once.
#[derive(Debug, Default)]
pub(crate) struct RunQueue {
    /// Those that wait, from `first` on, cyclically.
    waiting: [u8; PROCESSES.len()],
    first: u8,
    len: u8,
}

impl RunQueue {
    /// Queues a process, unless it is queued already.
    #[inline]
    pub(crate) fn push(&mut self, process: Process) {
        if !self.contains(process) {
            self.waiting[self.place(self.len)] = process as u8;
            self.len += 1;
        }
    }

    /// The process to serve next.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<Process> {
        if self.len == 0 {
            return None;
        }
        let next = PROCESSES[usize::from(self.waiting[self.place(0)])];
        self.first = self.place(1) as u8;
        self.len -= 1;
        Some(next)
    }

    #[inline]
    pub(crate) fn contains(&self, process: Process) -> bool {
        (0..self.len).any(|nth| self.waiting[self.place(nth)] == process as u8)
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&self, nth: u8) -> usize {
        usize::from(self.first + nth) % PROCESSES.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;
    use std::collections::VecDeque;

    #[test]
    fn processes_are_served_once_in_the_order_of_queueing() {
        let (mut queue, mut model) = (RunQueue::default(), VecDeque::new());
        let mut random = SplitMix64::new(4);
        for _ in 0..2000 {
            let process = PROCESSES[random.below(4) as usize];
            if random.below(5) < 3 {
                queue.push(process);
                if !model.contains(&process) {
                    model.push_back(process);
                }
            } else {
                assert_eq!(queue.pop(), model.pop_front());
            }
            assert_eq!(queue.is_empty(), model.is_empty());
            assert_eq!(queue.contains(process), model.contains(&process));
        }
    }
}
