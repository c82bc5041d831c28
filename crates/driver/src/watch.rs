//! Readiness of all circuits of an endpoint on one descriptor, for an event loop.

use crate::shared::EndpointHandle;
use crate::wakeup::EventFd;
use crate::wire_descriptor::WireDescriptor;
use engine::{AssociationId, Associations};
use rustix::event::epoll;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use wire::Wire;

/// Reports which circuits of an endpoint are ready.
///
/// A loop calls [`prepare_wait`](Watch::prepare_wait), waits at most that long until the
/// [`descriptor`](Watch::descriptor) is readable, calls [`poll_ready`](Watch::poll_ready), and then
/// the `try_` calls of each circuit named until they return `WouldBlock`. Those do not poll the
/// wire then, and acknowledgements of all circuits are sent together.
pub struct Watch<E, W> {
    shared: Arc<EndpointHandle<E, W>>,
    /// Readable when the wire is, or when another thread received for a circuit.
    epoll: OwnedFd,
    /// The wire's descriptor for groups is among what is waited for.
    watches_groups: bool,
}

impl<E: Associations, W: Wire> Watch<E, W> {
    pub(crate) fn new(shared: Arc<EndpointHandle<E, W>>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let Some(wire) = &shared.descriptor else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let readable = epoll::EventFlags::IN;
        let data = epoll::EventData::new_u64;
        let watches_groups = wire.with_groups().is_some();
        epoll::add(&epoll, wire.get(), data(0), readable)?;
        let eventfd = EventFd::new()?;
        epoll::add(&epoll, eventfd.descriptor(), data(1), readable)?;
        if !shared.wakeup.readiness.set_eventfd(eventfd) {
            let text = "the endpoint has a watch already";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
        }
        shared.lock()?.track_ready();
        Ok(Watch {
            shared,
            epoll,
            watches_groups,
        })
    }

    /// Readable when [`poll_ready`](Watch::poll_ready) has something to report.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Sends what the `try_` calls left to send, acknowledgements of all circuits together, and
    /// returns how long to wait at most: until the engine's next timeout, or None for no limit. To
    /// be called before each wait. Errors are those of the wire.
    pub fn prepare_wait(&mut self) -> io::Result<Option<Duration>> {
        self.watch_groups()?;
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        pump.flush(now)?;
        self.shared.notify_granted(&mut pump);
        if pump.has_ready_circuits() || !pump.wire_mut().may_wait() {
            return Ok(Some(Duration::ZERO));
        }
        Ok(pump.poll_timeout().map(|deadline| deadline.since(now)))
    }

    /// Waits for groups too, once the wire has joined one.
    fn watch_groups(&mut self) -> io::Result<()> {
        let descriptor = self.shared.descriptor.as_ref();
        if let Some(groups) = descriptor.and_then(WireDescriptor::with_groups)
            && !self.watches_groups
        {
            let data = epoll::EventData::new_u64(2);
            epoll::add(&self.epoll, groups, data, epoll::EventFlags::IN)?;
            self.watches_groups = true;
        }
        Ok(())
    }

    /// Receives what arrived, runs timers, and adds the circuits that became ready since the last
    /// call: bytes to receive, room to send, or closed. True when circuits opened by peers can be
    /// accepted. Errors are those of the wire.
    pub fn poll_ready(&mut self, ready: &mut Vec<AssociationId>) -> io::Result<bool> {
        let mut pump = self.shared.lock()?;
        let now = self.shared.now();
        self.shared.receive_all(&mut pump, now)?;
        pump.handle_timeout(now);
        self.shared.notify_granted(&mut pump);
        self.shared.wakeup.readiness.clear();
        pump.take_ready(ready);
        Ok(pump.has_pending_accept())
    }
}
