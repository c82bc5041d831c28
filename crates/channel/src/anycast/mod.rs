//! One ring of many receivers that share the messages out: each message goes to the one that is free first.
//!
//! The sender makes the memory ([`AnycastSender::create`]) and admits receivers, each with a socket and a number
//! ([`AnycastReceiver::join`]). Slots and positions are those of a ring of one receiver ([`crate::ChannelSender`]). A receiver that is
//! free claims the next message: it says which position it is about to hold, sees that nobody has claimed it since, reads the length, and
//! moves the one position of all claims behind the message by a compare-and-swap. One that fails is a collision, which is
//! counted. It lets go of the position when it has read the message.
//!
//! What lies before the claims and is held by nobody is free. So the sender reads the position of claims first and what each receiver
//! holds after that; a receiver says what it holds before it claims. A position that is held, and before all that the sender knows to be
//! in use, is that of a receiver whose claim will fail.
//!
//! A receiver that closes its end, or whose socket hangs up, holds nothing any more; the message that it had claimed is lost, one at most. All of
//! them can write all of it: they trust each other with contents, as members of an arena do; positions and lengths are checked.

#[cfg(all(test, feature = "loom"))]
mod models;
#[cfg(all(test, not(feature = "loom")))]
mod tests;

use crate::error::ChannelError;
use crate::fanout::{
    ASLEEP, Claim, Fanout, FanoutReceiver, FanoutSender, FanoutSlots, HEAD, NEVER, NOBODY,
    RECEIVERS_MAX,
};
use crate::kernel;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::Segment;

/// Most receivers that a ring has in its life.
pub const ANYCAST_RECEIVERS_MAX: u32 = RECEIVERS_MAX;

/// The end of a ring whose receivers share the messages out; it writes, and owns the ring.
pub type AnycastSender = FanoutSender<Anycast>;

/// One of the receivers that share the messages of a ring out.
pub type AnycastReceiver = FanoutReceiver<Anycast>;

/// A message in its slots, which this receiver alone has.
pub type AnycastSlots<'a> = FanoutSlots<'a, Anycast>;

/// Slots claimed by all receivers together.
pub(crate) const CLAIMED: usize = 640;

/// What the receiver of number 0 holds: [`NOTHING`], or what [`holding`] makes of a position. Those of the others are behind it.
const HELD: usize = 1024;

/// How often the receiver of number 0 was woken, which sleeps on it; behind what it holds.
const RECEIVER_WAKES: usize = HELD + 64;

/// A receiver holds nothing.
const NOTHING: u32 = 0;

/// The word of a receiver that holds the message at `position`. It fits, because positions that are compared are less apart than a
/// ring has slots, 2^22 at most.
fn holding(position: u32) -> u32 {
    position << 1 | 1
}

/// The word of a sender that wants to be woken when claims have come to `position`.
pub(crate) fn wish(position: u32) -> u32 {
    position << 1 | 1
}

/// Whether claims at `position` are what a sender with this word waits for.
fn is_reached(word: u32, position: u32) -> bool {
    let behind = (position << 1).wrapping_sub(word & !1);
    word & 1 == 1 && behind.cast_signed() >= 0
}

/// Where the receiver of `number` says what it holds.
pub(crate) fn held_of(number: u32) -> usize {
    HELD + 128 * number as usize
}

/// Each message goes to the receiver that claims it first.
#[derive(Debug)]
pub struct Anycast {
    /// Claims that another receiver was faster with.
    collisions: u64,
}

impl Fanout for Anycast {
    /// All of them: any may hold what is before the claims.
    type Awaited = ();

    /// All before the claims and before what is held is free. Claims are read first: a claim that is seen has its position held,
    /// or let go.
    fn find_tail(sender: &AnycastSender) -> Result<(u32, ()), ChannelError> {
        let known = sender.head.wrapping_sub(sender.tail);
        let claimed = sender.segment.word(CLAIMED).load(Ordering::Acquire);
        let mut most = sender.head.wrapping_sub(claimed);
        if most > known {
            return Err(ChannelError::Corrupt {
                what: "a position of claims of",
                value: claimed,
            });
        }
        for number in sender.readers.numbers() {
            let held = sender.segment.word(held_of(number)).load(Ordering::Acquire);
            if held == NOTHING {
                continue;
            }
            // Of half a word's range, as the word has no room for the highest bit. Beyond what is in use, it is one whose claim fails.
            let behind = (sender.head << 1).wrapping_sub(held & !1) >> 1;
            if behind <= known {
                most = most.max(behind);
            }
        }
        Ok((sender.head.wrapping_sub(most), ()))
    }

    /// Or claims are wrong, or a receiver has closed.
    fn has_moved(sender: &AnycastSender, (): ()) -> bool {
        let tail = Self::find_tail(sender).map(|(tail, ())| tail);
        has_closed(sender) || tail.ok() != Some(sender.tail)
    }

    fn wish((): (), position: u32) -> u32 {
        wish(position)
    }

    /// Or claims are wrong, or a receiver has closed.
    fn is_free_until(sender: &AnycastSender, (): (), position: u32) -> bool {
        let behind = |tail: u32| tail.wrapping_sub(position).cast_signed();
        let is_free = || Self::find_tail(sender).map_or(true, |(tail, ())| behind(tail) >= 0);
        has_closed(sender) || is_free()
    }

    /// Takes the bit of one receiver, so that the next message wakes another, and wakes it.
    #[cold]
    fn wake(sender: &mut AnycastSender, asleep: u32) -> Result<(), ChannelError> {
        let admitted = (1 << sender.readers.count()) - 1;
        let number = match asleep & admitted {
            0 => return Ok(()),
            asleep => asleep.trailing_zeros(),
        };
        let asleep = sender.segment.word(ASLEEP);
        asleep.fetch_and(!(1 << number), Ordering::AcqRel);
        let wakes = sender.segment.word(Self::wakes_of(number));
        wakes.fetch_add(1, Ordering::AcqRel);
        sender.system_calls += 1;
        kernel::wake_one(wakes)
    }

    fn join(_segment: &Segment, _number: u32) -> Self {
        Self { collisions: 0 }
    }

    fn wakes_of(number: u32) -> usize {
        RECEIVER_WAKES + 128 * number as usize
    }

    #[inline]
    fn has_message(receiver: &mut AnycastReceiver) -> Result<bool, ChannelError> {
        Ok(Self::may_have_message(receiver))
    }

    #[inline]
    fn may_have_message(receiver: &AnycastReceiver) -> bool {
        let word = |offset| receiver.segment.word(offset).load(Ordering::Acquire);
        word(CLAIMED) != word(HEAD)
    }

    /// What is read before a claim that succeeds was right: nobody had claimed it.
    fn claim(receiver: &mut AnycastReceiver) -> Result<Option<Claim>, ChannelError> {
        loop {
            let claimed = receiver.segment.word(CLAIMED);
            let position = claimed.load(Ordering::Acquire);
            let head = receiver.segment.word(HEAD).load(Ordering::Acquire);
            if head == position {
                release_of_collision(receiver);
                return Ok(None);
            }
            // Before the claim, with which the sender sees it.
            held(receiver).store(holding(position), Ordering::Relaxed);
            let at = receiver.geometry.length_offset(position);
            let len = receiver.segment.word(at).load(Ordering::Relaxed);
            if let Err(error) = check(receiver, position, head, len) {
                match claimed.load(Ordering::Acquire) == position {
                    true => return Err(error),
                    false => continue,
                }
            }
            let next = position.wrapping_add(receiver.geometry.slots_of(len));
            let swapped =
                claimed.compare_exchange(position, next, Ordering::AcqRel, Ordering::Relaxed);
            if swapped.is_ok() {
                return Ok(Some(Claim { position, len }));
            }
            receiver.fanout.collisions += 1;
        }
    }

    #[inline]
    fn release(receiver: &mut AnycastReceiver, _claim: Claim) {
        held(receiver).store(NOTHING, Ordering::Release);
    }

    #[inline]
    fn grants(receiver: &AnycastReceiver, wish: u32) -> bool {
        is_reached(wish, receiver.segment.word(CLAIMED).load(Ordering::Relaxed))
    }

    fn may_await(wish: u32, _number: u32) -> bool {
        !matches!(wish, NOBODY | NEVER)
    }
}

impl AnycastReceiver {
    /// Claims that another receiver was faster with.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        self.fanout.collisions
    }
}

/// Whether a receiver has closed its end since that was looked at.
fn has_closed(sender: &AnycastSender) -> bool {
    let closed = sender.closed();
    let mut numbers = sender.readers.numbers();
    numbers.any(|number| closed & 1 << number != 0)
}

/// Whether there can be a message of `len` octets at `position`.
fn check(
    receiver: &AnycastReceiver,
    position: u32,
    head: u32,
    len: u32,
) -> Result<(), ChannelError> {
    receiver.geometry.check_head(head, position)?;
    receiver
        .geometry
        .check_len(len, head.wrapping_sub(position))
}

/// Lets go of a position that another receiver claimed.
fn release_of_collision(receiver: &mut AnycastReceiver) {
    if held(receiver).load(Ordering::Relaxed) != NOTHING {
        held(receiver).store(NOTHING, Ordering::Release);
        receiver.answer();
    }
}

/// What this receiver says that it holds.
fn held(receiver: &AnycastReceiver) -> &AtomicU32 {
    receiver.segment.word(held_of(receiver.number))
}
