//! Messages that the peer's user does not get, or may not get, kept for the user who sent them.

use engine::{AbandonedMessage, Note};
use std::collections::VecDeque;

/// A message that was given up, or that was not acknowledged when its association ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedMessage {
    /// Its bytes; without a front that the peer has, unless it is whole.
    pub bytes: Vec<u8>,
    /// They begin with its first.
    pub is_whole: bool,
    /// Something of it was sent: the peer may have it.
    pub was_sent: bool,
    /// What travelled with it, and its user's context.
    pub note: Note,
}

/// Octets of failed messages that wait for a user, with 128 octets for each: as much as the largest send
/// store that transports offer. Of a user who takes none the oldest are forgotten.
const FAILED_OCTETS_MAX: usize = 64 << 20;

/// Octets that a message takes besides its bytes.
const FAILED_OVERHEAD: usize = 128;

const _: () = assert!(size_of::<FailedMessage>() <= FAILED_OVERHEAD);

/// Messages that wait for their user.
#[derive(Debug, Default)]
pub(crate) struct FailedMessages {
    messages: VecDeque<FailedMessage>,
    octets: usize,
}

impl FailedMessages {
    /// Adds a message whose bytes are copied to a list by `copy`.
    pub(crate) fn add(&mut self, message: &AbandonedMessage, copy: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        copy(&mut bytes);
        self.octets += bytes.len() + FAILED_OVERHEAD;
        self.messages.push_back(FailedMessage {
            bytes,
            is_whole: message.is_whole,
            was_sent: message.was_sent,
            note: message.note,
        });
        while self.octets > FAILED_OCTETS_MAX {
            self.pop();
        }
    }

    /// The oldest.
    pub(crate) fn pop(&mut self) -> Option<FailedMessage> {
        let message = self.messages.pop_front()?;
        self.octets -= message.bytes.len() + FAILED_OVERHEAD;
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oldest_messages_are_forgotten_when_nobody_takes_them() {
        let mut failed = FailedMessages::default();
        for context in 0..5 {
            let message = AbandonedMessage {
                range: 0..1,
                note: Note {
                    context,
                    ..Note::default()
                },
                was_sent: true,
                is_whole: true,
            };
            failed.add(&message, |bytes| bytes.resize(FAILED_OCTETS_MAX / 3, 7));
        }
        let left: Vec<u64> = core::iter::from_fn(|| failed.pop())
            .map(|message| message.note.context)
            .collect();
        assert_eq!(left, [3, 4]);
        assert_eq!(failed.octets, 0);
    }
}
