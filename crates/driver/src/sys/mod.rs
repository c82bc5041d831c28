//! Memory shared by the user's thread and the thread that runs the pump.
#![allow(unsafe_code)]

mod consumer_loans;
mod copy_cursor;
#[cfg(test)]
pub(crate) mod counting_allocator;
mod gather;
mod loans;
mod memory;
mod message_ends;
mod notes;
mod page_buffer;
mod parking;
mod producer;
mod reservation;
mod ring;
mod unsubmitted;

pub use copy_cursor::CopyCursor;
pub use memory::StorePool;
pub use page_buffer::PageBuffer;
pub use producer::Producer;
pub use reservation::Reserved;
pub use ring::Consumer;
pub use unsubmitted::UnsubmittedStore;

use engine::{AssociationId, Layout};

/// A single store for packets of `layout` that holds at least `bytes` user bytes.
pub fn ring(layout: Layout, bytes: usize) -> (Producer, Box<Consumer>) {
    StorePool::new(layout, bytes).store(AssociationId(0), layout)
}
