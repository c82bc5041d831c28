//! `pass`: hands every message on. The least a module can be.

use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};

/// Hands every message on.
#[derive(Debug, Default)]
pub struct Pass;

impl Module for Pass {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only("pass")
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        context.put_next(side, message);
    }
}
