//! The rings between two ends, one each way, and the form of what goes through them.
//!
//! A message of a ring is one call of a wire: four octets with the length of each packet but the last,
//! then the packets. The peer writes any octets at any time, so the length is read once, and checked.

use channel::{
    Arrival, ChannelError, ChannelReceiver, ChannelSender, Geometry, NextMessage, Signal,
};
use rustix::net::{SendFlags, Shutdown};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A ring has 1 MiB: twice the window of an association, so that one never fills it. A slot has 128
/// octets: an acknowledgement takes one, a batch of 64 KiB 512.
const SLOT_LEN: u32 = 128;
const SLOTS: u32 = 8192;

/// Octets before the packets.
const HEADER_LEN: usize = 4;

/// Packets of a call, at most: UDP_MAX_SEGMENTS of Linux 6.9, which no wire exceeds.
const SEGMENTS_MAX: usize = 128;

/// What is known of the rings with a peer, by both halves and by reports.
#[derive(Debug)]
pub(crate) struct RingState {
    pub(crate) peer: SocketAddr,
    /// One of the halves found that the rings are of no use any more.
    ended: AtomicBool,
    pub(crate) sends: AtomicU64,
    pub(crate) spills: AtomicU64,
    pub(crate) receives: AtomicU64,
    pub(crate) octets_sent: AtomicU64,
    pub(crate) octets_received: AtomicU64,
}

/// Adds to a counter that one thread at a time writes, under a lock of its own.
fn add(counter: &AtomicU64, more: u64) {
    counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
}

impl RingState {
    fn new(peer: SocketAddr) -> Arc<RingState> {
        Arc::new(RingState {
            peer,
            ended: AtomicBool::new(false),
            sends: AtomicU64::new(0),
            spills: AtomicU64::new(0),
            receives: AtomicU64::new(0),
            octets_sent: AtomicU64::new(0),
            octets_received: AtomicU64::new(0),
        })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// Makes the rings and passes them to the peer that said the right nonce.
pub(crate) fn make(
    socket: UnixStream,
    peer: SocketAddr,
) -> Result<(RingSender, RingReceiver), ChannelError> {
    let (sender, mut receiver) = channel::open_pair(socket, geometry()?, Signal::Poll)?;
    // A thread may be waiting already, and does not know of this ring.
    receiver.prepare_poll()?;
    Ok(halves(peer, sender, receiver))
}

/// Takes the rings that the peer made, and tells it so.
/// Errors are those of [`channel::accept_pair`], and rings of another size.
pub(crate) fn take(
    socket: UnixStream,
    peer: SocketAddr,
) -> Result<(RingSender, RingReceiver), ChannelError> {
    let (sender, mut receiver) = channel::accept_pair(socket, Signal::Poll)?;
    if receiver.geometry() != geometry()? {
        return Err(ChannelError::Opening);
    }
    // Before the peer can send: a thread may be waiting already, and does not know of this ring.
    receiver.prepare_poll()?;
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    rustix::net::send(receiver.descriptor(), &[1], flags).map_err(|_| ChannelError::PeerGone)?;
    Ok(halves(peer, sender, receiver))
}

fn geometry() -> Result<Geometry, ChannelError> {
    Geometry::new(SLOT_LEN, SLOTS)
}

fn halves(
    peer: SocketAddr,
    sender: ChannelSender,
    receiver: ChannelReceiver,
) -> (RingSender, RingReceiver) {
    let state = RingState::new(peer);
    let sender = RingSender {
        sender,
        state: Arc::clone(&state),
    };
    (sender, RingReceiver { receiver, state })
}

/// What became of packets that were to go through a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// They are in it.
    Taken,
    /// It has no room for them.
    Full,
    /// It is of no use any more.
    Ended,
}

/// The half that sends.
#[derive(Debug)]
pub(crate) struct RingSender {
    sender: ChannelSender,
    pub(crate) state: Arc<RingState>,
}

impl RingSender {
    /// Puts packets of `packet_len` octets, the last of which may be shorter, into the ring.
    pub(crate) fn send(&mut self, slices: &[IoSlice<'_>], packet_len: usize) -> Sent {
        if self.state.has_ended() || self.sender.peer_is_seen_closed() {
            return Sent::Ended;
        }
        let octets: usize = slices.iter().map(|slice| slice.len()).sum();
        match self.write(slices, packet_len, octets) {
            Ok(true) => {
                add(&self.state.sends, 1);
                add(&self.state.octets_sent, octets as u64);
                Sent::Taken
            }
            Ok(false) | Err(ChannelError::TooLong { .. }) => {
                add(&self.state.spills, 1);
                Sent::Full
            }
            Err(_) => Sent::Ended,
        }
    }

    fn write(
        &mut self,
        slices: &[IoSlice<'_>],
        packet_len: usize,
        octets: usize,
    ) -> Result<bool, ChannelError> {
        let len = HEADER_LEN + octets;
        if !self.sender.has_room(len)? {
            return Ok(false);
        }
        // There is room, so this does not wait.
        let mut slots = self.sender.lend(len)?;
        let packet_len = u32::try_from(packet_len.min(octets)).unwrap_or(u32::MAX);
        slots.write(0, &packet_len.to_ne_bytes())?;
        let mut at = HEADER_LEN;
        for slice in slices {
            slots.write(at, slice)?;
            at += slice.len();
        }
        slots.commit(len)?;
        Ok(true)
    }

    /// Writes a message of any octets, as a dishonest peer does; false when it has no room.
    #[cfg(test)]
    pub(crate) fn write_raw(&mut self, octets: &[u8]) -> bool {
        let has_room = self.sender.has_room(octets.len());
        has_room.unwrap_or(false) && self.sender.send(octets).is_ok()
    }

    /// Ends both rings, as if this process were gone.
    pub(crate) fn end(self) {
        self.state.ended.store(true, Ordering::Relaxed);
        self.sender.abort();
    }
}

/// The half that receives.
#[derive(Debug)]
pub(crate) struct RingReceiver {
    receiver: ChannelReceiver,
    pub(crate) state: Arc<RingState>,
}

/// The rings are of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RingEnd {
    /// The peer closed them, or is gone; all that it sent was received.
    Gone,
    /// The peer wrote what no correct peer writes.
    Lied,
}

/// Octets of packets, and the length of each but the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packets {
    pub(crate) len: usize,
    pub(crate) packet_len: usize,
}

impl RingReceiver {
    /// Copies the next packets into `buffer`; None when there are none.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<Packets>, RingEnd> {
        let found = self.receiver.receive_within(Duration::ZERO);
        let message = match found.map_err(end_of)? {
            NextMessage::Message(message) => message,
            NextMessage::Nothing => return Ok(None),
            NextMessage::End => return Err(RingEnd::Gone),
        };
        let mut header = [0; HEADER_LEN];
        let (header_len, total) = (message.read(0, &mut header), message.len());
        let packets = check(header, header_len, total, buffer.len()).ok_or(RingEnd::Lied)?;
        message.read(HEADER_LEN, &mut buffer[..packets.len]);
        drop(message);
        // The end of the peer is met by the next look.
        let _ = self.receiver.take_answer();
        add(&self.state.receives, 1);
        add(&self.state.octets_received, packets.len as u64);
        Ok(Some(packets))
    }

    /// Asks the peer for a wake of the descriptor with its next packets; false when some are there.
    pub(crate) fn prepare_wait(&mut self) -> bool {
        // An error is met by the next receive.
        self.receiver.prepare_poll().unwrap_or(false)
    }

    /// The descriptor was readable: takes the wakes, and notices when the peer is gone.
    pub(crate) fn take_wakes(&mut self) -> Result<(), RingEnd> {
        self.receiver.take_wakes().map_err(end_of)
    }

    /// Whether the peer is gone, or closed the rings, and nothing of it is left to be received.
    pub(crate) fn is_over(&mut self) -> bool {
        !matches!(
            self.receiver.look(),
            Ok(Arrival::Message | Arrival::Nothing)
        )
    }

    /// Readable after a wake, and when the peer is gone.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.receiver.descriptor()
    }
}

impl Drop for RingReceiver {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::Relaxed);
        // The peer sees a process that is gone. A socket that it closed already cannot be shut down.
        let _ = rustix::net::shutdown(self.receiver.descriptor().as_fd(), Shutdown::Both);
    }
}

fn end_of(error: ChannelError) -> RingEnd {
    match error {
        ChannelError::Corrupt { .. } => RingEnd::Lied,
        _ => RingEnd::Gone,
    }
}

/// What a message of `total` octets with `header` carries, if a correct peer wrote it and it fits into
/// `room` octets.
fn check(
    header: [u8; HEADER_LEN],
    header_len: usize,
    total: usize,
    room: usize,
) -> Option<Packets> {
    let len = total.checked_sub(HEADER_LEN)?;
    let packet_len = u32::from_ne_bytes(header) as usize;
    let is_right = header_len == HEADER_LEN
        && (1..=room).contains(&len)
        && (1..=len).contains(&packet_len)
        && len.div_ceil(packet_len) <= SEGMENTS_MAX;
    is_right.then_some(Packets { len, packet_len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn peer() -> SocketAddr {
        ([127, 0, 0, 1], 9).into()
    }

    fn ends() -> ((RingSender, RingReceiver), (RingSender, RingReceiver)) {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        let made = make(near, peer()).expect("memory");
        (made, take(far, peer()).expect("a right opening"))
    }

    /// A receiver whose peer writes messages of any octets.
    fn liar() -> (ChannelSender, RingReceiver) {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        let geometry = geometry().expect("a right geometry");
        let (sender, _back) = channel::open_pair(near, geometry, Signal::Poll).expect("memory");
        let (_, receiver) = take(far, peer()).expect("a right opening");
        (sender, receiver)
    }

    fn receive(receiver: &mut RingReceiver) -> Result<Option<Packets>, RingEnd> {
        receiver.receive(&mut vec![0; 65_536])
    }

    #[test]
    fn packets_arrive_as_they_were_sent() {
        let ((mut sender, _near), (_far, mut receiver)) = ends();
        assert_eq!(receive(&mut receiver), Ok(None));
        let slices = [
            IoSlice::new(b"one."),
            IoSlice::new(b"two.t"),
            IoSlice::new(b"hree"),
        ];
        assert_eq!(sender.send(&slices, 4), Sent::Taken);
        let mut buffer = [0; 64];
        let packets = receiver.receive(&mut buffer).expect("a right message");
        assert_eq!(
            packets,
            Some(Packets {
                len: 13,
                packet_len: 4
            })
        );
        assert_eq!(&buffer[..13], b"one.two.three");
    }

    #[test]
    fn full_ring_takes_no_more_until_something_was_received() {
        let ((mut sender, _near), (_far, mut receiver)) = ends();
        let batch = vec![5; 65_000];
        let mut taken = 0;
        while sender.send(&[IoSlice::new(&batch)], 1472) == Sent::Taken {
            taken += 1;
        }
        assert_eq!(taken, 16, "1 MiB of 65,004 octets each");
        assert!(receive(&mut receiver).expect("a right message").is_some());
        assert_eq!(sender.send(&[IoSlice::new(&batch)], 1472), Sent::Taken);
        assert_eq!(sender.state.spills.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn wake_is_gone_with_the_message_that_it_announced() {
        let ((mut sender, _near), (_far, mut receiver)) = ends();
        let is_readable = |receiver: &RingReceiver| {
            let mut polled = [PollFd::from_borrowed_fd(
                receiver.descriptor(),
                PollFlags::IN,
            )];
            poll(&mut polled, Some(&Timespec::default())).expect("it can be polled") > 0
        };
        assert!(receiver.prepare_wait());
        assert_eq!(sender.send(&[IoSlice::new(b"one")], 3), Sent::Taken);
        assert!(is_readable(&receiver));
        assert!(receive(&mut receiver).expect("a right message").is_some());
        assert!(!is_readable(&receiver), "nothing is left to be received");
        assert!(receiver.prepare_wait());
        assert_eq!(sender.send(&[IoSlice::new(b"two")], 3), Sent::Taken);
        assert!(is_readable(&receiver), "each wish is answered");
    }

    #[test]
    fn lengths_that_no_peer_writes_end_the_ring() {
        let packets = |len: usize, packet_len: u32| {
            [packet_len.to_ne_bytes().as_slice(), &vec![0; len]].concat()
        };
        let lies = [
            b"abc".to_vec(),
            packets(0, 1),
            packets(8, 0),
            packets(8, 9),
            packets(8, u32::MAX),
            packets(65_537, 65_537),
            packets(SEGMENTS_MAX + 1, 1),
        ];
        for lie in lies {
            let (mut sender, mut receiver) = liar();
            sender.send(&lie).expect("room");
            assert_eq!(
                receive(&mut receiver),
                Err(RingEnd::Lied),
                "{:?}",
                lie.len()
            );
        }
        let (mut sender, mut receiver) = liar();
        sender.send(&packets(SEGMENTS_MAX, 1)).expect("room");
        assert!(receive(&mut receiver).expect("a right message").is_some());
    }

    #[test]
    fn what_was_sent_before_the_end_is_received() {
        let ((mut sender, back), (_far, mut receiver)) = ends();
        assert_eq!(sender.send(&[IoSlice::new(b"last")], 4), Sent::Taken);
        sender.end();
        drop(back);
        // The octet that asked for the last packets comes before the end of the socket.
        for _ in 0..2 {
            receiver.take_wakes().expect("the end is no lie");
        }
        assert!(receive(&mut receiver).expect("it was committed").is_some());
        assert_eq!(receive(&mut receiver), Err(RingEnd::Gone));
        assert!(receiver.is_over());
    }

    #[test]
    fn end_of_one_half_ends_the_other() {
        let ((mut sender, own), (_far, mut receiver)) = ends();
        drop(own);
        assert_eq!(sender.send(&[IoSlice::new(b"x")], 1), Sent::Ended);
        receiver.take_wakes().expect("the end is no lie");
        assert!(receiver.is_over());
    }

    #[test]
    fn rings_of_another_size_are_refused() {
        let (near, far) = UnixStream::pair().expect("a pair of sockets");
        let geometry = Geometry::new(64, 16).expect("a right geometry");
        let _made = channel::open_pair(near, geometry, Signal::Poll).expect("memory");
        assert!(matches!(take(far, peer()), Err(ChannelError::Opening)));
    }
}
