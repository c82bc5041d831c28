//! Datagram sockets over `/dev/udp`: a program's own UDP socket is the bottom of a stream, through which its sends and
//! receives go.
//!
//! The descriptor stays the kernel's socket, so options, poll, epoll, dup, fork and passing it on are the kernel's.
//! What was sent waits in the stream's queue for as long as it may (1 ms), and a receive takes no more than the one
//! datagram from the kernel that it returns.

use crate::sys::OwnedLock;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use xti::datagrams::{
    BATCH_MAX, DatagramCarrier, DatagramHeaders, Found, INTERNET_ADDRESS_MAX, no_options,
};
use xti::inet::SocketAddress;
use xti::tpi::{Primitive, TransportOption};
use xti::{StreamOptions, TliError, XtiEndpoint, inet};

/// Octets of the longest datagram: 65,535 less the headers of IPv4 and UDP.
const DATAGRAM_MAX: usize = 65_507;

/// Datagrams up to this length leave several a system call (UDP_SEGMENT): no path cuts them.
const SEGMENT_MAX: usize = 1232;

/// How long a send waits at a time for room in the queue.
const TURN_MS: i64 = 10;

/// Sockets over a stream, by descriptor.
static SOCKETS: OwnedLock<BTreeMap<RawFd, Arc<DatagramSocket>>> = OwnedLock::new(BTreeMap::new());

/// There was one: until then calls look for none.
static HAS_SOCKETS: AtomicBool = AtomicBool::new(false);

/// What the stream's bottom shares with the calls.
#[derive(Default)]
struct Below {
    /// The next look at the socket may receive a datagram.
    may_receive: AtomicBool,
    /// What the last receive failed with, or 0.
    error: AtomicI32,
    /// The peer of a connected socket.
    peer: Mutex<Option<SocketAddr>>,
}

impl Below {
    fn peer(&self) -> Option<SocketAddr> {
        *self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bottom: the program's socket.
struct ProgramSocket {
    fd: RawFd,
    below: Arc<Below>,
    /// The kernel takes several datagrams a call.
    segments: bool,
    calls: (u64, u64),
}

impl ProgramSocket {
    fn fd(&self) -> BorrowedFd<'_> {
        crate::sys::of_program(self.fd)
    }
}

impl DatagramCarrier for ProgramSocket {
    fn name(&self) -> &'static str {
        "inet-udp"
    }

    fn address_max(&self) -> i32 {
        INTERNET_ADDRESS_MAX
    }

    fn datagram_max(&self) -> usize {
        DATAGRAM_MAX
    }

    fn options_max(&self) -> i32 {
        -2
    }

    fn bind(&mut self, _: Option<SocketAddress>) -> io::Result<SocketAddress> {
        let address = rustix::net::getsockname(self.fd())?;
        let address = SocketAddr::try_from(address);
        let address = address.map_err(|_| io::ErrorKind::AddrNotAvailable)?;
        Ok(address.into())
    }

    fn unbind(&mut self) {}

    fn socket(&self) -> Option<Arc<socket2::Socket>> {
        // The calls wait for it themselves.
        None
    }

    fn socket_tells_room(&self) -> bool {
        true
    }

    fn batch_max(&self, octets: usize) -> usize {
        match self.segments && (1..=SEGMENT_MAX).contains(&octets) {
            true => BATCH_MAX.min(DATAGRAM_MAX / octets),
            false => 1,
        }
    }

    fn send(
        &mut self,
        destination: SocketAddress,
        datagrams: &[&[u8]],
        _: &mut [TransportOption],
    ) -> io::Result<()> {
        let destination = destination.internet()?;
        let to = (self.below.peer() != Some(destination)).then_some(destination);
        self.calls.0 += 1;
        let [datagram] = datagrams else {
            return self.send_segments(to, datagrams);
        };
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        match to {
            None => rustix::net::send(self.fd(), datagram, flags)?,
            Some(to) => rustix::net::sendto(self.fd(), datagram, flags, &to)?,
        };
        Ok(())
    }

    fn headers(&mut self) -> Option<&mut dyn DatagramHeaders> {
        None
    }

    fn report_options(&mut self) {}

    fn receive(&mut self, room: &mut [u8], found: &mut Vec<Found>) -> io::Result<usize> {
        if !self.below.may_receive.swap(false, Ordering::Relaxed) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.calls.1 += 1;
        let received = rustix::net::recvfrom(self.fd(), &mut *room, RecvFlags::DONTWAIT);
        let (len, _, from) = received.inspect_err(|error| {
            if *error != Errno::AGAIN {
                self.below
                    .error
                    .store(error.raw_os_error(), Ordering::Relaxed);
            }
        })?;
        if let Some(source) = from.and_then(|from| SocketAddr::try_from(from).ok()) {
            found.push(Found {
                source: source.into(),
                range: 0..len,
                options: Vec::new(),
            });
        }
        Ok(len)
    }

    fn system_calls(&self) -> (u64, u64) {
        self.calls
    }

    fn malformed(&self) -> u64 {
        0
    }

    fn answer_options(&mut self, octets: &[u8], flags: u32) -> Primitive {
        no_options(octets, flags)
    }
}

impl ProgramSocket {
    /// Sends datagrams of one length by one call. A kernel or a path that does not take them gets them one by one from
    /// then on.
    fn send_segments(&mut self, to: Option<SocketAddr>, datagrams: &[&[u8]]) -> io::Result<()> {
        let mut slices = [IoSlice::new(&[]); BATCH_MAX];
        for (slice, datagram) in slices.iter_mut().zip(datagrams) {
            *slice = IoSlice::new(datagram);
        }
        let size = datagrams.first().map(|datagram| datagram.len());
        let sent = wire_udp::sys::send_segmented(self.fd(), to, &slices[..datagrams.len()], size);
        match sent {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                self.segments = false;
                Err(io::ErrorKind::WouldBlock.into())
            }
            other => other,
        }
    }
}

/// A datagram socket over a stream.
pub(crate) struct DatagramSocket {
    end: XtiEndpoint,
    below: Arc<Below>,
    /// One receive at a time lets the bottom receive.
    receiving: Mutex<()>,
}

/// A datagram that was received.
#[derive(Debug)]
pub(crate) struct ReceivedDatagram {
    /// Its octets, of which the buffer has what fits.
    pub(crate) len: usize,
    pub(crate) from: Option<SocketAddr>,
}

/// Puts a stream over the UDP socket of a descriptor, unless it has one. Errors: what the stream cannot be opened for.
pub(crate) fn adopt(fd: RawFd, deferred: bool) -> io::Result<()> {
    if find(fd).is_some() {
        return Ok(());
    }
    let below = Arc::new(Below::default());
    let carrier = ProgramSocket {
        fd,
        below: Arc::clone(&below),
        segments: true,
        calls: (0, 0),
    };
    let options = StreamOptions {
        deferred,
        ..StreamOptions::default()
    };
    let end = XtiEndpoint::open_datagrams(Box::new(carrier), options)?;
    end.bind(&[], 0)?;
    let socket = DatagramSocket {
        end,
        below,
        receiving: Mutex::new(()),
    };
    socket.note_peer(fd);
    HAS_SOCKETS.store(true, Ordering::Release);
    drop(SOCKETS.with(|sockets| sockets.insert(fd, Arc::new(socket))));
    Ok(())
}

/// The socket of a descriptor, if it has a stream.
#[inline]
pub(crate) fn find(fd: RawFd) -> Option<Arc<DatagramSocket>> {
    if !HAS_SOCKETS.load(Ordering::Acquire) {
        return None;
    }
    SOCKETS.with(|sockets| sockets.get(&fd).cloned()).flatten()
}

/// The descriptors from `first` to `last` are about to be closed: what was sent leaves before.
pub(crate) fn forget_range(first: RawFd, last: RawFd) {
    if !HAS_SOCKETS.load(Ordering::Acquire) || first > last {
        return;
    }
    let gone = SOCKETS.with(|sockets| {
        let known: Vec<RawFd> = sockets.range(first..=last).map(|(fd, _)| *fd).collect();
        let gone = known.iter().filter_map(|fd| sockets.remove(fd));
        gone.collect::<Vec<_>>()
    });
    for socket in gone.into_iter().flatten() {
        socket.end.run();
    }
}

/// The program waits, or shares its descriptors: what it sent leaves now.
pub(crate) fn send_all() {
    if !HAS_SOCKETS.load(Ordering::Acquire) {
        return;
    }
    let all = SOCKETS.with(|sockets| sockets.values().cloned().collect::<Vec<_>>());
    for socket in all.into_iter().flatten() {
        socket.end.run();
    }
}

/// In a forked child: its sockets are the kernel's.
pub(crate) fn forget_all_in_child() {
    if HAS_SOCKETS.swap(false, Ordering::AcqRel) {
        SOCKETS.renew_in_child(BTreeMap::new());
    }
}

impl DatagramSocket {
    /// The peer is that of the kernel's socket.
    pub(crate) fn note_peer(&self, fd: RawFd) {
        self.end.run();
        let peer = rustix::net::getpeername(crate::sys::of_program(fd));
        let peer = peer.ok().flatten();
        let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
        *self
            .below
            .peer
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = peer;
    }

    /// The peer of a connected socket.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.below.peer()
    }

    /// What was sent leaves now.
    pub(crate) fn send_now(&self) {
        self.end.run();
    }

    /// Sends a datagram, waiting for room with `may_wait`.
    /// Errors: EAGAIN without room; EMSGSIZE; what an earlier one did not leave for.
    pub(crate) fn send(
        &self,
        fd: BorrowedFd<'_>,
        to: SocketAddr,
        octets: &[u8],
        may_wait: bool,
    ) -> io::Result<usize> {
        let destination = inet::encode(to);
        loop {
            let error = match self.end.try_send_datagram(&destination, octets) {
                Ok(()) => return Ok(octets.len()),
                Err(error) => error,
            };
            match error.tli {
                TliError::BadData => return Err(Errno::MSGSIZE.into()),
                TliError::Look => return Err(self.failure()),
                TliError::Flow if may_wait && super::is_blocking(fd) => {
                    crate::socket_pair::is_ready(fd, rustix::event::PollFlags::OUT, TURN_MS)?;
                    self.end.run();
                }
                TliError::Flow => return Err(Errno::AGAIN.into()),
                _ => return Err(error.into()),
            }
        }
    }

    /// What an earlier datagram did not leave for.
    fn failure(&self) -> io::Error {
        match self.end.receive_datagram_error() {
            Ok(failure) => io::Error::from_raw_os_error(failure.errno),
            Err(error) => error.into(),
        }
    }

    /// Receives a datagram into `buffer`, waiting with `may_wait` as long as the socket says.
    /// Errors: EAGAIN when none is there; EINTR; what the kernel says of the socket.
    pub(crate) fn receive(
        &self,
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        may_wait: bool,
    ) -> io::Result<ReceivedDatagram> {
        loop {
            match self.receive_once(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            if !may_wait || !super::is_blocking(fd) {
                return Err(Errno::AGAIN.into());
            }
            let limit =
                rustix::net::sockopt::socket_timeout(fd, rustix::net::sockopt::Timeout::Recv)?;
            let limit_ms = limit.map_or(-1, |limit| limit.as_millis().max(1) as i64);
            if !crate::socket_pair::is_ready(fd, rustix::event::PollFlags::IN, limit_ms)? {
                return Err(Errno::AGAIN.into());
            }
        }
    }

    fn receive_once(&self, buffer: &mut [u8]) -> io::Result<ReceivedDatagram> {
        let _turn = self
            .receiving
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let mut source = Vec::new();
        self.below.may_receive.store(true, Ordering::Relaxed);
        let received = self.end.try_receive_datagram(buffer, &mut source);
        self.below.may_receive.store(false, Ordering::Relaxed);
        match received {
            Ok(received) => {
                let mut len = received.len;
                let (mut more, mut rest) = (received.more, [0; 4096]);
                while more {
                    let piece = self.end.try_receive_datagram(&mut rest, &mut Vec::new())?;
                    (len, more) = (len + piece.len, piece.more);
                }
                Ok(ReceivedDatagram {
                    len,
                    from: inet::decode(&source),
                })
            }
            Err(error) if error.tli == TliError::Look => Err(self.failure()),
            Err(error) => match self.below.error.swap(0, Ordering::Relaxed) {
                0 if error.tli == TliError::NoData => Err(Errno::AGAIN.into()),
                0 => Err(error.into()),
                errno => Err(io::Error::from_raw_os_error(errno)),
            },
        }
    }
}
