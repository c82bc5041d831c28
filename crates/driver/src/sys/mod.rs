//! Shared memory between the user's thread and whichever thread runs the pump.
#![allow(unsafe_code)]

mod consumer_loans;
mod loans;
mod memory;
mod producer;
mod ring;

pub use memory::StorePool;
pub use producer::Producer;
pub use ring::{Consumer, UnsubmittedStore};

use engine::{AssociationId, Layout};

/// A store of its own for packets cut as `layout` says that holds at least `bytes` user bytes.
pub fn ring(layout: Layout, bytes: usize) -> (Producer, Consumer) {
    StorePool::new(layout, bytes).store(AssociationId(0))
}
