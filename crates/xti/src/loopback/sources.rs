//! The ends that send datagrams to one.

use super::TIDU;
use crate::tpi::{ADDRESS_MAX, write_datagram_indication};
use channel::{Arrival, ChannelReceiver};
use streams::{Message, Pool};

/// An end that sends here.
pub(super) struct Source {
    pub(super) receiver: ChannelReceiver,
    /// Its address, which its first message says.
    address: Vec<u8>,
}

/// A source is gone, or sent what it must not.
pub(super) struct Ended;

impl Source {
    pub(super) fn new(receiver: ChannelReceiver) -> Source {
        let address = Vec::new();
        Source { receiver, address }
    }

    /// The next datagram; None while none is there.
    pub(super) fn next(&mut self, pool: &mut Pool) -> Result<Option<Message>, Ended> {
        if self.address.is_empty() && !self.read_address()? {
            return Ok(None);
        }
        match self.receiver.look() {
            Ok(Arrival::Message) => {}
            Ok(Arrival::Nothing) => return Ok(None),
            Ok(Arrival::End) | Err(_) => return Err(Ended),
        }
        let Ok(Some(slots)) = self.receiver.receive() else {
            return Err(Ended);
        };
        let len = slots.len();
        if len > TIDU {
            return Err(Ended);
        }
        let mut octets = pool.allocate(0, len);
        // A block of its own has the room that it was allocated with.
        let _ = octets.fill(|room| Ok(slots.read(0, &mut room[..len])));
        let mut control = [0; 20 + ADDRESS_MAX];
        let control = write_datagram_indication(&self.address, &mut control);
        Ok(Some(Message::proto(pool.copy(0, control), Some(octets))))
    }

    /// Takes the first message; false while it has not come.
    fn read_address(&mut self) -> Result<bool, Ended> {
        match self.receiver.look() {
            Ok(Arrival::Message) => {}
            Ok(Arrival::Nothing) => return Ok(false),
            Ok(Arrival::End) | Err(_) => return Err(Ended),
        }
        let Ok(Some(slots)) = self.receiver.receive() else {
            return Err(Ended);
        };
        if slots.is_empty() || slots.len() > ADDRESS_MAX {
            return Err(Ended);
        }
        self.address = slots.to_vec();
        Ok(true)
    }
}
