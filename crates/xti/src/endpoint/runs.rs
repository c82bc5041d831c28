//! Runs of messages alike: one lock for all, and long ones lent instead of copied.

use super::{Flags, Inner, SocketShared, XtiEndpoint, XtiState};
use crate::error::{Error, TliError};
use crate::inet::TIDU;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use streams::{Block, Lender, Message};

/// Messages from this length on are lent to the stream; a copy of shorter ones costs less, and lets the head collect
/// them.
const LENT_MIN: usize = 2048;

/// A user's message.
struct Shared(Arc<[u8]>);

impl Lender for Shared {
    fn octets(&self) -> &[u8] {
        &self.0
    }
}

impl XtiEndpoint {
    /// Sends a message up to `count` times without waiting, as so many calls of [`XtiEndpoint::try_send`] but under one
    /// lock; returns how many were taken, each whole. A long message is not copied: it stays with the stream
    /// until all of them have left. With `deferred` off, or with `crossing`, it sends one: those
    /// are factors of each send.
    /// Errors are those of [`XtiEndpoint::try_send`]; `BadData` also for a message longer than 65,536 octets.
    pub fn try_send_run(&self, message: &Arc<[u8]>, count: usize) -> Result<usize, Error> {
        let options = &self.shared.options;
        let is_each_for_itself = options.crossing || !options.deferred;
        let mut inner = self.lock();
        if !matches!(inner.state, XtiState::DataTransfer | XtiState::PeerReleased) {
            return Err(TliError::OutOfState.into());
        }
        inner.check_len(message.len(), Flags::default())?;
        if message.len() > TIDU {
            return Err(TliError::BadData.into());
        }
        inner.refuse_if_disconnected()?;
        let lent = (options.lent && message.len() >= LENT_MIN)
            .then(|| Block::lent(Box::new(Shared(Arc::clone(message)))));
        let count = if is_each_for_itself {
            count.min(1)
        } else {
            count
        };
        let mut done = 0;
        while done < count && inner.put_when_room(&self.shared.socket, message, lent.as_ref())? {
            done += 1;
        }
        if !options.deferred {
            inner.run_for_room(&self.shared.socket);
            self.shared.flush_below(&mut inner);
        }
        self.shared.note_if_deferred(&inner);
        match done {
            0 if count > 0 => Err(TliError::Flow.into()),
            done => Ok(done),
        }
    }
}

impl Inner {
    /// As [`Inner::put_one`]; what a full queue holds leaves first.
    #[inline]
    fn put_when_room(
        &mut self,
        socket: &SocketShared,
        octets: &[u8],
        lent: Option<&Block>,
    ) -> Result<bool, Error> {
        if self.put_one(octets, lent)? {
            return Ok(true);
        }
        if socket.send_blocked.load(Ordering::Relaxed) {
            self.look_for_room(socket);
        }
        self.run_and_send_on(socket);
        self.put_one(octets, lent)
    }

    /// Puts a whole message into the stream; false when it takes none now.
    #[inline]
    fn put_one(&mut self, octets: &[u8], lent: Option<&Block>) -> Result<bool, Error> {
        if lent.is_none() && self.gathers(octets.len()) {
            return Ok(self.gather(octets)?);
        }
        self.send_gathered();
        let put = match lent {
            Some(block) => {
                let message = Message::data(block.duplicate());
                let put = self.runtime.put_blocks(self.stream, message);
                put.map_err(|(error, _)| error)
            }
            // Shorter than a packet: all of it or nothing.
            None if !self.keeps_messages() => self.runtime.write(self.stream, octets).map(drop),
            None => {
                let block = self.runtime.pool_mut().copy(0, octets);
                let put = self.runtime.put_blocks(self.stream, Message::data(block));
                put.map_err(|(error, refused)| {
                    refused.release(self.runtime.pool_mut());
                    error
                })
            }
        };
        match put {
            Ok(()) => Ok(true),
            Err(streams::Error::WouldBlock) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
