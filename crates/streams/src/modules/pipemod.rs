//! `pipemod`: what SVR4 pushes on a pipe so that a flush empties the right queues of the other end.

use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};

/// Hands every message on. The joint of a pipe turns a flush here, once, whether the module is pushed or not and on
/// whichever end: programs push it because they were written for systems that need it.
#[derive(Debug, Default)]
pub struct Pipemod;

impl Module for Pipemod {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("pipemod")
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        context.put_next(side, message);
    }
}
