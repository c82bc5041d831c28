//! Messages of an association on their way to its socket: whole, or in parts where one is longer than the partial
//! delivery point (RFC 6458 sections 6.1.7, 8.1.20 and 8.1.21).

use super::notifications::{self, Kind};
use super::settings::FragmentInterleave;
use super::socket::{Content, QUEUE_MAX, SctpSocket};
use library::sctp::Received;
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;

/// A stream, and whether unordered: of each, one message at a time is on its way.
type StreamKey = (u16, bool);

/// A message or a part of one, complete.
#[derive(Debug)]
struct Piece {
    key: StreamKey,
    octets: Vec<u8>,
    content: Content,
}

impl Piece {
    fn is_part(&self) -> bool {
        matches!(self.content, Content::Message { is_part: true, .. })
    }
}

/// What has come and is not at the socket.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// What has come of a message, or of a part of one.
    begun: Vec<u8>,
    /// Its last octets, for what is known of it.
    last: Option<Received>,
    /// Messages of which parts are at the socket, and whose end has not come.
    open: BTreeSet<StreamKey>,
    /// What came of other messages meanwhile, and its octets.
    held: VecDeque<Piece>,
    held_octets: usize,
}

/// Whose messages they are.
pub(super) struct Owner<'a> {
    pub(super) socket: &'a SctpSocket,
    pub(super) peer: SocketAddr,
    pub(super) assoc: i32,
}

impl Owner<'_> {
    fn content(&self, received: &Received, is_part: bool) -> Content {
        Content::Message {
            from: self.peer,
            stream: received.info.stream,
            is_unordered: received.info.unordered,
            ppid: received.info.ppid.to_be(),
            assoc: self.assoc,
            is_part,
        }
    }

    fn tell_aborted(&self, key: StreamKey) {
        let octets = notifications::partial_delivery(key.0, self.assoc);
        let kind = Kind::PartialDelivery;
        self.socket.notify(kind, self.assoc, octets);
    }
}

fn key_of(received: &Received) -> StreamKey {
    (received.info.stream, received.info.unordered)
}

impl Assembly {
    /// Takes the next octets of a message; parts of it go on from `point` octets.
    pub(super) fn take(
        &mut self,
        owner: &Owner<'_>,
        (received, octets): (&Received, &[u8]),
        point: usize,
    ) {
        let key = key_of(received);
        if self.last.as_ref().is_some_and(|last| key_of(last) != key) {
            // Another message: what has come of the one before is a part.
            self.pass_on(owner, true);
        }
        if received.is_aborted {
            self.begun.clear();
            self.last = None;
            return self.abort(owner, key);
        }
        self.begun.extend_from_slice(octets);
        self.last = Some(*received);
        if received.end || self.begun.len() >= point {
            self.pass_on(owner, !received.end);
        }
    }

    /// The association is over, or its peer began anew: messages that were begun have no end.
    pub(super) fn finish(&mut self, owner: &Owner<'_>) {
        self.begun.clear();
        self.last = None;
        while let Some(key) = self.open.first().copied() {
            self.abort(owner, key);
        }
    }

    /// Passes on what has come.
    fn pass_on(&mut self, owner: &Owner<'_>, is_part: bool) {
        let Some(last) = self.last.take() else {
            return;
        };
        let piece = Piece {
            key: key_of(&last),
            octets: std::mem::take(&mut self.begun),
            content: owner.content(&last, is_part),
        };
        self.give(owner, piece);
    }

    /// Gives a piece to the socket, or holds it while parts of another message are given.
    fn give(&mut self, owner: &Owner<'_>, piece: Piece) {
        let level = owner.socket.lock().settings.interleave;
        let waits = level != FragmentInterleave::Streams
            && !self.open.is_empty()
            && !self.open.contains(&piece.key);
        if waits {
            self.held_octets += piece.octets.len();
            self.held.push_back(piece);
            if self.held_octets > QUEUE_MAX {
                // Its end may never come, and the peer fills no more memory than that.
                self.held_octets = 0;
                for piece in std::mem::take(&mut self.held) {
                    self.deliver(owner, piece);
                }
            }
            return;
        }
        if self.deliver(owner, piece) {
            self.release(owner);
        }
    }

    /// Gives a piece to the socket; whether a message ended of which parts were given.
    fn deliver(&mut self, owner: &Owner<'_>, piece: Piece) -> bool {
        let is_part = piece.is_part();
        owner.socket.deliver(piece.octets, piece.content);
        match is_part {
            true => {
                self.open.insert(piece.key);
                owner.socket.begin_partial(owner.assoc);
                false
            }
            false => self.open.remove(&piece.key),
        }
    }

    fn abort(&mut self, owner: &Owner<'_>, key: StreamKey) {
        self.drop_begun(key);
        if self.open.remove(&key) {
            owner.tell_aborted(key);
            self.release(owner);
        }
    }

    /// Drops the parts that are held of a message whose end never comes, behind those before it.
    fn drop_begun(&mut self, key: StreamKey) {
        let is_of = |piece: &Piece| piece.key == key;
        while let Some(at) = self.held.iter().rposition(is_of)
            && self.held[at].is_part()
            && let Some(piece) = self.held.remove(at)
        {
            self.held_octets -= piece.octets.len();
        }
    }

    /// Gives what was held, as far as no other message is given in parts.
    fn release(&mut self, owner: &Owner<'_>) {
        if self.open.is_empty() {
            owner.socket.end_partial(owner.assoc);
        }
        self.held_octets = 0;
        for piece in std::mem::take(&mut self.held) {
            self.give(owner, piece);
        }
    }
}
