//! Where messages come from: patterns, and the clients among them.

use super::{Network, ScheduledEvent};
use crate::flow::Target;
use crate::host::WrittenMessage;
use crate::traffic::{Receivers, Traffic, UnsentMessages};
use engine::{CommandError, SplitMix64};

/// Least time from the end of a client's message to its next, ps: messages to a station that is down end
/// as soon as they begin, and would stop the clock.
const CLIENT_PAUSE_MIN_PS: u64 = 1_000_000;

pub(super) struct TrafficSource {
    pub(super) traffic: Traffic,
    pub(super) random: SplitMix64,
    pub(super) produced: u64,
    /// Messages of clients that are produced or will be.
    pub(super) scheduled: u64,
    /// Messages neither settled nor given up.
    pub(super) outstanding: u64,
    /// The next message waits until one of these is settled.
    pub(super) at_outstanding_limit: bool,
    /// The flow from each sender to each receiver.
    pub(super) flows: Vec<Vec<usize>>,
}

impl TrafficSource {
    /// Draws the sender and the receiver of a message, by their places in `flows`.
    fn draw_pair(&mut self) -> (usize, usize) {
        let Traffic {
            senders,
            receivers,
            sender_weights,
            receiver_weights,
            ..
        } = &self.traffic;
        let random = &mut self.random;
        let sender = draw_index(random, sender_weights, self.flows.len());
        let count = self.flows[sender].len();
        let Receivers::One(stations) = receivers else {
            return (sender, draw_index(random, &[], count));
        };
        // A sender is not its own receiver.
        let both = stations.iter().zip(receiver_weights);
        let others = both.filter(|(station, _)| **station != senders[sender]);
        let weights: Vec<u64> = others.map(|(_, weight)| *weight).collect();
        (sender, draw_index(random, &weights, count))
    }

    /// Whether the next message follows at once.
    fn is_within_burst(&self) -> bool {
        !self.produced.is_multiple_of(self.traffic.burst.max(1))
    }
}

/// One of `count` places, each as likely as its weight says; all alike without weights.
fn draw_index(random: &mut SplitMix64, weights: &[u64], count: usize) -> usize {
    let total: u64 = weights.iter().sum();
    if total == 0 {
        return random.below(count as u64) as usize;
    }
    let mut left = random.below(total);
    let passed = weights
        .iter()
        .take_while(|weight| match left.checked_sub(**weight) {
            Some(rest) => {
                left = rest;
                true
            }
            None => false,
        });
    passed.count().min(count.saturating_sub(1))
}

/// Random numbers of unsent messages are drawn from streams of their own.
const UNSENT_STREAMS: u64 = 1 << 40;

/// Users whose messages no association carries.
pub(super) struct UnsentSource {
    messages: UnsentMessages,
    random: SplitMix64,
}

impl Network {
    /// Adds users whose messages no association carries.
    ///
    /// # Panics
    ///
    /// When the station does not exist.
    pub fn add_unsent(&mut self, messages: UnsentMessages) {
        assert!(messages.station < self.hosts.len(), "no such station");
        let index = self.unsent.len();
        let stream = UNSENT_STREAMS + index as u64;
        let random = SplitMix64::new(SplitMix64::at(self.seed, stream));
        self.unsent.push(UnsentSource { messages, random });
        self.schedule_unsent(index);
    }

    /// The user writes an unsent message.
    pub(super) fn write_unsent(&mut self, index: usize) {
        let source = &mut self.unsent[index];
        let length = source.messages.length.draw(&mut source.random).max(1);
        let station = source.messages.station;
        self.schedule_unsent(index);
        if self.hosts[station].is_up {
            self.queue_writing(station, None, WrittenMessage::Unsent, length);
            self.run_processes(station);
        }
    }

    fn schedule_unsent(&mut self, index: usize) {
        let source = &mut self.unsent[index];
        let pause_ps = source.messages.interarrival_ps.draw(&mut source.random);
        let written = ScheduledEvent::UnsentWritten { source: index };
        self.queue.push(self.now_ps + pause_ps.max(1), 1, written);
    }

    /// Adds a pattern of messages and opens the circuits it needs.
    ///
    /// # Errors
    ///
    /// The engine's, when it opens no more circuits.
    ///
    /// # Panics
    ///
    /// When the pattern names a station that does not exist.
    pub fn add_traffic(&mut self, traffic: Traffic) -> Result<(), CommandError> {
        let index = self.sources.len();
        let random = SplitMix64::new(SplitMix64::at(self.seed, index as u64));
        self.sources.push(TrafficSource {
            traffic: traffic.clone(),
            random,
            produced: 0,
            scheduled: 0,
            outstanding: 0,
            at_outstanding_limit: false,
            flows: Vec::new(),
        });
        self.join_members(index)?;
        let mut flows = Vec::new();
        for &sender in &traffic.senders {
            let targets: Vec<Target> = match &traffic.receivers {
                Receivers::All | Receivers::Group(_) => vec![Target::All],
                Receivers::One(stations) => {
                    let others = stations.iter().filter(|&&station| station != sender);
                    others.map(|&station| Target::Station(station)).collect()
                }
            };
            let opened = targets
                .into_iter()
                .map(|to| self.open_flow(sender, to, index));
            flows.push(opened.collect::<Result<Vec<usize>, CommandError>>()?);
        }
        let source = &mut self.sources[index];
        source.flows = flows;
        if traffic.messages > 0 && source.flows.iter().any(|flows| !flows.is_empty()) {
            self.unfinished_sources += 1;
            let clients = traffic.service.clients.unwrap_or(1);
            source.scheduled = clients.clamp(1, traffic.messages);
            for _ in 0..source.scheduled {
                let pause_ps = traffic.interarrival_ps.draw(&mut source.random);
                let produced = ScheduledEvent::MessageProduced { traffic: index };
                self.queue.push(traffic.start_ps + pause_ps, 1, produced);
            }
        }
        Ok(())
    }

    pub(super) fn produce_message(&mut self, index: usize) {
        let source = &mut self.sources[index];
        let (sender, receiver) = source.draw_pair();
        // No protocol carries an empty message.
        let length = source.traffic.length.draw(&mut source.random).max(1);
        source.produced += 1;
        source.outstanding += 1;
        if source.traffic.service.clients.is_some() {
            // The next one of this client follows the end of this one.
            let is_last = source.produced >= source.traffic.messages;
            self.unfinished_sources -= u64::from(is_last);
        } else {
            let most = source.traffic.outstanding;
            source.at_outstanding_limit = most.is_some_and(|most| source.outstanding >= most);
            if !source.at_outstanding_limit {
                self.schedule_message(index);
            }
        }
        let Some(&flow) = self.sources[index].flows[sender].get(receiver) else {
            return;
        };
        self.unsettled += 1;
        self.flows[flow].note_offered(self.now_ps, length);
        if !self.flows[flow].is_open {
            // Its circuit is closed: the message cannot be sent.
            self.give_up(flow);
        } else if self.flows[flow].connected {
            self.queue_message(flow, length);
        } else {
            self.flows[flow].queued_lengths.push_back(length);
        }
        self.run_processes(self.flows[flow].from);
    }

    /// Schedules the next message of a pattern, if there is one more.
    fn schedule_message(&mut self, index: usize) {
        let source = &mut self.sources[index];
        if source.produced < source.traffic.messages {
            let pause_ps = match source.is_within_burst() {
                true => 0,
                false => source.traffic.interarrival_ps.draw(&mut source.random),
            };
            let next = self.now_ps + pause_ps;
            self.queue
                .push(next, 1, ScheduledEvent::MessageProduced { traffic: index });
        } else {
            self.unfinished_sources -= 1;
        }
    }

    /// Schedules the next message of a client, if there is one more.
    fn schedule_client(&mut self, index: usize) {
        let source = &mut self.sources[index];
        if source.scheduled < source.traffic.messages {
            source.scheduled += 1;
            let pause_ps = source.traffic.interarrival_ps.draw(&mut source.random);
            let next = self.now_ps + pause_ps.max(CLIENT_PAUSE_MIN_PS);
            self.queue
                .push(next, 1, ScheduledEvent::MessageProduced { traffic: index });
        }
    }

    /// `count` messages of a pattern were settled or given up.
    pub(super) fn release_outstanding(&mut self, index: usize, count: u64) {
        let Some(source) = self.sources.get_mut(index) else {
            return;
        };
        source.outstanding -= count;
        if source.traffic.service.clients.is_some() {
            for _ in 0..count {
                self.schedule_client(index);
            }
            return;
        }
        if count > 0 && std::mem::replace(&mut source.at_outstanding_limit, false) {
            self.schedule_message(index);
        }
    }
}
