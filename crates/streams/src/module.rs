//! The contract of a module, and what it may do while it runs.

use crate::block::{Block, Pool};
use crate::error::Error;
use crate::message::{FlushRequest, FlushScope, Message};
use crate::modules::PUT_ONLY;
use crate::queue::Marks;
use crate::runtime::{QueueId, Runtime};
use std::any::Any;

/// Which of a module's two queues: messages to users, or from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// Messages that travel up, to users.
    Read = 0,
    /// Messages that travel down, from users.
    Write = 1,
}

impl Side {
    /// The other direction.
    pub fn other(self) -> Side {
        match self {
            Side::Read => Side::Write,
            Side::Write => Side::Read,
        }
    }
}

/// What is constant of one queue of a module (qinit and module_info).
#[derive(Clone, Copy, Debug)]
pub struct QueueInfo {
    /// Water marks.
    pub marks: Marks,
    /// Octets of the least and the longest message that it takes.
    pub packet: (usize, usize),
    /// Whether it has a service procedure. Flow control looks at such queues only, and at the end.
    pub service: bool,
}

/// What is constant of a module.
#[derive(Clone, Copy, Debug)]
pub struct ModuleInfo {
    /// Its name, as in a push.
    pub name: &'static str,
    /// Of the queue up.
    pub read: QueueInfo,
    /// Of the queue down.
    pub write: QueueInfo,
}

impl ModuleInfo {
    /// A module whose put procedures handle each message at once: without service procedures.
    pub const fn put_only(name: &'static str) -> ModuleInfo {
        ModuleInfo {
            name,
            read: PUT_ONLY,
            write: PUT_ONLY,
        }
    }

    /// A module with a service procedure each way, for messages of up to `longest` octets.
    pub const fn with_services(name: &'static str, marks: Marks, longest: usize) -> ModuleInfo {
        let queue = QueueInfo {
            marks,
            packet: (0, longest),
            service: true,
        };
        ModuleInfo {
            name,
            read: queue,
            write: queue,
        }
    }

    /// A module with a service procedure down, for messages of any length.
    pub const fn with_write_service(name: &'static str, marks: Marks) -> ModuleInfo {
        let both = ModuleInfo::with_services(name, marks, usize::MAX);
        let read = QueueInfo {
            service: false,
            ..both.read
        };
        ModuleInfo { read, ..both }
    }
}

/// A module of a stream, or the driver at its end: a part that messages pass in both directions.
///
/// Its procedures run one at a time and never wait. A message that comes while it runs (an answer of
/// the module below, say) is handed over when it returns. All but the put procedure may be missing, as they may be null in
/// a qinit: no module is around another one and would have to forward them.
pub trait Module: Any + Send {
    /// Name, water marks and lengths.
    fn info(&self) -> ModuleInfo;

    /// It is on a stream now.
    ///
    /// # Errors
    ///
    /// It cannot be: the push fails with this error.
    fn open(&mut self, _context: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }

    /// It leaves the stream. What its queues hold is dropped afterwards.
    fn close(&mut self, _context: &mut Context<'_>) {}

    /// A message arrives in a direction (put procedure): it is handled, passed on, or queued.
    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message);

    /// A queue was scheduled (service procedure): take messages and pass them on while there is room
    /// there; put back what cannot go, and return.
    fn service(&mut self, _context: &mut Context<'_>, _side: Side) {}

    /// A driver's other end is ready: called when the host found its descriptor or its peer so. It
    /// should only schedule queues.
    fn ready(&mut self, _context: &mut Context<'_>) {}
}

/// What a module may do while one of its procedures runs.
pub struct Context<'a> {
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) level: u32,
}

impl Context<'_> {
    fn queue(&self, side: Side) -> QueueId {
        QueueId::new(self.level, side)
    }

    /// Hands a message to the next module of a direction (putnext).
    #[inline]
    pub fn put_next(&mut self, side: Side, message: Message) {
        let queue = self.queue(side);
        self.runtime.put_next(queue, message);
    }

    /// Sends a message back where the direction `side` comes from (qreply).
    pub fn reply(&mut self, side: Side, message: Message) {
        self.put_next(side.other(), message);
    }

    /// Whether the next queue with a service procedure takes a message of `band` (bcanputnext). Who
    /// is refused has its own service procedure scheduled when there is room.
    #[inline]
    pub fn can_put_next(&mut self, side: Side, band: u8) -> bool {
        let queue = self.queue(side);
        self.runtime.can_put_next(queue, band)
    }

    /// Queues a message behind those of its class (putq).
    #[inline]
    pub fn put_queue(&mut self, side: Side, message: Message) {
        let queue = self.queue(side);
        self.runtime.put_queue(queue, message);
    }

    /// Puts a message back in front of its class (putbq).
    pub fn put_back(&mut self, side: Side, message: Message) {
        let queue = self.queue(side);
        self.runtime.put_back(queue, message);
    }

    /// Puts a message in front of the one that is number `at` of a queue, counted from the first (insq).
    ///
    /// # Errors
    ///
    /// The message comes back where the order of classes would break ([`crate::Queue::insert`]).
    pub fn insert(&mut self, side: Side, at: usize, message: Message) -> Result<(), Message> {
        let queue = self.queue(side);
        self.runtime.insert(queue, at, message)
    }

    /// The messages of a queue, from the first one.
    pub fn queued(&self, side: Side) -> impl Iterator<Item = &Message> {
        self.runtime.queue(self.queue(side)).iter()
    }

    /// Takes the first message of a queue (getq).
    #[inline]
    pub fn get(&mut self, side: Side) -> Option<Message> {
        let queue = self.queue(side);
        self.runtime.get(queue)
    }

    /// Whether a queue holds no message.
    #[inline]
    pub fn is_empty(&self, side: Side) -> bool {
        self.runtime.queue(self.queue(side)).is_empty()
    }

    /// Octets of band 0 and of high priority that a queue holds.
    pub fn queued_octets(&self, side: Side) -> usize {
        self.runtime.queue(self.queue(side)).octets(0)
    }

    /// Schedules a service procedure (qenable).
    pub fn enable(&mut self, side: Side) {
        let queue = self.queue(side);
        self.runtime.enable(queue);
    }

    /// The time on the host's clock, in nanoseconds; 0 where the host has none.
    pub fn now(&self) -> u64 {
        self.runtime.now()
    }

    /// Schedules a service procedure for a time of the host's clock (qtimeout).
    pub fn enable_at(&mut self, side: Side, at: u64) {
        let queue = self.queue(side);
        self.runtime.enable_at(queue, at);
    }

    /// Ordinary messages no longer schedule the service procedure, or do so again (noenable,
    /// enableok).
    pub fn set_no_enable(&mut self, side: Side, no_enable: bool) {
        let queue = self.queue(side);
        self.runtime.queue_mut(queue).set_no_enable(no_enable);
    }

    /// Empties a queue (flushq, flushband).
    pub fn flush(&mut self, side: Side, band: Option<u8>, scope: FlushScope) {
        let queue = self.queue(side);
        self.runtime.flush_queue(queue, band, scope);
    }

    /// What every module does with a flush: empties its own queues and passes it on.
    pub fn flush_and_pass_on(&mut self, side: Side, request: FlushRequest, message: Message) {
        self.flush_own(request);
        self.put_next(side, message);
    }

    /// What every driver does with a flush from above: empties its queues, and sends it up if the
    /// read queues are meant.
    pub fn flush_and_turn(&mut self, request: FlushRequest) {
        self.flush_own(request);
        if request.read {
            let up = FlushRequest {
                write: false,
                ..request
            };
            self.put_next(Side::Read, Message::flush(up));
        }
    }

    fn flush_own(&mut self, request: FlushRequest) {
        if request.read {
            self.flush(Side::Read, request.band, FlushScope::Data);
        }
        if request.write {
            self.flush(Side::Write, request.band, FlushScope::Data);
        }
    }

    /// Blocks are allocated and released here.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        self.runtime.pool_mut()
    }

    /// A block with a copy of `octets`.
    pub fn copy(&mut self, octets: &[u8]) -> Block {
        self.pool().copy(0, octets)
    }
}
