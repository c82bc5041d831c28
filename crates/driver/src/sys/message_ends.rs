//! Ends of messages on their way from the user to the engine.

use super::ring::Consumer;
use std::sync::atomic::Ordering;

impl Consumer {
    /// Takes the message ends that the producer has written since the last call.
    pub fn take_message_ends(&mut self) {
        let put = self.ring.producer.ends_put.load(Ordering::Acquire);
        let taken = self.ring.consumer.ends_taken.load(Ordering::Relaxed);
        if put == taken {
            return;
        }
        let base = self.ring.base.load(Ordering::Relaxed);
        let end = |index| self.ring.end(base, index).load(Ordering::Relaxed);
        if put - taken == 1 {
            self.message_ends.push_back(end(taken));
        } else {
            self.message_ends.extend((taken..put).map(end));
        }
        self.ring.consumer.ends_taken.store(put, Ordering::Release);
    }

    /// The next end of a message at or below `limit`, oldest first.
    pub fn pop_message_end(&mut self, limit: u64) -> Option<u64> {
        self.message_ends.pop_front_if(|end| *end <= limit)
    }

    /// Pops all ends of messages at or below `limit` but the last, oldest first.
    pub fn pop_message_ends(&mut self, limit: u64, mut take: impl FnMut(&[u64])) {
        if self.message_ends.len() < 2 {
            return;
        }
        let below = self.message_ends.partition_point(|end| *end <= limit);
        let count = below.saturating_sub(1);
        let (front, back) = self.message_ends.as_slices();
        let in_front = count.min(front.len());
        for ends in [&front[..in_front], &back[..count - in_front]] {
            if !ends.is_empty() {
                take(ends);
            }
        }
        self.message_ends.drain(..count);
    }

    /// Messages whose ends were taken and not popped.
    pub fn waiting_messages(&self) -> usize {
        self.message_ends.len()
    }

    /// How many ends of messages were popped.
    pub(super) fn message_ends_popped(&self) -> u64 {
        let taken = self.ring.consumer.ends_taken.load(Ordering::Relaxed);
        taken - self.message_ends.len() as u64
    }
}
