//! One circuit's traffic: what its user sends, what its receivers get, and when.
//!
//! A message is settled when the protocol releases it: its sender need not keep it any longer.

mod calls;
mod labelled;

use crate::histogram::Histogram;
use crate::series::Series;
use crate::store::{BytePattern, SendStore};
use engine::{AssociationId, Framing, RangeSet, record};
use std::collections::VecDeque;
use std::ops::Range;

pub(crate) use calls::{Calls, ReplyOutcome};
pub use labelled::MessageNotes;

/// Destination of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One station.
    Station(usize),
    /// All other stations.
    All,
}

/// Measurements of one circuit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowReport {
    /// The station that sends.
    pub from: usize,
    /// Messages produced.
    pub offered: u64,
    /// Messages not settled when the circuit was closed early, and those produced afterwards.
    pub given_up: u64,
    /// Messages that the protocol gave up, as their notes allow.
    pub abandoned: u64,
    /// Bytes that the protocol released before a receiver that should have them had them.
    pub lost_bytes: u64,
    /// User bytes produced.
    pub offered_bytes: u64,
    /// When the last message was produced, ps.
    pub last_offered_ps: u64,
    /// Most bytes in the send buffer at once.
    pub buffered_max: u64,
    /// Messages settled.
    pub settled: u64,
    /// Replies to calls.
    pub replies: u64,
    /// Its messages are calls to a group, each settled by what some of the receivers answer.
    pub to_group: bool,
    /// When the last message was settled, ps.
    pub last_settled_ps: u64,
    /// From the controller starting the frame with a message's last byte to the arrival of the
    /// packet that settled it, ps.
    pub exchange: Histogram,
    /// From a message's production to its settlement, ps.
    pub settling: Histogram,
    /// Each receiver, in the order of their stations.
    pub receivers: Vec<ReceiverReport>,
}

/// Measurements of one receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReceiverReport {
    /// Its station.
    pub station: usize,
    /// Messages received whole.
    pub messages: u64,
    /// User bytes received.
    pub bytes: u64,
    /// Octets of the packets they came in.
    pub packet_bytes: u64,
    /// When the last message was complete, ps.
    pub last_ps: u64,
    /// From a message's production to its last byte at the user, ps. Not counted after a gap, when
    /// messages can no longer be told apart.
    pub delay: Histogram,
    /// User bytes over time.
    pub series: Series,
    /// Gaps between two deliveries.
    pub gaps: u64,
    /// Bytes that were not the ones sent.
    pub wrong_bytes: u64,
    /// Of these, bytes delivered before.
    pub repeated_bytes: u64,
    /// Bytes left out where no gap was reported.
    pub skipped_bytes: u64,
    /// Message ends where the sender had none.
    pub wrong_ends: u64,
}

/// A message in flight, as its sender sees it.
#[derive(Clone, Copy, Debug)]
struct OutstandingMessage {
    end: u64,
    offered_ps: u64,
    dequeued_ps: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct Flow {
    pub(crate) from: usize,
    pub(crate) to: Target,
    /// The pattern its messages come from.
    pub(crate) source: usize,
    /// Cleared when the circuit is closed early.
    pub(crate) is_open: bool,
    pub(crate) circuit: Option<AssociationId>,
    pub(crate) connected: bool,
    pub(crate) store: SendStore,
    /// What was released behind bytes that are still needed.
    released: RangeSet,
    pub(crate) framing: Framing,
    /// Messages produced before the circuit was connected.
    pub(crate) queued_lengths: VecDeque<u64>,
    outstanding: VecDeque<OutstandingMessage>,
    /// When each message was produced.
    offered_ps: Vec<u64>,
    pub(crate) report: FlowReport,
    progress: Vec<ReceiverProgress>,
    /// Positions of message ends.
    ends: Vec<u64>,
    /// Messages that are calls, if they are.
    pub(crate) calls: Option<Calls>,
    /// What travels with messages that may overtake each other or be given up, if they may.
    pub(crate) notes: Option<MessageNotes>,
    labelled: Vec<labelled::LabelledProgress>,
}

/// A receiver's progress in the stream.
#[derive(Clone, Copy, Debug, Default)]
struct ReceiverProgress {
    /// Position of the next byte; meaningless after a gap.
    position: u64,
    after_gap: bool,
    /// A circuit of the receiver is bound to this flow.
    has_circuit: bool,
    /// Bytes of the stream delivered.
    bytes_taken: u64,
    /// Message ends among them.
    ends: usize,
}

impl Flow {
    /// A flow from a station to a target, of a pattern.
    pub(crate) fn new(
        (from, to, source): (usize, Target, usize),
        framing: Framing,
        payload: usize,
    ) -> Flow {
        Flow {
            from,
            to,
            source,
            is_open: true,
            circuit: None,
            connected: false,
            store: SendStore::new(framing, payload),
            released: RangeSet::new(),
            framing,
            queued_lengths: VecDeque::new(),
            outstanding: VecDeque::new(),
            offered_ps: Vec::new(),
            report: FlowReport {
                from,
                ..FlowReport::default()
            },
            progress: Vec::new(),
            ends: Vec::new(),
            calls: None,
            notes: None,
            labelled: Vec::new(),
        }
    }

    /// Adds a receiver and returns its index.
    pub(crate) fn add_receiver(&mut self, station: usize) -> usize {
        self.progress.push(ReceiverProgress::default());
        self.labelled.push(labelled::LabelledProgress::default());
        self.report.receivers.push(ReceiverReport {
            station,
            ..ReceiverReport::default()
        });
        self.progress.len() - 1
    }

    /// The index of `station` among the receivers.
    pub(crate) fn receiver_index(&self, station: usize) -> Option<usize> {
        let known = &self.report.receivers;
        let found = known.binary_search_by_key(&station, |receiver| receiver.station);
        found.ok()
    }

    /// The index of `station`, if it is a receiver without a bound circuit.
    pub(crate) fn unbound_receiver(&self, station: usize) -> Option<usize> {
        let receiver = self.receiver_index(station).filter(|_| self.is_open)?;
        (!self.progress[receiver].has_circuit).then_some(receiver)
    }

    /// Binds a circuit of the receiver to this flow.
    pub(crate) fn bind(&mut self, receiver: usize) {
        self.progress[receiver].has_circuit = true;
    }

    /// A receiver crashed: what it gets from now on is not compared.
    pub(crate) fn mark_receiver_lost(&mut self, receiver: usize) {
        self.progress[receiver].after_gap = true;
        self.progress[receiver].has_circuit = false;
    }

    /// Closes the flow; returns how many messages are given up.
    pub(crate) fn give_up(&mut self) -> u64 {
        let report = &mut self.report;
        let left = report.offered - report.settled - report.given_up;
        report.given_up += left;
        self.is_open = false;
        self.connected = false;
        self.circuit = None;
        self.queued_lengths.clear();
        self.outstanding.clear();
        if let Some(calls) = &mut self.calls {
            calls.clear();
        }
        left
    }

    pub(crate) fn note_offered(&mut self, now_ps: u64, bytes: u64) {
        self.report.offered += 1;
        self.report.offered_bytes += bytes;
        self.report.last_offered_ps = now_ps;
        self.offered_ps.push(now_ps);
    }

    /// The message produced as number `index` is in the store; returns its end.
    pub(crate) fn note_written(&mut self, index: u64) -> u64 {
        let end = self.store.end;
        let buffered = end - self.store.released();
        self.report.buffered_max = self.report.buffered_max.max(buffered);
        let offered_ps = self.offered_ps.get(index as usize).copied().unwrap_or(0);
        if self.framing != Framing::Records {
            self.ends.push(end);
        }
        self.outstanding.push_back(OutstandingMessage {
            end,
            offered_ps,
            dequeued_ps: None,
        });
        end
    }

    /// The controller started a frame with the bytes `start..end` of the store.
    pub(crate) fn note_dequeued(&mut self, now_ps: u64, start: u64, end: u64) {
        if let Some(calls) = &mut self.calls {
            return calls.note_dequeued(now_ps, end);
        }
        // Messages lie in the order of their ends.
        let first = self
            .outstanding
            .partition_point(|message| message.end <= start);
        for message in self.outstanding.range_mut(first..) {
            if message.end > end {
                return;
            }
            message.dequeued_ps.get_or_insert(now_ps);
        }
    }

    /// The protocol released the bytes below `position`, by a packet that came at `now_ps`.
    pub(crate) fn note_released(&mut self, now_ps: u64, range: Range<u64>) {
        self.check_released(&range);
        self.settle(now_ps, range);
    }

    fn settle(&mut self, now_ps: u64, range: Range<u64>) {
        self.released.insert(range);
        let position = self.released.advance(self.store.released());
        self.store.release(position);
        if self.framing != Framing::Records && self.notes.is_none() {
            for progress in self.progress.iter().filter(|progress| !progress.after_gap) {
                let missing = position.saturating_sub(progress.position);
                self.report.lost_bytes = self.report.lost_bytes.max(missing);
            }
        }
        while let Some(message) = self.outstanding.front().copied() {
            if message.end > position {
                return;
            }
            self.outstanding.pop_front();
            self.report.settled += 1;
            self.report.last_settled_ps = now_ps;
            self.report
                .settling
                .record(now_ps.saturating_sub(message.offered_ps));
            if let Some(dequeued_ps) = message.dequeued_ps {
                self.report
                    .exchange
                    .record(now_ps.saturating_sub(dequeued_ps));
            }
        }
    }

    /// Checks the bytes of a delivery; they are counted when their user has read them.
    pub(crate) fn check(
        &mut self,
        receiver: usize,
        bytes: &[u8],
        gap: bool,
        pattern: &BytePattern,
    ) {
        let progress = &mut self.progress[receiver];
        let report = &mut self.report.receivers[receiver];
        if gap {
            progress.after_gap = true;
            report.gaps += 1;
        }
        if !progress.after_gap && self.framing != Framing::Records {
            for part in bytes.chunks(1 << 15) {
                progress.position = check_bytes(report, pattern, progress.position, part);
            }
        }
    }

    /// Checks a message end reported by the protocol of `receiver` after the bytes delivered so
    /// far.
    pub(crate) fn check_end(&mut self, receiver: usize) {
        let progress = &mut self.progress[receiver];
        if self.framing != Framing::Messages || progress.after_gap {
            return;
        }
        if self.ends.get(progress.ends) != Some(&progress.position) {
            self.report.receivers[receiver].wrong_ends += 1;
        }
        progress.ends += 1;
    }

    /// Messages of a byte stream that end in the next `bytes` for `receiver`. The simulator knows
    /// their ends, the receiver's user does not.
    pub(crate) fn ends_below(&mut self, receiver: usize, bytes: u64) -> u64 {
        let progress = &mut self.progress[receiver];
        let from = progress.bytes_taken;
        progress.bytes_taken += bytes;
        let ends = &self.ends[progress.ends..];
        let found = ends.iter().take_while(|end| **end <= from + bytes).count();
        progress.ends += found;
        found as u64
    }

    /// The user of `receiver` has read `bytes` more and `messages` more ends.
    pub(crate) fn note_read(&mut self, now_ps: u64, receiver: usize, bytes: u64, messages: u64) {
        let after_gap = self.progress[receiver].after_gap;
        let report = &mut self.report.receivers[receiver];
        report.bytes += bytes;
        report.series.add(now_ps, bytes);
        for _ in 0..messages {
            let offered = self.offered_ps.get(report.messages as usize);
            if let Some(offered_ps) = offered.filter(|_| !after_gap) {
                report.delay.record(now_ps - offered_ps);
            }
            report.messages += 1;
            report.last_ps = now_ps;
        }
    }
}

/// Compares bytes with those that belong at `position`; returns the position behind them.
///
/// Where they differ, the nearest position they could come from tells what went wrong: one behind
/// is a repetition, one ahead leaves bytes out, and without one they are damaged.
fn check_bytes(
    report: &mut ReceiverReport,
    pattern: &BytePattern,
    position: u64,
    bytes: &[u8],
) -> u64 {
    let len = bytes.len() as u64;
    let expected = pattern.at(position, bytes.len());
    if bytes == expected {
        return position + len;
    }
    let wrong = bytes.iter().zip(expected).filter(|(a, b)| a != b).count();
    report.wrong_bytes += wrong as u64;
    let matches_at = |at: u64| pattern.at(at, bytes.len()) == bytes;
    let near = (1..1 << 15).find_map(|distance| {
        let behind = position.checked_sub(distance).filter(|&at| matches_at(at));
        behind.or_else(|| Some(position + distance).filter(|&at| matches_at(at)))
    });
    match near {
        Some(at) if at < position => {
            report.repeated_bytes += len;
            position
        }
        Some(at) => {
            report.skipped_bytes += at - position;
            at + len
        }
        None => position + len,
    }
}

/// User bytes and message ends in the records of a packet.
pub(crate) fn records_in(bytes: &[u8]) -> (u64, u64) {
    let (mut at, mut user, mut ends) = (0, 0, 0);
    while let Some(fragment) = record::parse_fragment(bytes, at) {
        user += fragment.bytes.len() as u64;
        ends += u64::from(fragment.last);
        at = fragment.bytes.end;
    }
    (user, ends)
}
