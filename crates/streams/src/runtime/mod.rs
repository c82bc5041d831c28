//! Streams, their modules and the list of what is scheduled.
//!
//! * `schedule` - the run list: service procedures run to completion, one after another.
//! * `flow` - put, get and their effects on those before and behind.
//! * `streams` - open, push, pop, close, and the ends of pipes.
//! * `links` - multiplexing drivers: streams opened on them, and linked below them.
//! * `names` - names of streams, and what is passed over pipes.
//! * `timers` - service procedures that are due at a time of the host's clock.

mod flow;
mod links;
mod names;
mod schedule;
mod streams;
mod timers;

pub use links::{LinkId, MultiplexerId, Persistence};
pub use names::Passed;

use crate::block::Pool;
use crate::head::Head;
use crate::message::Message;
use crate::module::{Module, Side};
use crate::multiplexer::Leg;
use crate::queue::{Hysteresis, Queue};
use std::collections::{BTreeMap, VecDeque};

/// Number of a stream of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamId(pub(crate) u32);

/// Number of a queue: a level of a stream, and a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueId(u32);

impl QueueId {
    #[inline]
    pub(crate) fn new(level: u32, side: Side) -> QueueId {
        QueueId(level << 1 | side as u32)
    }

    #[inline]
    pub(crate) fn level(self) -> u32 {
        self.0 >> 1
    }

    #[inline]
    pub(crate) fn side(self) -> Side {
        match self.0 & 1 {
            0 => Side::Read,
            _ => Side::Write,
        }
    }
}

/// A queue and its place among others.
#[derive(Debug)]
struct Slot {
    queue: Queue,
    /// Whether it has a service procedure.
    service: bool,
    /// Whether it is on the run list (QENAB).
    scheduled: bool,
    /// Where its messages go.
    next: Option<QueueId>,
    /// Where its messages come from.
    back: Option<QueueId>,
}

/// What is at a level of a stream.
enum Occupant {
    /// Nothing: the level is free.
    Free,
    /// The stream head, of the stream with this number.
    Head(StreamId),
    /// A module or driver.
    Module(Box<dyn Module>),
    /// A module or driver, one of whose procedures runs now.
    Running,
    /// A leg of a multiplexing driver.
    Leg(MultiplexerId, Leg),
}

/// A head, a module or a driver with its two queues.
struct Level {
    occupant: Occupant,
    slots: [Slot; 2],
    /// Messages that arrived while one of its procedures ran.
    arrived: VecDeque<(Side, Message)>,
}

/// A stream: its head, and the levels below, the driver last.
struct Stream {
    head: Head,
    head_level: u32,
    modules: Vec<u32>,
    /// The driver that has the place of its head.
    linked: Option<links::Linked>,
}

/// What a runtime counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Put procedures of modules and drivers that ran.
    pub puts: u64,
    /// Service procedures that ran.
    pub services: u64,
    /// Those who were refused and woken.
    pub wakeups: u64,
}

/// Streams with one list of what is scheduled. One thread at a time uses it: it is its own perimeter.
pub struct Runtime {
    levels: Vec<Level>,
    free_levels: Vec<u32>,
    streams: Vec<Option<Stream>>,
    multiplexers: Vec<links::Multiplexing>,
    names: BTreeMap<String, StreamId>,
    /// Links that were ever made.
    links: u32,
    run_list: VecDeque<QueueId>,
    pool: Pool,
    hysteresis: Hysteresis,
    counters: Counters,
    timers: timers::Timers,
}

impl Runtime {
    /// A runtime without streams, whose queues follow `hysteresis`.
    pub fn new(hysteresis: Hysteresis) -> Runtime {
        Runtime {
            levels: Vec::new(),
            free_levels: Vec::new(),
            streams: Vec::new(),
            multiplexers: Vec::new(),
            names: BTreeMap::new(),
            links: 0,
            run_list: VecDeque::new(),
            pool: Pool::default(),
            hysteresis,
            counters: Counters::default(),
            timers: timers::Timers::default(),
        }
    }

    /// What was counted.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Blocks are allocated and released here.
    pub fn pool_mut(&mut self) -> &mut Pool {
        &mut self.pool
    }

    #[inline]
    fn slot(&self, queue: QueueId) -> &Slot {
        &self.levels[queue.level() as usize].slots[queue.side() as usize]
    }

    #[inline]
    fn slot_mut(&mut self, queue: QueueId) -> &mut Slot {
        &mut self.levels[queue.level() as usize].slots[queue.side() as usize]
    }

    #[inline]
    pub(crate) fn queue(&self, queue: QueueId) -> &Queue {
        &self.slot(queue).queue
    }

    #[inline]
    pub(crate) fn queue_mut(&mut self, queue: QueueId) -> &mut Queue {
        &mut self.slot_mut(queue).queue
    }
}
