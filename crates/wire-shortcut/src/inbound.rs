//! The half of a wire that receives: rings, the UDP socket beside them, and peers who are about to meet.

#[cfg(test)]
mod tests;

use crate::boot::BootId;
use crate::meeting::{self, Hello, MeetingPlace, Waiting};
use crate::observer::RingObserver;
use crate::offer::{self, Nonce};
use crate::ring::{self, RingEnd, RingReceiver, RingSender, RingState};
use crate::shared::{RingReport, Updates};
use engine::{Address, Ecn, Path};
use rustix::event::{Timespec, epoll};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use wire::Arrival;

/// Peers with rings, at most: 64 of 2 MiB each.
const RINGS_MAX: usize = 64;

/// Offers without an answer, and meetings that are not over, at most of each: the oldest gives way.
const MEETINGS_MAX: usize = 16;

/// How long an offer is good for, and how long a meeting may last: both ends are on one host.
const MEETING_MAX: Duration = Duration::from_secs(2);

/// How long a peer that did not answer gets no further offer.
const QUIET: Duration = Duration::from_secs(10);

/// Peers that are remembered because they did not answer, or lied.
const REMEMBERED_MAX: usize = 64;

/// Receives from rings in a row before the UDP socket is looked at, where other peers wait.
const RING_RUN: u32 = 16;

/// Receives without success, after one from a ring, that look at the rings alone: a peer that answers
/// within microseconds is met by a load instead of a system call.
const RING_LOOKS: u32 = 64;

/// Offers taken in by one receive.
const OFFERS_TAKEN: u32 = 4;

/// The UDP socket's token among those that the epoll reports.
pub(crate) const UDP: u64 = 0;

/// Rings and those to come.
#[derive(Debug)]
pub(crate) struct Inbound {
    boot: BootId,
    place: MeetingPlace,
    epoll: Arc<OwnedFd>,
    updates: Arc<Updates>,
    rings: Vec<RingPair>,
    offered: VecDeque<Offered>,
    meetings: VecDeque<Meeting>,
    /// Peers whose last offer was not answered, and when it was made.
    silent: VecDeque<(SocketAddr, Instant)>,
    /// Dishonest peers, which get no further ring.
    refused: VecDeque<SocketAddr>,
    last_token: u64,
    /// The ring that is looked at first.
    next: usize,
    ring_run: u32,
    ring_looks: u32,
    /// Calls through rings that are gone.
    past: (u64, u64),
    pub(crate) observer: Option<Arc<dyn RingObserver>>,
}

/// Rings in use.
#[derive(Debug)]
struct RingPair {
    token: u64,
    receiver: RingReceiver,
    /// The other half, until the peer says that it has the rings.
    sender: Option<RingSender>,
}

/// An offer of this end.
#[derive(Debug)]
struct Offered {
    token: u64,
    peer: SocketAddr,
    nonce: Nonce,
    waiting: Waiting,
    until: Instant,
}

/// A peer that is connected and has no ring yet.
#[derive(Debug)]
struct Meeting {
    token: u64,
    peer: SocketAddr,
    /// What it has to say, if the offer was this end's.
    nonce: Option<Nonce>,
    socket: UnixStream,
    until: Instant,
}

impl Inbound {
    pub(crate) fn new(
        boot: BootId,
        place: MeetingPlace,
        epoll: Arc<OwnedFd>,
        updates: Arc<Updates>,
    ) -> Inbound {
        Inbound {
            boot,
            place,
            epoll,
            updates,
            rings: Vec::new(),
            offered: VecDeque::new(),
            meetings: VecDeque::new(),
            silent: VecDeque::new(),
            refused: VecDeque::new(),
            last_token: UDP,
            next: 0,
            ring_run: 0,
            ring_looks: 0,
            past: (0, 0),
            observer: None,
        }
    }

    /// Whether anything but the UDP socket can bring packets.
    pub(crate) fn is_in_use(&self) -> bool {
        !(self.rings.is_empty() && self.offered.is_empty() && self.meetings.is_empty())
    }

    /// Receives from a ring, or by `udp`, which does not wait.
    /// Errors: those of `udp`, and `WouldBlock`. After packets from a ring it may mean the rings alone, for a while.
    pub(crate) fn receive(
        &mut self,
        buffer: &mut [u8],
        mut udp: impl FnMut(&mut [u8]) -> io::Result<Arrival>,
    ) -> io::Result<Arrival> {
        if !self.is_in_use() {
            return self.receive_udp(buffer, &mut udp);
        }
        if self.ring_run < RING_RUN {
            if let Some(arrival) = self.receive_ring(buffer) {
                self.ring_run += 1;
                self.ring_looks = RING_LOOKS;
                return Ok(arrival);
            }
            if self.ring_looks > 0 {
                self.ring_looks -= 1;
                return Err(io::ErrorKind::WouldBlock.into());
            }
        }
        self.ring_run = 0;
        if self.look_at_descriptors()? {
            return self.receive_udp(buffer, &mut udp);
        }
        self.receive_ring(buffer)
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    /// The next receive looks at everything, as after a wait.
    pub(crate) fn look_next(&mut self) {
        self.ring_looks = 0;
    }

    /// Whether a thread may wait for the epoll: each peer was asked for a wake, and none has sent since.
    pub(crate) fn prepare_wait(&mut self) -> bool {
        self.look_next();
        self.rings
            .iter_mut()
            .all(|ring| ring.receiver.prepare_wait())
    }

    /// Packets from a ring that has some.
    pub(crate) fn receive_ring(&mut self, buffer: &mut [u8]) -> Option<Arrival> {
        let mut tried = 0;
        while tried < self.rings.len() {
            let at = (self.next + tried) % self.rings.len();
            match self.rings[at].receiver.receive(buffer) {
                Ok(Some(packets)) => {
                    // Each peer has its turn.
                    self.next = at + 1;
                    self.confirm(at);
                    let peer = self.rings[at].receiver.state.peer;
                    if let Some(observer) = &self.observer {
                        observer.on_received(peer, &buffer[..packets.len], packets.packet_len);
                    }
                    return Some(Arrival {
                        path: Path::to(Address::Socket(peer)),
                        ecn: Ecn::NotEct,
                        len: packets.len,
                        segment_size: packets.packet_len,
                    });
                }
                Ok(None) => tried += 1,
                Err(end) => self.end_ring(at, end),
            }
        }
        None
    }

    fn receive_udp(
        &mut self,
        buffer: &mut [u8],
        udp: &mut impl FnMut(&mut [u8]) -> io::Result<Arrival>,
    ) -> io::Result<Arrival> {
        for _ in 0..OFFERS_TAKEN {
            let arrival = udp(buffer)?;
            if let Some(arrival) = self.take_offers(arrival, buffer) {
                return Ok(arrival);
            }
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Takes offers out of what UDP brought; what is left of it. An offer is the first datagram of an
    /// arrival, and then all of them are offers, or the last, which may be shorter than the others.
    pub(crate) fn take_offers(&mut self, arrival: Arrival, buffer: &[u8]) -> Option<Arrival> {
        let octets = &buffer[..arrival.len.min(buffer.len())];
        if offer::is_marked(octets) {
            for one in octets.chunks(offer::OFFER_LEN) {
                self.answer(arrival.path.remote, one);
            }
            return None;
        }
        let rest = octets.len() % arrival.segment_size.max(1);
        let (before, last) = octets.split_at(octets.len() - rest);
        if rest != offer::OFFER_LEN || !offer::is_marked(last) {
            return Some(arrival);
        }
        self.answer(arrival.path.remote, last);
        Some(Arrival {
            len: before.len(),
            ..arrival
        })
    }

    /// Makes an offer to `peer`; see [`crate::ShortcutHandle::offer_to`].
    pub(crate) fn offer_to(&mut self, peer: SocketAddr) {
        let now = Instant::now();
        self.forget_old(now);
        if !self.may_meet(peer) || self.silent.iter().any(|(one, _)| *one == peer) {
            return;
        }
        // Where a socket cannot be made, packets go by UDP as before.
        let _ = self.try_offer_to(peer, now);
    }

    fn try_offer_to(&mut self, peer: SocketAddr, now: Instant) -> io::Result<()> {
        push_bounded(&mut self.silent, (peer, now), REMEMBERED_MAX);
        // Names without files end with the network namespace, and so do its addresses.
        if self.place == MeetingPlace::Namespace && !meeting::is_local(peer.ip()) {
            return Ok(());
        }
        let nonce = crate::random_nonce()?;
        let waiting = Waiting::new(&self.place, &self.boot, &nonce)?;
        let token = self.watch(waiting.descriptor())?;
        push_bounded(
            &mut self.offered,
            Offered {
                token,
                peer,
                nonce,
                waiting,
                until: now + MEETING_MAX,
            },
            MEETINGS_MAX,
        );
        self.updates.offer(peer, offer::encode(&self.boot, &nonce));
        Ok(())
    }

    /// Whether rings with `peer` can be made now.
    fn may_meet(&self, peer: SocketAddr) -> bool {
        self.rings.len() < RINGS_MAX
            && !self.refused.contains(&peer)
            && !self.rings.iter().any(|one| one.receiver.state.peer == peer)
            && !self.meetings.iter().any(|one| one.peer == peer)
    }

    /// Answers an offer of `from`, if it is one of this host.
    fn answer(&mut self, from: Address, octets: &[u8]) {
        let Address::Socket(peer) = from else {
            return;
        };
        let Some(nonce) = offer::decode(&self.boot, octets) else {
            return;
        };
        self.forget_old(Instant::now());
        // Two ends that make each other an offer at once keep the one with the lower nonce.
        let keeps_own = |one: &Offered| one.peer == peer && one.nonce <= nonce;
        if !self.may_meet(peer) || self.offered.iter().any(keeps_own) {
            return;
        }
        let Some(socket) = meeting::join(&self.place, &self.boot, &nonce) else {
            return;
        };
        self.offered.retain(|one| one.peer != peer);
        self.meet(peer, None, socket);
    }

    fn meet(&mut self, peer: SocketAddr, nonce: Option<Nonce>, socket: UnixStream) {
        let Ok(token) = self.watch(socket.as_fd()) else {
            return;
        };
        let until = Instant::now() + MEETING_MAX;
        let meeting = Meeting {
            token,
            peer,
            nonce,
            socket,
            until,
        };
        push_bounded(&mut self.meetings, meeting, MEETINGS_MAX);
    }

    /// Adds a descriptor to the epoll, from which it goes when it is closed; its token.
    fn watch(&mut self, descriptor: BorrowedFd<'_>) -> io::Result<u64> {
        self.last_token += 1;
        let data = epoll::EventData::new_u64(self.last_token);
        epoll::add(&*self.epoll, descriptor, data, epoll::EventFlags::IN)?;
        Ok(self.last_token)
    }

    /// Looks which descriptors are readable and serves all but the UDP socket, of which it says whether
    /// it is.
    fn look_at_descriptors(&mut self) -> io::Result<bool> {
        let mut events = [epoll::Event {
            flags: epoll::EventFlags::empty(),
            data: epoll::EventData::new_u64(UDP),
        }; 16];
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let found = match epoll::wait(&*self.epoll, &mut events, Some(&at_once)) {
            Ok(found) => found,
            Err(rustix::io::Errno::INTR) => 0,
            Err(error) => return Err(error.into()),
        };
        let mut has_udp = false;
        for event in &events[..found] {
            // Copied out of a packed struct.
            let (data, flags) = (event.data, event.flags);
            match data.u64() {
                UDP => has_udp |= flags != epoll::EventFlags::OUT,
                token => self.serve(token),
            }
        }
        if !self.offered.is_empty() || !self.meetings.is_empty() {
            self.forget_old(Instant::now());
        }
        Ok(has_udp)
    }

    fn serve(&mut self, token: u64) {
        if let Some(at) = self.rings.iter().position(|one| one.token == token) {
            self.serve_ring(at);
        } else if let Some(one) = self.offered.iter().find(|one| one.token == token) {
            let (peer, nonce) = (one.peer, one.nonce);
            if let Some(socket) = one.waiting.accept() {
                self.meet(peer, Some(nonce), socket);
            }
        } else if let Some(at) = self.meetings.iter().position(|one| one.token == token) {
            self.serve_meeting(at);
        }
    }

    fn serve_ring(&mut self, at: usize) {
        match self.rings[at].receiver.take_wakes() {
            Err(end) => self.end_ring(at, end),
            Ok(()) if self.rings[at].receiver.is_over() => self.end_ring(at, RingEnd::Gone),
            // The first octet says that the peer has the rings.
            Ok(()) => self.confirm(at),
        }
    }

    /// The peer uses its rings: packets to it go through this end's.
    #[inline]
    fn confirm(&mut self, at: usize) {
        if let Some(sender) = self.rings[at].sender.take() {
            self.updates.ring(sender);
        }
    }

    fn serve_meeting(&mut self, at: usize) {
        if let Some(nonce) = &self.meetings[at].nonce {
            match meeting::hello(&self.meetings[at].socket, nonce) {
                Hello::Awaited => return,
                Hello::Wrong => {
                    self.meetings.remove(at);
                    return;
                }
                Hello::Right => {}
            }
        }
        let Some(meeting) = self.meetings.remove(at) else {
            return;
        };
        let peer = meeting.peer;
        let is_own = meeting.nonce.is_some();
        let has_other = self.rings.iter().any(|one| one.receiver.state.peer == peer);
        if has_other || self.rings.len() >= RINGS_MAX {
            return;
        }
        let made = match is_own {
            true => ring::make(meeting.socket, peer),
            false => ring::take(meeting.socket, peer),
        };
        self.offered.retain(|one| one.peer != peer);
        self.silent.retain(|(one, _)| *one != peer);
        // Rings that cannot be made leave the peer to UDP.
        if let Ok((sender, receiver)) = made {
            self.add_ring(meeting.token, sender, receiver, is_own);
        }
    }

    /// The socket of the meeting, whose token it keeps, goes on as the rings' lifeline.
    fn add_ring(
        &mut self,
        token: u64,
        sender: RingSender,
        receiver: RingReceiver,
        awaits_answer: bool,
    ) {
        self.rings.push(RingPair {
            token,
            receiver,
            sender: Some(sender),
        });
        if !awaits_answer {
            self.confirm(self.rings.len() - 1);
        }
    }

    fn end_ring(&mut self, at: usize, end: RingEnd) {
        let ring = self.rings.swap_remove(at);
        let state = &ring.receiver.state;
        let (sends, receives) = calls_of(state);
        self.past = (self.past.0 + sends, self.past.1 + receives);
        if end == RingEnd::Lied {
            push_bounded(&mut self.refused, state.peer, REMEMBERED_MAX);
        }
        // The other half holds the socket until it notices, so closing this one does not.
        let _ = epoll::delete(&*self.epoll, ring.receiver.descriptor());
    }

    pub(crate) fn end_all(&mut self) {
        while let Some(last) = self.rings.len().checked_sub(1) {
            self.end_ring(last, RingEnd::Gone);
        }
    }

    fn forget_old(&mut self, now: Instant) {
        self.offered.retain(|one| one.until > now);
        self.meetings.retain(|one| one.until > now);
        self.silent.retain(|(_, at)| *at + QUIET > now);
    }

    pub(crate) fn reports(&self) -> Vec<RingReport> {
        let states = self.rings.iter().map(|ring| &ring.receiver.state);
        states.map(|state| RingReport::of(state)).collect()
    }

    pub(crate) fn calls(&self) -> (u64, u64) {
        self.rings.iter().fold(self.past, |sum, ring| {
            let (sends, receives) = calls_of(&ring.receiver.state);
            (sum.0 + sends, sum.1 + receives)
        })
    }
}

fn calls_of(state: &RingState) -> (u64, u64) {
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    (read(&state.sends), read(&state.receives))
}

/// Adds to a list that holds `max` at most: the oldest gives way.
fn push_bounded<T>(list: &mut VecDeque<T>, one: T, max: usize) {
    if list.len() >= max {
        list.pop_front();
    }
    list.push_back(one);
}
