//! The rings of a connection, and the frames in them: four octets of which kind, then octets of the kind.

use super::names;
use crate::connections::{Frame, FrameKind, Link, Next, Sleep, introduction, split_introduction};
use channel::{Arrival, ChannelError, ChannelReceiver, ChannelSender, Geometry, Signal};
use socket2::Socket;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use streams::{Block, Message, Pool};

/// Octets in front of a frame's own.
const HEADER: usize = 4;

fn kind_of(octet: u8) -> Option<FrameKind> {
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

/// One end of a connection.
pub(crate) struct LoopLink {
    sender: ChannelSender,
    receiver: ChannelReceiver,
    /// The peer's address.
    peer: Vec<u8>,
    /// What the peer's user said with the connect.
    said: Vec<u8>,
}

impl LoopLink {
    /// Rings over a socket that this end connected to `peer`; the first frame says its own address, and what the
    /// user says with the connect. Errors: a peer of another user, and what the system refuses.
    pub(super) fn open(
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
    /// Errors: what came is none, a peer of another user, and what the system refuses.
    pub(super) fn accept(socket: Socket) -> io::Result<LoopLink> {
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
}

impl Link for LoopLink {
    fn peer(&self) -> &[u8] {
        &self.peer
    }

    fn said(&self) -> &[u8] {
        &self.said
    }

    #[inline]
    fn send(&mut self, kind: FrameKind, message: &Message) -> bool {
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

    fn send_run(&mut self, mut octets: &[u8], lengths: impl Iterator<Item = usize>) -> usize {
        let mut sent = 0;
        for len in lengths {
            let (message, rest) = octets.split_at(len);
            match self.sender.has_room(HEADER + len) {
                Ok(true) => {}
                Ok(false) => return sent,
                Err(_) => {}
            }
            let _ = self.write(FrameKind::Data, len, std::iter::once(message));
            (octets, sent) = (rest, sent + 1);
        }
        sent
    }

    /// A ring that is full belongs to a peer that does not read, who learns of the end when it is closed.
    fn send_short(&mut self, kind: FrameKind, octets: &[u8]) {
        let has_room = self.sender.has_room(HEADER + octets.len());
        if has_room.is_ok_and(|has_room| has_room) {
            let _ = self.write(kind, octets.len(), std::iter::once(octets));
        }
    }

    /// What is in a ring has left.
    fn flush(&mut self) {}

    fn has_unsent(&self) -> bool {
        false
    }

    #[inline]
    fn next(&mut self, pool: &mut Pool) -> Next {
        match self.receiver.look() {
            Ok(Arrival::Message) => {}
            Ok(Arrival::Nothing) => return Next::Nothing,
            Ok(Arrival::End) | Err(_) => return Next::End(None),
        }
        let Ok(Some(slots)) = self.receiver.receive() else {
            return Next::End(None);
        };
        let mut header = [0; HEADER];
        let read = slots.read(0, &mut header);
        let (HEADER, Some(kind)) = (read, kind_of(header[0])) else {
            return Next::End(None);
        };
        let len = slots.len() - HEADER;
        if len > super::TIDU {
            return Next::End(None);
        }
        let mut octets = pool.allocate(0, len);
        // A block of its own has the room that it was allocated with.
        let _ = octets.fill(|room| Ok(slots.read(HEADER, &mut room[..len])));
        Next::Frame(Frame {
            kind,
            octets,
            options: None,
        })
    }

    /// Before it is accepted an end sends nothing but its own end.
    fn has_ended(&mut self, pool: &mut Pool) -> bool {
        !matches!(self.next(pool), Next::Nothing)
    }

    /// Asks the peer for a wake.
    fn sleep(&mut self, room_for: Option<usize>) -> Sleep {
        let asked = match room_for {
            Some(octets) => self.sender.prepare_poll(HEADER + octets),
            None => self.receiver.prepare_poll(),
        };
        match asked.unwrap_or(false) {
            true => Sleep::OnDescriptor,
            false => Sleep::Not,
        }
    }

    fn take_wakes(&mut self) {
        // That the peer is gone is told by the next look.
        let _ = self.receiver.take_wakes();
    }

    fn waitable(&self) -> Option<Socket> {
        let descriptor = self.receiver.descriptor().try_clone_to_owned().ok()?;
        Some(Socket::from(descriptor))
    }

    /// Opening rings is a call of each end.
    fn system_calls(&self) -> (u64, u64) {
        let (sender, receiver) = (self.sender.system_calls(), self.receiver.system_calls());
        (1 + sender, 1 + receiver)
    }

    fn ring_octets(&self) -> Option<u64> {
        Some(u64::from(self.sender.geometry().capacity()))
    }
}

/// A connection that comes: its peer has connected a socket, opened rings, or said its name.
pub(super) enum Arriving {
    Socket(Socket),
    Link(LoopLink),
}

impl Arriving {
    /// What it has become: a whole connection, or still one that comes. None: its peer is gone, or sent
    /// what is none.
    pub(super) fn look(self, pool: &mut Pool) -> Option<Result<LoopLink, Arriving>> {
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
                ..
            }) => {
                let (peer, said) = split_introduction(octets.octets())?;
                (link.peer, link.said) = (peer.to_vec(), said.to_vec());
                pool.release(octets);
                Some(Ok(link))
            }
            Next::Frame(_) | Next::Run(..) | Next::End(_) => None,
        }
    }
}

pub(super) fn to_io_error(error: ChannelError) -> io::Error {
    match error {
        ChannelError::System { source, .. } => source,
        ChannelError::OtherUser { .. } => io::ErrorKind::PermissionDenied.into(),
        _ => io::ErrorKind::ConnectionAborted.into(),
    }
}
