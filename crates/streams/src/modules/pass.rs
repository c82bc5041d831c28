//! `pass`: hands every message on. The least a module can be.

use super::PUT_ONLY;
use crate::error::Error;
use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};

/// Hands every message on.
#[derive(Debug, Default)]
pub struct Pass;

impl Module for Pass {
    fn info(&self) -> ModuleInfo {
        ModuleInfo {
            name: "pass",
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
