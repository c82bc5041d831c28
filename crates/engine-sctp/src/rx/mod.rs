//! The receiving side of an association: which TSNs arrived, and which messages may go to the user.

mod fragment;
mod run;
mod skip;
mod streams;

pub(crate) use fragment::Fragment;
pub(crate) use skip::SkipStep;
pub(crate) use streams::{Arrived, Violation};

use crate::numbers::{LongTsn, Tsn};
use crate::pdu::DATA_HEADER_LEN;
use core::ops::RangeInclusive;
use engine::{Instant, RangeSet};
pub(crate) use streams::Streams;

/// What became of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is new, and its message may go on to the user now: from where it lies.
    Deliver,
    /// It is new, and a copy waits for what is in front of it.
    Held,
    /// It was here before.
    Duplicate,
    /// There is no room for it.
    NoRoom,
    /// It is new, counts as received, and goes nowhere.
    Refused,
    /// The same: its message was given up.
    Skipped,
}

/// Octets that a gap or a chunk that waits takes besides its bytes.
const OVERHEAD: u64 = 64;

/// TSNs beyond the cumulative one that a SACK can name.
const AHEAD_MAX: u64 = u16::MAX as u64;

/// The chunk that closes the first gap is taken even when the buffer is full, up to so many octets:
/// one packet of the longest. Without it a buffer full of halves would never empty.
const GAP_SLACK: u64 = 64 << 10;

/// Duplicates that are reported at most in a SACK.
const DUPLICATES_MAX: usize = 32;

/// Packets that came together and are as good as one: a third of what one call of a wire carries.
const RUN_MIN: u32 = 16;

/// Octets of a chunk of DATA with so many user bytes.
#[inline]
fn octets_of(bytes: u64) -> u64 {
    (bytes + DATA_HEADER_LEN as u64).next_multiple_of(4)
}

/// Packets that came together.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// When.
    at: Option<Instant>,
    /// It began behind a SACK.
    is_first: bool,
    packets: u32,
}

/// The receiving side.
#[derive(Debug)]
pub(crate) struct ReceiveState {
    /// All TSNs up to this one arrived.
    cumulative: LongTsn,
    /// TSNs that arrived beyond it.
    beyond: RangeSet,
    pub(crate) streams: Streams,
    duplicates: Vec<Tsn>,
    /// Bytes delivered to the host that its user has not taken.
    unread: u64,
    /// Octets of their chunks, which the peer has counted off its view of the window: a host keeps a record of
    /// each message, however short.
    unread_octets: u64,
    buffer: u64,
    /// The window last advertised.
    advertised: u64,
    /// Chunks other than SACK that acknowledged since the last SACK: they renew no window.
    acknowledged_alone: u32,
    /// Packets with data since the last SACK.
    pub(crate) packets: u32,
    /// How those of them came that came together.
    run: Run,
    /// The peer asks for a SACK where it would have to wait for one (flag I).
    pub(crate) peer_asks: bool,
    /// Enough of them came for a SACK.
    has_enough: bool,
    /// A SACK is due for another reason.
    pub(crate) sack_due: bool,
    /// DATA came before.
    pub(crate) has_data: bool,
    /// The host keeps more than it may: nothing new is taken.
    pub(crate) is_full: bool,
    /// The peer gave messages up: of what comes late of them the beginning may be missing.
    pub(crate) has_skipped: bool,
}

impl ReceiveState {
    /// Nothing arrived; the peer's first TSN is `initial`.
    pub(crate) fn new(initial: Tsn, streams: Streams, buffer: u64) -> ReceiveState {
        ReceiveState {
            cumulative: LongTsn(LongTsn::first(initial).0 - 1),
            beyond: RangeSet::new(),
            streams,
            duplicates: Vec::new(),
            unread: 0,
            unread_octets: 0,
            buffer,
            advertised: buffer,
            acknowledged_alone: 0,
            packets: 0,
            run: Run::default(),
            peer_asks: false,
            has_enough: false,
            sack_due: false,
            has_data: false,
            is_full: false,
            has_skipped: false,
        }
    }

    /// All TSNs up to this one arrived.
    pub(crate) fn cumulative(&self) -> Tsn {
        self.cumulative.tsn()
    }

    /// Whether a TSN is missing below one that arrived.
    pub(crate) fn has_gap(&self) -> bool {
        !self.beyond.is_empty()
    }

    /// Octets in use: chunks the user has not taken, chunks that wait, gaps.
    fn used(&self) -> u64 {
        self.unread_octets + self.streams.held_octets() + OVERHEAD * self.beyond.len() as u64
    }

    /// The room that may be advertised.
    pub(crate) fn window(&self) -> u32 {
        if self.is_full {
            return 0;
        }
        u32::try_from(self.buffer.saturating_sub(self.used())).unwrap_or(u32::MAX)
    }

    /// Takes in the TSN of a chunk that arrived. With [`Taken::Deliver`] the caller delivers its bytes,
    /// with [`Taken::Held`] it gives a copy to [`Streams::hold`].
    ///
    /// A chunk of a stream that does not exist is not `is_valid`.
    pub(crate) fn take(&mut self, chunk: &mut Arrived, is_valid: bool) -> Taken {
        let tsn = self.cumulative.nearest(chunk.fragment.tsn);
        if tsn <= self.cumulative || self.has_gap() && self.beyond.contains(tsn.0) {
            if self.duplicates.len() < DUPLICATES_MAX {
                self.duplicates.push(chunk.fragment.tsn);
            }
            return Taken::Duplicate;
        }
        if self.is_full || tsn.since(self.cumulative) > AHEAD_MAX || !self.make_room(tsn) {
            return Taken::NoRoom;
        }
        if !self.has_gap() && tsn.since(self.cumulative) == 1 {
            self.cumulative = tsn;
        } else {
            self.beyond.insert(tsn.0..tsn.0 + 1);
            self.cumulative = LongTsn(self.beyond.advance(self.cumulative.0 + 1) - 1);
        }
        if !is_valid {
            return Taken::Refused;
        }
        if self.streams.is_skipped(&chunk.fragment) {
            return Taken::Skipped;
        }
        match self.streams.begins_or_continues(tsn, &mut chunk.fragment) {
            true => {
                self.count_delivered(chunk.len as u64);
                Taken::Deliver
            }
            false => Taken::Held,
        }
    }

    /// The long form of a TSN that arrived.
    pub(crate) fn long(&self, tsn: Tsn) -> LongTsn {
        self.cumulative.nearest(tsn)
    }

    /// Whether all TSNs up to this one arrived.
    pub(crate) fn is_cumulative(&self, tsn: LongTsn) -> bool {
        tsn <= self.cumulative
    }

    /// The peer gave up what is missing up to `tsn`: it counts as received. None if it does already.
    pub(crate) fn skip_to(&mut self, tsn: Tsn) -> Option<LongTsn> {
        let tsn = self.cumulative.nearest(tsn);
        if tsn <= self.cumulative {
            return None;
        }
        self.has_skipped = true;
        self.cumulative = LongTsn(self.beyond.advance(tsn.0 + 1) - 1);
        Some(tsn)
    }

    /// Whether there is room for the chunk `tsn`. When the buffer is full, one beyond all others is
    /// refused; one in front of others takes the place of the highest that wait (RFC 9260 section
    /// 6.2), which the peer sends again.
    fn make_room(&mut self, tsn: LongTsn) -> bool {
        while self.used() >= self.buffer {
            let Some(highest) = self.streams.highest_held().filter(|highest| *highest > tsn) else {
                let closes_gap = tsn.since(self.cumulative) == 1;
                return closes_gap && self.used() < self.buffer + GAP_SLACK;
            };
            self.streams.drop_held(highest);
            self.forget(highest);
        }
        true
    }

    /// A TSN beyond the cumulative one is missing again.
    fn forget(&mut self, tsn: LongTsn) {
        let kept: Vec<_> = self.beyond.iter().collect();
        self.beyond = RangeSet::new();
        for range in kept {
            self.beyond.insert(range.start..range.end.min(tsn.0));
            self.beyond.insert(range.start.max(tsn.0 + 1)..range.end);
        }
    }

    /// The bytes of a chunk go to the user now.
    pub(crate) fn count_delivered(&mut self, bytes: u64) {
        self.unread += bytes;
        self.unread_octets += octets_of(bytes);
    }

    /// The user took bytes; whether the window grew so much that the peer must know. Of which chunks is not
    /// known: as many octets of them as bytes, in proportion.
    pub(crate) fn consume(&mut self, bytes: u64) -> bool {
        let bytes = bytes.min(self.unread);
        if bytes == self.unread {
            self.unread_octets = 0;
        } else {
            let octets = u128::from(self.unread_octets) * u128::from(bytes);
            self.unread_octets -= (octets / u128::from(self.unread)) as u64;
        }
        self.unread -= bytes;
        let window = u64::from(self.window());
        window.saturating_sub(self.advertised) >= self.buffer / 4
    }

    /// The blocks of a SACK.
    pub(crate) fn gaps(&self) -> impl Iterator<Item = RangeInclusive<u16>> {
        let base = self.cumulative.0;
        let blocks = self.beyond.iter();
        blocks.map(move |range| (range.start - base) as u16..=(range.end - 1 - base) as u16)
    }

    /// TSNs that arrived again since the last SACK.
    pub(crate) fn duplicates(&self) -> &[Tsn] {
        &self.duplicates
    }

    /// A SACK leaves.
    pub(crate) fn record_sack(&mut self) {
        self.advertised = u64::from(self.window());
        self.acknowledged_alone = 0;
        self.duplicates.clear();
        self.note_acknowledged();
    }

    /// Counts a packet with data: a SACK is due for two since the last one, or from a peer that asks where it
    /// has to wait, for two runs of [`RUN_MIN`] and more that came together. RFC 9260 section 6.2 recommends
    /// one for two packets; a run was one packet to both hosts' networks.
    pub(crate) fn count_packet(&mut self, now: Instant) {
        self.packets += 1;
        if self.run.at != Some(now) {
            self.run = Run {
                at: Some(now),
                is_first: self.packets == 1,
                packets: 0,
            };
        }
        self.run.packets += 1;
        let waits = self.peer_asks && self.run.is_first && self.run.packets >= RUN_MIN;
        self.has_enough = self.packets >= 2 && !waits;
    }

    /// Whether a SACK is to leave with the next packet, alone if need be.
    pub(crate) fn is_sack_due(&self) -> bool {
        self.sack_due || self.has_enough
    }

    /// Another chunk acknowledges all that came.
    pub(crate) fn note_acknowledged(&mut self) {
        self.packets = 0;
        self.has_enough = false;
        self.sack_due = false;
    }

    /// A chunk without a window acknowledges instead of a SACK, twice in a row at most: the peer's view of
    /// the window shrinks with all that it sends.
    pub(crate) fn acknowledge_alone(&mut self) {
        if self.acknowledged_alone < 2 {
            self.acknowledged_alone += 1;
            self.note_acknowledged();
        }
    }

    /// Whether a SACK may travel with a packet that leaves anyway.
    pub(crate) fn has_unsacked(&self) -> bool {
        self.packets > 0 || self.sack_due
    }
}
