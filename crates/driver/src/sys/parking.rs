//! Memory of a store whose user may not come back.
//!
//! An acknowledgement mostly comes after the call that sent, and its circuit may then be idle for hours. So a user who
//! leaves a store that is not empty parks its memory, unless few stores have some: the producer writes there no more
//! until it has claimed it, and the consumer gives it to the pool when all bytes are released.

use super::memory::StoreMemory;
use super::producer::Producer;
use super::ring::Ring;
use crate::sync::{AtomicBool, Mutex, MutexGuard, Ordering};
use std::ptr::null_mut;
use std::sync::PoisonError;

/// The memory of a store: the producer's, or that of the end which takes it first while it is parked.
#[derive(Default)]
pub(super) struct HeldMemory {
    /// Whether it is parked, without the lock.
    is_parked: AtomicBool,
    memory: Mutex<Option<StoreMemory>>,
}

impl HeldMemory {
    /// Puts memory where there is none, for the producer.
    pub(super) fn put(&self, memory: StoreMemory) {
        *self.lock() = Some(memory);
    }

    /// What is parked is the producer's again, of a store that has another one.
    pub(super) fn unpark(&mut self) {
        self.is_parked = AtomicBool::new(false);
    }

    /// Takes the memory, for the producer or when both ends have left.
    pub(super) fn take(&self) -> Option<StoreMemory> {
        self.lock().take()
    }

    fn lock(&self) -> MutexGuard<'_, Option<StoreMemory>> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ring {
    fn park(&self) {
        let _held = self.memory.lock();
        self.memory.is_parked.store(true, Ordering::Relaxed);
    }

    /// Takes parked memory back, for the producer; null if the consumer has released it.
    fn claim_parked(&self) -> *mut u8 {
        if !self.memory.is_parked.load(Ordering::Relaxed) {
            return null_mut();
        }
        let held = self.memory.lock();
        self.memory.is_parked.store(false, Ordering::Relaxed);
        held.as_ref().map_or(null_mut(), StoreMemory::base)
    }

    /// Releases parked memory, for the consumer, which has released all bytes.
    #[inline]
    pub(super) fn release_parked(&self) {
        if self.memory.is_parked.load(Ordering::Relaxed) {
            self.release_if_parked();
        }
    }

    #[inline(never)]
    fn release_if_parked(&self) {
        let mut held = self.memory.lock();
        // From here on the producer does not append: it may have claimed the memory and appended before.
        let is_parked = self.memory.is_parked.load(Ordering::Relaxed);
        let head = self.producer.head.load(Ordering::Acquire);
        let is_empty = self.consumer.tail.load(Ordering::Relaxed) == head;
        if !(is_parked && is_empty && self.ends_are_taken()) {
            return;
        }
        self.memory.is_parked.store(false, Ordering::Relaxed);
        self.base.store(null_mut(), Ordering::Relaxed);
        let memory = held.take();
        drop(held);
        if let Some(memory) = memory {
            self.release(memory);
        }
    }
}

impl Producer {
    /// Its user leaves, perhaps for long: the memory of an empty store is released, that of another parked, unless few
    /// stores have some. Then it is kept until the next byte lies beyond the first slot, so that messages one by one
    /// are written to the same few pages.
    ///
    /// Under the lock of the pump, or before the helper knows of the bytes: a store that is emptied meanwhile would
    /// stay parked.
    #[inline]
    pub fn leave(&mut self) {
        if !self.ring.pool.is_kept_by_stores() {
            self.release_or_park();
        } else if self.offset >= self.ring.layout.packet() {
            self.release_memory();
        }
    }

    #[inline(never)]
    pub(super) fn release_or_park(&mut self) {
        self.release_memory();
        if self.base.is_null() || self.has_reserved() {
            return;
        }
        (self.base, self.limit) = (null_mut(), self.head);
        self.ring.park();
    }

    /// Takes parked memory back, if it is still there.
    pub(super) fn claim_parked(&mut self) -> bool {
        self.base = self.ring.claim_parked();
        !self.base.is_null()
    }
}
