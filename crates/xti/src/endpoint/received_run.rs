//! rcv of messages that came at once, and of many messages by one call.

use super::connections::time_left;
use super::messages::piece_of;
use super::{Inner, XtiEndpoint, XtiReceived, XtiState, is_run};
use crate::carrier::CarriedProtocol;
use crate::connections::ConnectionProvider;
use crate::error::{Error, TliError};
use crate::tpi::run_lengths;
use std::time::{Duration, Instant};
use streams::{Block, Message, MessageKind};

/// A run of the provider's (`tpi::run`), and how far the user has it.
pub(super) struct ReceivedRun {
    message: Message,
    /// The message that is next, where it begins, and its octets that the user has.
    next: usize,
    start: usize,
    taken: usize,
}

impl ReceivedRun {
    fn new(message: Message) -> ReceivedRun {
        ReceivedRun {
            message,
            next: 0,
            start: 0,
            taken: 0,
        }
    }

    fn length(&self, message: usize) -> Option<usize> {
        let control = self.message.control.as_ref()?;
        run_lengths(control.octets(), message).next()
    }

    /// What the user has not of the next message; None behind the last.
    #[inline]
    fn rest(&self) -> Option<&[u8]> {
        let len = self.length(self.next)?;
        let octets = self.message.data.first().map_or(&[][..], Block::octets);
        octets.get(self.start + self.taken..self.start + len)
    }

    /// The user has `len` more octets; whether the message goes on.
    #[inline]
    fn advance(&mut self, len: usize) -> bool {
        self.taken += len;
        if self
            .length(self.next)
            .is_some_and(|whole| self.taken < whole)
        {
            return true;
        }
        self.start += self.taken;
        (self.next, self.taken) = (self.next + 1, 0);
        false
    }
}

impl XtiEndpoint {
    /// Receives up to `calls` messages (at least one), or parts of such, by one call, waiting for the first at most `limit`. Each is
    /// handed to `each`, which must not use the endpoint, where it lies, with whether its message goes on with the next one;
    /// returns how many were. Errors are those of [`XtiEndpoint::try_receive`], when none came before.
    pub fn receive_run(
        &self,
        calls: usize,
        limit: Duration,
        mut each: impl FnMut(&[u8], bool),
    ) -> Result<usize, Error> {
        let (calls, mut deadline) = (calls.max(1), None);
        loop {
            let done = self.lock().take_run(calls, &mut each);
            if !matches!(done, Ok(0)) {
                return done;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
            let Some(left) = time_left(deadline) else {
                return Err(TliError::NoData.into());
            };
            self.wait_below(false, Some(left))?;
        }
    }
}

impl Inner {
    /// The provider hands up several messages at once from here on, or no longer.
    #[cold]
    pub(super) fn take_runs(&mut self, takes: bool) {
        self.takes_runs = takes;
        // Others have none.
        let _ = self.runtime.with_driver(
            self.stream,
            |driver: &mut ConnectionProvider<CarriedProtocol>, _| driver.take_runs(takes),
        );
    }

    /// Messages that wait at the head or come to it now, at most `calls`.
    fn take_run(
        &mut self,
        calls: usize,
        each: &mut impl FnMut(&[u8], bool),
    ) -> Result<usize, Error> {
        if !matches!(self.state, XtiState::DataTransfer | XtiState::Released) {
            return Err(TliError::OutOfState.into());
        }
        if !self.takes_runs {
            self.take_runs(true);
        }
        match self.hand_out(calls, each)? {
            0 => {
                self.look_below();
                self.hand_out(calls, each)
            }
            done => Ok(done),
        }
    }

    fn hand_out(
        &mut self,
        calls: usize,
        each: &mut impl FnMut(&[u8], bool),
    ) -> Result<usize, Error> {
        let mut done = 0;
        while done < calls {
            done += self.hand_out_received(calls - done, each);
            if done == calls {
                break;
            }
            let next = match self.next_piece() {
                // It is told by the next call.
                Err(_) if done > 0 => None,
                next => next?,
            };
            let Some(message) = next else {
                break;
            };
            if is_run(&message) {
                self.received = Some(ReceivedRun::new(message));
                continue;
            }
            let Some(piece) = piece_of(&message) else {
                self.ahead = Some(message);
                return if done > 0 {
                    Ok(done)
                } else {
                    Err(TliError::Look.into())
                };
            };
            hand_out_whole(&message, piece.more, each);
            message.release(self.runtime.pool_mut());
            done += 1;
        }
        Ok(done)
    }

    /// What is left of the run at hand, unless expedited data wait.
    #[inline]
    fn hand_out_received(&mut self, calls: usize, each: &mut impl FnMut(&[u8], bool)) -> usize {
        if self.received.is_none() || self.has_expedited() {
            return 0;
        }
        let mut done = 0;
        while done < calls
            && let Some(run) = &mut self.received
        {
            match run.rest() {
                Some(octets) => {
                    each(octets, false);
                    let len = octets.len();
                    run.advance(len);
                    done += 1;
                }
                None => self.release_received(),
            }
        }
        self.release_if_done();
        done
    }

    /// The next octets of the run at hand; None behind it, or when expedited data are first.
    #[inline]
    pub(super) fn receive_of_run(&mut self, buffer: &mut [u8]) -> Option<XtiReceived> {
        if self.received.is_none() || self.has_expedited() {
            return None;
        }
        let run = self.received.as_mut()?;
        let Some(rest) = run.rest() else {
            self.release_received();
            return None;
        };
        let len = rest.len().min(buffer.len());
        buffer[..len].copy_from_slice(&rest[..len]);
        let more = run.advance(len);
        self.release_if_done();
        self.came_with.clear();
        Some(XtiReceived {
            len,
            more,
            expedited: false,
        })
    }

    /// Keeps a run that was taken from the head.
    pub(super) fn keep_run(&mut self, message: Message) {
        self.received = Some(ReceivedRun::new(message));
    }

    /// The connection has ended: what the user has not received is dropped.
    pub(super) fn forget_received(&mut self) {
        self.release_received();
        if let Some(rest) = self.rest.take() {
            rest.release(self.runtime.pool_mut());
        }
    }

    /// A run of which the user has all is no event.
    #[inline]
    fn release_if_done(&mut self) {
        if self
            .received
            .as_ref()
            .is_some_and(|run| run.rest().is_none())
        {
            self.release_received();
        }
    }

    /// What the user has not of the run at hand, as data.
    pub(super) fn take_received(&mut self) -> Option<Message> {
        let run = self.received.take()?;
        let mut message = run.message;
        let pool = self.runtime.pool_mut();
        message.trim_front(run.start + run.taken, pool);
        if let Some(control) = message.control.take() {
            pool.release(control);
        }
        Some(message.into_kind(MessageKind::Data))
    }

    fn release_received(&mut self) {
        if let Some(run) = self.received.take() {
            run.message.release(self.runtime.pool_mut());
        }
    }

    /// Whether expedited data are before what waits in order.
    fn has_expedited(&mut self) -> bool {
        let is_expedited =
            |message: &Option<Message>| message.as_ref().is_some_and(|one| one.band() > 0);
        if is_expedited(&self.rest) || is_expedited(&self.ahead) {
            return true;
        }
        self.runtime
            .first_band(self.stream)
            .is_ok_and(|band| band > Some(0))
    }
}

/// Hands out a message that came alone, block by block.
fn hand_out_whole(message: &Message, more: bool, each: &mut impl FnMut(&[u8], bool)) {
    let Some((last, blocks)) = message.data.split_last() else {
        return each(&[], more);
    };
    blocks.iter().for_each(|block| each(block.octets(), true));
    each(last.octets(), more);
}
