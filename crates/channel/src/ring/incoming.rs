//! Receiving: what is one for all rings of one sender.

use crate::error::ChannelError;
use crate::wait::SLEEP_MAX;
use std::time::Duration;

/// What comes to a receiver within a time.
#[derive(Debug)]
pub enum NextMessage<M> {
    /// A message.
    Message(M),
    /// No message yet.
    Nothing,
    /// The sender closed the channel, and all was received.
    End,
}

impl<M> NextMessage<M> {
    #[inline]
    pub(crate) fn map<N>(self, change: impl FnOnce(M) -> N) -> NextMessage<N> {
        match self {
            NextMessage::Message(message) => NextMessage::Message(change(message)),
            NextMessage::Nothing => NextMessage::Nothing,
            NextMessage::End => NextMessage::End,
        }
    }
}

/// What a receiver finds in its ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival {
    /// A message, which the next receive returns at once.
    Message,
    /// No message yet.
    Nothing,
    /// The sender closed the channel, and all was received.
    End,
}

/// The end of a ring that receives from one sender.
pub(crate) trait Incoming {
    /// A message that this end may read.
    type Claim;

    /// Whether a message is there.
    fn has_message(&mut self) -> Result<bool, ChannelError>;

    /// The next message, if one is there, with its length read once and checked.
    fn claim(&mut self) -> Result<Option<Self::Claim>, ChannelError>;

    /// Whether the sender has closed its end.
    fn has_closed(&self) -> bool;

    /// Whether the sender was found gone.
    fn has_hung_up(&self) -> bool;

    /// Waits until there may be a message or the end, and takes the time off `left`; after a whole sleep it looks whether the
    /// sender is gone.
    fn wait(&mut self, left: &mut Duration) -> Result<(), ChannelError>;

    /// What is in the ring now.
    #[inline]
    fn arrival(&mut self) -> Result<Arrival, ChannelError> {
        if self.has_message()? {
            return Ok(Arrival::Message);
        }
        let (closed, gone) = (self.has_closed(), self.has_hung_up());
        // What was committed before the close is visible now, so an empty ring stays empty.
        if (closed || gone) && self.has_message()? {
            return Ok(Arrival::Message);
        }
        match (closed, gone) {
            (true, _) => Ok(Arrival::End),
            (false, true) => Err(ChannelError::PeerGone),
            (false, false) => Ok(Arrival::Nothing),
        }
    }

    /// A message or the end, if it comes within `limit`.
    #[inline]
    fn arrival_within(&mut self, limit: Duration) -> Result<Arrival, ChannelError> {
        let mut left = limit;
        loop {
            let found = self.arrival()?;
            if found != Arrival::Nothing || left.is_zero() {
                return Ok(found);
            }
            self.wait(&mut left)?;
        }
    }

    /// The next message, if this end gets one within `limit`.
    #[inline]
    fn next_within(&mut self, limit: Duration) -> Result<NextMessage<Self::Claim>, ChannelError> {
        match self.claim()? {
            Some(claim) => Ok(NextMessage::Message(claim)),
            None => self.wait_for_next(limit),
        }
    }

    /// The next message, for which it waits; None at the end.
    #[inline]
    fn next_or_end(&mut self) -> Result<Option<Self::Claim>, ChannelError> {
        if let Some(claim) = self.claim()? {
            return Ok(Some(claim));
        }
        loop {
            match self.wait_for_next(SLEEP_MAX)? {
                NextMessage::Message(claim) => return Ok(Some(claim)),
                NextMessage::End => return Ok(None),
                NextMessage::Nothing => {}
            }
        }
    }

    /// The next message, if this end gets one within `limit`, after a look that found none. Another end may be faster with one that has arrived.
    #[cold]
    fn wait_for_next(&mut self, limit: Duration) -> Result<NextMessage<Self::Claim>, ChannelError> {
        let mut left = limit;
        loop {
            match self.arrival()? {
                Arrival::Message => {
                    if let Some(claim) = self.claim()? {
                        return Ok(NextMessage::Message(claim));
                    }
                }
                Arrival::End => return Ok(NextMessage::End),
                Arrival::Nothing if left.is_zero() => return Ok(NextMessage::Nothing),
                Arrival::Nothing => self.wait(&mut left)?,
            }
        }
    }
}
