//! Readiness of all circuits of an endpoint on one descriptor, for a user's own loop.

use crate::shared::EndpointHandle;
use crate::wait_list::EventFd;
use engine::{AssociationId, Associations};
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use wire::Wire;

/// Tells which circuits of an endpoint to look at.
///
/// A loop asks for its [`patience`](Watch::patience), waits that long at most until the
/// [`descriptor`](Watch::descriptor) is readable, calls [`ready`](Watch::ready), and then the
/// `try_` calls of each circuit named until they give `WouldBlock`. Those do not look at the wire
/// themselves then, and what they leave to acknowledge is sent in one go.
pub struct Watch<E, W> {
    shared: Arc<EndpointHandle<E, W>>,
    /// Readable when the wire is, or when another thread took in what concerns a circuit.
    epoll: OwnedFd,
}

impl<E: Associations, W: Wire> Watch<E, W> {
    pub(crate) fn new(shared: Arc<EndpointHandle<E, W>>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let Some(wire) = &shared.descriptor else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let readable = epoll::EventFlags::IN;
        let data = epoll::EventData::new_u64;
        epoll::add(&epoll, wire, data(0), readable)?;
        let eventfd = EventFd::new()?;
        epoll::add(&epoll, eventfd.descriptor(), data(1), readable)?;
        if shared.readiness_fd.set(eventfd).is_err() {
            let text = "the endpoint has a watch already";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        shared.lock().track_ready();
        Ok(Watch { shared, epoll })
    }

    /// Readable when [`ready`](Watch::ready) has something to say.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Sends what the `try_` calls left to send, acknowledgements of all circuits together, and
    /// says how long to wait at most: until the engine's next deadline, or None for as long as one
    /// likes. To be called before each wait.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn prepare_wait(&mut self) -> io::Result<Option<Duration>> {
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        pump.flush(now)?;
        self.shared.notify_granted(&mut pump);
        Ok(pump.poll_timeout().map(|deadline| deadline.since(now)))
    }

    /// Takes in what arrived, acts on deadlines, and adds the circuits to which anything happened
    /// since the last call to `ready`: bytes to receive, room to send, an end. True when circuits
    /// opened by peers wait to be accepted too.
    ///
    /// # Errors
    ///
    /// The wire's.
    pub fn poll_ready(&mut self, ready: &mut Vec<AssociationId>) -> io::Result<bool> {
        let mut pump = self.shared.lock();
        let now = self.shared.now();
        self.shared.receive_all(&mut pump, now)?;
        pump.handle_timeout(now);
        self.shared.notify_granted(&mut pump);
        // Rung and hushed under the lock alone.
        if self
            .shared
            .readiness_signalled
            .swap(false, Ordering::Relaxed)
            && let Some(eventfd) = self.shared.readiness_fd.get()
        {
            eventfd.clear();
        }
        pump.take_ready(ready);
        Ok(pump.has_pending_accept())
    }
}
