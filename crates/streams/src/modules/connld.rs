//! `connld`: on the attached end of a pipe it gives everyone who opens the name a pipe of his own.

use super::PUT_ONLY;
use crate::error::Error;
use crate::message::Message;
use crate::module::{Context, Module, ModuleInfo, Side};

/// Hands every message on; what it does, [`Runtime::open_name`](crate::Runtime::open_name) does for it.
#[derive(Debug, Default)]
pub struct Connld;

/// The module's name, by which an open knows it.
pub(crate) const CONNLD: &str = "connld";

impl Module for Connld {
    fn info(&self) -> ModuleInfo {
        ModuleInfo {
            name: CONNLD,
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
