//! Channels between members of an arena: what goes through their rings is a slot's number and a length.

use super::{Arena, ArenaSlot, Member, Shared};
use crate::error::ChannelError;
use crate::geometry::{Geometry, SLOT_LEN_MIN};
use crate::opening;
use crate::ring::{Arrival, ChannelReceiver, ChannelSender};
use crate::wait::{SLEEP_MAX, Signal};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Octets of a reference: the slot's number, then the message's length, each in the host's order.
const REFERENCE_LEN: usize = 8;

/// The end that passes messages of an arena to another member.
#[derive(Debug)]
pub struct ArenaSender {
    arena: Rc<Shared>,
    channel: ChannelSender,
    /// The member at the other end.
    receiver: Member,
}

/// The end that gets messages of an arena.
#[derive(Debug)]
pub struct ArenaReceiver {
    arena: Rc<Shared>,
    channel: ChannelReceiver,
}

impl Arena {
    /// Opens a channel to the member at the other end of `socket`, which calls [`Arena::accept`]. Its ring
    /// has a place for each slot, so it is never full.
    ///
    /// # Errors
    /// Those of [`ChannelSender::open`], and [`ChannelError::OtherArena`] for a process that is no member.
    pub fn open(&self, socket: UnixStream, signal: Signal) -> Result<ArenaSender, ChannelError> {
        let (identity, number) = opening::receive_hello(&socket)?;
        if identity != self.0.identity {
            return Err(ChannelError::OtherArena);
        }
        let receiver = Member::new(number)?;
        let places = Geometry::new(SLOT_LEN_MIN, self.0.geometry.slots())?;
        Ok(ArenaSender {
            arena: Rc::clone(&self.0),
            channel: ChannelSender::open(socket, places, signal)?,
            receiver,
        })
    }

    /// Takes the channel of the member at the other end of `socket`, which calls [`Arena::open`].
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::accept`].
    pub fn accept(
        &self,
        socket: UnixStream,
        signal: Signal,
    ) -> Result<ArenaReceiver, ChannelError> {
        opening::send_hello(&socket, self.0.identity, self.0.member.0)?;
        Ok(ArenaReceiver {
            arena: Rc::clone(&self.0),
            channel: ChannelReceiver::accept(socket, signal)?,
        })
    }
}

impl ArenaSender {
    /// Passes `message` on without a copy. The caller still holds it, may pass it to others, and lets it
    /// go by dropping it; meanwhile nobody can write it.
    ///
    /// # Errors
    /// [`ChannelError::AlreadyHeld`] while the receiver holds the message, or has it in a ring;
    /// [`ChannelError::PeerGone`] when it has closed its end or was found gone.
    pub fn pass(&mut self, message: &ArenaSlot) -> Result<(), ChannelError> {
        if self.arena.identity != message.arena.identity {
            return Err(ChannelError::OtherArena);
        }
        let holders = self.arena.holders(message.slot);
        let bit = self.receiver.bit();
        if holders.fetch_or(bit, Ordering::SeqCst) & bit != 0 {
            return Err(ChannelError::AlreadyHeld);
        }
        let sent = self.send_reference(message);
        if sent.is_err() {
            // The caller holds the message, so that it cannot have become another one meanwhile.
            self.arena.release(message.slot, self.receiver);
        }
        sent
    }

    /// The receiver closes its end before it looks into its ring for the last time, and this end writes
    /// before it looks for the close: one of both sees the other's.
    fn send_reference(&mut self, message: &ArenaSlot) -> Result<(), ChannelError> {
        let mut reference = [0; REFERENCE_LEN];
        reference[..4].copy_from_slice(&message.slot.to_ne_bytes());
        reference[4..].copy_from_slice(&message.len.to_ne_bytes());
        self.channel.send(&reference)?;
        match self.channel.peer_has_closed() {
            true => Err(ChannelError::PeerGone),
            false => Ok(()),
        }
    }

    /// Whether the receiver's process, or its end, is gone. Costs a system call.
    ///
    /// # Errors
    /// A poll that the system refuses.
    pub fn peer_gone(&mut self) -> Result<bool, ChannelError> {
        self.channel.peer_gone()
    }

    /// System calls of this end since it was opened: sleeps, wakes, looks at the socket.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.channel.system_calls()
    }
}

impl ArenaReceiver {
    /// The end of a channel whose sender knows the member already.
    #[cfg(test)]
    pub(super) fn adopt(arena: &Arena, socket: UnixStream) -> Result<Self, ChannelError> {
        Ok(Self {
            arena: Rc::clone(&arena.0),
            channel: ChannelReceiver::accept(socket, Signal::Futex)?,
        })
    }

    /// What is in the ring now.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::look`].
    pub fn look(&mut self) -> Result<Arrival, ChannelError> {
        self.channel.look()
    }

    /// Waits until there is a message or the end, for `limit` at most.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::look`].
    pub fn wait_for_message(&mut self, limit: Duration) -> Result<Arrival, ChannelError> {
        self.channel.wait_for_message(limit)
    }

    /// The next message, which this member holds until it drops it. Waits while there is none; `None` when
    /// the sender closed the channel and all was received.
    ///
    /// # Errors
    /// Those of [`ChannelReceiver::receive`], and [`ChannelError::Corrupt`] for a reference that no
    /// correct member writes.
    pub fn receive(&mut self) -> Result<Option<ArenaSlot>, ChannelError> {
        loop {
            match self.channel.wait_for_message(SLEEP_MAX)? {
                Arrival::Message => return self.take(),
                Arrival::End => return Ok(None),
                Arrival::Nothing => {}
            }
        }
    }

    /// System calls of this end since it was opened: sleeps, wakes, looks at the socket.
    #[must_use]
    pub fn system_calls(&self) -> u64 {
        self.channel.system_calls()
    }

    /// The channel that carries the references.
    pub(crate) fn channel(&mut self) -> &mut ChannelReceiver {
        &mut self.channel
    }

    /// The message of the reference that has come, read once and checked.
    fn take(&mut self) -> Result<Option<ArenaSlot>, ChannelError> {
        let mut reference = [0; REFERENCE_LEN];
        let Some(received) = self.channel.receive()? else {
            return Ok(None);
        };
        let (len, read) = (received.len(), received.read(0, &mut reference));
        drop(received);
        if len != REFERENCE_LEN || read != REFERENCE_LEN {
            return Err(corrupt("a reference with octets of", len as u32));
        }
        let [slot, len] = [0, 4].map(|at| {
            let octets = [0, 1, 2, 3].map(|offset| reference[at + offset]);
            u32::from_ne_bytes(octets)
        });
        self.check(slot, len)?;
        Ok(Some(ArenaSlot::new(Rc::clone(&self.arena), slot, len)))
    }

    fn check(&self, slot: u32, len: u32) -> Result<(), ChannelError> {
        if slot >= self.arena.geometry.slots() {
            return Err(corrupt("a slot's number of", slot));
        }
        if len > self.arena.geometry.slot_len() {
            return Err(corrupt("a message's length of", len));
        }
        let holders = self.arena.holders(slot).load(Ordering::Acquire);
        if holders & self.arena.member.bit() == 0 {
            return Err(corrupt(
                "a slot that this member does not hold, number",
                slot,
            ));
        }
        Ok(())
    }
}

impl Drop for ArenaReceiver {
    fn drop(&mut self) {
        self.channel.close();
        // What came before the close was seen is let go here; the sender takes back what comes later.
        while self
            .channel
            .look()
            .is_ok_and(|found| found == Arrival::Message)
        {
            let taken = self.take();
            if taken.is_err() {
                return;
            }
        }
    }
}

fn corrupt(what: &'static str, value: u32) -> ChannelError {
    ChannelError::Corrupt { what, value }
}
