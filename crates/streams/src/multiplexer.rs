//! The contract of a multiplexing driver: the end of several streams, with others linked below it.

use crate::block::Pool;
use crate::error::Error;
use crate::message::{FlushScope, Message};
use crate::module::{ModuleInfo, Side};
use crate::runtime::{LinkId, QueueId, Runtime, StreamId};
use std::any::Any;

/// A stream that a multiplexing driver serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leg {
    /// One that was opened on it: its users are above. Messages from them travel on [`Side::Write`].
    Upper(StreamId),
    /// One that is linked below it: the driver has the place of its head. Messages from it travel on
    /// [`Side::Read`].
    Lower(LinkId),
}

/// A multiplexing driver. It has two queues for each leg; its procedures run one at a time and never wait.
///
/// Flow control does not pass it by itself: a message that the leg it is for cannot take is queued where it came
/// from, and goes on when that leg's service procedure says that there is room (SVR4, multiplexing drivers).
pub trait Multiplexer: Any + Send {
    /// Name, water marks and lengths of the queues of an upper leg.
    fn upper_info(&self) -> ModuleInfo;

    /// The same of a lower leg.
    fn lower_info(&self) -> ModuleInfo;

    /// A stream is opened on it.
    ///
    /// # Errors
    ///
    /// It cannot be: the open fails with this error.
    fn open(&mut self, context: &mut LegContext<'_>, upper: StreamId) -> Result<(), Error>;

    /// A stream that was opened on it closes.
    fn close(&mut self, context: &mut LegContext<'_>, upper: StreamId);

    /// A stream is linked below it (I_LINK, I_PLINK).
    ///
    /// # Errors
    ///
    /// It cannot be: the link fails with this error.
    fn link(&mut self, context: &mut LegContext<'_>, link: LinkId) -> Result<(), Error>;

    /// A stream is no longer linked below it (I_UNLINK, I_PUNLINK). What its queues hold is dropped afterwards.
    fn unlink(&mut self, context: &mut LegContext<'_>, link: LinkId);

    /// A message arrives from a leg.
    fn put(&mut self, context: &mut LegContext<'_>, leg: Leg, side: Side, message: Message);

    /// A queue of a leg was scheduled: messages wait in it, or who comes next has room again.
    fn service(&mut self, context: &mut LegContext<'_>, leg: Leg, side: Side);
}

/// What a multiplexing driver may do while one of its procedures runs. Of a leg that is no more, messages are
/// dropped and questions answered with no.
pub struct LegContext<'a> {
    pub(crate) runtime: &'a mut Runtime,
    pub(crate) multiplexer: u32,
}

impl LegContext<'_> {
    fn queue(&self, leg: Leg, side: Side) -> Option<QueueId> {
        let level = self.runtime.leg_level(self.multiplexer, leg)?;
        Some(QueueId::new(level, side))
    }

    /// Hands a message to a leg: up to the users of an upper one, down into a lower one (putnext).
    pub fn put_next(&mut self, leg: Leg, message: Message) {
        match self.queue(leg, outward(leg)) {
            Some(queue) => self.runtime.put_next(queue, message),
            None => message.release(self.pool()),
        }
    }

    /// Whether a leg takes a message of `band` (bcanputnext). Who is refused has the leg's service procedure of
    /// that direction scheduled when there is room.
    pub fn can_put_next(&mut self, leg: Leg, band: u8) -> bool {
        let queue = self.queue(leg, outward(leg));
        queue.is_some_and(|queue| self.runtime.can_put_next(queue, band))
    }

    /// Queues a message behind those of its class (putq).
    pub fn put_queue(&mut self, leg: Leg, side: Side, message: Message) {
        match self.queue(leg, side) {
            Some(queue) => self.runtime.put_queue(queue, message),
            None => message.release(self.pool()),
        }
    }

    /// Puts a message back in front of its class (putbq).
    pub fn put_back(&mut self, leg: Leg, side: Side, message: Message) {
        match self.queue(leg, side) {
            Some(queue) => self.runtime.put_back(queue, message),
            None => message.release(self.pool()),
        }
    }

    /// Takes the first message of a queue (getq).
    pub fn get(&mut self, leg: Leg, side: Side) -> Option<Message> {
        let queue = self.queue(leg, side)?;
        self.runtime.get(queue)
    }

    /// Whether a queue holds no message.
    pub fn is_empty(&self, leg: Leg, side: Side) -> bool {
        let queue = self.queue(leg, side);
        queue.is_none_or(|queue| self.runtime.queue(queue).is_empty())
    }

    /// Schedules a service procedure (qenable).
    pub fn enable(&mut self, leg: Leg, side: Side) {
        if let Some(queue) = self.queue(leg, side) {
            self.runtime.enable(queue);
        }
    }

    /// Empties a queue (flushq, flushband).
    pub fn flush(&mut self, leg: Leg, side: Side, band: Option<u8>, scope: FlushScope) {
        if let Some(queue) = self.queue(leg, side) {
            self.runtime.flush_queue(queue, band, scope);
        }
    }

    /// Its legs: streams that were opened on it, then those linked below it, each by their numbers.
    pub fn legs(&self) -> Vec<Leg> {
        self.runtime.legs(self.multiplexer)
    }

    /// Blocks are allocated and released here.
    pub fn pool(&mut self) -> &mut Pool {
        self.runtime.pool_mut()
    }
}

/// The direction in which messages leave the driver by a leg.
fn outward(leg: Leg) -> Side {
    match leg {
        Leg::Upper(_) => Side::Read,
        Leg::Lower(_) => Side::Write,
    }
}
