//! The header of a driver in front of the octets of a user, in the room that the stream head left for it.

use super::{BATCH_MAX, DatagramProvider};
use crate::inet::SocketAddress;
use std::io;
use streams::{Block, Message};

/// Octets of the longest header that goes in front of the octets of a user.
pub(super) const HEADER_MAX: usize = 64;

impl DatagramProvider {
    /// Writes the header of each of the batch in front of it; false, and none has one, where a block has others that
    /// refer to it.
    pub(super) fn write_headers(&mut self, destination: SocketAddress) -> io::Result<bool> {
        let Some(headers) = self.carrier.headers() else {
            return Ok(false);
        };
        let len = self.headroom;
        for at in 0..self.batch.len() {
            let block = self.batch[at].data.first_mut();
            let block = block.and_then(|block| {
                let has_room = block.prepend(&[0; HEADER_MAX][..len]);
                has_room.then_some(block)
            });
            let is_headed = match block {
                Some(block) => {
                    let octets = block.octets_mut().ok_or(io::ErrorKind::InvalidInput)?;
                    let (header, octets) = octets.split_at_mut(len);
                    let written = headers.write_header(destination, octets, header);
                    written.map(|()| true)
                }
                None => Ok(false),
            };
            if !matches!(is_headed, Ok(true)) {
                let written = at + usize::from(is_headed.is_err());
                strip(&mut self.batch[..written], len);
                return is_headed;
            }
        }
        Ok(true)
    }

    /// Sends the batch, whose datagrams have headers; those that stay have none afterwards.
    pub(super) fn send_headed(&mut self, destination: SocketAddress) -> io::Result<()> {
        let mut packets = [&[][..]; BATCH_MAX];
        for (place, message) in packets.iter_mut().zip(&self.batch) {
            *place = message.data.first().map_or(&[][..], Block::octets);
        }
        let packets = &packets[..self.batch.len()];
        let sent = match self.carrier.headers() {
            Some(headers) => headers.send_packets(destination, packets),
            None => Err(io::ErrorKind::Unsupported.into()),
        };
        if sent.is_err() {
            strip(&mut self.batch, self.headroom);
        }
        sent
    }
}

/// Takes headers away.
fn strip(batch: &mut [Message], len: usize) {
    for block in batch
        .iter_mut()
        .filter_map(|message| message.data.first_mut())
    {
        block.keep(len..block.len());
    }
}
