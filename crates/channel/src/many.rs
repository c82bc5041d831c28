//! One receiver of many senders: a channel from each, and a wait for the first that has something.

use crate::ChannelError;
use crate::arena::ArenaReceiver;
use crate::ring::{Arrival, ChannelReceiver};
use crate::wait::{self, SLEEP_MAX, USELESS_WAKE};
use std::time::Duration;

mod sealed {
    /// An end with a ring that can be waited for.
    pub trait Ring {
        fn ring(&mut self) -> &mut super::ChannelReceiver;
    }
}

impl sealed::Ring for ChannelReceiver {
    fn ring(&mut self) -> &mut ChannelReceiver {
        self
    }
}

impl sealed::Ring for ArenaReceiver {
    fn ring(&mut self) -> &mut ChannelReceiver {
        self.channel()
    }
}

/// Channels that are received together: [`ChannelReceiver`]s, or [`ArenaReceiver`]s. They take turns, so that
/// a sender that never pauses keeps nobody else waiting, and the end or the error of one ends no other. The
/// wait spins if one of them does.
#[derive(Debug)]
pub struct ManyReceivers<R> {
    ends: Vec<R>,
    /// Where the next look begins.
    next: usize,
}

impl<R: sealed::Ring> ManyReceivers<R> {
    /// Receives from `ends` together.
    #[must_use]
    pub fn new(ends: Vec<R>) -> Self {
        Self { ends, next: 0 }
    }

    /// Adds a channel, with the next index.
    pub fn push(&mut self, end: R) {
        self.ends.push(end);
    }

    /// Takes the channel at `index` out; the last one has its index then.
    ///
    /// # Panics
    /// If there is none.
    pub fn remove(&mut self, index: usize) -> R {
        self.ends.swap_remove(index)
    }

    /// Number of channels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no channel.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The channel at `index`, to be received from.
    ///
    /// # Panics
    /// If there is none.
    pub fn end(&mut self, index: usize) -> &mut R {
        &mut self.ends[index]
    }

    /// The index of a channel whose next receive returns at once: with a message, with the end, or with
    /// an error. `None` after `limit`, and where there is no channel.
    ///
    /// # Errors
    /// A wait that the system refuses.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<usize>, ChannelError> {
        let mut left = limit;
        loop {
            let ready = self.ready();
            if ready.is_some() || left.is_zero() || self.ends.is_empty() {
                return Ok(ready);
            }
            let sleep = left.min(SLEEP_MAX);
            let changed = self.sleep(sleep)?;
            left = left.saturating_sub(if changed { USELESS_WAKE } else { sleep });
        }
    }

    /// The first channel behind the last one returned that has something.
    fn ready(&mut self) -> Option<usize> {
        let count = self.ends.len();
        let found = (0..count).find_map(|offset| {
            let index = (self.next + offset) % count;
            let found = self.ends[index].ring().look();
            (!matches!(found, Ok(Arrival::Nothing))).then_some(index)
        })?;
        self.next = found + 1;
        Some(found)
    }

    /// Waits until one of the rings may have changed, for `limit` at most; whether one has. Otherwise the
    /// lifelines are looked at.
    fn sleep(&mut self, limit: Duration) -> Result<bool, ChannelError> {
        let rings: Vec<&ChannelReceiver> = self.ends.iter_mut().map(|end| &*end.ring()).collect();
        let words: Vec<wait::Waited<'_>> = rings.iter().map(|ring| ring.waited()).collect();
        let changed = if rings.iter().any(|ring| ring.spins()) {
            wait::looked_for_any(&words, limit)
        } else {
            wait::slept_for_any(&words, limit)?
        };
        if !changed {
            for end in &mut self.ends {
                end.ring().look_at_lifeline()?;
            }
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ChannelSender, Geometry, Signal};
    use std::os::unix::net::UnixStream;
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);

    fn ends(signal: Signal) -> (ChannelSender, ChannelReceiver) {
        let (near, far) = UnixStream::pair().unwrap();
        let sender = ChannelSender::open(near, Geometry::new(64, 4).unwrap(), signal).unwrap();
        (sender, ChannelReceiver::accept(far, signal).unwrap())
    }

    /// Each sender's messages come in its order, and all of them, until all have ended.
    fn messages_of_many_arrive(signal: Signal) {
        const SENDERS: usize = 3;
        const COUNT: u32 = 500;
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| ends(signal)).unzip();
        let sending = senders.into_iter().enumerate().map(|(index, mut sender)| {
            thread::spawn(move || {
                for number in 0..COUNT {
                    let message = [index as u32, number].map(u32::to_le_bytes).concat();
                    sender.send(&message).unwrap();
                }
            })
        });
        let sending: Vec<_> = sending.collect();
        let mut many = ManyReceivers::new(receivers);
        let mut next = [0; SENDERS];
        while !many.is_empty() {
            let index = many.wait(LONG).unwrap().expect("something comes");
            let Some(message) = many.end(index).receive().unwrap() else {
                many.remove(index);
                continue;
            };
            let octets = message.to_vec();
            let sender = usize::from(octets[0]);
            assert_eq!(octets[4..], u32::to_le_bytes(next[sender]));
            next[sender] += 1;
        }
        assert_eq!(next, [COUNT; SENDERS]);
        sending
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn messages_of_many_senders_wake_a_receiver_that_sleeps() {
        messages_of_many_arrive(Signal::Futex);
    }

    #[test]
    fn messages_of_many_senders_reach_a_receiver_that_spins() {
        messages_of_many_arrive(Signal::Spin);
    }

    #[test]
    fn channels_that_are_ready_take_turns() {
        let (mut senders, receivers): (Vec<_>, Vec<_>) =
            (0..3).map(|_| ends(Signal::Futex)).unzip();
        let mut many = ManyReceivers::new(receivers);
        assert_eq!(many.wait(Duration::ZERO).unwrap(), None);
        for sender in &mut senders {
            (0..2).for_each(|_| sender.send(b"x").unwrap());
        }
        let order: Vec<usize> = (0..6)
            .map(|_| {
                let index = many.wait(LONG).unwrap().unwrap();
                drop(many.end(index).receive().unwrap().unwrap());
                index
            })
            .collect();
        assert_eq!(order, [0, 1, 2, 0, 1, 2]);
        assert_eq!(many.wait(Duration::from_millis(1)).unwrap(), None);
    }

    #[test]
    fn sender_that_is_gone_ends_only_its_own_channel() {
        let (mut senders, receivers): (Vec<_>, Vec<_>) =
            (0..2).map(|_| ends(Signal::Futex)).unzip();
        let mut many = ManyReceivers::new(receivers);
        drop(senders.remove(1));
        let gone = many.wait(LONG).unwrap().unwrap();
        assert_eq!(gone, 1);
        assert!(many.end(gone).receive().unwrap().is_none());
        many.remove(gone);
        senders[0].send(b"still here").unwrap();
        let index = many.wait(LONG).unwrap().unwrap();
        let message = many.end(index).receive().unwrap().unwrap();
        assert_eq!(message.to_vec(), b"still here");
    }

    #[test]
    fn more_channels_than_the_kernel_waits_for_at_once_are_served_too() {
        let (mut senders, receivers): (Vec<_>, Vec<_>) =
            (0..130).map(|_| ends(Signal::Futex)).unzip();
        let mut many = ManyReceivers::new(receivers);
        let sending = thread::spawn(move || {
            thread::sleep(Duration::from_millis(5));
            senders[129].send(b"last").unwrap();
            senders
        });
        assert_eq!(many.wait(LONG).unwrap(), Some(129));
        drop(sending.join().unwrap());
    }
}
