//! Messages on their way in.

use crate::messages::BufferPool;
use engine::{Block, IncomingMessage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Octets that messages on their way in may take together: peers say how long they are.
const OCTETS_MAX: u64 = 64 << 20;

/// A message on its way in.
enum Incoming {
    /// Its octets as far as they have come, and its length; those in between that have not come are
    /// zeros.
    Buffer(Vec<u8>, u64),
    /// There was no room for it.
    NoRoom,
}

/// Messages on their way in. One gets its memory with its first block.
pub(super) struct IncomingMessages {
    /// The one that the last block was of: blocks of a message come together.
    current: Option<(IncomingMessage, Incoming)>,
    /// The others.
    messages: BTreeMap<IncomingMessage, Incoming>,
    octets: u64,
    /// Buffers of messages that have left: where each is answered, as many as come, without a lock.
    spare: Vec<Vec<u8>>,
    buffers: Arc<BufferPool>,
}

/// Buffers in [`IncomingMessages::spare`], at most: of up to 64 KiB each.
const SPARE_MAX: usize = 8;

impl IncomingMessages {
    pub(super) fn new(buffers: Arc<BufferPool>) -> IncomingMessages {
        IncomingMessages {
            current: None,
            messages: BTreeMap::new(),
            octets: 0,
            spare: Vec::new(),
            buffers,
        }
    }

    /// Takes the buffer of a message that has left.
    pub(super) fn recycle(&mut self, octets: Vec<u8>) {
        match self.spare.len() < SPARE_MAX && BufferPool::keeps(&octets) {
            true => self.spare.push(octets),
            false => self.buffers.give(octets),
        }
    }

    /// An empty buffer with room for `len` octets.
    fn buffer(&mut self, len: usize) -> Vec<u8> {
        match self.spare.pop() {
            Some(mut buffer) if buffer.capacity() >= len => {
                buffer.clear();
                buffer
            }
            Some(short) => {
                self.buffers.give(short);
                self.buffers.take(len)
            }
            None => self.buffers.take(len),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.messages.len() + usize::from(self.current.is_some())
    }

    /// Octets that they take together.
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// Copies a block to its place.
    pub(super) fn keep(&mut self, block: &Block, octets: &[u8]) {
        if let Incoming::Buffer(buffer, _) = self.of_block(block) {
            put(buffer, block.offset as usize, octets);
        }
    }

    /// The message of a block, which is the current one from now on.
    fn of_block(&mut self, block: &Block) -> &mut Incoming {
        let known = match self.current.take() {
            Some((message, current)) if message == block.message => Some(current),
            Some((other, current)) => {
                self.messages.insert(other, current);
                self.messages.remove(&block.message)
            }
            None => self.messages.remove(&block.message),
        };
        let incoming = known.unwrap_or_else(|| self.begin(block.message_len));
        &mut self.current.insert((block.message, incoming)).1
    }

    /// A message of this length begins.
    fn begin(&mut self, len: u64) -> Incoming {
        if len > OCTETS_MAX - self.octets {
            return Incoming::NoRoom;
        }
        self.octets += len;
        Incoming::Buffer(self.buffer(len as usize), len)
    }

    /// Takes a message out.
    fn remove(&mut self, message: IncomingMessage) -> Option<Incoming> {
        let is_current = |current: &mut (IncomingMessage, Incoming)| current.0 == message;
        match self.current.take_if(is_current) {
            Some((_, current)) => Some(current),
            None => self.messages.remove(&message),
        }
    }

    /// A message that stays at this end becomes one that has come.
    pub(super) fn keep_copy(&mut self, message: IncomingMessage, octets: &[u8]) {
        let block = Block {
            message,
            message_len: octets.len() as u64,
            offset: 0,
            range: 0..octets.len(),
        };
        self.keep(&block, octets);
    }

    /// A message that is whole is another one as well; there is room for both, or for the first.
    pub(super) fn duplicate(&mut self, from: IncomingMessage, to: IncomingMessage) {
        match self.remove(from) {
            Some(Incoming::Buffer(octets, len)) => {
                self.keep_copy(to, &octets);
                self.messages.insert(from, Incoming::Buffer(octets, len));
            }
            Some(Incoming::NoRoom) => {
                self.messages.insert(from, Incoming::NoRoom);
                self.messages.insert(to, Incoming::NoRoom);
            }
            None => {}
        }
    }

    /// A message that is whole; None if there was no room for it. An empty one has no blocks.
    pub(super) fn take(&mut self, message: IncomingMessage) -> Option<Vec<u8>> {
        match self.remove(message) {
            Some(Incoming::Buffer(mut octets, len)) => {
                self.octets -= len;
                octets.resize(len as usize, 0);
                Some(octets)
            }
            Some(Incoming::NoRoom) => None,
            None => Some(Vec::new()),
        }
    }
}

/// Copies octets to their place; what lies between them and those before is zeros.
fn put(buffer: &mut Vec<u8>, at: usize, octets: &[u8]) {
    let end = at + octets.len();
    if at >= buffer.len() {
        buffer.resize(at, 0);
        return buffer.extend_from_slice(octets);
    }
    if end > buffer.len() {
        buffer.resize(end, 0);
    }
    buffer[at..end].copy_from_slice(octets);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(offset: u64, len: usize, message_len: u64) -> Block {
        Block {
            message: IncomingMessage(1),
            message_len,
            offset,
            range: 0..len,
        }
    }

    #[test]
    fn blocks_in_any_order_fill_the_message_and_holes_are_zeros() {
        let buffers = Arc::new(BufferPool::default());
        buffers.give(vec![9; 50]);
        let mut incoming = IncomingMessages::new(buffers);
        incoming.keep(&block(20, 5, 40), &[2; 5]);
        incoming.keep(&block(5, 5, 40), &[1; 5]);
        incoming.keep(&block(23, 4, 40), &[3; 4]);
        assert_eq!((incoming.len(), incoming.octets()), (1, 40));
        let mut wanted = vec![0; 40];
        wanted[5..10].fill(1);
        wanted[20..23].fill(2);
        wanted[23..27].fill(3);
        assert_eq!(incoming.take(IncomingMessage(1)), Some(wanted));
        assert_eq!((incoming.len(), incoming.octets()), (0, 0));
    }

    #[test]
    fn buffer_of_a_message_that_has_left_is_used_by_the_next_that_fits_it() {
        let mut incoming = IncomingMessages::new(Arc::default());
        let left = vec![9; 50];
        let place = left.as_ptr();
        incoming.recycle(left);
        incoming.keep(&block(0, 5, 5), &[1; 5]);
        let taken = incoming.take(IncomingMessage(1)).expect("it came");
        assert_eq!((taken.as_ptr(), &taken[..]), (place, &[1; 5][..]));
        incoming.recycle(taken);
        incoming.keep(&block(0, 5, 5000), &[2; 5]);
        let longer = incoming.take(IncomingMessage(1)).expect("it came");
        assert_eq!((longer.len(), longer[4], longer[5]), (5000, 2, 0));
        for _ in 0..2 * SPARE_MAX {
            incoming.recycle(vec![3; 10]);
        }
        assert_eq!(incoming.spare.len(), SPARE_MAX);
    }

    #[test]
    fn message_without_room_is_none() {
        let mut incoming = IncomingMessages::new(Arc::default());
        incoming.keep(&block(0, 1, OCTETS_MAX + 1), &[1]);
        assert_eq!(incoming.take(IncomingMessage(1)), None);
    }
}
