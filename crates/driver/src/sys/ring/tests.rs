//! What is gathered is what was written.

use super::*;
use crate::lend::Buffer;
use crate::sys::{PageBuffer, Producer};
use engine::{Address, AssociationId, Batch, Integrity, SplitMix64, Store};

const LAYOUT: Layout = Layout {
    header: 4,
    payload: 100,
    trailer: 0,
};

fn gathered(consumer: &mut Consumer, ranges: &[Range<u64>]) -> Vec<u8> {
    let mut batch = Batch::new(ranges.len());
    let id = AssociationId(0);
    batch.set_path(Address::Station(0), Some(id));
    for range in ranges {
        let store = Store::Association(id);
        batch.push(&[0xee; 4], store, range.clone(), Integrity::None);
    }
    let mut slices = Vec::new();
    consumer.gather(&batch, &mut slices);
    slices.iter().flat_map(|piece| piece.to_vec()).collect()
}

fn expected(sent: &[u8], ranges: &[Range<u64>]) -> Vec<u8> {
    let packet = |range: &Range<u64>| {
        let bytes = &sent[range.start as usize..range.end as usize];
        [&[0xee; 4][..], bytes].concat()
    };
    ranges.iter().flat_map(packet).collect()
}

#[test]
fn gathered_bytes_equal_written_bytes() {
    let mut random = SplitMix64::new(11);
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    let (mut sent, mut tail, mut releases) = (Vec::new(), 0u64, 0);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..1 + random.below(250))
            .map(|_| random.next_u64() as u8)
            .collect();
        if producer.append_bytes(&bytes) {
            sent.extend_from_slice(&bytes);
        }
        let head = consumer.head();
        assert_eq!(head, sent.len() as u64);
        let start = tail + random.below(head - tail);
        let end = head.min(start + 1 + random.below(100));
        let range = start..end;
        let ranges = std::slice::from_ref(&range);
        assert_eq!(gathered(&mut consumer, ranges), expected(&sent, ranges));
        let whole = &sent[start as usize..end as usize];
        let mut visited = Vec::new();
        consumer.visit(&range, &mut |bytes| visited.extend_from_slice(bytes));
        assert_eq!(visited, whole);
        let mut copied = Vec::new();
        consumer.copy(&range, &mut copied);
        assert_eq!(copied, whole);
        tail = [tail, start, end, head][random.below(4) as usize].max(tail);
        consumer.release(0..tail);
        producer.release_memory();
        releases += u32::from(!producer.has_memory());
    }
    assert!(
        releases > 1000,
        "the memory went back only {releases} times"
    );
}

#[test]
#[should_panic(expected = "outside the store")]
fn gather_beyond_head_panics() {
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    assert!(producer.append_bytes(&[1; 10]));
    gathered(&mut consumer, std::slice::from_ref(&(5..11)));
}

#[test]
#[should_panic(expected = "a slot twice")]
fn gather_of_slot_named_twice_panics() {
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    assert!(producer.append_bytes(&[1; 200]));
    gathered(&mut consumer, &[0..100, 100..200, 0..100]);
}

#[test]
fn gather_of_slots_in_any_order_sends_each() {
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    let sent: Vec<u8> = (0..250).collect();
    assert!(producer.append_bytes(&sent));
    let ranges = [100..200, 0..100, 200..250];
    assert_eq!(gathered(&mut consumer, &ranges), expected(&sent, &ranges));
}

#[test]
#[should_panic(expected = "was returned")]
fn gather_of_returned_loan_panics() {
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    assert!(producer.append_bytes(&[1; 100]));
    assert!(producer.append_lent(vec![2; 300].into(), false).is_ok());
    let head = consumer.head();
    consumer.take_loans();
    assert_eq!(head, 400);
    consumer.return_all_loans();
    gathered(&mut consumer, std::slice::from_ref(&(100..200)));
}

#[test]
fn store_of_shorter_layout_gathers_what_was_written() {
    let short = Layout {
        payload: 30,
        ..LAYOUT
    };
    let pool = StorePool::new(LAYOUT, 1000);
    let (mut producer, mut consumer) = pool.store(AssociationId(1), short);
    let mut sent = Vec::new();
    for round in 0..500u32 {
        let bytes = vec![round as u8; 1 + round as usize % 90];
        if producer.append_bytes(&bytes) {
            sent.extend_from_slice(&bytes);
        }
        let head = consumer.head();
        let start = head.saturating_sub(61);
        let range = start..head.min(start + 30);
        let ranges = std::slice::from_ref(&range);
        assert_eq!(gathered(&mut consumer, ranges), expected(&sent, ranges));
        consumer.release(0..start);
        producer.release_memory();
    }
    assert!(sent.len() > 10_000, "{}", sent.len());
}

/// Empty stores keep their memory while there are two of them, within their first slot; the pool has that of all
/// others.
#[test]
fn one_or_two_stores_keep_their_memory_within_the_first_slot() {
    let pool = StorePool::new(LAYOUT, 1000);
    let send_all = |(producer, consumer): &mut (Producer, Box<Consumer>), bytes: usize| {
        assert!(producer.append_bytes(&vec![1; bytes]));
        consumer.release(0..consumer.head());
        producer.leave();
        producer.has_memory()
    };
    let mut stores = [1, 2, 3].map(|id| pool.store(AssociationId(id), LAYOUT));
    let [first, second, third] = &mut stores;
    assert!(send_all(first, 40));
    assert!(send_all(second, 40));
    assert!(!send_all(third, 40), "a third one gives it back");
    assert!(send_all(first, 40), "two keep it again");
    assert!(
        !send_all(first, 40),
        "the next byte lies in the second slot"
    );
    assert!(send_all(first, 40), "it begins anew");
}

/// Three stores of a pool, two of which have memory that they keep.
fn third_of_three(pool: &Arc<StorePool>) -> [(Producer, Box<Consumer>); 3] {
    let mut stores = [1, 2, 3].map(|id| pool.store(AssociationId(id), LAYOUT));
    for (producer, _) in &mut stores[..2] {
        assert!(producer.append_bytes(&[1; 40]));
        producer.leave();
        assert!(producer.has_memory());
    }
    stores
}

#[test]
fn memory_of_a_store_that_was_left_goes_with_its_last_byte() {
    let pool = StorePool::new(LAYOUT, 1000);
    let [_first, _second, (mut producer, mut consumer)] = third_of_three(&pool);
    assert!(producer.append_message(&[3; 150]));
    producer.leave();
    assert!(!producer.has_memory() && !pool.is_kept_by_stores());
    consumer.take_message_ends();
    assert_eq!(consumer.pop_message_end(150), Some(150));
    consumer.release(0..100);
    assert!(!pool.is_kept_by_stores(), "50 bytes are needed yet");
    let mut octets = Vec::new();
    consumer.copy(&(100..150), &mut octets);
    assert_eq!(octets, [3; 50]);
    consumer.release(100..150);
    assert!(pool.is_kept_by_stores(), "the pool has the memory");
    assert!(producer.append_message(&[4; 10]), "and gives it again");
    octets.clear();
    consumer.copy(&(150..160), &mut octets);
    assert_eq!(octets, [4; 10]);
}

/// However often its user leaves and comes back, a store holds what was written.
#[test]
fn a_store_that_was_left_holds_what_was_written() {
    let pool = StorePool::new(LAYOUT, 1000);
    let [_first, _second, (mut producer, mut consumer)] = third_of_three(&pool);
    let mut random = SplitMix64::new(12);
    let (mut sent, mut tail, mut claimed, mut acquired) = (Vec::new(), 0, 0, 0);
    for round in 0..20_000u32 {
        let bytes = vec![round as u8; 1 + random.below(250) as usize];
        let is_empty = consumer.is_empty();
        if producer.append_bytes(&bytes) {
            sent.extend_from_slice(&bytes);
            claimed += u32::from(!is_empty);
            acquired += u32::from(is_empty);
        }
        producer.leave();
        assert!(!producer.has_memory());
        let mut octets = Vec::new();
        consumer.copy(&(tail..consumer.head()), &mut octets);
        assert_eq!(octets, &sent[tail as usize..]);
        tail = [
            tail,
            tail + random.below(consumer.head() - tail),
            consumer.head(),
        ][random.below(3) as usize];
        consumer.release(0..tail);
        assert_eq!(pool.is_kept_by_stores(), consumer.is_empty());
    }
    assert!(claimed > 1000 && acquired > 1000, "{claimed} {acquired}");
}

#[test]
fn a_reservation_is_not_left() {
    let pool = StorePool::new(LAYOUT, 1000);
    let [_first, _second, (mut producer, mut consumer)] = third_of_three(&pool);
    assert!(producer.append_bytes(&[1; 10]));
    assert!(producer.reserve(5, engine::Framing::Stream));
    producer.leave();
    assert!(producer.has_memory());
    producer
        .reserved(engine::Framing::Stream)
        .for_each(|piece| piece.fill(2));
    consumer.release(0..10);
    assert!(producer.commit(engine::Framing::Stream, engine::Note::default()));
    let mut octets = Vec::new();
    consumer.copy(&(10..15), &mut octets);
    assert_eq!(octets, [2; 5]);
}

/// A batch of packets with `header` and these bytes.
fn batch_of(header: [u8; 4], ranges: &[(u64, u64)]) -> Batch {
    let mut batch = Batch::new(ranges.len());
    let id = AssociationId(0);
    batch.set_path(Address::Station(0), Some(id));
    for &(start, end) in ranges {
        let store = Store::Association(id);
        batch.push(&header, store, start..end, Integrity::None);
    }
    batch
}

#[test]
fn packets_that_the_wire_refers_to_are_sent_again_from_elsewhere() {
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    assert!(producer.append_bytes(&[7; 500]));
    let first = batch_of([1; 4], &[(0, 100), (100, 200)]);
    let mut slices = Vec::new();
    assert!(consumer.gather(&first, &mut slices), "all are in place");
    assert_eq!(slices.len(), 1);
    consumer.mark_referenced(&first);
    let before = consumer.io_slice(0..208).to_vec();
    for ranges in [
        &[(0, 100)][..],
        &[(100, 200)],
        &[(50, 150)],
        &[(100, 200), (200, 300)],
    ] {
        let again = batch_of([2; 4], ranges);
        let mut slices = Vec::new();
        assert!(!consumer.gather(&again, &mut slices), "{ranges:?}");
        let octets: Vec<u8> = slices.iter().flat_map(|piece| piece.to_vec()).collect();
        let expected: Vec<u8> = (ranges.iter())
            .flat_map(|(start, end)| [&[2; 4][..], &vec![7; (end - start) as usize]].concat())
            .collect();
        assert_eq!(octets, expected);
        assert_eq!(*consumer.io_slice(0..208), before, "{ranges:?}");
    }
    let next = batch_of([3; 4], &[(200, 300)]);
    assert!(consumer.gather(&next, &mut Vec::new()));
}

/// What a new store finds in its memory after another, which began with a batch, has ended.
fn found_after(is_referenced: bool, is_acknowledged: bool) -> Vec<u8> {
    let pool = StorePool::new(LAYOUT, 1000);
    let (mut producer, mut consumer) = pool.store(AssociationId(0), LAYOUT);
    assert!(producer.append_bytes(&[7; 300]));
    let batch = batch_of([1; 4], &[(0, 100), (100, 200)]);
    assert!(consumer.gather(&batch, &mut Vec::new()));
    if is_referenced {
        consumer.mark_referenced(&batch);
    }
    if is_acknowledged {
        consumer.release(0..200);
    }
    drop((producer, consumer));
    let (mut producer, consumer) = pool.store(AssociationId(1), LAYOUT);
    assert!(producer.append_bytes(&[8]));
    consumer.io_slice(5..208).to_vec()
}

#[test]
fn memory_that_packets_may_refer_to_goes_to_no_other_circuit() {
    assert_eq!(found_after(true, false), [0; 203]);
    for (is_referenced, is_acknowledged) in [(false, false), (true, true)] {
        let found = found_after(is_referenced, is_acknowledged);
        assert_eq!(found[..99], [7; 99], "it is the same memory");
    }
}

#[test]
fn store_with_pages_of_its_user_or_of_the_wire_is_no_other_circuits() {
    let (producer, mut consumer, _pages) = with_lent_pages();
    drop(producer);
    assert!(!consumer.make_spare(), "lent pages");
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    assert!(producer.append_bytes(&[7; 100]));
    consumer.mark_referenced(&batch_of([1; 4], &[(0, 100)]));
    drop(producer);
    assert!(!consumer.make_spare(), "packets refer to it");
}

/// A store with 50 bytes of its own, 150 in lent pages and 100 of its own, and the pages.
fn with_lent_pages() -> (Producer, Box<Consumer>, Arc<PageBuffer>) {
    let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
    let pages = Arc::new(PageBuffer::copy_of(&[8; 150]).expect("memory"));
    assert!(producer.append_bytes(&[7; 50]));
    assert!(
        producer
            .append_lent(Arc::clone(&pages).into(), false)
            .is_ok()
    );
    assert!(producer.append_bytes(&[9; 100]));
    assert_eq!(consumer.head(), 300);
    consumer.take_loans();
    (producer, consumer, pages)
}

#[test]
fn packet_of_lent_pages_may_be_referred_to_behind_a_header_from_elsewhere() {
    let (_producer, mut consumer, pages) = with_lent_pages();
    let sent = [[7; 50].as_slice(), &[8; 150], &[9; 100]].concat();
    for (start, end, lent) in [(0, 100, 50), (100, 200, 100)] {
        let batch = batch_of([1; 4], &[(start, end)]);
        let mut slices = Vec::new();
        assert!(consumer.gather(&batch, &mut slices));
        let octets: Vec<u8> = slices.iter().flat_map(|piece| piece.to_vec()).collect();
        let bytes = &sent[start as usize..end as usize];
        assert_eq!(octets, [&[1; 4], bytes].concat());
        assert_eq!(slices[0].as_ptr(), batch.own(&(0..4)).as_ptr());
        let within = pages.as_ptr_range();
        let of_pages = slices
            .iter()
            .filter(|piece| within.contains(&piece.as_ptr()));
        assert_eq!(of_pages.map(|piece| piece.len()).sum::<usize>(), lent);
    }
    // A header between the pages of two packets would have to be referred to.
    let batch = batch_of([1; 4], &[(0, 100), (100, 200)]);
    assert!(!consumer.gather(&batch, &mut Vec::new()));
}

#[test]
fn packets_of_other_lent_memory_are_not_in_place() {
    for buffer in [
        Buffer::from(vec![8; 100]),
        Arc::<[u8]>::from([8; 100]).into(),
    ] {
        let (mut producer, mut consumer) = super::super::ring(LAYOUT, 1000);
        assert!(producer.append_lent(buffer, false).is_ok());
        assert!(producer.append_bytes(&[9; 100]));
        assert_eq!(consumer.head(), 200);
        consumer.take_loans();
        let batch = batch_of([1; 4], &[(0, 100)]);
        assert!(!consumer.gather(&batch, &mut Vec::new()));
        let batch = batch_of([1; 4], &[(100, 200)]);
        assert!(
            consumer.gather(&batch, &mut Vec::new()),
            "it is the store's"
        );
    }
}

/// Whether lent pages move before their owner writes to them again, after a circuit that sent the first of them, or
/// both, by reference, and ended.
fn moves_after_an_end(is_sent: bool, is_acknowledged: bool, is_dropped: bool) -> [bool; 2] {
    let (mut producer, mut consumer, first) = with_lent_pages();
    let second = Arc::new(PageBuffer::copy_of(&[5; 100]).expect("memory"));
    assert!(
        producer
            .append_lent(Arc::clone(&second).into(), false)
            .is_ok()
    );
    assert_eq!(consumer.head(), 400);
    consumer.take_loans();
    if is_sent {
        let batch = batch_of([1; 4], &[(0, 100)]);
        assert!(consumer.gather(&batch, &mut Vec::new()));
        consumer.mark_referenced(&batch);
    }
    if is_acknowledged {
        consumer.release(0..200);
    }
    match is_dropped {
        true => drop(consumer),
        false => consumer.return_all_loans(),
    }
    while producer.reclaim().is_some() {}
    drop(producer);
    [first, second].map(|pages| {
        let before = pages.as_ptr();
        let mut pages = Arc::into_inner(pages).expect("it is its owner's alone again");
        pages.make_mut().expect("memory")[0] = 1;
        pages.as_ptr() != before
    })
}

#[test]
fn lent_pages_that_packets_may_refer_to_for_ever_move_before_a_write() {
    for is_dropped in [false, true] {
        assert_eq!(moves_after_an_end(true, false, is_dropped), [true, false]);
        assert_eq!(moves_after_an_end(true, true, is_dropped), [false, false]);
        assert_eq!(moves_after_an_end(false, false, is_dropped), [false, false]);
    }
}

/// Among many circuits a turn is over after some bytes, and the permit comes back when all of them are acknowledged.
#[test]
fn turn_of_many_ends_with_its_last_acknowledgement() {
    let layout = Layout {
        payload: 15_000,
        ..LAYOUT
    };
    let pool = StorePool::new(layout, 1 << 20);
    let (mut producer, mut consumer) = pool.store(AssociationId(0), layout);
    let message = vec![1; 16 << 10];
    for _ in 0..10 {
        assert!(producer.append_bytes(&message), "none waits");
    }
    let others = 1..100;
    let all = others.map(|id| pool.permits.acquire_or_queue(AssociationId(id)));
    let granted = all.filter(|&is_granted| is_granted).count();
    assert!(pool.permits.has_waiters());
    // Its user leaves the store after each batch, and the turn is looked at when it comes back.
    let _more = [1, 2].map(|id| {
        let mut store = pool.store(AssociationId(id), layout);
        assert!(store.0.append_bytes(&message));
        store
    });
    producer.leave();
    while producer.append_bytes(&message) {
        producer.leave();
    }
    let head = consumer.head();
    assert!((256 << 10..1 << 19).contains(&head), "{head}");
    consumer.release(0..head - 1);
    assert!(!producer.append_bytes(&message) && producer.is_draining());
    // Without the others' permits there are too few.
    (0..granted).for_each(|_| pool.permits.release());
    let before = pool.permits.take_unnotified();
    consumer.release(head - 1..head);
    let after = pool.permits.take_unnotified();
    assert_eq!((before.len(), after.len()), (3, 1));
    assert!(!producer.append_bytes(&message) && !producer.is_draining());
    for id in before.into_iter().chain(after) {
        assert!(pool.permits.claim(id));
    }
    while !producer.append_bytes(&message) {
        pool.permits.release();
        let next = pool.permits.take_unnotified();
        let others = next.into_iter().filter(|id| *id != AssociationId(0));
        others.for_each(|id| assert!(pool.permits.claim(id)));
    }
}
