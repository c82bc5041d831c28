//! The wait for events of an epoll set: those of direct connections are found here, those of others by the kernel.

use super::epoll_set::{Candidate, EpollSet, Event, watch_data};
use library::tunnel::SharedWatch;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Events that are reported whether they were asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP).cast_unsigned();

/// epoll_wait(2) of a set: at most `events_max` events within `timeout_ms`, below 0 without limit. `kernel` waits for
/// at most as many events, as long. Errors are those of the kernel.
pub(crate) fn wait(
    set: &EpollSet,
    events_max: usize,
    timeout_ms: i32,
    mut kernel: impl FnMut(usize, i32) -> io::Result<Vec<Event>>,
) -> io::Result<Vec<Event>> {
    let mut end = None;
    let mut left_ms = timeout_ms;
    loop {
        set.look();
        // One place is the kernel's, so that it has a turn where there is more than one.
        let mut found = set.collect(events_max.saturating_sub(1).max(1));
        if !found.is_empty() || left_ms == 0 {
            if found.len() < events_max {
                match kernel(events_max - found.len(), 0) {
                    Ok(more) => found.extend(set.without_own(more)),
                    Err(error) if found.is_empty() => return Err(error),
                    // The next call meets it again.
                    Err(_) => {}
                }
            }
            return Ok(found);
        }
        let end = *end.get_or_insert_with(|| end_of(timeout_ms));
        left_ms = until(end);
        if let Some((watches, limit)) = set.begin_wait() {
            let waited = kernel(events_max, shorter(left_ms, limit));
            set.end_wait(&watches);
            let mut found = set.without_own(waited?);
            if !found.is_empty() {
                set.look();
                found.extend(set.collect(events_max - found.len()));
                return Ok(found);
            }
        }
        left_ms = until(end);
    }
}

/// When a time-out is over; None if never.
fn end_of(timeout_ms: i32) -> Option<Instant> {
    let timeout_ms = u64::try_from(timeout_ms).ok()?;
    Some(Instant::now() + Duration::from_millis(timeout_ms))
}

/// Milliseconds until `end`, rounded up; -1 for never.
fn until(end: Option<Instant>) -> i32 {
    end.map_or(-1, |end| {
        whole_ms(end.saturating_duration_since(Instant::now()))
    })
}

/// The shorter of a time-out in milliseconds, below 0 for none, and a limit.
fn shorter(left_ms: i32, limit: Option<Duration>) -> i32 {
    match limit.map(whole_ms) {
        Some(limit_ms) if left_ms < 0 || limit_ms < left_ms => limit_ms,
        _ => left_ms,
    }
}

/// Milliseconds of a time, rounded up.
fn whole_ms(time: Duration) -> i32 {
    i32::try_from(time.as_micros().div_ceil(1000)).unwrap_or(i32::MAX)
}

impl EpollSet {
    /// At most `events_max` events of connections.
    fn collect(&self, events_max: usize) -> Vec<Event> {
        let mut candidates = Vec::new();
        {
            let mut inner = self.lock();
            while candidates.len() < events_max
                && let Some(candidate) = inner.pop_candidate()
            {
                candidates.push(candidate);
            }
        }
        let mut found = Vec::with_capacity(candidates.len());
        for candidate in &mut candidates {
            let events = candidate.connection.events() & (candidate.events | ALWAYS);
            candidate.is_reported = events != 0;
            if events != 0 {
                found.push(Event {
                    events,
                    u64: candidate.data,
                });
            }
        }
        if !candidates.is_empty() {
            self.put_back(&candidates);
        }
        found
    }

    /// Lists what was reported again, where it is reported as long as it is so.
    fn put_back(&self, candidates: &[Candidate]) {
        let mut inner = self.lock();
        for candidate in candidates {
            let flags = candidate.events.cast_signed();
            let is_once = flags & libc::EPOLLONESHOT != 0;
            match candidate.is_reported {
                false if is_once => inner.arm_again(candidate.fd),
                true if !is_once && flags & libc::EPOLLET == 0 => {
                    inner.push_ready(candidate.fd);
                }
                _ => {}
            }
        }
        if !inner.ready.is_empty() {
            self.wake_waiting(&mut inner);
        }
    }

    /// Receives what arrived for its connections. An endpoint that is broken shows in them.
    fn look(&self) {
        for watch in self.watches() {
            let _ = watch.look();
        }
    }

    fn watches(&self) -> Vec<Arc<SharedWatch>> {
        let inner = self.lock();
        let watches = inner.watches.iter();
        watches.map(|(watch, _)| Arc::clone(watch)).collect()
    }

    /// Prepares a wait in the kernel: the endpoints that are waited for, and how long at most; None when there is
    /// something to report already.
    fn begin_wait(&self) -> Option<(Vec<Arc<SharedWatch>>, Option<Duration>)> {
        self.lock().forget_unused_watches(self.fd);
        let watches = self.watches();
        let mut limit = None;
        for watch in &watches {
            // A broken endpoint has nothing to wait for.
            let own = watch.prepare_wait().unwrap_or(None);
            if own.is_some_and(|own| own.is_zero()) {
                return None;
            }
            limit = match (limit, own) {
                (Some(limit), Some(own)) => Some(own.min(limit)),
                (limit, own) => limit.or(own),
            };
        }
        let mut inner = self.lock();
        if !inner.ready.is_empty() {
            return None;
        }
        inner.waiting += 1;
        drop(inner);
        for watch in &watches {
            watch.begin_wait();
        }
        Some((watches, limit))
    }

    fn end_wait(&self, watches: &[Arc<SharedWatch>]) {
        for watch in watches {
            watch.end_wait();
        }
        let mut inner = self.lock();
        inner.waiting -= 1;
        if std::mem::take(&mut inner.is_signalled) {
            let _ = rustix::io::read(&self.wakeup, &mut [0; 8]);
        }
    }

    /// `events` of the kernel, without those that are none of the program's.
    pub(crate) fn without_own(&self, mut events: Vec<Event>) -> Vec<Event> {
        let inner = self.lock();
        events.retain(|event| {
            let data = event.u64;
            let is_watch = |(watch, _): &(Arc<SharedWatch>, usize)| watch_data(watch) == data;
            data != self.own_data() && !inner.watches.iter().any(is_watch)
        });
        events
    }
}
