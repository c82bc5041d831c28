//! The rings of a connection, and the frames in them: four octets of which kind, then octets of the kind.

use super::names;
use channel::{Arrival, ChannelError, ChannelReceiver, ChannelSender, Geometry, Signal};
use socket2::Socket;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use streams::{Block, Message, Pool};

/// Octets in front of a frame's own.
const HEADER: usize = 4;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// The first one of who connects: octets of its address, the address, data of the user.
    Connect = 1,
    /// The first one of who accepts: the same.
    Confirm = 2,
    /// Data that end a message.
    Data = 3,
    /// Data of a message that goes on with the next frame of data.
    DataMore = 4,
    /// No more data come: data of the user with the release.
    Release = 5,
    /// The user ended the connection: the reason in four octets, data of the user.
    Disconnect = 6,
    /// Expedited data that end a message of such.
    Expedited = 7,
    /// Expedited data of a message that goes on.
    ExpeditedMore = 8,
}

impl FrameKind {
    fn from_octet(octet: u8) -> Option<FrameKind> {
        use FrameKind::*;
        const ALL: [FrameKind; 8] = [
            Connect,
            Confirm,
            Data,
            DataMore,
            Release,
            Disconnect,
            Expedited,
            ExpeditedMore,
        ];
        ALL.into_iter().find(|kind| *kind as u8 == octet)
    }
}

/// A frame that came, without its header.
pub(crate) struct Frame {
    pub(crate) kind: FrameKind,
    pub(crate) octets: Block,
}

/// What is next in a ring.
pub(crate) enum Next {
    Frame(Frame),
    Nothing,
    /// The peer closed its end, or is gone, or wrote what is no frame.
    End,
}

/// One end of a connection.
pub(crate) struct LoopLink {
    sender: ChannelSender,
    receiver: ChannelReceiver,
    /// The peer's address.
    pub(crate) peer: Vec<u8>,
    /// What the peer's user said with the connect.
    pub(crate) said: Vec<u8>,
}

impl LoopLink {
    /// Rings over a socket that this end connected to `peer`; the first frame says its own address, and what the
    /// user says with the connect.
    ///
    /// # Errors
    ///
    /// A peer of another user, and what the system refuses.
    pub(crate) fn open(
        socket: Socket,
        geometry: Geometry,
        (own, said): (&[u8], &[u8]),
        peer: &[u8],
    ) -> io::Result<LoopLink> {
        let socket = UnixStream::from(OwnedFd::from(socket));
        let pair = channel::open_pair(socket, geometry, Signal::Poll).map_err(to_io_error)?;
        let mut link = LoopLink::new(pair, peer.to_vec());
        link.send_short(FrameKind::Connect, &introduction(own, said));
        Ok(link)
    }

    /// Rings over a socket whose peer has sent their opening.
    ///
    /// # Errors
    ///
    /// What came is none, a peer of another user, and what the system refuses.
    pub(crate) fn accept(socket: Socket) -> io::Result<LoopLink> {
        let socket = UnixStream::from(OwnedFd::from(socket));
        let pair = channel::accept_pair(socket, Signal::Poll).map_err(to_io_error)?;
        Ok(LoopLink::new(pair, Vec::new()))
    }

    fn new((sender, receiver): (ChannelSender, ChannelReceiver), peer: Vec<u8>) -> LoopLink {
        LoopLink {
            sender,
            receiver,
            peer,
            said: Vec::new(),
        }
    }

    /// A descriptor that is readable after a wake, to wait on.
    pub(crate) fn waitable(&self) -> io::Result<Socket> {
        Ok(Socket::from(
            self.receiver.descriptor().try_clone_to_owned()?,
        ))
    }

    /// Octets of the ring to the peer.
    pub(crate) fn ring_octets(&self) -> u64 {
        u64::from(self.sender.geometry().capacity())
    }

    /// System calls of both rings.
    pub(crate) fn system_calls(&self) -> (u64, u64) {
        (self.sender.system_calls(), self.receiver.system_calls())
    }

    /// Sends a message's data as a frame; false while the ring has no room for it. Who has gone takes
    /// everything: that it has is told where the other ring is read.
    #[inline]
    pub(crate) fn send(&mut self, kind: FrameKind, message: &Message) -> bool {
        let octets = message.data_octets();
        match self.sender.has_room(HEADER + octets) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => return true,
        }
        let blocks = message.data.iter().map(Block::octets);
        // A ring that has room does not wait, and a wake that fails is made up by the peer's own look.
        let _ = self.write(kind, octets, blocks);
        true
    }

    fn write<'a>(
        &mut self,
        kind: FrameKind,
        octets: usize,
        parts: impl Iterator<Item = &'a [u8]>,
    ) -> Result<(), ChannelError> {
        let mut lent = self.sender.lend(HEADER + octets)?;
        lent.write(0, &[kind as u8, 0, 0, 0])?;
        let mut at = HEADER;
        for part in parts {
            lent.write(at, part)?;
            at += part.len();
        }
        lent.commit(at)
    }

    /// Sends a frame of the connection itself, if the ring has room: one that is full belongs to a
    /// peer that does not read, who learns of the end when the ring is closed.
    pub(crate) fn send_short(&mut self, kind: FrameKind, octets: &[u8]) -> bool {
        let has_room = self.sender.has_room(HEADER + octets.len());
        if has_room.is_ok_and(|has_room| has_room) {
            return self
                .write(kind, octets.len(), std::iter::once(octets))
                .is_ok();
        }
        false
    }

    /// The next frame.
    #[inline]
    pub(crate) fn next(&mut self, pool: &mut Pool) -> Next {
        match self.receiver.look() {
            Ok(Arrival::Message) => {}
            Ok(Arrival::Nothing) => return Next::Nothing,
            Ok(Arrival::End) | Err(_) => return Next::End,
        }
        let Ok(Some(slots)) = self.receiver.receive() else {
            return Next::End;
        };
        let mut header = [0; HEADER];
        let read = slots.read(0, &mut header);
        let (HEADER, Some(kind)) = (read, FrameKind::from_octet(header[0])) else {
            return Next::End;
        };
        let len = slots.len() - HEADER;
        if len > super::TIDU {
            return Next::End;
        }
        let mut octets = pool.allocate(0, len);
        // A block of its own has the room that it was allocated with.
        let _ = octets.fill(|room| Ok(slots.read(HEADER, &mut room[..len])));
        Next::Frame(Frame { kind, octets })
    }

    /// Asks the peer for a wake with its next frame, or when a frame with `octets` has room; false
    /// when that is so now.
    pub(crate) fn prepare_wait(&mut self, room_for: Option<usize>) -> bool {
        match room_for {
            Some(octets) => self.sender.prepare_poll(HEADER + octets),
            None => self.receiver.prepare_poll(),
        }
        .unwrap_or(false)
    }

    /// Takes the wakes that made the descriptor readable.
    pub(crate) fn take_wakes(&mut self) {
        // That the peer is gone is told by the next look.
        let _ = self.receiver.take_wakes();
    }
}

/// An address with its length in front, then data of the user.
pub(crate) fn introduction(address: &[u8], said: &[u8]) -> Vec<u8> {
    [&[address.len() as u8], address, said].concat()
}

/// Address and data of an introduction; None when it is none.
pub(crate) fn split_introduction(octets: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&len, rest) = octets.split_first()?;
    rest.split_at_checked(len.into())
}

/// A connection that comes: its peer has connected a socket, opened rings, or said its name.
pub(crate) enum Arriving {
    Socket(Socket),
    Link(LoopLink),
}

impl Arriving {
    /// What it has become: a whole connection, or still one that comes. None: its peer is gone, or sent
    /// what is none.
    pub(crate) fn look(self, pool: &mut Pool) -> Option<Result<LoopLink, Arriving>> {
        let mut link = match self {
            Arriving::Link(link) => link,
            Arriving::Socket(socket) => match names::has_opening(&socket).ok()? {
                false => return Some(Err(Arriving::Socket(socket))),
                true => LoopLink::accept(socket).ok()?,
            },
        };
        match link.next(pool) {
            Next::Nothing => Some(Err(Arriving::Link(link))),
            Next::Frame(Frame {
                kind: FrameKind::Connect,
                octets,
            }) => {
                let (peer, said) = split_introduction(octets.octets())?;
                (link.peer, link.said) = (peer.to_vec(), said.to_vec());
                pool.release(octets);
                Some(Ok(link))
            }
            Next::Frame(_) | Next::End => None,
        }
    }
}

pub(crate) fn to_io_error(error: ChannelError) -> io::Error {
    match error {
        ChannelError::System { source, .. } => source,
        ChannelError::OtherUser { .. } => io::ErrorKind::PermissionDenied.into(),
        _ => io::ErrorKind::ConnectionAborted.into(),
    }
}
