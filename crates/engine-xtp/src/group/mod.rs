//! Groups: one sender, any number of receivers, in the packets of XTP 4.0.
//!
//! A sender opens a stream to a group's address, and everybody who listens there receives it. What
//! the sender knows of them is a choice, [`Reliability`]:
//!
//! * *counted*: each receiver joins with JCNTL and has a row in a table; bytes are kept until all
//!   members have them, and the sender's user is told who has what, who left and who fell silent.
//! * *buckets*: nobody is known. A status request goes out N times a wait timer, answers are gathered
//!   for N + E + 1 of them, and bytes are forgotten when none of the answers wants them.
//! * *none*: nothing is kept; gaps are delivered as gaps.
//!
//! Receivers may answer to the whole group, in a random slot each, and leave an answer out when
//! another one was heard that says it too. An endpoint receives any number of streams at once: each
//! sender it hears gets a context of its own, which XTP calls cloning. Where a medium has no
//! multicast, the sender repeats each packet to every receiver, or a relay does.
//!
//! * [`config`] - what can be set, and why the defaults are what they are.
//! * `sender`, `answers`, `outgoing` - a stream to a group: when to ask, answers in, packets out.
//! * `buckets`, `members` - the two ways to know a group.
//! * `receiver`, `reply` - a stream from a sender, and what it is told.
//! * [`relay`] - repeats a group's packets for hosts that multicast does not reach.
//! * `ranges`, `replica`, `shared` - what is sent again, copies for each, what all streams share.
//!
//! What published descriptions leave open is decided in `docs/decisions/0009-xtp-multicast.md`.

mod answers;
mod buckets;
pub mod config;
mod dispatch;
mod members;
mod outgoing;
mod ranges;
mod receiver;
pub mod relay;
mod replica;
mod reply;
mod sender;
mod shared;

pub use config::{Buckets, Config, Holdings, Late, Member, Reliability, Standing};

use crate::pdu::{HEADER_LEN, Options, Rejects};
use core::time::Duration;
use engine::{
    Address, Batch, AssociationId, CommandError, Counters, Delivery, Engine, Event, Framing, Instant,
    SegmentLayout, TimerTable,
};
use receiver::Receiver;
use replica::Replica;
use sender::{Knowledge, Sender};
use shared::Shared;
use std::collections::{BTreeMap, VecDeque};

/// Streams that ended and still answer, at most.
const QUARANTINE_MAX: usize = 1024;

/// A stream of this endpoint.
#[derive(Debug)]
enum Context {
    Sends(Box<Sender>),
    Receives(Box<Receiver>),
}

/// The key of a stream that ended.
#[derive(Clone, Copy, Debug)]
struct Ended {
    key: u64,
    /// The sender, unless it was this side.
    sender: Option<Address>,
    /// What a sender that asks is told: options, and the position reached.
    answer: (Options, u64),
    until: Instant,
}

/// An endpoint of groups: it sends to and receives from any number of them over one wire.
#[derive(Debug)]
pub struct Group {
    sh: Shared,
    contexts: BTreeMap<AssociationId, Context>,
    /// Streams sent, by key.
    sent: BTreeMap<u64, AssociationId>,
    /// Streams received, by the sender and its key, and by the key told to the sender.
    received: BTreeMap<(Address, u64), AssociationId>,
    /// The last answer of `received`: packets come in trains.
    recent: Option<((Address, u64), AssociationId)>,
    joined: BTreeMap<u64, AssociationId>,
    ended: VecDeque<Ended>,
    /// Contexts that may have something to send, served in turn.
    ready: VecDeque<AssociationId>,
    timers: TimerTable<AssociationId>,
    replica: Replica,
    /// Who was in the groups of streams that ended.
    reports: VecDeque<(AssociationId, Vec<Member>)>,
    /// Answers that streams which ended left out.
    damped: u64,
    last_id: u32,
}

impl Group {
    /// An endpoint without streams that takes part in none until told to listen.
    ///
    /// # Panics
    ///
    /// When packets are to be shorter than 128 octets or longer than 65,535.
    pub fn new(config: Config) -> Group {
        let range = 128..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        Group {
            sh: Shared::new(config),
            contexts: BTreeMap::new(),
            sent: BTreeMap::new(),
            received: BTreeMap::new(),
            recent: None,
            joined: BTreeMap::new(),
            ended: VecDeque::new(),
            ready: VecDeque::new(),
            timers: TimerTable::new(),
            replica: Replica::default(),
            reports: VecDeque::new(),
            damped: 0,
            last_id: 0,
        }
    }

    /// Who is, or was, in the group of stream `id`: those that are gone first, then the others by
    /// address. Empty for a stream whose receivers are not counted. The report of a stream that ended
    /// is kept until others have ended.
    pub fn members(&self, id: AssociationId) -> Vec<Member> {
        match self.contexts.get(&id) {
            Some(Context::Sends(sender)) => match &sender.knowledge {
                Knowledge::Counted(members) => members.report(),
                _ => Vec::new(),
            },
            _ => {
                let kept = self.reports.iter().rev().find(|(of, _)| *of == id);
                kept.map_or(Vec::new(), |(_, report)| report.clone())
            }
        }
    }

    /// The next news of a member, oldest first: that it joined, left, lost bytes or fell silent.
    pub fn poll_news(&mut self) -> Option<(AssociationId, Member)> {
        self.sh.news.pop_front()
    }

    /// Takes a member out of the group of stream `id`: it is told, and the others go on without it.
    /// For a receiver whose user is too slow for the rest.
    pub fn expel(&mut self, now: Instant, id: AssociationId, address: Address) {
        if let Some(Context::Sends(sender)) = self.contexts.get_mut(&id) {
            sender.expel(&mut self.sh, now, address);
        }
        self.look_after(now, id);
    }

    /// Answers this endpoint sent as a receiver, and answers it left out because another receiver
    /// was heard to give them.
    pub fn answers(&self) -> (u64, u64) {
        let damped = self.contexts.values().map(|context| match context {
            Context::Receives(receiver) => receiver.damped,
            Context::Sends(_) => 0,
        });
        (self.sh.answered, self.damped + damped.sum::<u64>())
    }

    /// Packets dropped so far, by reason.
    pub fn rejects(&self) -> Rejects {
        self.sh.rejects
    }

    /// What the endpoint holds right now. Looks at every stream.
    pub fn holdings(&self) -> Holdings {
        let mut holdings = Holdings {
            circuits: self.contexts.len(),
            quarantined: self.ended.len(),
            ..Holdings::default()
        };
        for context in self.contexts.values() {
            match context {
                Context::Sends(sender) => sender.add_to(&mut holdings),
                Context::Receives(receiver) => holdings.held_bytes += receiver.rx.held.bytes(),
            }
        }
        holdings
    }
}

impl Engine for Group {
    fn layout(&self) -> SegmentLayout {
        SegmentLayout {
            header: HEADER_LEN,
            payload: self.sh.config.packet_len - HEADER_LEN,
        }
    }

    fn framing(&self) -> Framing {
        self.sh.config.framing
    }

    /// Opens a stream to the group at `to`.
    fn connect(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        let id = self.next_id().ok_or(CommandError::TooManyAssociations)?;
        let key = self.new_key();
        let sender = Sender::new(id, key, to, &mut self.sh, now);
        if sender.connected {
            self.sh.events.push_back(Event::Connected(id));
        }
        self.sent.insert(key, id);
        self.contexts.insert(id, Context::Sends(Box::new(sender)));
        self.look_after(now, id);
        Ok(id)
    }

    fn listen(&mut self, accept: bool) {
        self.sh.listening = accept;
    }

    fn submit(&mut self, now: Instant, id: AssociationId, end: u64, push: bool) {
        if let Some(Context::Sends(sender)) = self.contexts.get_mut(&id) {
            sender.extend(&self.sh, end, push);
            self.look_after(now, id);
        }
    }

    fn end_message(&mut self, id: AssociationId, end: u64) {
        if let Some(Context::Sends(sender)) = self.contexts.get_mut(&id) {
            sender.ends.push(end);
        }
    }

    fn consume(&mut self, now: Instant, id: AssociationId, bytes: u64) {
        if let Some(Context::Receives(receiver)) = self.contexts.get_mut(&id) {
            receiver.consume(&self.sh, bytes);
            if receiver.tell {
                self.look_after(now, id);
            }
        }
    }

    /// Ends a stream after what was sent. A receiver leaves its group.
    fn finish(&mut self, now: Instant, id: AssociationId) {
        match self.contexts.get_mut(&id) {
            Some(Context::Sends(sender)) => {
                sender.finishing = true;
                sender.pushed = sender.end;
                sender.heard = now;
                sender.settle(&mut self.sh, now);
            }
            Some(Context::Receives(_)) => return self.leave(now, id),
            None => return,
        }
        self.look_after(now, id);
    }

    fn abort(&mut self, now: Instant, id: AssociationId) {
        match self.contexts.get_mut(&id) {
            Some(Context::Sends(sender)) => {
                sender.end(&mut self.sh, engine::CloseReason::Aborted);
            }
            Some(Context::Receives(_)) => return self.leave(now, id),
            None => return,
        }
        self.look_after(now, id);
    }

    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) {
        self.sh.counters.packets_parsed += 1;
        if let Err(reason) = self.dispatch(now, from, packet, deliveries) {
            self.sh.rejects.count(reason);
            self.sh.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.ended.retain(|ended| ended.until > now);
        while let Some(id) = self.timers.pop_due(now) {
            match self.contexts.get_mut(&id) {
                Some(Context::Sends(sender)) => sender.handle_timeout(&mut self.sh, now),
                Some(Context::Receives(receiver)) => receiver.handle_timeout(&mut self.sh, now),
                None => {}
            }
            self.look_after(now, id);
        }
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if self.replica.transmit(batch) {
            return;
        }
        if let Some(((id, to), octets)) = self.sh.answers.pop_front() {
            batch.set_destination(id, to);
            batch.push(&octets, 0..0);
            self.sh.counters.packets_built += 1;
            self.sh.counters.bytes_summed += octets.len() as u64;
            return;
        }
        while let Some(id) = self.ready.pop_front() {
            self.transmit_of(now, id, batch);
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.sh.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let quarantine = self.ended.iter().map(|ended| ended.until).min();
        self.timers.deadline().into_iter().chain(quarantine).min()
    }

    fn bytes_in_flight(&self, id: AssociationId) -> u64 {
        match self.contexts.get(&id) {
            Some(Context::Sends(sender)) => sender.in_flight(),
            _ => 0,
        }
    }

    fn counters(&self) -> Counters {
        self.sh.counters
    }

    fn coalesce_delay(&self) -> Duration {
        self.sh.config.linger
    }
}
