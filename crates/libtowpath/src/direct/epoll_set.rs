//! Epoll sets with direct connections: their events are found here, those of all other descriptors by the kernel.
//!
//! The kernel does not know of a direct connection's registration, so that to register costs no system call. What waits in
//! the kernel is the watch of each connection's endpoint, and an eventfd by which other threads tell of connections.

use super::{DirectConnection, descriptors};
use crate::sys::{self, EpollOperation};
use library::tunnel::SharedWatch;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// An event as the program gets it.
pub(crate) type Event = libc::epoll_event;

/// Flags of a registration that are no events.
const FLAGS: u32 = (libc::EPOLLET | libc::EPOLLONESHOT | libc::EPOLLWAKEUP).cast_unsigned();

/// The sets by descriptor.
static SETS: RwLock<Vec<Option<Arc<EpollSet>>>> = RwLock::new(Vec::new());

/// An epoll set in which a direct connection was registered.
pub(crate) struct EpollSet {
    pub(super) fd: RawFd,
    pub(super) wakeup: OwnedFd,
    inner: Mutex<SetInner>,
}

#[derive(Default)]
pub(super) struct SetInner {
    /// By descriptor.
    places: Vec<Place>,
    /// Descriptors that may have events: the kernel's ready list.
    pub(super) ready: VecDeque<RawFd>,
    /// The watches of the connections' endpoints, and of how many connections each.
    pub(super) watches: Vec<(Arc<SharedWatch>, usize)>,
    /// Threads that wait in the kernel, and whether the eventfd was signalled for them.
    pub(super) waiting: usize,
    pub(super) is_signalled: bool,
}

/// What is known of a descriptor.
#[derive(Default)]
struct Place {
    registration: Option<Registration>,
    /// It is in the ready list.
    is_listed: bool,
}

/// What a descriptor was registered for.
struct Registration {
    connection: Arc<DirectConnection>,
    events: u32,
    data: u64,
    /// Of one that is to be reported once: it was not, and no thread looks at it for that.
    is_armed: bool,
    /// It may have had events since it is not armed.
    is_noted: bool,
}

/// A descriptor of the ready list, to be looked at without the lock.
pub(super) struct Candidate {
    pub(super) fd: RawFd,
    pub(super) connection: Arc<DirectConnection>,
    pub(super) events: u32,
    pub(super) data: u64,
    pub(super) is_reported: bool,
}

/// Epoll descriptors from here on are not looked at before they have direct connections.
const COUNTED_MAX: usize = 65_536;

/// By descriptor, threads that wait in the kernel for a set that had no direct connections when they began.
static PLAIN_WAITS: [AtomicU32; COUNTED_MAX] = [const { AtomicU32::new(0) }; COUNTED_MAX];

/// A wait for a set without direct connections.
pub(crate) struct PlainWait(&'static AtomicU32);

impl PlainWait {
    /// A thread begins to wait. It looks for the set once more after that: the thread that makes one later knows of the wait.
    pub(crate) fn begin(fd: RawFd) -> Option<PlainWait> {
        let count = PLAIN_WAITS.get(usize::try_from(fd).ok()?)?;
        count.fetch_add(1, Ordering::SeqCst);
        Some(PlainWait(count))
    }
}

impl Drop for PlainWait {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn has_plain_waits(fd: RawFd) -> bool {
    let count = usize::try_from(fd).ok().and_then(|fd| PLAIN_WAITS.get(fd));
    count.is_some_and(|count| count.load(Ordering::SeqCst) > 0)
}

/// The set of an epoll descriptor, if it has direct connections.
pub(crate) fn find_set(fd: RawFd) -> Option<Arc<EpollSet>> {
    if descriptors::is_child() {
        // The lock may be held by a thread that the child has not.
        return None;
    }
    let sets = SETS.read().unwrap_or_else(PoisonError::into_inner);
    sets.get(usize::try_from(fd).ok()?)?.clone()
}

/// The epoll sets from `first` to `last`.
pub(super) fn known_within(first: RawFd, last: RawFd) -> Vec<RawFd> {
    let sets = SETS.read().unwrap_or_else(PoisonError::into_inner);
    let known = sets.iter().flatten().map(|set| set.fd);
    known.filter(|fd| (first..=last).contains(fd)).collect()
}

/// The epoll descriptor is closed, or is used in a way that only the kernel answers.
pub(super) fn forget_set(fd: RawFd) {
    let mut sets = SETS.write().unwrap_or_else(PoisonError::into_inner);
    let place = usize::try_from(fd).ok().and_then(|fd| sets.get_mut(fd));
    let gone = place.and_then(Option::take);
    drop(sets);
    drop(gone);
}

/// The set of an epoll descriptor, which gets one. Fails when it is none.
pub(crate) fn set_for(fd: RawFd) -> io::Result<Arc<EpollSet>> {
    if let Some(set) = find_set(fd) {
        return Ok(set);
    }
    let index = usize::try_from(fd).map_err(io::Error::other)?;
    let set = Arc::new(EpollSet {
        fd,
        wakeup: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        inner: Mutex::default(),
    });
    let own = input_event(set.own_data());
    sys::epoll_ctl(EpollOperation::Add, fd, set.wakeup.as_raw_fd(), own)?;
    let mut sets = SETS.write().unwrap_or_else(PoisonError::into_inner);
    if sets.len() <= index {
        sets.resize_with(index + 1, || None);
    }
    sets[index] = Some(Arc::clone(&set));
    Ok(set)
}

impl EpollSet {
    /// epoll_ctl(2) of a connection; None when it is the kernel's to do.
    pub(crate) fn control(
        self: &Arc<Self>,
        connection: &Arc<DirectConnection>,
        fd: RawFd,
        operation: EpollOperation,
        event: Event,
    ) -> Option<io::Result<()>> {
        if event.events & libc::EPOLLEXCLUSIVE.cast_unsigned() != 0 {
            connection.hand_over();
            return None;
        }
        connection.with_registration(self, |is_direct| {
            if !is_direct {
                sys::epoll_ctl(operation, self.fd, fd, event)?;
            }
            let mut inner = self.lock();
            let is_known = inner.registration(fd).is_some();
            match (operation, is_known) {
                (EpollOperation::Add, true) => return Err(Errno::EXIST.into()),
                (EpollOperation::Modify | EpollOperation::Delete, false) if is_direct => {
                    return Err(Errno::NOENT.into());
                }
                (EpollOperation::Delete, _) => drop(inner.remove(fd)),
                _ => {
                    inner.enter(self.fd, fd, connection, event);
                    self.list(&mut inner, fd);
                }
            }
            Ok(())
        })
    }

    /// The tunnel carries the connection of `fd` from now on, which the kernel knows if `is_known`.
    pub(super) fn give_to_kernel(&self, fd: RawFd, is_known: bool) {
        let removed = self.lock().remove(fd);
        if let (Some(registration), false) = (removed, is_known) {
            let events = match registration.is_armed {
                true => registration.events,
                false => registration.events & FLAGS,
            };
            let event = Event {
                events,
                u64: registration.data,
            };
            // Fails only where the program has closed the set or the descriptor.
            let _ = sys::epoll_ctl(EpollOperation::Add, self.fd, fd, event);
        }
    }

    /// The program moves the data of `fd` from now on.
    pub(super) fn take_from_kernel(&self, fd: RawFd) {
        let mut inner = self.lock();
        if inner.registration(fd).is_some() {
            // As in `give_to_kernel`.
            let _ = sys::epoll_ctl(EpollOperation::Delete, self.fd, fd, input_event(0));
            self.list(&mut inner, fd);
        }
    }

    /// The connection of `fd` may have events.
    pub(super) fn note_ready(&self, fd: RawFd) {
        self.list(&mut self.lock(), fd);
    }

    /// Leaves all its connections to the tunnel.
    pub(super) fn dissolve(&self) {
        let inner = self.lock();
        let known = inner
            .places
            .iter()
            .filter_map(|place| place.registration.as_ref());
        let all: Vec<_> = known
            .map(|registration| Arc::clone(&registration.connection))
            .collect();
        drop(inner);
        for connection in all {
            connection.hand_over();
        }
        let own = input_event(self.own_data());
        // Fails only if the set was closed.
        let _ = sys::epoll_ctl(
            EpollOperation::Delete,
            self.fd,
            self.wakeup.as_raw_fd(),
            own,
        );
    }

    fn list(&self, inner: &mut SetInner, fd: RawFd) {
        let place = inner.place(fd);
        let Some(registration) = place.and_then(|place| place.registration.as_mut()) else {
            return;
        };
        if !registration.is_armed {
            registration.is_noted = true;
        } else if inner.push_ready(fd) {
            self.wake_waiting(inner);
        }
    }

    /// Wakes a thread that waits in the kernel.
    pub(super) fn wake_waiting(&self, inner: &mut SetInner) {
        if (inner.waiting > 0 || has_plain_waits(self.fd)) && !inner.is_signalled {
            inner.is_signalled = true;
            sys::signal_eventfd(self.wakeup.as_raw_fd());
        }
    }

    /// What the kernel tells with the eventfd: an address in use, which the program cannot have among its data.
    pub(super) fn own_data(&self) -> u64 {
        std::ptr::from_ref(self) as u64
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SetInner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SetInner {
    fn registration(&self, fd: RawFd) -> Option<&Registration> {
        let place = self.places.get(usize::try_from(fd).ok()?)?;
        place.registration.as_ref()
    }

    fn place(&mut self, fd: RawFd) -> Option<&mut Place> {
        self.places.get_mut(usize::try_from(fd).ok()?)
    }

    fn enter(&mut self, set: RawFd, fd: RawFd, connection: &Arc<DirectConnection>, event: Event) {
        let Ok(index) = usize::try_from(fd) else {
            return;
        };
        if self.places.len() <= index {
            self.places.resize_with(index + 1, Place::default);
        }
        let registration = Registration {
            connection: Arc::clone(connection),
            events: event.events,
            data: event.u64,
            is_armed: true,
            is_noted: false,
        };
        let old = self.places[index].registration.replace(registration);
        if old.is_none() {
            self.add_watch(set, connection.watch());
        }
    }

    /// Lists a descriptor; false if it is listed.
    pub(super) fn push_ready(&mut self, fd: RawFd) -> bool {
        let Some(place) = self.place(fd) else {
            return false;
        };
        let is_new = !std::mem::replace(&mut place.is_listed, true);
        if is_new {
            self.ready.push_back(fd);
        }
        is_new
    }

    /// A descriptor that is to be reported once had nothing to report.
    pub(super) fn arm_again(&mut self, fd: RawFd) {
        let place = self.place(fd);
        let Some(registration) = place.and_then(|place| place.registration.as_mut()) else {
            return;
        };
        registration.is_armed = true;
        if std::mem::take(&mut registration.is_noted) {
            self.push_ready(fd);
        }
    }

    fn add_watch(&mut self, set: RawFd, watch: &Arc<SharedWatch>) {
        let mut known = self.watches.iter_mut();
        if let Some((_, count)) = known.find(|(known, _)| Arc::ptr_eq(known, watch)) {
            *count += 1;
            return;
        }
        self.watches.push((Arc::clone(watch), 1));
        let event = input_event(watch_data(watch));
        // Fails only without memory; the tunnel's thread tells of arrivals then.
        let _ = sys::epoll_ctl(
            EpollOperation::Add,
            set,
            watch.descriptor().as_raw_fd(),
            event,
        );
    }

    /// The registration of a descriptor, which is taken out; in the ready list it is passed over.
    fn remove(&mut self, fd: RawFd) -> Option<Registration> {
        let registration = self.place(fd)?.registration.take()?;
        let watch = registration.connection.watch();
        let mut known = self.watches.iter_mut();
        if let Some((_, count)) = known.find(|(known, _)| Arc::ptr_eq(known, watch)) {
            *count -= 1;
        }
        Some(registration)
    }

    /// Waits no more for endpoints without connections.
    pub(super) fn forget_unused_watches(&mut self, set: RawFd) {
        if self.watches.iter().all(|(_, count)| *count > 0) {
            return;
        }
        let unused = self.watches.extract_if(.., |(_, count)| *count == 0);
        for (watch, _) in unused {
            let fd = watch.descriptor().as_raw_fd();
            // Fails only if the set was closed.
            let _ = sys::epoll_ctl(EpollOperation::Delete, set, fd, input_event(0));
        }
    }

    /// The next descriptor of the ready list that is registered.
    pub(super) fn pop_candidate(&mut self) -> Option<Candidate> {
        loop {
            let fd = self.ready.pop_front()?;
            let place = self.place(fd)?;
            place.is_listed = false;
            if let Some(registration) = &mut place.registration {
                let is_once = registration.events & libc::EPOLLONESHOT.cast_unsigned() != 0;
                registration.is_armed &= !is_once;
                return Some(Candidate {
                    fd,
                    connection: Arc::clone(&registration.connection),
                    events: registration.events,
                    data: registration.data,
                    is_reported: false,
                });
            }
        }
    }
}

fn input_event(data: u64) -> Event {
    Event {
        events: libc::EPOLLIN.cast_unsigned(),
        u64: data,
    }
}

pub(super) fn watch_data(watch: &Arc<SharedWatch>) -> u64 {
    Arc::as_ptr(watch) as u64
}
