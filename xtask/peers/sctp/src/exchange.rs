//! Two ends and what lies between them, in virtual time: packets are delayed, lost, duplicated and
//! overtake each other. The same seed gives the same faults; the other stacks draw their own tags.

use crate::capture::Captured;
use crate::stack::{Label, Order, Stack};
use engine::SplitMix64;
use std::collections::BTreeMap;

/// Nanoseconds of a millisecond.
pub const MS: u64 = 1_000_000;

/// No exchange of a test takes longer: ten minutes, for ends that wait whole minutes for a timeout.
const LIMIT: u64 = 600_000 * MS;

/// A message to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its stream and payload protocol identifier.
    pub label: Label,
    /// How it is sent.
    pub order: Order,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What happens to packets, in parts per thousand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// They are lost.
    pub loss: u64,
    /// They arrive twice.
    pub duplication: u64,
    /// They arrive up to three delays later.
    pub reordering: u64,
}

impl Faults {
    /// None.
    pub const NONE: Faults = Faults {
        loss: 0,
        duplication: 0,
        reordering: 0,
    };
}

/// What came of an exchange.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What each end received, in order.
    pub received: [Vec<(Label, Vec<u8>)>; 2],
    /// Packets that each end sent.
    pub captured: [Vec<Captured>; 2],
    /// Both ends know that it ended, if they always do.
    pub ended: bool,
    /// Virtual time, ns.
    pub took: u64,
}

/// One way takes so long.
const DELAY: u64 = 5 * MS;

/// Where messages may be given up, nothing arrives any more after so long: longer than any timeout of an
/// exchange that goes on.
const QUIET: u64 = 70_000 * MS;

/// Both ends and the packets between them.
struct Exchange<'a> {
    ends: [&'a mut dyn Stack; 2],
    faults: Faults,
    /// Whether an end still has to reset its streams, when half of its messages have arrived.
    resets: [bool; 2],
    random: SplitMix64,
    now: u64,
    /// Packets on their way, by arrival and number.
    flying: BTreeMap<(u64, u64), (usize, Vec<u8>)>,
    count: u64,
    /// When a message was sent or received last.
    moved_at: u64,
    outcome: Outcome,
}

/// Lets `ends[0]` open an association, sends the messages of each end to the other, and ends it: the
/// first end that ends surely does.
///
/// # Errors
///
/// What did not happen within the limit, with how far it came.
pub fn run(
    ends: [&mut dyn Stack; 2],
    messages: [&[Message]; 2],
    faults: Faults,
    seed: u64,
) -> Result<Outcome, String> {
    run_with_resets(ends, messages, faults, [false; 2], seed)
}

/// The same; the ends in `resets` reset the streams that they send on after half of their messages.
/// Errors are those of [`run`].
pub fn run_with_resets(
    ends: [&mut dyn Stack; 2],
    messages: [&[Message]; 2],
    faults: Faults,
    resets: [bool; 2],
    seed: u64,
) -> Result<Outcome, String> {
    let mut exchange = Exchange {
        ends,
        faults,
        resets,
        random: SplitMix64::new(seed),
        now: 0,
        flying: BTreeMap::new(),
        count: 0,
        moved_at: 0,
        outcome: Outcome::default(),
    };
    exchange.ends[0].connect(0);
    let mut sent = [0, 0];
    let mut has_shut_down = false;
    loop {
        exchange.move_messages(messages, &mut sent);
        exchange.collect();
        let received = [0, 1].map(|end| exchange.outcome.received[end].len());
        let lens = [messages[0].len(), messages[1].len()];
        let may_miss = messages
            .iter()
            .any(|all| all.iter().any(|one| one.order.is_once()));
        let is_quiet = sent == lens && exchange.now > exchange.moved_at + QUIET;
        let done = received == [lens[1], lens[0]] || may_miss && is_quiet;
        if done && !has_shut_down {
            has_shut_down = true;
            let now = exchange.now;
            if let Some(end) = exchange.ends.iter_mut().find(|end| end.ends_surely()) {
                end.shutdown(now);
            }
            exchange.collect();
        }
        let mut ends = exchange.ends.iter();
        let is_over = ends.all(|end| end.is_down() || !end.ends_surely());
        if is_over || exchange.now > LIMIT || !exchange.advance() {
            exchange.outcome.ended = is_over && has_shut_down;
            exchange.outcome.took = exchange.now;
            return match exchange.outcome.ended {
                true => Ok(exchange.outcome),
                false => Err(format!(
                    "after {} ms: sent {sent:?}, received {received:?}, shut down {has_shut_down}, \
                     down {:?}; the last packets of each: {:?}",
                    exchange.now / MS,
                    [0, 1].map(|end| exchange.ends[end].is_down()),
                    exchange
                        .outcome
                        .captured
                        .each_ref()
                        .map(|all| last_kinds(all)),
                )),
            };
        }
    }
}

/// When the last packets left, ms, and their first chunks.
fn last_kinds(captured: &[Captured]) -> Vec<(u64, u8)> {
    let last = captured.iter().rev().take(8).rev();
    last.map(|(at, packet)| (at / MS, packet[12])).collect()
}

impl Exchange<'_> {
    /// Gives ends what they take, and takes what they received.
    fn move_messages(&mut self, messages: [&[Message]; 2], sent: &mut [usize; 2]) {
        for index in [0, 1] {
            self.reset_at_half(index, messages[index], sent[index]);
            let waits = self.resets[index];
            let end = &mut self.ends[index];
            while let Some(message) = messages[index].get(sent[index]) {
                let Message {
                    label,
                    order,
                    bytes,
                } = message;
                let is_half = waits && sent[index] == messages[index].len() / 2;
                if is_half || !end.is_up() || !end.send(self.now, *label, *order, bytes) {
                    break;
                }
                sent[index] += 1;
                self.moved_at = self.now;
            }
            let mut bytes = Vec::new();
            while let Some(label) = end.receive(self.now, &mut bytes) {
                self.moved_at = self.now;
                let bytes = std::mem::take(&mut bytes);
                self.outcome.received[index].push((label, bytes));
            }
        }
    }

    /// An end that is to reset its streams does so when half of its messages have arrived.
    fn reset_at_half(&mut self, index: usize, messages: &[Message], sent: usize) {
        let half = messages.len() / 2;
        let arrived = self.outcome.received[1 - index].len();
        if !self.resets[index] || sent < half || arrived < half {
            return;
        }
        let mut streams: Vec<u16> = messages.iter().map(|one| one.label.stream).collect();
        streams.sort_unstable();
        streams.dedup();
        self.resets[index] = !self.ends[index].reset(self.now, &streams);
    }

    /// Packets of both ends leave.
    fn collect(&mut self) {
        for index in [0, 1] {
            while let Some(packets) = self.ends[index].poll_packets(self.now) {
                for packet in packets.octets.chunks(packets.len) {
                    self.outcome.captured[index].push((self.now, packet.to_vec()));
                    self.fly(1 - index, packet);
                }
            }
        }
    }

    fn fly(&mut self, to: usize, packet: &[u8]) {
        let mut happens = |parts: u64| self.random.below(1000) < parts;
        let (lost, twice) = (happens(self.faults.loss), happens(self.faults.duplication));
        let late = happens(self.faults.reordering);
        let copies = match (lost, twice) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => 1,
        };
        for _ in 0..copies {
            let more = match late {
                true => self.random.below(3 * DELAY),
                false => 0,
            };
            self.count += 1;
            let key = (self.now + DELAY + more, self.count);
            self.flying.insert(key, (to, packet.to_vec()));
        }
    }

    /// Goes on to the next arrival or timeout; false when nothing is to come.
    fn advance(&mut self) -> bool {
        let arrival = self.flying.first_key_value().map(|((at, _), _)| *at);
        let timeouts = self.ends.iter().filter_map(|end| end.poll_timeout());
        let Some(next) = timeouts.chain(arrival).min() else {
            return false;
        };
        // A stack may name a time that has passed: a tick further something changes.
        let is_stuck = next <= self.now && arrival.is_none_or(|at| at > self.now);
        self.now = self.now.max(next) + u64::from(is_stuck) * MS;
        while let Some(entry) = self.flying.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let (to, packet) = entry.remove();
            self.ends[to].handle_packets(self.now, &packet, packet.len());
        }
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        true
    }
}

/// What is wrong with what an end received of `sent`: each message once, whole, with its label, and
/// the ordered ones of a stream in their order; those that may be given up, if they came. None if nothing
/// is.
pub fn mistake(sent: &[Message], received: &[(Label, Vec<u8>)]) -> Option<String> {
    let all = |messages: &mut dyn Iterator<Item = (Label, &Vec<u8>)>| {
        let mut all: Vec<(Label, Vec<u8>)> = messages
            .map(|(label, bytes)| (label, bytes.clone()))
            .collect();
        all.sort();
        all
    };
    let found = all(&mut received.iter().map(|(label, bytes)| (*label, bytes)));
    let came = |message: &&Message| {
        !message.order.is_once()
            || found
                .binary_search(&(message.label, message.bytes.clone()))
                .is_ok()
    };
    let sent: Vec<&Message> = sent.iter().filter(came).collect();
    let expected = all(&mut sent.iter().map(|message| (message.label, &message.bytes)));
    if expected != found {
        let lens = |of: &[(Label, Vec<u8>)]| of.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
        return Some(format!(
            "{} messages of {} bytes became {} of {}",
            expected.len(),
            lens(&expected),
            found.len(),
            lens(&found)
        ));
    }
    let mut next: BTreeMap<u16, usize> = BTreeMap::new();
    for (index, message) in sent.iter().enumerate() {
        if message.order.is_unordered() {
            continue;
        }
        let from = next.entry(message.label.stream).or_default();
        let is_it =
            |(label, bytes): &(Label, Vec<u8>)| *label == message.label && *bytes == message.bytes;
        match received[*from..].iter().position(is_it) {
            Some(found) => *from += found + 1,
            None => return Some(format!("message {index} came out of its order")),
        }
    }
    None
}
