//! A user of one association: its send buffer, what it received, and its plan for both.

use core::time::Duration;
use engine::test_kit::written;
use engine::{
    AssociationId, Associations, AssociationsExt, Batch, Bytes, CloseReason, Delivery, Event,
    Framing, Instant, Note, SendFlags, Store,
};
use engine_xtp::{Config, FlowControl, Xtp};
use std::collections::VecDeque;
use std::ops::Range;

/// The plan of one side.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What it sends, in order.
    pub sends: Vec<Vec<u8>>,
    /// It finishes its stream only after the peer finished the other.
    pub answers: bool,
    /// Which of `sends` begin with a tag; none of those beyond.
    pub tags: Vec<bool>,
    /// Which of `sends` end with a tag; none of those beyond.
    pub end_tags: Vec<bool>,
    /// It never pushes data; only the end of the stream does.
    pub never_pushes: bool,
    /// It consumes data and decides about openings this much later.
    pub pause: Duration,
}

/// Size of its send buffer, and bytes that it posts in reservation mode.
const STORE_LEN: usize = 512 << 10;
const POSTED_LEN: u64 = 64 << 10;

pub struct User {
    pub received: Vec<Vec<u8>>,
    pub gaps: u64,
    /// Which messages began with a tag.
    pub tagged: Vec<bool>,
    /// Which messages ended with one.
    pub end_tagged: Vec<bool>,
    pub peer_finished: bool,
    pub closed: Option<CloseReason>,
    id: Option<AssociationId>,
    plan: VecDeque<Vec<u8>>,
    answers: bool,
    never_pushes: bool,
    pause: Duration,
    framing: Framing,
    reserves: bool,
    supervises: bool,
    /// All bytes written, and the position below which they were released.
    store: Vec<u8>,
    released: u64,
    done: bool,
    unread: u64,
    part: Vec<u8>,
    part_tagged: bool,
    tags: VecDeque<bool>,
    end_tags: VecDeque<bool>,
    new: bool,
    pause_started: bool,
    pause_over: bool,
}

impl User {
    pub fn new(plan: &Plan, config: &Config) -> User {
        User {
            received: Vec::new(),
            gaps: 0,
            tagged: Vec::new(),
            end_tagged: Vec::new(),
            end_tags: plan.end_tags.iter().copied().collect(),
            part_tagged: false,
            tags: plan.tags.iter().copied().collect(),
            peer_finished: false,
            closed: None,
            id: None,
            plan: plan.sends.iter().cloned().collect(),
            answers: plan.answers,
            never_pushes: plan.never_pushes,
            pause: plan.pause,
            framing: config.framing,
            reserves: config.flow == FlowControl::Reservation,
            supervises: config.supervised,
            store: Vec::new(),
            released: 0,
            done: false,
            unread: 0,
            part: Vec::new(),
            new: false,
            pause_started: false,
            pause_over: false,
        }
    }

    /// Takes an association if it has none: delayed copies of FIRST open others, which have no
    /// user.
    pub fn attach(&mut self, id: AssociationId) {
        if self.id.is_none() {
            self.id = Some(id);
            self.new = true;
        }
    }

    /// Whether `id` is its association.
    pub fn has(&self, id: AssociationId) -> bool {
        self.id == Some(id)
    }

    pub fn wake(&mut self) {
        self.pause_over = true;
    }

    pub fn handle_event(&mut self, event: Event) {
        let mine = |id: &AssociationId| self.id == Some(*id);
        match event {
            Event::Released(id, range) if mine(&id) => {
                assert!(
                    range.end <= self.store.len() as u64,
                    "released bytes that were never written"
                );
                assert_eq!(range.start, self.released, "not the next bytes");
                self.released = range.end;
            }
            Event::Finished(id) if mine(&id) => {
                assert!(!self.peer_finished, "the stream ended twice");
                self.peer_finished = true;
            }
            Event::Closed(id, reason) if mine(&id) => {
                assert_eq!(self.closed, None, "closed twice");
                self.closed = Some(reason);
            }
            _ => {}
        }
    }

    /// Reads and writes as planned; returns the pause until it wants to be woken, in picoseconds.
    pub fn act(&mut self, now: Instant, engine: &mut Xtp) -> Option<u64> {
        let id = self.id?;
        if (self.new || self.unread > 0) && !self.pause_over && !self.pause.is_zero() {
            let first = !std::mem::replace(&mut self.pause_started, true);
            return first.then_some(self.pause.as_nanos() as u64 * 1000);
        }
        (self.pause_started, self.pause_over) = (false, false);
        self.read(now, engine, id);
        self.write(now, engine, id);
        None
    }

    fn read(&mut self, now: Instant, engine: &mut Xtp, id: AssociationId) {
        if std::mem::take(&mut self.new) {
            if self.reserves {
                engine.post(now, id, POSTED_LEN);
            }
            if self.supervises {
                engine.admit(now, id);
            }
        }
        if self.unread > 0 {
            engine.consume(now, id, self.unread);
            if self.reserves {
                engine.post(now, id, self.unread);
            }
            self.unread = 0;
        }
    }

    fn write(&mut self, now: Instant, engine: &mut Xtp, id: AssociationId) {
        let before = self.store.len();
        while let Some(bytes) = self.plan.front() {
            let used = self.store.len() - self.released as usize;
            if used + bytes.len() > STORE_LEN {
                break;
            }
            if self.tags.pop_front() == Some(true) {
                engine.tag(id, self.store.len() as u64);
            }
            if self.end_tags.pop_front() == Some(true) {
                let end = (self.store.len() + bytes.len()) as u64;
                assert!(engine.tag_end(id, end), "3.x alone has them");
            }
            self.store.extend_from_slice(bytes);
            self.plan.pop_front();
            if self.framing == Framing::Messages {
                engine.end_message(now, id, self.store.len() as u64);
            }
        }
        if self.store.len() > before {
            let flags = SendFlags {
                push: !self.never_pushes,
                ..SendFlags::NONE
            };
            engine.submit(now, id, self.store.len() as u64, flags, &Note::default());
        }
        if self.plan.is_empty() && !self.done && (self.peer_finished || !self.answers) {
            engine.finish(now, id);
            self.done = true;
        }
    }

    /// The packets of `batch` with their user bytes.
    pub fn gather(&self, batch: &Batch) -> Vec<Vec<u8>> {
        assert!(batch.path().is_some(), "a batch goes somewhere");
        let copy = |store: Store, range: &Range<u64>, out: &mut Vec<u8>| {
            assert_eq!(
                Some(store),
                self.id.map(Store::Association),
                "an association without a user sent bytes"
            );
            assert!(
                range.start >= self.released,
                "a packet names released bytes"
            );
            out.extend_from_slice(&self.store[range.start as usize..range.end as usize]);
        };
        written(batch, copy)
    }

    pub fn deliver(&mut self, delivery: Delivery, packet: &[u8]) {
        let bytes = match delivery.bytes {
            Bytes::Packet(range) => packet[range].to_vec(),
            Bytes::Reassembled(bytes) => bytes,
        };
        self.attach(delivery.association);
        if self.id != Some(delivery.association) {
            return;
        }
        assert!(!self.peer_finished, "bytes after the end of the stream");
        self.unread += bytes.len() as u64;
        self.gaps += u64::from(delivery.gap);
        if self.framing != Framing::Messages {
            return self.received.push(bytes);
        }
        if delivery.gap {
            self.part.clear();
        }
        if self.part.is_empty() {
            self.part_tagged = delivery.begin_tag;
        } else {
            assert!(!delivery.begin_tag, "a tag in the middle");
        }
        self.part.extend(bytes);
        assert!(
            !delivery.end_tag || delivery.end_of_message,
            "a tag in the middle"
        );
        if delivery.end_of_message {
            self.end_tagged.push(delivery.end_tag);
            self.received.push(std::mem::take(&mut self.part));
            self.tagged.push(self.part_tagged);
        }
    }
}
