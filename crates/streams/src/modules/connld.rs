//! `connld`: on the attached end of a pipe it gives everyone who opens the name a pipe of his own.

use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};

/// Hands every message on; what it does, [`Runtime::open_name`](crate::Runtime::open_name) does for it.
#[derive(Debug, Default)]
pub struct Connld;

/// The module's name, by which an open knows it.
pub(crate) const CONNLD: &str = "connld";

impl Module for Connld {
    fn info(&self) -> ModuleInfo {
        ModuleInfo::put_only(CONNLD)
    }

    fn put(&mut self, context: &mut Context<'_>, side: Side, message: Message) {
        context.put_next(side, message);
    }
}
