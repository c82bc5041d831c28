//! `buffer`: queues with water marks in both directions, with service procedures.

use super::{MODULE_MARKS, drain, pass_or_queue};
use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};
use crate::queue::Marks;

/// A module that queues what cannot go on.
#[derive(Debug)]
pub struct Buffer {
    marks: Marks,
    /// Everything is queued first, so that it leaves by the service procedure.
    always: bool,
}

impl Buffer {
    /// Queues with these marks, for what cannot go on at once.
    pub fn new(marks: Marks) -> Buffer {
        Buffer {
            marks,
            always: false,
        }
    }

    /// Queues everything, so that each message is carried on by the service procedure.
    pub fn deferring(marks: Marks) -> Buffer {
        Buffer {
            marks,
            always: true,
        }
    }
}

impl Default for Buffer {
    fn default() -> Buffer {
        Buffer::new(MODULE_MARKS)
    }
}

impl Module for Buffer {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::with_services("buffer", self.marks, usize::MAX)
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        if self.always && !message.kind().is_high_priority() {
            context.put_queue(side, message);
        } else {
            pass_or_queue(context, side, message);
        }
    }

    fn service(&mut self, context: &mut Context<'_>, side: Side) {
        drain(context, side);
    }
}
