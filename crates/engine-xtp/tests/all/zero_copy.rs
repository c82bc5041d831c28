//! Buffers lent to the sender, with the driver's pump and send buffer in virtual time: each returns
//! once, unchanged and in order, and only after the peer has acknowledged it.

use crate::drawn::seeds;
use crate::pair::{MS, clean};
use driver::lend::{Buffer, LOANS_MAX, ReturnedBuffer};
use driver::sys::{Consumer, Producer, StorePool};
use engine::{
    Address, AssociationId, Associations, AssociationsExt, Framing, Protocol, SplitMix64,
};
use engine_xtp::{Config, Xtp};
use link::LinkConfig;
use sim::World;
use std::collections::VecDeque;
use std::sync::Arc;

/// A lent buffer.
struct Loan {
    index: usize,
    shared: Arc<[u8]>,
    end: u64,
}

/// How a run ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Close,
    Abort(usize),
    /// The link drops all packets.
    LinkDown,
}

struct LoanRun {
    world: World<Xtp>,
    random: SplitMix64,
    id: AssociationId,
    peer: Option<AssociationId>,
    producer: Producer,
    messages: bool,
    /// Bytes sent and received.
    sent: Vec<u8>,
    received: Vec<u8>,
    out: VecDeque<Loan>,
    lent: usize,
    returned: usize,
    unacknowledged: usize,
    ended: bool,
}

const COUNT: usize = 120;

fn config(seed: u64, station: u64) -> Config {
    Config {
        seed: 2 * seed + station,
        checksum: seed.is_multiple_of(3),
        framing: framing(seed),
        window: if seed.is_multiple_of(4) {
            8 << 10
        } else {
            64 << 10
        },
        ..Config::default()
    }
}

fn framing(seed: u64) -> Framing {
    match seed % 2 {
        0 => Framing::Stream,
        _ => Framing::Messages,
    }
}

impl LoanRun {
    fn new(link: LinkConfig, seed: u64) -> LoanRun {
        let engines = [0, 1].map(|station| Xtp::new(config(seed, station)));
        let mut world = World::new(engines, link, seed);
        world.pump(1).engine().listen(true);
        let now = world.now();
        let opened = world.pump(0).engine().connect(now, &[Address::Station(1)]);
        let id = opened.expect("room for one");
        let layout = world.pump(0).engine().layout(None);
        let pool = StorePool::new(layout, 48 << 10);
        let (producer, consumer): (Producer, Box<Consumer>) = pool.store(id, layout);
        world.pump(0).attach(id, consumer);
        LoanRun {
            world,
            random: SplitMix64::new(seed),
            id,
            peer: None,
            producer,
            messages: framing(seed) == Framing::Messages,
            sent: Vec::new(),
            received: Vec::new(),
            out: VecDeque::new(),
            lent: 0,
            returned: 0,
            unacknowledged: 0,
            ended: false,
        }
    }

    /// Lends or copies messages while there is room.
    fn send(&mut self) {
        while self.lent < COUNT {
            let len = 1 + self.random.below(6000) as usize;
            let bytes: Vec<u8> = (0..len).map(|_| self.random.next_u64() as u8).collect();
            let copied = self.random.below(3) == 0;
            let taken = match (copied, self.messages) {
                (true, true) => self.producer.append_message(&bytes),
                (true, false) => self.producer.append_bytes(&bytes),
                _ => self.lend(&bytes),
            };
            if !taken {
                return;
            }
            self.sent.extend(bytes);
        }
    }

    fn lend(&mut self, bytes: &[u8]) -> bool {
        let shared: Arc<[u8]> = bytes.into();
        let buffer = Buffer::from(Arc::clone(&shared));
        if self.producer.append_lent(buffer, self.messages).is_err() {
            return false;
        }
        let index = self.lent;
        let end = self.producer.position();
        self.out.push_back(Loan { index, shared, end });
        self.lent += 1;
        true
    }

    /// Takes returned buffers and checks each.
    fn reclaim(&mut self, seed: u64) {
        while let Some(ReturnedBuffer {
            buffer,
            is_complete: is_done,
        }) = self.producer.reclaim()
        {
            let out = self.out.pop_front().expect("no more return than are lent");
            assert_eq!(out.index, self.returned, "seed {seed}: out of order");
            assert!(*buffer == *out.shared, "seed {seed}: changed");
            let Buffer::Shared(buffer) = buffer else {
                panic!("seed {seed}: another kind of buffer");
            };
            assert!(
                Arc::ptr_eq(&buffer, &out.shared),
                "seed {seed}: another allocation"
            );
            drop(buffer);
            assert_eq!(
                Arc::strong_count(&out.shared),
                1,
                "seed {seed}: still referenced"
            );
            let has = self.received.len() as u64 >= out.end;
            assert!(
                has || !is_done,
                "seed {seed}: returned before the peer has it"
            );
            self.unacknowledged += usize::from(!is_done);
            self.returned += 1;
        }
    }

    fn receive(&mut self) {
        if let Some((id, _)) = self.world.pump(1).accept() {
            self.peer = Some(id);
            let now = self.world.now();
            self.world.pump(1).engine().finish(now, id);
        }
        let Some(id) = self.peer else { return };
        while let Some(chunk) = self.world.pump(1).pop_chunk(id) {
            for piece in &chunk.spans {
                let range = piece.range.start as usize..piece.range.end as usize;
                self.received.extend(&chunk.octets[range]);
            }
            let now = self.world.now();
            self.world.pump(1).consume(now, id, chunk);
        }
    }

    fn step(&mut self, seed: u64) -> bool {
        self.send();
        let goes_on = self.world.step(600_000 * MS).expect("a simulated wire");
        self.receive();
        self.reclaim(seed);
        goes_on
    }

    fn finish_once(&mut self) {
        if self.lent == COUNT && !self.ended {
            self.ended = true;
            let (now, end) = (self.world.now(), self.producer.position());
            self.world.pump(0).submit_pending(now, self.id, true);
            assert_eq!(self.world.pump(0).submitted(self.id), end);
            self.world.pump(0).engine().finish(now, self.id);
        }
    }

    fn abort(&mut self, station: usize) {
        let now = self.world.now();
        let id = [Some(self.id), self.peer][station];
        if let Some(id) = id {
            self.world.pump(station).engine().abort(now, id);
            self.ended = true;
        }
    }

    /// Runs to its end; an abort happens after `steps` steps.
    fn run(&mut self, end: Ending, steps: u64, seed: u64) {
        let mut taken = 0;
        while self.step(seed) {
            taken += 1;
            match end {
                Ending::Close => self.finish_once(),
                Ending::Abort(station) if taken >= steps && !self.ended => self.abort(station),
                _ => {}
            }
            let closed = self.world.pump(0).status(self.id).closed;
            if closed.is_some() && self.ended || end == Ending::LinkDown && closed.is_some() {
                break;
            }
        }
        // Buffers lent after the end return as well.
        let now = self.world.now();
        self.world.pump(0).submit_pending(now, self.id, true);
        self.receive();
        self.reclaim(seed);
    }

    fn assert_all_returned(&self, seed: u64) {
        assert_eq!(self.returned, self.lent, "seed {seed}: not all returned");
        assert!(self.out.is_empty() && self.producer.loans() == 0);
        let got = &self.received[..];
        assert!(self.sent.starts_with(got), "seed {seed}: bytes changed");
    }
}

fn faulty() -> LinkConfig {
    LinkConfig {
        loss_ppm: 30_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 20_000,
        reorder_ps: MS,
        ..clean()
    }
}

#[test]
fn lent_buffers_return_once_in_order_after_ack() {
    let mut repaired = 0;
    for seed in seeds(30) {
        let mut run = LoanRun::new(faulty(), seed);
        run.run(Ending::Close, 0, seed);
        run.assert_all_returned(seed);
        assert_eq!(run.unacknowledged, 0, "seed {seed}");
        assert!(run.received == run.sent, "seed {seed}: bytes are missing");
        repaired += run.world.pump(0).engine().counters().retransmissions;
        let holdings = run.world.pump(0).engine().holdings();
        assert_eq!(
            (holdings.associations, holdings.reassembly_bytes),
            (0, 0),
            "seed {seed}"
        );
    }
    assert!(repaired > 0, "nothing was lost");
}

#[test]
fn abort_returns_all_lent_buffers() {
    let mut unacknowledged = 0;
    for seed in seeds(40) {
        let mut run = LoanRun::new(faulty(), seed);
        let steps = 30 + SplitMix64::new(seed).below(300);
        run.run(Ending::Abort(seed as usize % 2), steps, seed);
        run.assert_all_returned(seed);
        unacknowledged += run.unacknowledged;
    }
    assert!(unacknowledged > 0, "no buffer was in flight");
}

#[test]
fn silent_peer_timeout_returns_lent_buffers() {
    let link = LinkConfig {
        cut: true,
        ..clean()
    };
    let mut run = LoanRun::new(link, 2);
    run.run(Ending::LinkDown, 0, 2);
    run.assert_all_returned(2);
    assert!(run.unacknowledged > 0 && run.received.is_empty());
}

#[test]
fn loan_limit_enforced() {
    let mut run = LoanRun::new(clean(), 2);
    for index in 0..LOANS_MAX {
        let lent = run.producer.append_lent(vec![index as u8].into(), false);
        assert!(lent.is_ok());
    }
    let refused = run.producer.append_lent(vec![7].into(), false);
    assert_eq!(refused.expect_err("too many"), Buffer::from(vec![7]));
    let now = run.world.now();
    run.world.pump(0).submit_pending(now, run.id, true);
    while run.world.step(1000 * MS).expect("a simulated wire") {
        run.receive();
    }
    assert!(run.producer.append_lent(vec![7].into(), false).is_err());
    for index in 0..LOANS_MAX {
        let returned = run.producer.reclaim().expect("the peer has them all");
        assert_eq!(returned.buffer, Buffer::from(vec![index as u8]));
    }
    assert!(run.producer.append_lent(vec![7].into(), false).is_ok());
}
