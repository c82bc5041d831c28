//! Calls on the ends of a pipe.

use super::state::{PipeKind, Role, State};
use super::table;
use crate::devices::is_blocking;
use crate::sys::OwnedLock;
use rustix::io::Errno;
use rustix::thread::futex;
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What a call moved.
#[derive(Debug)]
pub(crate) enum Moved {
    /// As many octets, or none because of an error.
    Here(io::Result<usize>),
    /// As many octets; the rest is the kernel's to move.
    ThenByKernel(usize),
}

/// A pipe, or a place for one.
pub(super) struct Pipe {
    state: OwnedLock<State>,
    /// Counts what who waits looks for, octets or room, by direction and role.
    signals: [[AtomicU32; 2]; 2],
    /// A signal handler used the pipe while the thread that it interrupted had the lock: the kernel has what it wrote, and
    /// gets the rest.
    is_interrupted: AtomicBool,
}

/// A wait that was noted.
struct Waiting<'a> {
    signal: &'a AtomicU32,
    seen: u32,
    /// The direction and the role, and in which use of the pipe.
    place: (usize, Role),
    generation: u64,
}

/// What an attempt came to.
enum Attempt<'a> {
    Moved(usize),
    /// Nothing, on a descriptor that does not wait.
    Refused,
    Wait(Waiting<'a>),
    /// The descriptor is none of the pipe's, or not one that does this.
    NotHere,
}

impl Pipe {
    pub(super) fn new() -> Pipe {
        Pipe {
            state: OwnedLock::new(State::new()),
            signals: Default::default(),
            is_interrupted: AtomicBool::new(false),
        }
    }

    /// Makes it the pipe of `ends`.
    pub(super) fn begin(&'static self, kind: PipeKind, ends: [RawFd; 2]) {
        self.with(|state| {
            state.begin(kind, ends);
            table::insert(ends, self);
        });
    }

    /// Runs `action` with the state. None, and the pipe is the kernel's soon: a signal handler asks.
    #[inline]
    fn with<R>(&'static self, action: impl FnOnce(&mut State) -> R) -> Option<R> {
        let done = self.state.with(action);
        match &done {
            None => self.is_interrupted.store(true, Ordering::Release),
            Some(_) if self.is_interrupted.load(Ordering::Acquire) => self.after_interruption(),
            Some(_) => {}
        }
        done
    }

    #[cold]
    fn after_interruption(&'static self) {
        if self.is_interrupted.swap(false, Ordering::AcqRel) {
            self.state.with(|state| self.leave(state));
        }
    }

    /// Whether its ends are sockets.
    pub(super) fn is_socket_pair(&'static self) -> bool {
        self.with(|state| state.is_socket_pair()).unwrap_or(false)
    }

    /// Reads into `parts`, as readv(2) does, and with `may_wait` until something is there.
    pub(super) fn receive(
        &'static self,
        fd: BorrowedFd<'_>,
        number: RawFd,
        parts: &mut [&mut [u8]],
        may_wait: bool,
    ) -> Moved {
        if parts.iter().all(|part| part.is_empty()) {
            return Moved::Here(Ok(0));
        }
        loop {
            let attempt = self.with(|state| {
                let Some(end) = state.end_of(number, Role::Reader) else {
                    return (Attempt::NotHere, [false; 2], 0);
                };
                let (len, wakes_writers) = state.read(end, parts);
                let attempt = match len {
                    0 => self.nothing(state, (end, Role::Reader), fd, may_wait),
                    len => Attempt::Moved(len),
                };
                (attempt, [state.wakes_reader(end), wakes_writers], end)
            });
            let Some((attempt, wakes, end)) = attempt else {
                return Moved::ThenByKernel(0);
            };
            for (signal, _) in self.signals[end]
                .iter()
                .zip(wakes)
                .filter(|(_, wakes)| *wakes)
            {
                wake(signal);
            }
            match self.ended(attempt, 0) {
                Some(moved) => return moved,
                None => continue,
            }
        }
    }

    /// Writes `parts`, as writev(2) does, and with `may_wait` until all have room.
    pub(super) fn send(
        &'static self,
        fd: BorrowedFd<'_>,
        number: RawFd,
        parts: &[&[u8]],
        may_wait: bool,
    ) -> Moved {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len == 0 {
            return Moved::ThenByKernel(0);
        }
        let mut done = 0;
        loop {
            let attempt = self.with(|state| {
                let Some(end) = state.end_of(number, Role::Writer) else {
                    return (Attempt::NotHere, None);
                };
                let direction = 1 - end;
                let attempt = match state.write(end, parts, done) {
                    0 => self.nothing(state, (direction, Role::Writer), fd, may_wait),
                    len => Attempt::Moved(len),
                };
                (attempt, state.wakes_reader(direction).then_some(direction))
            });
            let Some((attempt, wakes)) = attempt else {
                return Moved::ThenByKernel(done);
            };
            if let Some(direction) = wakes {
                wake(&self.signals[direction][Role::Reader as usize]);
            }
            match attempt {
                Attempt::Moved(more) => {
                    done += more;
                    if done == len {
                        return Moved::Here(Ok(done));
                    }
                }
                other => {
                    if let Some(moved) = self.ended(other, done) {
                        return moved;
                    }
                }
            }
        }
    }

    /// Nothing could be moved: a wait is noted, if the descriptor waits.
    fn nothing(
        &self,
        state: &mut State,
        place: (usize, Role),
        fd: BorrowedFd<'_>,
        may_wait: bool,
    ) -> Attempt<'_> {
        if !may_wait || !is_blocking(fd) {
            return Attempt::Refused;
        }
        let (direction, role) = place;
        state.directions[direction].waiting[role as usize] += 1;
        let signal = &self.signals[direction][role as usize];
        Attempt::Wait(Waiting {
            signal,
            seen: signal.load(Ordering::Acquire),
            place,
            generation: state.generation,
        })
    }

    /// What a call ends with that has moved `done` octets before; None when it goes on, after a wait.
    fn ended(&'static self, attempt: Attempt<'_>, done: usize) -> Option<Moved> {
        let waiting = match attempt {
            Attempt::Moved(len) => return Some(Moved::Here(Ok(len))),
            Attempt::NotHere => return Some(Moved::ThenByKernel(done)),
            Attempt::Refused if done > 0 => return Some(Moved::Here(Ok(done))),
            Attempt::Refused => return Some(Moved::Here(Err(Errno::AGAIN.into()))),
            Attempt::Wait(waiting) => waiting,
        };
        // The kernel restarts the wait after a handler with SA_RESTART, as it does a read.
        let waited = futex::wait(waiting.signal, futex::Flags::PRIVATE, waiting.seen, None);
        let (direction, role) = waiting.place;
        self.with(|state| {
            let count = &mut state.directions[direction].waiting[role as usize];
            if state.generation == waiting.generation {
                *count = count.saturating_sub(1);
            }
        });
        match (waited, done) {
            (Err(Errno::INTR), 0) => Some(Moved::Here(Err(Errno::INTR.into()))),
            (Err(Errno::INTR), done) => Some(Moved::Here(Ok(done))),
            _ => None,
        }
    }

    /// The pipe is the kernel's from now on, with all that was written and not read.
    pub(super) fn leave_to_kernel(&'static self, fd: RawFd) {
        self.with(|state| {
            if state.ends.contains(&fd) {
                self.leave(state);
            }
        });
    }

    fn leave(&'static self, state: &mut State) {
        if state.ends == [-1; 2] {
            return;
        }
        state.ends.into_iter().for_each(table::forget);
        state.flush_to_kernel();
        state.ends = [-1; 2];
        state.generation += 1;
        for signal in self.signals.iter().flatten() {
            wake(signal);
        }
        if !table::give_back(self) {
            state.drop_blocks();
        }
    }
}

/// Wakes all who wait for a signal.
fn wake(signal: &AtomicU32) {
    signal.fetch_add(1, Ordering::Release);
    // The word is there.
    let _ = futex::wake(signal, futex::Flags::PRIVATE, i32::MAX as u32);
}
