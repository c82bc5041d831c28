//! The sender of a channel with modules.

use super::{Flow, Modules, PLACE_LEN};
use crate::error::ChannelError;
use crate::geometry::{Geometry, RING_OCTETS_MAX};
use crate::ring::ChannelSender;
use crate::wait::SLEEP_MAX;
use std::time::Duration;

/// The end of a channel with modules that writes. Dropping it closes the channel after what it was given; if pieces of
/// the last message had no room yet, the receiver finds it gone instead.
#[derive(Debug)]
pub struct ModularSender {
    /// None only while it is dropped.
    channel: Option<ChannelSender>,
    modules: Modules,
    /// Space for a header.
    header: Vec<u8>,
    /// Octets of a piece at most.
    piece_max: usize,
    /// A message of which the first piece was sent, and how many octets were.
    unsent: Option<(Vec<u8>, usize)>,
    dropped: u64,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way. Pieces of it that had no room go first in the next call.
    Whole,
    /// There was no room, and it was dropped ([`Flow::Drop`]).
    Dropped,
    /// There was no room in time; nothing of it was sent.
    NoRoom,
}

impl ModularSender {
    /// # Errors
    /// A ring that has no room for a header and an octet.
    pub(super) fn new(channel: ChannelSender, modules: Modules) -> Result<Self, ChannelError> {
        let header_len = modules.header_len();
        let capacity = channel.geometry().capacity();
        if header_len >= capacity as usize {
            return Err(ChannelError::TooLong {
                len: header_len + 1,
                max: capacity,
            });
        }
        // Four pieces in a ring, so that both ends work at the same time.
        let share = if modules.reassembles { 4 } else { 1 };
        let record_max = (capacity as usize / share).max(header_len + 1);
        Ok(Self {
            channel: Some(channel),
            modules,
            header: vec![0; header_len],
            piece_max: record_max - header_len,
            unsent: None,
            dropped: 0,
        })
    }

    fn channel(&mut self) -> &mut ChannelSender {
        self.channel.as_mut().expect("it is there until the drop")
    }

    /// The channel's geometry.
    #[must_use]
    pub fn geometry(&self) -> Geometry {
        let channel = self.channel.as_ref();
        channel.expect("it is there until the drop").geometry()
    }

    /// Messages dropped for want of room.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// System calls of this end since it was opened.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.channel.as_ref().map_or(0, ChannelSender::system_calls)
    }

    /// Sends `message`; for room it is given `limit`, except with [`Flow::Drop`].
    ///
    /// # Errors
    /// [`ChannelError::TooLong`] for a message longer than the ring where the channel does not reassemble, and than
    /// [`RING_OCTETS_MAX`] where it does; [`ChannelError::PeerGone`] without room and a receiver;
    /// [`ChannelError::Corrupt`] as for [`ChannelSender::has_room`].
    pub fn send(&mut self, message: &[u8], limit: Duration) -> Result<Sent, ChannelError> {
        self.check_len(message.len())?;
        let waits = match self.modules.flow {
            Flow::Block => limit,
            Flow::Drop => Duration::ZERO,
        };
        if !self.flush(waits)? {
            return Ok(self.without_room());
        }
        let mut sent = 0;
        loop {
            let piece = &message[sent..message.len().min(sent + self.piece_max)];
            if !self.send_piece(piece, (sent, message.len()), waits)? {
                if sent == 0 {
                    return Ok(self.without_room());
                }
                self.unsent = Some((message.to_vec(), sent));
                return Ok(Sent::Whole);
            }
            sent += piece.len();
            if sent == message.len() {
                return Ok(Sent::Whole);
            }
        }
    }

    /// Sends the pieces of the last message that had no room, within `limit`; whether none is left.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub fn flush(&mut self, limit: Duration) -> Result<bool, ChannelError> {
        while let Some((message, sent)) = self.unsent.take() {
            let piece = &message[sent..message.len().min(sent + self.piece_max)];
            let is_sent = self.send_piece(piece, (sent, message.len()), limit)?;
            let sent = if is_sent { sent + piece.len() } else { sent };
            if sent < message.len() {
                self.unsent = Some((message, sent));
            }
            if !is_sent {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits until a short message has room, for `limit` at most; whether it has.
    ///
    /// # Errors
    /// Those of [`Self::send`].
    pub fn wait_for_room(&mut self, limit: Duration) -> Result<bool, ChannelError> {
        let len = self.header.len() + 1;
        Ok(self.flush(limit)? && self.channel().wait_for_room(len, limit)?)
    }

    /// Whether the receiver's process, or its end, is gone. Costs a system call.
    ///
    /// # Errors
    /// A poll that the system refuses.
    pub fn peer_gone(&mut self) -> Result<bool, ChannelError> {
        self.channel().peer_gone()
    }

    fn check_len(&self, len: usize) -> Result<(), ChannelError> {
        let max = match self.modules.reassembles {
            true => RING_OCTETS_MAX as usize,
            false => self.piece_max,
        };
        match len <= max {
            true => Ok(()),
            false => Err(ChannelError::TooLong {
                len,
                max: max as u32,
            }),
        }
    }

    fn without_room(&mut self) -> Sent {
        match self.modules.flow {
            Flow::Block => Sent::NoRoom,
            Flow::Drop => {
                self.modules.skip();
                self.dropped += 1;
                Sent::Dropped
            }
        }
    }

    /// Sends a piece that lies at `offset` of a message of `len` octets, if it has room within `limit`.
    fn send_piece(
        &mut self,
        piece: &[u8],
        (offset, len): (usize, usize),
        limit: Duration,
    ) -> Result<bool, ChannelError> {
        let channel = self.channel.as_mut().expect("it is there until the drop");
        let record_len = self.header.len() + piece.len();
        if !channel.wait_for_room(record_len, limit)? {
            return Ok(false);
        }
        let mut headers = &mut self.header[..];
        if self.modules.reassembles {
            let (place, others) = headers.split_at_mut(PLACE_LEN);
            place[..4].copy_from_slice(&(offset as u32).to_ne_bytes());
            place[4..].copy_from_slice(&(len as u32).to_ne_bytes());
            headers = others;
        }
        self.modules.write_headers(piece, headers);
        let mut lent = channel.lend(record_len)?;
        lent.write(0, &self.header)?;
        lent.write(self.header.len(), piece)?;
        lent.commit(record_len)?;
        Ok(true)
    }
}

impl Drop for ModularSender {
    fn drop(&mut self) {
        let is_whole = matches!(self.flush(SLEEP_MAX), Ok(true));
        if let Some(channel) = self.channel.take()
            && !is_whole
        {
            channel.abort();
        }
    }
}
