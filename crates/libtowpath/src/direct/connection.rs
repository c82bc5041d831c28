//! A connection whose data the program's calls move.

use super::descriptors;
use super::epoll_set::EpollSet;
use crate::socket_pair::{ConnState, SocketPairEnd, StreamEnd};
use crate::stream_service::Handover;
use library::tunnel::{CircuitUser, SharedWatch};
use library::xtp::Circuit;
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use std::io::{self, ErrorKind};
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Who moves the data.
enum Mover {
    /// Nobody yet: the peer has not answered.
    Nobody,
    /// The program's calls.
    Program(Box<Circuit>),
    /// The tunnel's thread, through the socket pair.
    Tunnel,
}

/// What a call moved.
#[derive(Debug)]
pub(crate) enum Moved {
    /// As many octets, or none because of an error.
    Here(io::Result<usize>),
    /// As many octets; the rest is the kernel's to move, which has the connection now.
    ThenByKernel(usize),
}

/// What became of a circuit's call.
enum Attempt {
    /// As many octets were moved, before this.
    Moved(usize, io::Result<()>),
    /// The peer has not answered.
    TooEarly,
    /// The tunnel's thread moves the data.
    NotHere,
}

/// A connection.
pub(crate) struct DirectConnection {
    /// The program's descriptor, -1 until it has one.
    fd: AtomicI32,
    link: Arc<SocketPairEnd>,
    service: Arc<Handover>,
    mover: Mutex<Mover>,
    /// A look may find bytes, the end or an error.
    may_have_bytes: AtomicBool,
    /// Nothing says that the send store is full.
    has_room: AtomicBool,
    /// A call of the program has used it.
    is_used: AtomicBool,
    /// Since when the program could have, once it can.
    usable_since: Mutex<Option<Instant>>,
    sets: Mutex<Vec<Weak<EpollSet>>>,
    /// Puts the connection into an accept queue.
    announce: Mutex<Option<Announce>>,
}

/// How long a connection may stay unused until it is the tunnel's, for programs that use it past the library.
const UNUSED_MAX: Duration = Duration::from_millis(200);

/// Tells a listener of the connection, once it can be used.
type Announce = Box<dyn FnOnce() + Send>;

impl DirectConnection {
    /// A connection that waits for its peer's answer.
    pub(crate) fn new(link: Arc<SocketPairEnd>, service: Arc<Handover>) -> Arc<DirectConnection> {
        Arc::new(DirectConnection {
            fd: AtomicI32::new(-1),
            link,
            service,
            mover: Mutex::new(Mover::Nobody),
            may_have_bytes: AtomicBool::new(true),
            has_room: AtomicBool::new(true),
            is_used: AtomicBool::new(false),
            usable_since: Mutex::new(None),
            sets: Mutex::default(),
            announce: Mutex::new(None),
        })
    }

    /// What to do when the connection can be used.
    pub(crate) fn set_announce(&self, announce: Announce) {
        *lock(&self.announce) = Some(announce);
    }

    /// Enters it as the program's descriptor `fd`; one that cannot be direct is the tunnel's.
    pub(crate) fn enter(self: &Arc<Self>, fd: RawFd) {
        self.fd.store(fd, Ordering::Release);
        *lock(&self.usable_since) = Some(Instant::now());
        if !descriptors::insert(fd, Arc::clone(self)) {
            self.hand_over();
        }
    }

    /// The eventfd of its tunnel.
    pub(super) fn wakeup(&self) -> RawFd {
        self.watch().wakeup().as_raw_fd()
    }

    /// The watch of its endpoint.
    pub(super) fn watch(&self) -> &Arc<SharedWatch> {
        &self.service.watch
    }

    /// Receives into `buffer` what is there, as recv(2) does. With `may_wait` a blocking descriptor is left to the kernel
    /// when nothing is.
    pub(crate) fn receive(&self, fd: BorrowedFd<'_>, buffer: &mut [u8], may_wait: bool) -> Moved {
        self.note_used();
        match self.after_a_look(|| self.receive_now(buffer)) {
            Attempt::Moved(0, Err(error)) if error.kind() == ErrorKind::WouldBlock => {
                self.refuse_or_wait(fd, may_wait)
            }
            Attempt::Moved(0, Err(error)) => self.fail(&error),
            Attempt::Moved(len, _) => Moved::Here(Ok(len)),
            Attempt::TooEarly | Attempt::NotHere => self.by_kernel(0),
        }
    }

    /// Receives what the circuit has, if the program moves the data. A circuit that is drained is no error.
    fn receive_now(&self, buffer: &mut [u8]) -> Attempt {
        let mut mover = lock(&self.mover);
        let Mover::Program(circuit) = &mut *mover else {
            return Attempt::NotHere;
        };
        // What arrives from here on is noted again.
        self.may_have_bytes.store(false, Ordering::Release);
        let mut filled = 0;
        let mut outcome = Ok(());
        while filled < buffer.len() && outcome.is_ok() {
            match circuit.try_recv(&mut buffer[filled..]) {
                Ok(Some(len)) => filled += len,
                Ok(None) => {
                    self.may_have_bytes.store(true, Ordering::Release);
                    return Attempt::Moved(filled, Ok(()));
                }
                Err(error) => outcome = Err(error),
            }
        }
        if !is_refused(&outcome) {
            self.may_have_bytes.store(true, Ordering::Release);
        }
        Attempt::Moved(filled, outcome)
    }

    /// Sends `parts`, as sendmsg(2) does. With `may_wait` a blocking descriptor is left to the kernel for what has no room.
    pub(crate) fn send(&self, fd: BorrowedFd<'_>, parts: &[&[u8]], may_wait: bool) -> Moved {
        self.note_used();
        let (sent, outcome) = match self.after_a_look(|| self.send_now(parts)) {
            Attempt::Moved(sent, outcome) => (sent, outcome),
            // A write may be early: the peer has not answered.
            Attempt::TooEarly if !may_wait || is_nonblocking(fd) => {
                return Moved::Here(Err(Errno::AGAIN.into()));
            }
            Attempt::TooEarly | Attempt::NotHere => return self.by_kernel(0),
        };
        match outcome {
            Ok(()) => Moved::Here(Ok(sent)),
            Err(error) if error.kind() != ErrorKind::WouldBlock => match sent {
                0 => self.fail(&error),
                // The next call meets the error again.
                sent => Moved::Here(Ok(sent)),
            },
            Err(_) if may_wait && !is_nonblocking(fd) => self.by_kernel(sent),
            Err(_) if sent == 0 => Moved::Here(Err(Errno::AGAIN.into())),
            Err(_) => Moved::Here(Ok(sent)),
        }
    }

    /// Sends what has room, if the program moves the data.
    fn send_now(&self, parts: &[&[u8]]) -> Attempt {
        let mut mover = lock(&self.mover);
        let circuit = match &mut *mover {
            Mover::Program(circuit) => circuit,
            Mover::Nobody => return Attempt::TooEarly,
            Mover::Tunnel => return Attempt::NotHere,
        };
        let (sent, outcome) = send_pieces(circuit, parts, self.service.piece_len);
        if is_refused(&outcome) {
            self.has_room.store(false, Ordering::Release);
        }
        Attempt::Moved(sent, outcome)
    }

    /// What comes of `attempt`, which is made again after a look at what arrived when it is refused. Circuits of a watched
    /// endpoint do not look themselves, so a program that tries until it succeeds, and does not wait in between, would be
    /// refused until the tunnel's thread looks.
    fn after_a_look(&self, mut attempt: impl FnMut() -> Attempt) -> Attempt {
        match attempt() {
            Attempt::Moved(0, outcome) if is_refused(&outcome) => {
                // An endpoint that is broken shows in the circuit.
                let _ = self.watch().look();
                attempt()
            }
            first => first,
        }
    }

    /// EAGAIN for a descriptor that does not block; another is left to the kernel.
    fn refuse_or_wait(&self, fd: BorrowedFd<'_>, may_wait: bool) -> Moved {
        match may_wait && !is_nonblocking(fd) {
            true => self.by_kernel(0),
            false => Moved::Here(Err(Errno::AGAIN.into())),
        }
    }

    fn by_kernel(&self, moved: usize) -> Moved {
        self.hand_over();
        Moved::ThenByKernel(moved)
    }

    /// The association has failed: the socket is reset, and the kernel's call says so.
    fn fail(&self, error: &io::Error) -> Moved {
        self.link.abort(match error.kind() {
            ErrorKind::TimedOut => libc::ETIMEDOUT,
            _ => libc::ECONNRESET,
        });
        self.by_kernel(0)
    }

    /// The tunnel's thread carries the connection from now on, through the socket pair. True when it brings bytes at once.
    pub(crate) fn hand_over(&self) -> bool {
        let Some(circuit) = self.leave() else {
            return false;
        };
        let has_bytes = circuit.status().has_bytes;
        let end = StreamEnd::new(Arc::clone(&self.link));
        self.service.hand_over(end, circuit);
        has_bytes
    }

    /// The program moves the data no more; the circuit, if it did.
    fn leave(&self) -> Option<Circuit> {
        let fd = self.fd.load(Ordering::Acquire);
        let mut mover = lock(&self.mover);
        let before = mem::replace(&mut *mover, Mover::Tunnel);
        let is_known = !matches!(before, Mover::Program(_));
        for set in self.take_sets() {
            set.give_to_kernel(fd, is_known);
        }
        drop(mover);
        descriptors::forget(fd, self);
        drop(lock(&self.announce).take());
        match before {
            Mover::Program(circuit) => {
                self.watch().forget(circuit.id());
                Some(*circuit)
            }
            Mover::Nobody | Mover::Tunnel => None,
        }
    }

    fn note_used(&self) {
        if !self.is_used.load(Ordering::Relaxed) {
            self.is_used.store(true, Ordering::Relaxed);
        }
    }

    fn is_left_unused(&self) -> bool {
        let is_over = |since: &Instant| since.elapsed() >= UNUSED_MAX;
        !self.is_used.load(Ordering::Relaxed)
            && lock(&self.usable_since).as_ref().is_some_and(is_over)
    }

    fn take_sets(&self) -> Vec<Arc<EpollSet>> {
        let sets = mem::take(&mut *lock(&self.sets));
        sets.iter().filter_map(Weak::upgrade).collect()
    }

    /// Runs `register`, told whether the program moves the data, unless the tunnel does; None then. The connection does not
    /// change meanwhile.
    pub(super) fn with_registration<R>(
        &self,
        set: &Arc<EpollSet>,
        register: impl FnOnce(bool) -> R,
    ) -> Option<R> {
        self.note_used();
        let mover = lock(&self.mover);
        let is_direct = match &*mover {
            Mover::Tunnel => return None,
            Mover::Nobody => false,
            Mover::Program(_) => true,
        };
        let mut sets = lock(&self.sets);
        if !sets.iter().any(|known| known.as_ptr() == Arc::as_ptr(set)) {
            sets.push(Arc::downgrade(set));
        }
        drop(sets);
        Some(register(is_direct))
    }

    /// Its events, of epoll_ctl(2); 0 while the program does not move its data.
    pub(super) fn events(&self) -> u32 {
        let mover = lock(&self.mover);
        let Mover::Program(circuit) = &*mover else {
            return 0;
        };
        let mut events = 0;
        if self.may_have_bytes.swap(false, Ordering::AcqRel) {
            let status = circuit.status();
            if status.has_bytes || status.finished {
                events |= libc::EPOLLIN | libc::EPOLLRDNORM;
            }
            if status.finished {
                events |= libc::EPOLLRDHUP;
            }
            if status.closed.is_some() && !status.finished {
                events |= libc::EPOLLIN | libc::EPOLLRDHUP | libc::EPOLLERR | libc::EPOLLHUP;
            }
            if events != 0 {
                self.may_have_bytes.store(true, Ordering::Release);
            }
        }
        if self.has_room.load(Ordering::Acquire) {
            events |= libc::EPOLLOUT | libc::EPOLLWRNORM;
        }
        events.cast_unsigned()
    }
}

impl CircuitUser for DirectConnection {
    fn take(&self, circuit: Circuit) -> Option<Circuit> {
        let mut mover = lock(&self.mover);
        if !matches!(*mover, Mover::Nobody) {
            return Some(circuit);
        }
        *mover = Mover::Program(Box::new(circuit));
        if let Some(since) = &mut *lock(&self.usable_since) {
            *since = Instant::now();
        }
        for set in lock(&self.sets).iter().filter_map(Weak::upgrade) {
            set.take_from_kernel(self.fd.load(Ordering::Acquire));
        }
        drop(mover);
        self.link.set_state(ConnState::Established);
        self.link.drain_filler();
        let announce = lock(&self.announce).take();
        if let Some(announce) = announce {
            announce();
        }
        None
    }

    fn is_wanted_back(&self) -> bool {
        descriptors::take_recall(self.fd.load(Ordering::Acquire)) || self.is_left_unused()
    }

    fn give_back(&self) -> Option<Circuit> {
        self.leave()
    }

    fn on_ready(&self) {
        self.may_have_bytes.store(true, Ordering::Release);
        self.has_room.store(true, Ordering::Release);
        let fd = self.fd.load(Ordering::Acquire);
        for set in lock(&self.sets).iter().filter_map(Weak::upgrade) {
            set.note_ready(fd);
        }
    }
}

/// Sends as much of `parts` as there is room for, in pieces that the send store takes whole.
fn send_pieces(
    circuit: &mut Circuit,
    parts: &[&[u8]],
    piece_len: usize,
) -> (usize, io::Result<()>) {
    let mut sent = 0;
    for part in parts {
        for piece in part.chunks(piece_len) {
            if let Err(error) = circuit.try_send(piece) {
                return (sent, circuit.flush_unsubmitted().and(Err(error)));
            }
            sent += piece.len();
        }
    }
    // What went before it was taken, whatever comes of it.
    let _ = circuit.flush_unsubmitted();
    (sent, Ok(()))
}

fn is_refused(outcome: &io::Result<()>) -> bool {
    matches!(outcome, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

/// Whether a descriptor has O_NONBLOCK.
fn is_nonblocking(fd: BorrowedFd<'_>) -> bool {
    fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream_service::socket_pair;
    use library::xtp::{Endpoint, EndpointConfig};
    use rustix::net::SocketType;
    use std::os::fd::{AsFd, OwnedFd};

    const LIMIT: Duration = Duration::from_secs(10);

    /// A connection that nobody but its calls looks at, its descriptor, and the other end.
    struct Ends {
        connection: Arc<DirectConnection>,
        program: OwnedFd,
        far: Circuit,
        _endpoints: [Endpoint; 2],
    }

    fn ends() -> Ends {
        let config = EndpointConfig::default();
        let bind = || Endpoint::bind(([127, 0, 0, 1], 0).into(), &config).expect("a port");
        let endpoints = [bind(), bind()];
        let [near, far] = &endpoints;
        far.listen(true);
        let circuit = std::thread::scope(|scope| {
            let opened = scope.spawn(|| near.connect(far.local_addr(), LIMIT));
            let accepted = far.accept(LIMIT).expect("a circuit");
            (
                opened.join().expect("no panic").expect("accepted"),
                accepted,
            )
        });
        let service = Handover::without_thread(near).expect("descriptors");
        let (program, link) =
            socket_pair(SocketType::STREAM, ConnState::Connecting).expect("a pair");
        let connection = DirectConnection::new(link, service);
        assert!(connection.take(circuit.0).is_none(), "it is wanted");
        Ends {
            connection,
            program,
            far: circuit.1,
            _endpoints: endpoints,
        }
    }

    /// Tries that do not wait in between. All of a test is in one thread: what one end sent is there for the other.
    const TRIES: u32 = 100;

    #[test]
    fn writes_that_are_tried_until_they_succeed_find_what_was_acknowledged() {
        let mut ends = ends();
        let message = vec![1; 16 << 10];
        let send = || {
            let moved = ends
                .connection
                .send(ends.program.as_fd(), &[&message], false);
            matches!(moved, Moved::Here(Ok(_)))
        };
        let fitting = (0..10_000).take_while(|_| send()).count();
        assert!(fitting < 10_000, "the send store is full some time");
        let mut buffer = vec![0; 64 << 10];
        let went = (0..TRIES).any(|_| {
            while ends.far.try_recv(&mut buffer).is_ok() {}
            send()
        });
        assert!(went, "the peer has read all of it");
    }

    #[test]
    fn reads_that_are_tried_until_they_succeed_find_what_arrived() {
        let mut ends = ends();
        ends.far.send(b"late", LIMIT).expect("room");
        ends.far.flush().expect("a wire");
        let mut buffer = [0; 16];
        let came = (0..TRIES).any(|_| {
            // It takes the answer to its own, without which it sends nothing.
            let _ = ends.far.try_recv(&mut [0; 16]);
            let moved = ends
                .connection
                .receive(ends.program.as_fd(), &mut buffer, false);
            matches!(moved, Moved::Here(Ok(4)))
        });
        assert!(came, "it was sent");
    }
}
