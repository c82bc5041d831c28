//! `pipemod`: what SVR4 pushes on a pipe so that a flush empties the right queues of the other end.

use super::PUT_ONLY;
use crate::error::Error;
use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};

/// Hands every message on. The joint of a pipe turns a flush here, once, whether the module is pushed or not and on
/// whichever end: programs push it because they were written for systems that need it.
#[derive(Debug, Default)]
pub struct Pipemod;

impl Module for Pipemod {
    fn info(&self) -> ModuleInfo {
        ModuleInfo {
            name: "pipemod",
            read: PUT_ONLY,
            write: PUT_ONLY,
        }
    }

    fn open(&mut self, _: &mut Context<'_>) -> Result<(), Error> {
        Ok(())
    }

    fn close(&mut self, _: &mut Context<'_>) {}

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        context.put_next(side, message);
    }

    fn service(&mut self, _: &mut Context<'_>, _: Side) {}

    fn ready(&mut self, _: &mut Context<'_>) {}
}
