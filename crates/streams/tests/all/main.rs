//! Tests of the runtime, from outside.

mod collect;
mod explore;
mod fuzz;
mod head;
mod host;
mod kit;
mod links;
mod names;
mod pipes;
mod queue;
mod random;
mod signals;
