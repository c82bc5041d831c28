//! Messages that wait to be cut into chunks: in the order of the store, or as a scheduler of streams
//! chooses.

use super::in_order::InOrder;
use super::numbering::{Cut, MessageRules};
use super::scheduled::Scheduled;
use crate::config::{Scheduler, SctpConfig};
use crate::numbers::StreamId;
use core::ops::Range;
use engine::{Framing, Instant, Note};

/// A message that was given up before anything of it was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dropped {
    pub(crate) range: Range<u64>,
    pub(crate) note: Note,
}

/// Chunks that a packet would carry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Octets of the chunks.
    pub(crate) octets: usize,
    /// User bytes of the first.
    pub(crate) first: u64,
    /// It is full: another one that is whole does not fit.
    pub(crate) is_full: bool,
}

/// Shorter fragments are not cut to fill a packet: their header would be a quarter of them.
pub(super) const FRAGMENT_MIN: u64 = 64;

/// Messages that wait.
#[derive(Debug)]
pub(crate) enum Messages {
    InOrder(InOrder),
    Scheduled(Scheduled),
}

/// A submission of the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Submission<'a> {
    pub(crate) now: Instant,
    /// The store holds bytes below this.
    pub(crate) end: u64,
    /// A message ends there.
    pub(crate) is_end: bool,
    /// It may leave in a part-filled packet.
    pub(crate) push: bool,
    pub(crate) note: &'a Note,
}

impl Messages {
    /// A byte stream has one message, and nothing to choose. Until the peer has answered, users may send on
    /// the streams that are asked for.
    pub(crate) fn new(config: &SctpConfig) -> Messages {
        let in_order = config.scheduler == Scheduler::Fcfs || config.framing == Framing::Stream;
        let mut messages = match in_order {
            true => Messages::InOrder(InOrder::new(config.reliability)),
            false => Messages::Scheduled(Scheduled::new(config.scheduler, config.reliability)),
        };
        messages.set_rules(MessageRules {
            streams: config.outbound_streams,
            ..MessageRules::default()
        });
        messages
    }

    pub(crate) fn rules(&self) -> &MessageRules {
        match self {
            Messages::InOrder(queue) => &queue.numbering.rules,
            Messages::Scheduled(queue) => &queue.numbering.rules,
        }
    }

    pub(crate) fn set_rules(&mut self, rules: MessageRules) {
        match self {
            Messages::InOrder(queue) => queue.numbering.rules = rules,
            Messages::Scheduled(queue) => queue.numbering.rules = rules,
        }
    }

    /// The priority or weight of a stream; false for a scheduler without one, or the value 0.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) -> bool {
        match self {
            Messages::InOrder(_) => false,
            Messages::Scheduled(queue) => queue.set_value(stream, value),
        }
    }

    pub(crate) fn submit(&mut self, submission: &Submission<'_>) {
        match self {
            Messages::InOrder(queue) => queue.submit(submission),
            Messages::Scheduled(queue) => queue.submit(submission),
        }
    }

    /// Submits messages without notes that end at `ends`, one after the other.
    pub(crate) fn submit_all(&mut self, now: Instant, ends: &[u64], push: bool) {
        match self {
            Messages::InOrder(queue) => queue.submit_all(now, ends, push),
            Messages::Scheduled(queue) => ends.iter().for_each(|end| {
                queue.submit(&Submission {
                    now,
                    end: *end,
                    is_end: true,
                    push,
                    note: &Note::default(),
                });
            }),
        }
    }

    /// No more will be submitted: bytes whose message has no end are one.
    pub(crate) fn end_tail(&mut self) {
        match self {
            Messages::InOrder(queue) => queue.end_tail(),
            Messages::Scheduled(queue) => queue.end_tail(),
        }
    }

    /// Bytes submitted that were neither cut nor given up.
    pub(crate) fn unsent(&self) -> u64 {
        match self {
            Messages::InOrder(queue) => queue.unsent(),
            Messages::Scheduled(queue) => queue.unsent(),
        }
    }

    /// Whether bytes that were submitted may be cut; with a scheduler always.
    #[inline]
    pub(crate) fn has_uncut(&self) -> bool {
        match self {
            Messages::InOrder(queue) => queue.has_uncut(),
            Messages::Scheduled(_) => true,
        }
    }

    /// The length of the only message that waits, if it is whole and has no note; None with a scheduler.
    #[inline]
    pub(crate) fn lone(&self) -> Option<u64> {
        match self {
            Messages::InOrder(queue) => queue.lone(),
            Messages::Scheduled(_) => None,
        }
    }

    /// Where the next byte to be cut lies in the store. 0 with a scheduler, which takes messages from
    /// anywhere.
    pub(crate) fn position(&self) -> u64 {
        match self {
            Messages::InOrder(queue) => queue.position(),
            Messages::Scheduled(_) => 0,
        }
    }

    /// The [`Messages::position`] at which all messages submitted whole by now are cut; None while one of
    /// which a part was cut has no end, and with a scheduler while anything waits.
    pub(crate) fn whole_up_to(&self) -> Option<u64> {
        match self {
            Messages::InOrder(queue) => queue.whole_up_to(),
            Messages::Scheduled(queue) => (queue.unsent() == 0).then_some(0),
        }
    }

    /// The messages of `streams`, or of all for none, are counted anew (RFC 6525 section 5.1.2).
    pub(crate) fn reset_numbers(&mut self, streams: &[StreamId]) {
        match self {
            Messages::InOrder(queue) => queue.numbering.reset(streams),
            Messages::Scheduled(queue) => queue.numbering.reset(streams),
        }
    }

    /// It is `now`: messages whose life is over are not sent.
    pub(crate) fn set_time(&mut self, now: Instant) {
        match self {
            Messages::InOrder(queue) => queue.now = now,
            Messages::Scheduled(queue) => queue.now = now,
        }
    }

    /// A packet begins.
    pub(crate) fn begin_packet(&mut self) {
        if let Messages::Scheduled(queue) = self {
            queue.begin_packet();
        }
    }

    /// User bytes of the next chunk in a packet with `room` octets for chunks, in which `full` user
    /// bytes fit if nothing else is there.
    pub(crate) fn next(&mut self, room: usize, full: usize) -> Option<u64> {
        match self {
            Messages::InOrder(queue) => queue.next(room, full),
            Messages::Scheduled(queue) => queue.next(room, full),
        }
    }

    /// What would be cut for a packet with `room`; with `single`, one chunk. A scheduler's choice is
    /// known for the first alone.
    pub(crate) fn plan(&self, room: usize, full: usize, single: bool) -> Plan {
        match self {
            Messages::InOrder(queue) => queue.plan(room, full, single),
            Messages::Scheduled(queue) => queue.plan(room, full),
        }
    }

    /// Whether what a packet with `room` would carry may leave now: it fills the packet, or its user
    /// pushed it.
    pub(crate) fn may_leave(&self, room: usize, full: usize) -> bool {
        match self {
            Messages::InOrder(queue) => queue.may_leave(room, full),
            Messages::Scheduled(queue) => queue.may_leave(room),
        }
    }

    /// Cuts the next chunk: what [`Messages::next`] said.
    pub(crate) fn cut(&mut self, room: usize, full: usize) -> Option<Cut> {
        match self {
            Messages::InOrder(queue) => queue.cut(room, full),
            Messages::Scheduled(queue) => queue.cut(room, full),
        }
    }

    /// Cuts the next message as one chunk of at most `room` octets. None for one that does not fit, has a note, or
    /// was begun, and with a scheduler.
    pub(crate) fn cut_whole(&mut self, room: usize) -> Option<Cut> {
        match self {
            Messages::InOrder(queue) => queue.cut_whole(room),
            Messages::Scheduled(_) => None,
        }
    }

    /// Where the message begins that would be gone on with, though its life is over.
    pub(crate) fn overdue(&mut self) -> Option<u64> {
        match self {
            Messages::InOrder(queue) => queue.overdue(),
            Messages::Scheduled(queue) => queue.overdue(),
        }
    }

    /// The rest of the message at `start`, of which a part was cut, is not sent: as one fragment. None
    /// if all of it was cut.
    pub(crate) fn drop_rest(&mut self, start: u64) -> Option<Cut> {
        match self {
            Messages::InOrder(queue) => queue.drop_rest(start),
            Messages::Scheduled(queue) => queue.drop_rest(start),
        }
    }

    /// Gives up the message of the highest value above `value` of those that wait (RFC 7496 section
    /// 4.3); false if there is none.
    pub(crate) fn drop_above(&mut self, value: u16) -> bool {
        match self {
            Messages::InOrder(queue) => queue.drop_above(value),
            Messages::Scheduled(queue) => queue.drop_above(value),
        }
    }

    /// The next message that was given up and not reported.
    pub(crate) fn pop_dropped(&mut self) -> Option<Dropped> {
        match self {
            Messages::InOrder(queue) => queue.dropped.pop_front(),
            Messages::Scheduled(queue) => queue.dropped.pop_front(),
        }
    }

    /// When the life of the next message to be sent is over.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        match self {
            Messages::InOrder(queue) => queue.next_deadline(),
            Messages::Scheduled(queue) => queue.next_deadline(),
        }
    }

    /// The messages of which something was not sent, as the association ended: their bytes and
    /// notes, and whether something else of them was.
    pub(crate) fn take_unsent(&mut self) -> Vec<(Dropped, bool)> {
        match self {
            Messages::InOrder(queue) => queue.take_unsent(),
            Messages::Scheduled(queue) => queue.take_unsent(),
        }
    }
}
