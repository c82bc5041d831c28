//! Messages on their way out, and buffers that are used again.

use engine::OutgoingMessage;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The octets of a message: shared with the user, or the endpoint's alone.
#[derive(Clone, Debug)]
pub enum Message {
    /// Shared: nothing is copied.
    Shared(Arc<[u8]>),
    /// The endpoint's; its memory is used again for another message.
    Own(Vec<u8>),
}

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Message::Shared(octets) => octets,
            Message::Own(octets) => octets,
        }
    }
}

impl From<Arc<[u8]>> for Message {
    fn from(octets: Arc<[u8]>) -> Message {
        Message::Shared(octets)
    }
}

impl From<Vec<u8>> for Message {
    fn from(octets: Vec<u8>) -> Message {
        Message::Own(octets)
    }
}

impl From<Box<[u8]>> for Message {
    fn from(octets: Box<[u8]>) -> Message {
        Message::Own(octets.into())
    }
}

impl From<&[u8]> for Message {
    fn from(octets: &[u8]) -> Message {
        Message::Own(octets.into())
    }
}

impl<const LEN: usize> From<&[u8; LEN]> for Message {
    fn from(octets: &[u8; LEN]) -> Message {
        Message::Own(octets.into())
    }
}

/// Messages that an engine has not released, each in a slot whose number is the lower half of its name;
/// the upper half counts the messages that the slot has had.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    uses: u32,
    message: Option<Message>,
}

impl Messages {
    /// Keeps a message; its name and its length.
    pub(crate) fn insert(&mut self, message: Message) -> (OutgoingMessage, u64) {
        let len = message.len() as u64;
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                uses: 0,
                message: None,
            });
            self.slots.len() as u32 - 1
        });
        let slot = &mut self.slots[number as usize];
        slot.uses = slot.uses.wrapping_add(1);
        slot.message = Some(message);
        let name = u64::from(slot.uses) << 32 | u64::from(number);
        (OutgoingMessage(name), len)
    }

    /// The message with a name, unless it was removed.
    #[inline]
    pub(crate) fn get(&self, name: OutgoingMessage) -> Option<&Message> {
        let slot = self.slots.get(name.0 as u32 as usize)?;
        let message = slot.message.as_ref();
        message.filter(|_| slot.uses == (name.0 >> 32) as u32)
    }

    /// Takes a message out.
    pub(crate) fn remove(&mut self, name: OutgoingMessage) -> Option<Message> {
        self.get(name)?;
        let number = name.0 as u32;
        self.free.push(number);
        self.slots[number as usize].message.take()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Buffers that wait for their next message, at most, and the capacity of the largest: 4 MiB in all.
const BUFFERS_MAX: usize = 64;
const CAPACITY_MAX: usize = 64 << 10;

/// Buffers of messages that are over.
#[derive(Debug, Default)]
pub(crate) struct BufferPool(Mutex<Vec<Vec<u8>>>);

impl BufferPool {
    /// An empty buffer with room for `len` octets.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let pooled = if len <= CAPACITY_MAX {
            self.lock().pop()
        } else {
            None
        };
        let mut buffer = pooled.unwrap_or_default();
        buffer.reserve_exact(len);
        buffer
    }

    /// Whether a buffer is worth keeping: not one without memory, or with much of it.
    pub(crate) fn keeps(buffer: &Vec<u8>) -> bool {
        (1..=CAPACITY_MAX).contains(&buffer.capacity())
    }

    /// Takes a buffer back.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        if BufferPool::keeps(&buffer) {
            buffer.clear();
            let mut buffers = self.lock();
            if buffers.len() < BUFFERS_MAX {
                buffers.push(buffer);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_removed_message_names_no_other() {
        let mut messages = Messages::default();
        let (first, len) = messages.insert(Message::from(&[1, 2, 3]));
        assert_eq!((len, messages.len()), (3, 1));
        assert_eq!(messages.remove(first).as_deref(), Some(&[1, 2, 3][..]));
        let (second, _) = messages.insert(Message::from(&[4]));
        assert_ne!(first, second);
        assert!(messages.get(first).is_none() && messages.remove(first).is_none());
        assert_eq!(messages.get(second).map(|message| message.len()), Some(1));
        assert_eq!(messages.len(), 1);
    }

    #[test]
    fn pool_keeps_so_many_buffers_and_none_that_is_too_large() {
        let pool = BufferPool::default();
        pool.give(Vec::with_capacity(CAPACITY_MAX + 1));
        pool.give(Vec::new());
        assert_eq!(pool.lock().len(), 0);
        for _ in 0..=BUFFERS_MAX {
            pool.give(vec![7; 100]);
        }
        assert_eq!(pool.lock().len(), BUFFERS_MAX);
        let buffer = pool.take(200);
        assert!(buffer.is_empty() && buffer.capacity() >= 200);
    }
}
