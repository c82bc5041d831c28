//! Room in a store that the user writes into: what is sent is written where it is sent from.

use super::producer::Producer;
use crate::wakeup::Permit;
use engine::{Framing, Layout, Note, record};
use std::marker::PhantomData;
use std::slice;
use std::sync::atomic::Ordering;

/// Room for a message in a send store: the pieces it lies in, in order.
///
/// A message lies in more than one piece where it continues in another packet. The pieces hold
/// octets of earlier messages, perhaps of other circuits: write all of them before
/// [`commit`](crate::Circuit::commit).
#[derive(Debug)]
pub struct Reserved<'a> {
    base: *mut u8,
    layout: Layout,
    /// Octets of the store.
    octets: usize,
    offset: usize,
    room: usize,
    /// User bytes left.
    left: usize,
    /// Octets in front of each piece that are not the user's.
    head_len: usize,
    /// A slot with less room than this is padded.
    room_min: usize,
    store: PhantomData<&'a mut [u8]>,
}

// SAFETY: it borrows the producer, which may move to another thread, exclusively.
unsafe impl Send for Reserved<'_> {}

impl Reserved<'_> {
    /// User bytes in the pieces left.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether no piece is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }
}

impl<'a> Iterator for Reserved<'a> {
    type Item = &'a mut [u8];

    fn next(&mut self) -> Option<&'a mut [u8]> {
        if self.left == 0 {
            return None;
        }
        let len = self.left.min(self.room - self.head_len);
        let start = self.offset + self.head_len;
        assert!(start + len <= self.octets, "a piece lies within the store");
        // SAFETY: `offset` and `room` describe the rest of a slot within the octets, has_space made
        // sure that there is memory and that the slots are the producer's, which is borrowed for
        // 'a; each piece is handed out once.
        let piece = unsafe { slice::from_raw_parts_mut(self.base.add(start), len) };
        self.left -= len;
        self.offset = start + len;
        self.room -= self.head_len + len;
        if self.room < self.room_min {
            self.offset += self.room + self.layout.trailer + self.layout.header;
            self.room = self.layout.payload;
            if self.offset >= self.octets {
                self.offset = self.layout.header;
            }
        }
        Some(piece)
    }
}

impl Producer {
    /// Reserves room for a message of `len` bytes, or bytes of a stream; false when there is none
    /// now. What is appended meanwhile takes the place, and the reservation is gone.
    pub fn reserve(&mut self, len: usize, framing: Framing) -> bool {
        let payload = self.ring.layout.payload;
        let has_room = match framing {
            Framing::Records => self.has_space(record::store_len_max(len, payload) as u64),
            Framing::Stream => self.has_space(len as u64),
            Framing::Messages => self.has_message_room(len as u64),
        };
        self.reserved = has_room.then_some((self.head, len));
        has_room
    }

    /// Whether there is a reservation to be committed.
    pub(super) fn has_reserved(&self) -> bool {
        self.reserved.is_some_and(|(head, _)| head == self.head)
    }

    /// The pieces of what was reserved last; none when that is gone.
    pub fn reserved(&mut self, framing: Framing) -> Reserved<'_> {
        let len = self.reserved.filter(|_| self.has_reserved());
        let (head_len, room_min) = match framing {
            Framing::Records => (record::FRAGMENT_HEADER_LEN, record::FRAGMENT_ROOM_MIN),
            Framing::Stream | Framing::Messages => (0, 1),
        };
        Reserved {
            base: self.base,
            layout: self.ring.layout,
            octets: self.ring.octets(),
            offset: self.offset,
            room: self.room,
            left: len.map_or(0, |(_, len)| len),
            head_len,
            room_min,
            store: PhantomData,
        }
    }

    /// Appends what was written into the pieces reserved last; false when there is no reservation,
    /// or something was appended since.
    pub fn commit(&mut self, framing: Framing, note: Note) -> bool {
        let Some((head, len)) = self.reserved.take() else {
            return false;
        };
        if head != self.head {
            return false;
        }
        match framing {
            Framing::Records => self.commit_record(len),
            Framing::Stream => self.skip(len as u64),
            Framing::Messages => {
                self.skip(len as u64);
                self.hand_over_note(note);
                self.end_message();
            }
        }
        self.ring.producer.head.store(self.head, Ordering::Release);
        true
    }

    /// Appends the first `len` bytes of a stream of those reserved last, at least one, and gives up the rest.
    pub fn commit_front(&mut self, len: usize) {
        let reserved = self.reserved.take().filter(|&(head, _)| head == self.head);
        let len = reserved.map_or(0, |(_, reserved)| len.min(reserved));
        self.skip(len as u64);
        self.ring.producer.head.store(self.head, Ordering::Release);
    }

    /// Gives up what was reserved last, and what an empty store took for it: its permit, which no acknowledgement would
    /// end, and its memory. Under the lock of the pump, as the user may not come back.
    pub fn give_up_reserved(&mut self) {
        self.reserved = None;
        if self.ring.consumer.tail.load(Ordering::Acquire) == self.head {
            self.ring.release_permit(Permit::Held, Permit::Expired);
        }
        self.leave();
    }

    /// Writes the headers in front of the pieces of a record.
    fn commit_record(&mut self, len: usize) {
        let mut left = len;
        loop {
            let take = left.min(self.room - record::FRAGMENT_HEADER_LEN);
            let head = record::fragment_header(take, left == len, left == take);
            self.write_octets(&head);
            self.advance(take);
            self.pad_slot();
            left -= take;
            if left == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    const LAYOUT: Layout = Layout {
        header: 4,
        payload: 100,
        trailer: 3,
    };

    /// The bytes of the store at `range`, as they are sent.
    fn sent(consumer: &mut super::super::Consumer, range: std::ops::Range<u64>) -> Vec<u8> {
        let mut octets = Vec::new();
        consumer.copy(&range, &mut octets);
        octets
    }

    #[test]
    fn committed_bytes_equal_appended_bytes() {
        for framing in [Framing::Records, Framing::Stream, Framing::Messages] {
            let mut random = SplitMix64::new(5);
            let (mut appends, mut appended) = super::super::ring(LAYOUT, 1000);
            let (mut commits, mut committed) = super::super::ring(LAYOUT, 1000);
            let (mut tail, mut written) = (0, Vec::new());
            for round in 0..3000u32 {
                let len = random.below(400) as usize;
                let message: Vec<u8> = (0..len).map(|_| random.next_u64() as u8).collect();
                let done = match framing {
                    Framing::Records => appends.append_record(&message),
                    Framing::Stream => appends.append_bytes(&message),
                    Framing::Messages => appends.append_message(&message),
                };
                assert_eq!(commits.reserve(len, framing), done, "{framing:?} {round}");
                let mut rest = &message[..];
                let pieces = commits.reserved(framing);
                assert_eq!(pieces.len(), if done { len } else { 0 });
                for piece in pieces {
                    let (front, after) = rest.split_at(piece.len());
                    piece.copy_from_slice(front);
                    rest = after;
                }
                assert_eq!(commits.commit(framing, Note::default()), done);
                if done {
                    written.extend_from_slice(&message);
                }
                let head = appended.head();
                assert_eq!(committed.head(), head, "{framing:?} {round}");
                for consumer in [&mut appended, &mut committed] {
                    consumer.take_message_ends();
                }
                let ends = |consumer: &mut super::super::Consumer| {
                    std::iter::from_fn(|| consumer.pop_message_end(u64::MAX)).collect::<Vec<_>>()
                };
                assert_eq!(ends(&mut committed), ends(&mut appended));
                let whole = sent(&mut committed, tail..head);
                assert!(
                    whole == sent(&mut appended, tail..head),
                    "{framing:?} {round}"
                );
                assert!(framing == Framing::Records || whole == written);
                if random.below(3) == 0 || !done {
                    tail = head;
                    written.clear();
                    for consumer in [&mut appended, &mut committed] {
                        consumer.release(0..tail);
                    }
                    appends.release_memory();
                    commits.release_memory();
                }
            }
        }
    }

    #[test]
    fn front_of_a_reservation_is_sent_and_the_rest_given_up() {
        let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
        for (round, written) in [150, 1, 300, 7].into_iter().enumerate() {
            let fill = round as u8 + 1;
            assert!(producer.reserve(300, Framing::Stream));
            for piece in producer.reserved(Framing::Stream) {
                piece.fill(fill);
            }
            let before = consumer.head();
            producer.commit_front(written);
            assert_eq!(consumer.head(), before + written as u64);
            let range = before..consumer.head();
            let octets = sent(&mut consumer, range);
            assert_eq!(octets, vec![fill; written]);
        }
    }

    #[test]
    fn reservation_given_up_leaves_nothing_with_an_empty_store() {
        // More than a store takes without a permit.
        const LEN: usize = 100_000;
        for sent_len in [0, 10] {
            let (mut producer, mut consumer) = super::super::ring(LAYOUT, 2 * LEN);
            assert!(producer.append_bytes(&[1; 10][..sent_len]));
            assert!(producer.reserve(LEN, Framing::Stream));
            assert_eq!(producer.ring.permit(), Permit::Held);
            producer.give_up_reserved();
            assert_eq!(producer.reserved(Framing::Stream).count(), 0);
            let kept = if sent_len > 0 {
                Permit::Held
            } else {
                Permit::Expired
            };
            assert_eq!(producer.ring.permit(), kept, "{sent_len} bytes");
            consumer.release(0..consumer.head());
            assert_eq!(producer.ring.permit(), Permit::Expired, "{sent_len} bytes");
        }
    }

    #[test]
    fn reservation_is_gone_after_an_append() {
        let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
        assert!(!producer.commit(Framing::Stream, Note::default()), "none");
        assert!(producer.reserve(10, Framing::Stream));
        producer.release_memory();
        assert!(producer.has_memory(), "a reservation keeps the memory");
        assert!(producer.append_bytes(b"first"));
        assert_eq!(producer.reserved(Framing::Stream).count(), 0);
        assert!(!producer.commit(Framing::Stream, Note::default()));
        assert_eq!(consumer.head(), 5);
        consumer.release(0..5);
        producer.release_memory();
        assert!(!producer.has_memory(), "a lost reservation keeps nothing");
    }
}
