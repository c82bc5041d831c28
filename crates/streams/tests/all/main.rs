//! Tests of the runtime, from outside.

mod explore;
mod head;
mod host;
mod kit;
mod pipes;
mod queue;
mod random;
