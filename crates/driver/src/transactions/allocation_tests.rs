//! Allocations of an engine of transactions: none for a call or a packet, once its tables have their
//! size.

use crate::sys::counting_allocator::{allocated, allocations};
use engine::{
    Address, Batch, Deliveries, EntityId, Event, Instant, Note, OutgoingMessage, Path, Protocol,
    Received, TransactionEvent, TransactionId, Transactions,
};
use engine_vmtp::{Vmtp, VmtpConfig};
use std::time::Duration;

const CALLER: EntityId = EntityId(1 << 32 | 1);
const SERVER: EntityId = EntityId(2 << 32 | 1);

/// Two endpoints, and the memory that their hosts use again and again.
struct Pair {
    ends: [Vmtp; 2],
    batch: Batch,
    packet: Vec<u8>,
    deliveries: Deliveries,
    requests: Vec<TransactionId>,
    message: Vec<u8>,
    now: Instant,
    messages: u64,
    replies: u64,
}

impl Pair {
    fn new(message_len: usize) -> Pair {
        let end = |host: u32| {
            Vmtp::new(VmtpConfig {
                host,
                packet_lifetime: Duration::ZERO,
                secret: engine::Secret::from_seed(u64::from(host)),
                ..VmtpConfig::default()
            })
        };
        let mut ends = [end(1), end(2)];
        ends[0].create_entity(CALLER).expect("room");
        ends[1].create_entity(SERVER).expect("room");
        ends[0].locate(SERVER, Address::Station(1));
        Pair {
            ends,
            batch: Batch::new(32),
            packet: Vec::with_capacity(2000),
            deliveries: Deliveries::default(),
            requests: Vec::new(),
            message: vec![7; message_len],
            now: Instant::from_nanos(1),
            messages: 0,
            replies: 0,
        }
    }

    fn next_message(&mut self) -> (OutgoingMessage, u64) {
        self.messages += 1;
        (OutgoingMessage(self.messages), self.message.len() as u64)
    }

    /// Begins so many calls, and goes on until all are answered.
    fn call(&mut self, count: u64) {
        self.call_from(CALLER, count);
    }

    fn call_from(&mut self, caller: EntityId, count: u64) {
        for _ in 0..count {
            let request = self.next_message();
            let note = Note::default();
            let begun = self.ends[0].call(self.now, caller, SERVER, request, &note);
            begun.expect("a call");
        }
        let wanted = self.replies + count;
        while self.replies < wanted {
            self.exchange(0);
            self.exchange(1);
            self.now = self.now + Duration::from_micros(10);
        }
    }

    /// Packets of an end arrive at the other.
    fn exchange(&mut self, from: usize) {
        self.drain(from);
        loop {
            self.batch.clear();
            self.ends[from].poll_transmit(self.now, &mut self.batch);
            if self.batch.is_empty() {
                break;
            }
            let path = Path::to(Address::Station(from as u32));
            for built in self.batch.packets() {
                self.packet.clear();
                let message = &self.message;
                self.batch.write(built, &mut self.packet, |_, range, out| {
                    out.extend_from_slice(&message[range.start as usize..range.end as usize]);
                });
                let received = Received::new(path, &self.packet);
                self.ends[1 - from].handle_packet(self.now, received, &mut self.deliveries);
                self.deliveries.clear();
            }
            self.drain(1 - from);
        }
    }

    fn drain(&mut self, end: usize) {
        while let Some(event) = self.ends[end].poll_event() {
            match event {
                Event::Transaction(TransactionEvent::Requested { transaction, .. }) => {
                    self.requests.push(transaction);
                }
                Event::Transaction(TransactionEvent::Replied { .. }) => self.replies += 1,
                _ => {}
            }
        }
        while let Some(transaction) = self.requests.pop() {
            let reply = self.next_message();
            let note = Note::default();
            let replied = self.ends[end].reply(self.now, transaction, reply, &note);
            replied.expect("it is not answered");
        }
    }
}

#[test]
fn calls_one_after_another_allocate_nothing_in_the_engine() {
    for message_len in [20, 1000, 16_384] {
        let mut pair = Pair::new(message_len);
        for _ in 0..100 {
            pair.call(1);
        }
        let before = allocations();
        for _ in 0..1000 {
            pair.call(1);
        }
        let during = allocations() - before;
        assert_eq!(during, 0, "1000 calls of {message_len} octets");
    }
}

#[test]
fn eight_calls_at_a_time_allocate_for_less_than_a_quarter_of_them() {
    let mut pair = Pair::new(1000);
    for _ in 0..100 {
        pair.call(8);
    }
    let before = allocations();
    for _ in 0..200 {
        pair.call(8);
    }
    // Tables of more than eleven entries are trees, whose nodes come and go.
    let during = allocations() - before;
    assert!(during < 1600 / 4, "{during} for 1600 calls");
}

/// Octets that both engines may hold for a client that has called once: tables, a client, and a record of
/// it with its Response. 10,000 of them are 25 MB.
const CLIENT_OCTETS_MAX: isize = 2500;

#[test]
fn client_after_a_call_takes_less_than_2500_octets_at_both_ends() {
    const CLIENTS: u64 = 10_000;
    let mut pair = Pair::new(20);
    pair.call(1);
    let before = allocated();
    for number in 0..CLIENTS {
        let client = EntityId((100 + number) << 32 | 1);
        pair.ends[0].create_entity(client).expect("room");
        pair.call_from(client, 1);
    }
    let each = (allocated() - before) / CLIENTS as isize;
    assert!(each < CLIENT_OCTETS_MAX, "{each} octets a client");
}
