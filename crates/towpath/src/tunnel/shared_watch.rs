//! The readiness of an endpoint's circuits, for the tunnel's thread and for threads of the program that move the data
//! of their circuits themselves.

use crate::xtp::{Circuit, Endpoint, EndpointWatch};
use engine::AssociationId;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A part of the program that moves the data of a circuit itself, in place of the tunnel.
pub trait CircuitUser: Send + Sync {
    /// Takes the circuit, whose handshake is complete. None when it is taken; else the circuit, which the tunnel goes
    /// on with.
    fn take(&self, circuit: Circuit) -> Option<Circuit>;

    /// Whether the tunnel should go on with the circuit. Asked when the tunnel was woken, and each 100 ms.
    fn is_wanted_back(&self) -> bool;

    /// Gives the circuit back for the tunnel to go on with; None when it was handed over already.
    fn give_back(&self) -> Option<Circuit>;

    /// The circuit may have bytes, room, or an end. Called with locks held: it does not call the watch.
    fn on_ready(&self);
}

/// One watch for both. The thread that looks receives for all circuits, and tells the other side of its own.
///
/// While threads of the program look, and wait at its [`descriptor`](SharedWatch::descriptor), the tunnel's thread does
/// not, unless it has circuits too: two that wait for the same wake each other for nothing.
pub struct SharedWatch {
    watch: Mutex<EndpointWatch>,
    descriptor: OwnedFd,
    users: Mutex<HashMap<AssociationId, Arc<dyn CircuitUser>>>,
    /// What a thread of the program found for the tunnel.
    for_tunnel: Mutex<Vec<AssociationId>>,
    has_pending_accept: AtomicBool,
    /// Wakes the tunnel's thread.
    wakeup: OwnedFd,
    /// Looks of the program so far, and its threads that wait at the descriptor now.
    looks: AtomicU64,
    waiting: AtomicUsize,
    is_covered: AtomicBool,
}

impl SharedWatch {
    /// A watch of `endpoint`, which has no other one.
    ///
    /// # Errors
    ///
    /// When the process is out of descriptors.
    pub fn new(endpoint: &Endpoint) -> io::Result<Arc<SharedWatch>> {
        let watch = endpoint.watch()?;
        Ok(Arc::new(SharedWatch {
            descriptor: watch.descriptor().try_clone_to_owned()?,
            watch: Mutex::new(watch),
            users: Mutex::default(),
            for_tunnel: Mutex::default(),
            has_pending_accept: AtomicBool::new(false),
            wakeup: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            looks: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            is_covered: AtomicBool::new(false),
        }))
    }

    /// Readable when a look would find something.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// The eventfd that wakes the tunnel's thread.
    pub fn wakeup(&self) -> BorrowedFd<'_> {
        self.wakeup.as_fd()
    }

    /// Wakes the tunnel's thread.
    pub fn wake_tunnel(&self) {
        // Fails only if the counter is full, and then the thread wakes anyway.
        let _ = rustix::io::write(&self.wakeup, &1u64.to_ne_bytes());
    }

    /// A thread of the program receives what arrived, and says so to the users of its circuits.
    /// Errors are those of the wire.
    pub fn look(&self) -> io::Result<()> {
        let mut ready = Vec::new();
        let accepts = self.receive(&mut ready)?;
        self.looks.fetch_add(1, Ordering::Relaxed);
        if !ready.is_empty() || accepts {
            self.locked_for_tunnel().append(&mut ready);
            self.has_pending_accept.fetch_or(accepts, Ordering::Release);
            self.wake_tunnel();
        }
        if !self.is_covered.load(Ordering::Relaxed) {
            self.is_covered.store(true, Ordering::Relaxed);
            self.wake_tunnel();
        }
        Ok(())
    }

    /// To be called before each wait at the descriptor: sends what is left to send, and returns how long to wait at most.
    /// Errors are those of the wire.
    pub fn prepare_wait(&self) -> io::Result<Option<Duration>> {
        self.locked_watch().prepare_wait()
    }

    /// A thread of the program begins to wait at the descriptor.
    pub fn begin_wait(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
    }

    /// It has waited.
    pub fn end_wait(&self) {
        self.waiting.fetch_sub(1, Ordering::Relaxed);
    }

    /// The circuit has no user of its own any more; the tunnel goes on with it, or nobody.
    pub fn forget(&self, id: AssociationId) {
        let gone = self.locked_users().remove(&id);
        // Dropped without the lock.
        drop(gone);
    }

    /// From now on the circuit's readiness is told to `user`, once at once.
    pub(super) fn add_user(&self, id: AssociationId, user: Arc<dyn CircuitUser>) {
        self.locked_users().insert(id, Arc::clone(&user));
        user.on_ready();
    }

    /// The tunnel's thread receives: its circuits are added to `ready`. True when circuits can be accepted.
    pub(super) fn receive(&self, ready: &mut Vec<AssociationId>) -> io::Result<bool> {
        let accepts = self.locked_watch().poll_ready(ready)?;
        if !ready.is_empty() {
            let users = self.locked_users();
            ready.retain(|id| match users.get(id) {
                Some(user) => {
                    user.on_ready();
                    false
                }
                None => true,
            });
        }
        Ok(accepts)
    }

    /// Takes what the program's threads found for the tunnel.
    pub(super) fn take_for_tunnel(&self, ready: &mut Vec<AssociationId>) -> bool {
        ready.append(&mut self.locked_for_tunnel());
        self.has_pending_accept.swap(false, Ordering::Acquire)
    }

    /// Whether threads of the program look in place of the tunnel's.
    pub(super) fn is_covered(&self) -> bool {
        self.is_covered.load(Ordering::Relaxed)
    }

    /// The tunnel covers again if no thread of the program waits, or has looked since `looks`, which is updated.
    pub(super) fn check_cover(&self, looks: &mut u64) {
        let now = self.looks.load(Ordering::Relaxed);
        if now == *looks && self.waiting.load(Ordering::Relaxed) == 0 {
            self.is_covered.store(false, Ordering::Relaxed);
        }
        *looks = now;
    }

    fn locked_watch(&self) -> MutexGuard<'_, EndpointWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked_users(&self) -> MutexGuard<'_, HashMap<AssociationId, Arc<dyn CircuitUser>>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn locked_for_tunnel(&self) -> MutexGuard<'_, Vec<AssociationId>> {
        self.for_tunnel
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
