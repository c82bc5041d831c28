//! One ring of many receivers: a message is written once, and each of them reads all.
//!
//! The sender makes the memory ([`BroadcastSender::create`]) and admits receivers, each with a socket and a number
//! ([`BroadcastReceiver::join`]); a receiver gets what is sent after its admission. Slots and positions are those of a ring of
//! one receiver ([`crate::ChannelSender`]). Each receiver has a position of its own. The sender waits for the one that is
//! furthest behind, and says for which and for how much, so that only that one wakes it, and once. A receiver that sleeps sets its bit in one word; the
//! sender takes all bits at once, and wakes all by one call.
//!
//! A receiver that closes its end, or whose socket hangs up, is waited for no more. All of them can write all of it: they trust
//! each other with contents, as members of an arena do; positions and lengths are checked.

#[cfg(all(test, feature = "loom"))]
mod models;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

use crate::error::ChannelError;
use crate::fanout::{
    ASLEEP, Claim, Fanout, FanoutReceiver, FanoutSender, FanoutSlots, HEAD, RECEIVERS_MAX,
};
use crate::kernel;
use crate::sync::Ordering;
use crate::sys::Segment;

/// Most receivers that a ring has in its life.
pub const BROADCAST_RECEIVERS_MAX: u32 = RECEIVERS_MAX;

/// The end of a ring of many receivers that writes, and owns it.
pub type BroadcastSender = FanoutSender<Broadcast>;

/// One of the receivers of a ring, each of which reads all.
pub type BroadcastReceiver = FanoutReceiver<Broadcast>;

/// A message in its slots.
pub type BroadcastSlots<'a> = FanoutSlots<'a, Broadcast>;

/// How often sleeping receivers were woken; they sleep on it. Other than [`HEAD`] it changes with each wake, so that one whose bit was taken
/// before it slept does not sleep on.
const RECEIVER_WAKES: usize = 640;

/// Slots released by the receiver of number 0; those of the others are behind it. The sender waits for the slowest.
const TAILS: usize = 1024;

/// What a sender that sleeps wants: one receiver's position. It fits a word, because positions that are compared are less apart than
/// a ring has slots, 2^22 at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wanted(u32);

impl Wanted {
    const NUMBER_BITS: u32 = 5;

    /// The receiver of `number` at `position` or behind it.
    pub(crate) fn of(number: u32, position: u32) -> Self {
        Self(position << Self::NUMBER_BITS | (number + 1))
    }

    /// Whether it is this receiver's position that is wanted.
    fn is_of(self, number: u32) -> bool {
        self.0 & ((1 << Self::NUMBER_BITS) - 1) == number + 1
    }

    fn is_reached(self, position: u32) -> bool {
        let behind = (position << Self::NUMBER_BITS).wrapping_sub(self.0 & !31);
        behind.cast_signed() >= 0
    }

    pub(crate) fn word(self) -> u32 {
        self.0
    }
}

/// Where the receiver of `number`, below [`RECEIVERS_MAX`], says what it has released. The compiler is to know that it is in the
/// page of the ends' words.
#[inline]
pub(crate) fn tail_of(number: u32) -> usize {
    TAILS + 128 * number.min(RECEIVERS_MAX - 1) as usize
}

/// Each receiver reads each message: its position, and how much of what is behind it is known.
#[derive(Debug)]
pub struct Broadcast {
    /// Slots released: the true value of the receiver's own position.
    tail: u32,
    /// [`HEAD`] as it was read last, and checked.
    head: u32,
}

impl Fanout for Broadcast {
    /// The number of the receiver furthest behind.
    type Awaited = u32;

    fn prepare(sender: &BroadcastSender, number: u32) {
        let tail = sender.segment.word(tail_of(number));
        tail.store(sender.head, Ordering::Release);
    }

    fn find_tail(sender: &BroadcastSender) -> Result<(u32, u32), ChannelError> {
        let mut found = None;
        for number in sender.readers.numbers() {
            let behind = sender
                .geometry
                .check_tail(sender.head, tail(sender, number))?;
            if found.is_none_or(|(_, most)| behind > most) {
                found = Some((number, behind));
            }
        }
        let (slowest, most) = found.unwrap_or_default();
        Ok((sender.head.wrapping_sub(most), slowest))
    }

    fn has_moved(sender: &BroadcastSender, slowest: u32) -> bool {
        tail(sender, slowest) != sender.tail || sender.closed() & 1 << slowest != 0
    }

    fn wish(slowest: u32, position: u32) -> u32 {
        Wanted::of(slowest, position).word()
    }

    /// Or all is free that there is, or the receiver has closed.
    fn is_free_until(sender: &BroadcastSender, slowest: u32, position: u32) -> bool {
        let seen = tail(sender, slowest);
        let is_closed = sender.closed() & 1 << slowest != 0;
        is_closed || Wanted::of(slowest, position).is_reached(seen) || seen == sender.head
    }

    /// Takes all bits, so that receivers that have yet to run again cost the next message no wake.
    #[cold]
    fn wake(sender: &mut BroadcastSender, _asleep: u32) -> Result<(), ChannelError> {
        sender.segment.word(ASLEEP).swap(0, Ordering::AcqRel);
        let wakes = sender.segment.word(RECEIVER_WAKES);
        wakes.fetch_add(1, Ordering::AcqRel);
        sender.system_calls += 1;
        kernel::wake_all(wakes)
    }

    fn join(segment: &Segment, number: u32) -> Self {
        let tail = segment.word(tail_of(number)).load(Ordering::Acquire);
        Self { tail, head: tail }
    }

    fn wakes_of(_number: u32) -> usize {
        RECEIVER_WAKES
    }

    /// The sender's word is read only if none is known to be there.
    #[inline]
    fn has_message(receiver: &mut BroadcastReceiver) -> Result<bool, ChannelError> {
        let own = &mut receiver.fanout;
        if own.head == own.tail {
            let head = receiver.segment.word(HEAD).load(Ordering::Acquire);
            receiver.geometry.check_head(head, own.tail)?;
            own.head = head;
        }
        Ok(own.head != own.tail)
    }

    fn may_have_message(receiver: &BroadcastReceiver) -> bool {
        receiver.segment.word(HEAD).load(Ordering::Acquire) != receiver.fanout.head
    }

    #[inline]
    fn claim(receiver: &mut BroadcastReceiver) -> Result<Option<Claim>, ChannelError> {
        if !Self::has_message(receiver)? {
            return Ok(None);
        }
        let Self { tail, head } = receiver.fanout;
        let at = receiver.geometry.length_offset(tail);
        let len = receiver.segment.word(at).load(Ordering::Relaxed);
        receiver.geometry.check_len(len, head.wrapping_sub(tail))?;
        let position = tail;
        Ok(Some(Claim { position, len }))
    }

    #[inline]
    fn release(receiver: &mut BroadcastReceiver, claim: Claim) {
        let slots = receiver.geometry.slots_of(claim.len);
        receiver.fanout.tail = claim.position.wrapping_add(slots);
        let tail = receiver.segment.word(tail_of(receiver.number));
        tail.store(receiver.fanout.tail, Ordering::Release);
    }

    #[inline]
    fn grants(receiver: &BroadcastReceiver, wish: u32) -> bool {
        let (wanted, own) = (Wanted(wish), &receiver.fanout);
        wanted.is_of(receiver.number) && (own.tail == own.head || wanted.is_reached(own.tail))
    }

    fn may_await(wish: u32, number: u32) -> bool {
        Wanted(wish).is_of(number)
    }
}

/// How far the receiver of `number` is.
fn tail(sender: &BroadcastSender, number: u32) -> u32 {
    sender.segment.word(tail_of(number)).load(Ordering::Acquire)
}
