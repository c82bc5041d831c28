//! Memory of send stores: taken when a circuit first sends, returned when all of it is released.
//!
//! Idle circuits have none, so ten thousand of them cost nothing here; and the next store is the
//! one used last, whose pages are in the cache.

use super::producer::Producer;
use super::ring::{Consumer, Ring};
use crate::wakeup::SendPermits;
use engine::{AssociationId, Layout};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Message ends that may wait for the pump: many times as many as a batch has packets.
pub(super) const MESSAGE_ENDS_MAX: u64 = 4096;

/// Free stores kept that none of an endpoint's circuits needs for a while; more are unmapped by its helper. 64 of
/// 512 KiB are 32 MiB at most: a server of fifty clients, whose stores are empty and full by turns, makes no system
/// call for them.
const UNUSED_STORES_MAX: usize = 64;

/// While no more stores have memory, an empty one keeps it for its next message: the pool would keep it anyway, and
/// is not asked twice a message.
const KEEPING_STORES_MAX: usize = 2;

/// Pool of the send stores of an endpoint.
pub struct StorePool {
    /// The layout of its longest packets.
    layout: Layout,
    /// Such packets a store has room for.
    slots: usize,
    free: Mutex<FreeStores>,
    /// Stores that have memory.
    taken: AtomicUsize,
    /// Spare ones among them, which no circuit has. Written under the lock of the pump alone.
    spare: AtomicUsize,
    pub(crate) permits: SendPermits,
}

/// Memory of stores that no circuit has, that used last behind.
#[derive(Default)]
struct FreeStores {
    stores: Vec<StoreMemory>,
    /// How many there were at least since they were trimmed.
    least: usize,
}

impl FreeStores {
    fn pop(&mut self) -> Option<StoreMemory> {
        let store = self.stores.pop();
        self.least = self.least.min(self.stores.len());
        store
    }

    /// Takes out what nobody needed since the last call, beyond [`UNUSED_STORES_MAX`].
    fn take_unused(&mut self) -> Vec<StoreMemory> {
        let unused = self.least.saturating_sub(UNUSED_STORES_MAX);
        let taken = self.stores.drain(..unused).collect();
        self.least = self.stores.len();
        taken
    }
}

impl StorePool {
    /// A pool of stores for packets of `layout`, each of at least `bytes` user bytes.
    pub fn new(layout: Layout, bytes: usize) -> Arc<StorePool> {
        Arc::new(StorePool {
            layout,
            slots: bytes.div_ceil(layout.payload).max(2),
            free: Mutex::default(),
            taken: AtomicUsize::new(0),
            spare: AtomicUsize::new(0),
            permits: SendPermits::default(),
        })
    }

    /// Both ends of a new store of circuit `id`, without memory until the first byte is written. Its
    /// packets are of the pool's layout, or of a shorter one.
    ///
    /// # Panics
    ///
    /// When packets of `layout` are longer than the pool's.
    pub fn store(
        self: &Arc<StorePool>,
        id: AssociationId,
        layout: Layout,
    ) -> (Producer, Box<Consumer>) {
        let slots = self.slots_of(layout);
        let ring = Arc::new(Ring::new(id, Arc::clone(self), layout, slots));
        (
            Producer::new(Arc::clone(&ring)),
            Box::new(Consumer::new(ring)),
        )
    }

    /// The same, of a [spare store](Consumer::make_spare) if there is one.
    ///
    /// # Panics
    ///
    /// As [`store`](StorePool::store).
    pub fn store_of(
        self: &Arc<StorePool>,
        spare: Option<Box<Consumer>>,
        id: AssociationId,
        layout: Layout,
    ) -> (Producer, Box<Consumer>) {
        let restarted = spare.and_then(|mut spare| {
            let producer = spare.restart(id, layout, self.slots_of(layout))?;
            Some((producer, spare))
        });
        restarted.unwrap_or_else(|| self.store(id, layout))
    }

    /// Packets of `layout` that a store has room for.
    fn slots_of(&self, layout: Layout) -> usize {
        if layout == self.layout {
            return self.slots;
        }
        let slots = self.octets() / layout.packet();
        assert!(slots >= self.slots, "a store's packets do not fit its pool");
        slots
    }

    /// Octets of packets in a store; the message ends lie behind them.
    fn octets(&self) -> usize {
        self.slots * self.layout.packet()
    }

    /// Offset of the message ends.
    fn ends_offset(&self) -> usize {
        self.octets().next_multiple_of(align_of::<AtomicU64>())
    }

    /// Memory for a store; None when the kernel has none.
    pub(super) fn acquire(&self) -> Option<StoreMemory> {
        let kept = self.lock().pop();
        let memory = kept.or_else(|| {
            StoreMemory::map(
                self.ends_offset() + MESSAGE_ENDS_MAX as usize * size_of::<AtomicU64>(),
            )
        })?;
        self.count_taken();
        Some(memory)
    }

    /// Whether so few stores have memory that an empty one keeps it.
    #[inline]
    pub(crate) fn is_kept_by_stores(&self) -> bool {
        let spare = self.spare.load(Ordering::Relaxed);
        self.taken.load(Ordering::Relaxed) <= KEEPING_STORES_MAX + spare
    }

    /// A store with memory becomes spare. Called under the lock of the pump, as [`count_reused`](StorePool::count_reused) is.
    pub(super) fn count_spare(&self) {
        let spare = self.spare.load(Ordering::Relaxed);
        self.spare.store(spare + 1, Ordering::Relaxed);
    }

    /// A spare store with memory is a circuit's again.
    pub(super) fn count_reused(&self) {
        let spare = self.spare.load(Ordering::Relaxed);
        self.spare.store(spare.saturating_sub(1), Ordering::Relaxed);
    }

    /// A store has memory no more: the pool has it.
    fn count_given_back(&self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }

    /// A store has memory now.
    fn count_taken(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn release(&self, memory: StoreMemory) {
        self.count_given_back();
        self.lock().stores.push(memory);
    }

    /// Unmaps free stores beyond [`UNUSED_STORES_MAX`] that nobody needed since the last call. Stores of a thousand
    /// circuits that send by turns are not among them: the kernel would clear their pages anew at each turn.
    pub(crate) fn trim(&self) {
        let unused = self.lock().take_unused();
        // Without the lock: unmapping takes its time.
        drop(unused);
    }

    /// Takes back memory that nobody may write to again: it is unmapped, and the system keeps the pages that
    /// packets refer to.
    #[cold]
    pub(super) fn retire(&self, memory: StoreMemory) {
        self.count_given_back();
        drop(memory);
    }

    /// The message ends in the memory that begins at `base`.
    pub(super) fn ends(&self, base: *mut u8) -> *const AtomicU64 {
        debug_assert!(!base.is_null());
        base.wrapping_add(self.ends_offset()).cast()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FreeStores> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Anonymous pages, zero when new; the kernel allocates them when they are first written.
pub(super) struct StoreMemory {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: plain memory, owned by this value alone.
unsafe impl Send for StoreMemory {}

impl StoreMemory {
    pub(super) fn map(len: usize) -> Option<StoreMemory> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing else.
        let base =
            unsafe { mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, flags) };
        let base = NonNull::new(base.ok()?.cast())?;
        Some(StoreMemory { base, len })
    }

    /// The first octet.
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }
}

impl Drop for StoreMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping belongs to this value and there is no other reference to it. An error
        // would leave it mapped, which is harmless.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout = Layout {
        header: 4,
        payload: 100,
        trailer: 0,
    };

    fn free(pool: &StorePool) -> usize {
        pool.lock().stores.len()
    }

    #[test]
    fn stores_that_are_used_by_turns_stay_and_unused_ones_are_unmapped() {
        let pool = StorePool::new(LAYOUT, 1000);
        let turn = |count: usize| {
            let taken: Vec<StoreMemory> = (0..count).filter_map(|_| pool.acquire()).collect();
            taken.into_iter().for_each(|memory| pool.release(memory));
        };
        for _ in 0..5 {
            turn(200);
            pool.trim();
            assert_eq!(free(&pool), 200, "all were needed since");
        }
        for _ in 0..5 {
            turn(50);
            pool.trim();
        }
        assert_eq!(free(&pool), 50 + UNUSED_STORES_MAX);
        pool.trim();
        pool.trim();
        assert_eq!(free(&pool), UNUSED_STORES_MAX, "nobody needed one");
    }

    #[test]
    fn store_of_a_circuit_that_is_gone_is_another_ones_with_its_memory() {
        let pool = StorePool::new(LAYOUT, 1000);
        let (mut producer, mut consumer) = pool.store(AssociationId(1), LAYOUT);
        assert!(producer.append_message(&[7; 150]));
        consumer.take_message_ends();
        assert_eq!(consumer.pop_message_end(150), Some(150));
        assert!(!consumer.make_spare(), "its user has it");
        drop(producer);
        assert!(consumer.make_spare());
        let memory = consumer.ring.base.load(Ordering::Relaxed);
        let (mut producer, consumer) = pool.store_of(Some(consumer), AssociationId(2), LAYOUT);
        assert!(producer.has_memory() && consumer.is_empty());
        assert_eq!((producer.position(), consumer.submitted()), (0, 0));
        assert!(producer.append_bytes(&[8; 120]));
        let mut octets = Vec::new();
        consumer.copy(&(0..120), &mut octets);
        assert_eq!(octets, [8; 120]);
        assert_eq!(consumer.ring.base.load(Ordering::Relaxed), memory);
        assert_eq!(consumer.ring.id, AssociationId(2));
    }

    #[test]
    fn memory_that_was_parked_is_kept_by_the_next_circuit() {
        let pool = StorePool::new(LAYOUT, 1000);
        let mut busy = [1, 2].map(|id| pool.store(AssociationId(id), LAYOUT));
        for (producer, _) in &mut busy {
            assert!(producer.append_bytes(&[6; 10]));
        }
        let (mut producer, mut consumer) = pool.store(AssociationId(3), LAYOUT);
        assert!(producer.append_bytes(&[7; 10]));
        producer.leave();
        assert!(!producer.has_memory(), "it is parked");
        drop((producer, busy));
        assert!(consumer.make_spare());
        let (mut producer, mut consumer) = pool.store_of(Some(consumer), AssociationId(4), LAYOUT);
        assert!(producer.append_bytes(&[8; 10]));
        consumer.release(0..10);
        assert!(producer.append_bytes(&[9; 10]));
        let mut octets = Vec::new();
        consumer.copy(&(10..20), &mut octets);
        assert_eq!(octets, [9; 10], "it is still the circuit's");
    }

    /// Spare stores do not count among those that have memory.
    #[test]
    fn spare_stores_leave_others_their_memory() {
        let of_circuits = |pool: &StorePool| {
            let counts = [&pool.taken, &pool.spare].map(|count| count.load(Ordering::Relaxed));
            counts[0] - counts[1]
        };
        let pool = StorePool::new(LAYOUT, 1000);
        let mut spare = Vec::new();
        for id in 0..5 {
            let (mut producer, mut consumer) = pool.store(AssociationId(id), LAYOUT);
            assert!(producer.append_bytes(&[7; 10]));
            drop(producer);
            assert!(consumer.make_spare());
            spare.push(consumer);
        }
        assert_eq!(of_circuits(&pool), 0);
        let used = spare.into_iter().map(|consumer| {
            let (mut producer, consumer) = pool.store_of(Some(consumer), AssociationId(9), LAYOUT);
            assert!(producer.append_bytes(&[8; 10]));
            (producer, consumer)
        });
        let used: Vec<_> = used.collect();
        assert_eq!(of_circuits(&pool), 5);
        drop(used);
        assert_eq!(of_circuits(&pool), 0);
    }
}
