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

mod buckets;
pub mod config;
mod dispatch;
mod endpoint_state;
mod members;
mod receiver;
mod receiver_control;
pub mod relay;
mod replication;
mod retransmission_queue;
mod sender;
mod sender_control;
mod sender_transmit;

pub use config::{BucketConfig, Config, Holdings, LateJoin, Member, MemberState, Reliability};

use crate::pdu::{HEADER_LEN, Options, Rejects};
use endpoint_state::GroupEndpointState;
use engine::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries, Event,
    Instant, Layout, Note, PathFault, Properties, Protocol, Received, SendFlags, Status,
    TimerTable,
};
use receiver::Receiver;
use replication::Replicator;
use sender::{GroupTracking, Sender};
use std::collections::{BTreeMap, VecDeque};

/// Streams that ended and still answer, at most.
const QUARANTINE_MAX: usize = 1024;

/// A stream of this endpoint.
#[derive(Debug)]
enum GroupContext {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

/// The key of a stream that ended.
#[derive(Clone, Copy, Debug)]
struct QuarantinedKey {
    key: u64,
    /// The sender, unless it was this side.
    sender: Option<Address>,
    /// What a sender that asks is told: options, and the position reached.
    final_control: (Options, u64),
    until: Instant,
}

/// An endpoint of groups: it sends to and receives from any number of them over one wire.
#[derive(Debug)]
pub struct GroupEndpoint {
    ep: GroupEndpointState,
    contexts: BTreeMap<AssociationId, GroupContext>,
    /// Streams sent, by key.
    senders_by_key: BTreeMap<u64, AssociationId>,
    /// Streams received, by the sender and its key, and by the key told to the sender.
    receivers_by_sender: BTreeMap<(Address, u64), AssociationId>,
    /// The last answer of `received`: packets come in trains.
    last_lookup: Option<((Address, u64), AssociationId)>,
    receivers_by_key: BTreeMap<u64, AssociationId>,
    quarantine: VecDeque<QuarantinedKey>,
    /// Contexts that may have something to send, served in turn.
    ready: VecDeque<AssociationId>,
    timers: TimerTable<AssociationId>,
    replicator: Replicator,
    /// Who was in the groups of streams that ended.
    final_reports: VecDeque<(AssociationId, Vec<Member>)>,
    /// Answers that streams which ended left out.
    damped_by_ended: u64,
    last_id: u32,
}

impl GroupEndpoint {
    /// An endpoint without streams that takes part in none until told to listen.
    ///
    /// # Panics
    ///
    /// When packets are to be shorter than 128 octets or longer than 65,535.
    pub fn new(config: Config) -> GroupEndpoint {
        let range = 128..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        GroupEndpoint {
            ep: GroupEndpointState::new(config),
            contexts: BTreeMap::new(),
            senders_by_key: BTreeMap::new(),
            receivers_by_sender: BTreeMap::new(),
            last_lookup: None,
            receivers_by_key: BTreeMap::new(),
            quarantine: VecDeque::new(),
            ready: VecDeque::new(),
            timers: TimerTable::new(),
            replicator: Replicator::default(),
            final_reports: VecDeque::new(),
            damped_by_ended: 0,
            last_id: 0,
        }
    }

    /// Who is, or was, in the group of stream `id`: those that are gone first, then the others by
    /// address. Empty for a stream whose receivers are not counted. The report of a stream that ended
    /// is kept until others have ended.
    pub fn members(&self, id: AssociationId) -> Vec<Member> {
        match self.contexts.get(&id) {
            Some(GroupContext::Sender(sender)) => match &sender.tracking {
                GroupTracking::Counted(members) => members.report(),
                _ => Vec::new(),
            },
            _ => {
                let kept = self.final_reports.iter().rev().find(|(of, _)| *of == id);
                kept.map_or(Vec::new(), |(_, report)| report.clone())
            }
        }
    }

    /// The next news of a member, oldest first: that it joined, left, lost bytes or fell silent.
    pub fn poll_member_event(&mut self) -> Option<(AssociationId, Member)> {
        self.ep.member_events.pop_front()
    }

    /// Takes a member out of the group of stream `id`: it is told, and the others go on without it.
    /// For a receiver whose user is too slow for the rest.
    pub fn expel(&mut self, now: Instant, id: AssociationId, address: Address) {
        if let Some(GroupContext::Sender(sender)) = self.contexts.get_mut(&id) {
            sender.expel(&mut self.ep, now, address);
        }
        self.update_timers_and_queue(now, id);
    }

    /// Answers this endpoint sent as a receiver, and answers it left out because another receiver
    /// was heard to give them.
    pub fn control_counts(&self) -> (u64, u64) {
        let damped = self.contexts.values().map(|context| match context {
            GroupContext::Receiver(receiver) => receiver.damped,
            GroupContext::Sender(_) => 0,
        });
        (
            self.ep.control_sent,
            self.damped_by_ended + damped.sum::<u64>(),
        )
    }

    /// Packets dropped so far, by reason.
    pub fn rejects(&self) -> Rejects {
        self.ep.rejects
    }

    /// What the endpoint holds right now. Looks at every stream.
    pub fn holdings(&self) -> Holdings {
        let mut holdings = Holdings {
            associations: self.contexts.len(),
            quarantined: self.quarantine.len(),
            ..Holdings::default()
        };
        for context in self.contexts.values() {
            match context {
                GroupContext::Sender(sender) => sender.add_to(&mut holdings),
                GroupContext::Receiver(receiver) => {
                    holdings.reassembly_bytes += receiver.rx.reassembly.bytes()
                }
            }
        }
        holdings
    }

    /// Opens a stream to the group at `to`.
    fn open_stream(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        let id = self.next_id().ok_or(CommandError::TooManyAssociations)?;
        let key = self.new_key();
        let sender = Sender::new(id, key, to, &mut self.ep, now);
        if sender.connected {
            self.ep.events.push_back(Event::Connected(id));
        }
        self.senders_by_key.insert(key, id);
        self.contexts
            .insert(id, GroupContext::Sender(Box::new(sender)));
        self.update_timers_and_queue(now, id);
        Ok(id)
    }
}

impl Protocol for GroupEndpoint {
    fn properties(&self) -> Properties {
        let config = &self.ep.config;
        Properties {
            packet_max: config.packet_len,
            packet_len: None,
            framing: config.framing,
            coalesce_delay: config.coalesce_delay,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.ep.counters.packets_parsed += 1;
        let (from, octets) = (packet.path.remote, packet.octets);
        if let Err(reason) = self.dispatch(now, from, octets, &mut deliveries.bytes) {
            self.ep.rejects.record(reason);
            self.ep.counters.packets_discarded += 1;
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.quarantine.retain(|ended| ended.until > now);
        while let Some(id) = self.timers.pop_due(now) {
            match self.contexts.get_mut(&id) {
                Some(GroupContext::Sender(sender)) => sender.handle_timeout(&mut self.ep, now),
                Some(GroupContext::Receiver(receiver)) => {
                    receiver.handle_timeout(&mut self.ep, now)
                }
                None => {}
            }
            self.update_timers_and_queue(now, id);
        }
    }

    /// Timers find out what is lost; a report can be forged.
    fn handle_path_error(&mut self, _now: Instant, _fault: PathFault<'_>) {}

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if self.replicator.poll_transmit(batch) {
            return;
        }
        if let Some(((id, to), octets)) = self.ep.control_queue.pop_front() {
            batch.set_path(to, Some(id));
            batch.push_own(&octets);
            self.ep.counters.packets_built += 1;
            self.ep.counters.bytes_summed += octets.len() as u64;
            return;
        }
        while let Some(id) = self.ready.pop_front() {
            self.transmit_context(now, id, batch);
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.ep.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let quarantine = self.quarantine.iter().map(|ended| ended.until).min();
        self.timers.deadline().into_iter().chain(quarantine).min()
    }

    fn counters(&self) -> Counters {
        self.ep.counters
    }
}

impl Associations for GroupEndpoint {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        Layout {
            header: HEADER_LEN,
            payload: self.ep.config.packet_len - HEADER_LEN,
            trailer: 0,
        }
    }

    /// Opens a stream to the group at the address.
    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        match *to {
            [group] => self.open_stream(now, group),
            _ => Err(CommandError::Unsupported),
        }
    }

    fn listen(&mut self, accept: bool) {
        self.ep.listening = accept;
    }

    fn submit(
        &mut self,
        now: Instant,
        id: AssociationId,
        end: u64,
        flags: SendFlags,
        _note: &Note,
    ) {
        if let Some(GroupContext::Sender(sender)) = self.contexts.get_mut(&id) {
            if flags.end_of_message {
                sender.message_ends.push(end);
            }
            if flags.push || end > sender.submitted {
                sender.submit(&self.ep, end, flags.push);
                self.update_timers_and_queue(now, id);
            }
        }
        if flags.fin {
            self.close(now, id, Close::Graceful);
        }
    }

    fn consume(&mut self, now: Instant, id: AssociationId, bytes: u64) {
        if let Some(GroupContext::Receiver(receiver)) = self.contexts.get_mut(&id) {
            receiver.consume(&self.ep, bytes);
            if receiver.control_due {
                self.update_timers_and_queue(now, id);
            }
        }
    }

    /// Ends a stream, after what was submitted or at once. A receiver leaves its group.
    fn close(&mut self, now: Instant, id: AssociationId, how: Close) {
        match (self.contexts.get_mut(&id), how) {
            (Some(GroupContext::Sender(sender)), Close::Graceful) => {
                sender.finishing = true;
                sender.pushed = sender.submitted;
                sender.last_received_at = now;
                sender.update_from_members(&mut self.ep, now);
            }
            (Some(GroupContext::Sender(sender)), Close::Abort) => {
                sender.terminate(&mut self.ep, engine::CloseReason::Aborted);
            }
            (Some(GroupContext::Receiver(_)), _) => return self.leave(now, id),
            (None, _) => return,
        }
        self.update_timers_and_queue(now, id);
    }

    fn status(&self, id: AssociationId) -> Status {
        let bytes_in_flight = match self.contexts.get(&id) {
            Some(GroupContext::Sender(sender)) => sender.bytes_in_flight(),
            _ => 0,
        };
        Status { bytes_in_flight }
    }

    /// Streams have no priorities.
    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}
