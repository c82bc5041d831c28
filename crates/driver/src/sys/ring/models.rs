//! Models of the send store, in every order of its two threads (loom): rule 5 of `wakeup`.
//!
//! loom knows of each access to the cells, one a slot, and reports two that are not ordered.

use super::*;
use crate::sys::Producer;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const LAYOUT: Layout = Layout {
    header: 2,
    payload: 4,
    trailer: 0,
};

const SLOTS: usize = 2;
/// With one more than slots, the first slot is used again.
const MESSAGES: u64 = 3;

/// Runs a model with at most so many switches of a thread that could go on: all orders that two or
/// three untimely switches bring about.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(run);
}

/// Sends messages of a slot each by `append`, which is called when there is room, and leaves the store by `leave`; what
/// the consumer finds below the head was written before, and the producer writes into a slot again only after the
/// consumer has read it.
fn slots_have_one_owner(
    messages: u64,
    append: fn(&mut Producer, &[u8]) -> bool,
    leave: fn(&mut Producer),
) {
    model(move || {
        let cells = Arc::new([(); SLOTS].map(|()| UnsafeCell::new(())));
        let (mut producer, mut consumer) = crate::sys::ring(LAYOUT, SLOTS * LAYOUT.payload);
        let owned = Arc::clone(&cells);
        let writer = thread::spawn(move || {
            for number in 0..messages {
                while !producer.has_space(LAYOUT.payload as u64) {
                    thread::yield_now();
                }
                owned[number as usize % SLOTS].with_mut(|_| ());
                assert!(append(&mut producer, &[number as u8; 4]));
                leave(&mut producer);
            }
        });
        for number in 0..messages {
            let packet = number * 4..(number + 1) * 4;
            while consumer.head() < packet.end {
                thread::yield_now();
            }
            consumer.take_message_ends();
            let end = consumer.pop_message_end(packet.end);
            assert!(end.is_none_or(|end| end == packet.end));
            cells[number as usize % SLOTS].with(|_| ());
            let mut octets = Vec::new();
            consumer.copy(&packet, &mut octets);
            assert_eq!(octets, [number as u8; 4]);
            consumer.release(packet);
        }
        writer.join().unwrap();
    });
}

#[test]
fn models_stream_slots_have_one_owner() {
    slots_have_one_owner(MESSAGES, Producer::append_bytes, |_| ());
}

#[test]
fn models_messages_end_where_they_were_written() {
    slots_have_one_owner(MESSAGES, Producer::append_message, |_| ());
}

#[test]
fn models_memory_is_released_only_when_read() {
    slots_have_one_owner(MESSAGES, Producer::append_message, Producer::release_memory);
}

#[test]
fn models_parked_memory_has_one_owner() {
    slots_have_one_owner(2, Producer::append_message, Producer::release_or_park);
}

/// A user who leaves under the lock under which bytes are released leaves no memory behind.
#[test]
fn models_parked_memory_goes_with_the_last_byte() {
    model(|| {
        let (mut producer, mut consumer) = crate::sys::ring(LAYOUT, SLOTS * LAYOUT.payload);
        let ring = std::sync::Arc::clone(&producer.ring);
        let pump = Arc::new(loom::sync::Mutex::new(()));
        let lock = Arc::clone(&pump);
        let writer = thread::spawn(move || {
            for number in 0..2 {
                assert!(producer.append_bytes(&[number; 4]));
                let _pump = lock.lock().unwrap();
                producer.release_or_park();
            }
        });
        for end in [4, 8] {
            while consumer.head() < end {
                thread::yield_now();
            }
            let _pump = pump.lock().unwrap();
            consumer.release(end - 4..end);
        }
        writer.join().unwrap();
        assert!(ring.memory.take().is_none());
    });
}
