//! Notes of messages in a store, handed over beside it.
//!
//! Messages without a note cost nothing here. A note is handed over before the end of its message is
//! published, so that the consumer has the note of every message whose end it reads.

use super::ring::Consumer;
use engine::Note;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Notes handed over by the producer, with the numbers of their messages. Each has a message end in
/// the store, which bounds how many there are.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Whether `handed_over` may hold some; read without the lock.
    has_handed_over: AtomicBool,
    handed_over: Mutex<VecDeque<(u64, Note)>>,
}

impl Notes {
    /// Hands over the note of message `number`, counted from 0. For the producer.
    pub(super) fn hand_over(&self, number: u64, note: Note) {
        let mut queue = self
            .handed_over
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        queue.push_back((number, note));
        drop(queue);
        self.has_handed_over.store(true, Ordering::Release);
    }

    /// Moves the notes handed over to `notes`. For the consumer.
    fn take_handed_over(&self, notes: &mut VecDeque<(u64, Note)>) {
        if self.has_handed_over.swap(false, Ordering::Acquire) {
            let mut queue = self
                .handed_over
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            notes.append(&mut queue);
        }
    }
}

impl Consumer {
    /// Takes the notes of all messages whose ends were taken. To be called after
    /// [`take_message_ends`](Consumer::take_message_ends).
    #[inline]
    pub fn take_notes(&mut self) {
        if let Some(notes) = self.ring.notes.get() {
            notes.take_handed_over(&mut self.notes);
        }
    }

    /// Whether a message that was not submitted has a note.
    #[inline]
    pub fn has_notes(&self) -> bool {
        !self.notes.is_empty()
    }

    /// The note of the message whose end was popped last.
    pub fn pop_note(&mut self) -> Note {
        let popped = self.message_ends_popped();
        let noted = self.notes.pop_front_if(|(number, _)| *number + 1 == popped);
        noted.map_or_else(Note::default, |(_, note)| note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::Layout;

    #[test]
    fn notes_come_with_their_messages() {
        let layout = Layout {
            header: 4,
            payload: 100,
            trailer: 0,
        };
        let (mut producer, mut consumer) = super::super::ring(layout, 1000);
        let note = |context| Note {
            context,
            ..Note::default()
        };
        assert!(producer.append_message(b"plain"));
        assert!(producer.append_noted([b"12", b"noted", b"3"], note(7)));
        assert!(producer.append_message(b"plain"));
        assert!(producer.append_noted([b"", b"", b""], note(8)));
        consumer.take_message_ends();
        consumer.take_notes();
        assert!(consumer.has_notes());
        let mut seen = Vec::new();
        while let Some(end) = consumer.pop_message_end(u64::MAX) {
            seen.push((end, consumer.pop_note().context));
        }
        assert_eq!(seen, [(5, 0), (13, 7), (18, 0), (18, 8)]);
        assert!(!consumer.has_notes());
    }
}
