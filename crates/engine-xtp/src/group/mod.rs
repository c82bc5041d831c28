//! Multicast groups: one sender, any number of receivers, in the packets of XTP 4.0, 3.6 or 3.5.
//!
//! A sender opens a stream to a group's address, and every endpoint that listens there receives it.
//! How the sender tracks its receivers is a choice, [`Reliability`]:
//!
//! * *counted*: each receiver joins with JCNTL and has a row in a table. Bytes are kept until all
//!   members have acknowledged them, and the user gets a report of every member.
//! * *buckets*: the sender keeps no list. It multicasts a status request N times a WTIMER, collects
//!   the answers to N + E + 1 requests, and releases the bytes that none of them lacks.
//! * *none*: no retransmission; gaps are delivered as gaps.
//!
//! Receivers may multicast their control packets, each after a random delay (slotting), and
//! suppress one that another receiver already sent (damping). An endpoint receives any number of
//! streams at once: each sender gets a context of its own, which XTP calls cloning. On a medium
//! without multicast, the sender replicates each packet for every receiver, or a relay does.
//!
//! * [`config`] - the options, with the reason of each default.
//! * `sender`, `sender_control`, `sender_transmit` - a stream to a group: state and timers, control
//!   packets received, packets sent.
//! * `members`, `buckets` - the two ways to track a group. `admission` - who may join; `repair_limit` -
//!   how much one member may slow the others.
//! * `receiver`, `receiver_control` - a stream from a sender: data received, control packets sent.
//! * [`relay`] - repeats a group's packets for hosts that multicast does not reach.
//! * `amplification_limit`, `source_share`, `room` - what strangers get: answers no longer than their
//!   packets, and a share of the contexts.
//! * `quarantine` - keys of streams that ended.
//! * [`introspection`] - the state of streams, for users to inspect.
//! * `retransmission_log`, `replication`, `endpoint_state` - ranges that were retransmitted, copies for
//!   each receiver, the state that all streams share.
//!
//! What published descriptions leave open is decided in `docs/decisions/0009-xtp-multicast.md`, for 3.x in
//! `0122-xtp-3x-groups.md`.

mod admission;
mod amplification_limit;
mod buckets;
pub mod config;
mod dispatch;
mod endpoint_state;
pub mod introspection;
mod members;
mod quarantine;
mod receiver;
mod receiver_control;
pub mod relay;
mod repair_limit;
mod replication;
mod retransmission_log;
mod room;
mod sender;
mod sender_control;
mod sender_transmit;
mod source_share;

pub use admission::{AdmittedHost, JoinSecret};
pub use config::{BucketConfig, Config, Holdings, LateJoin, Member, MemberState, Reliability};

use crate::codec::Codec;
use crate::numbers::Key;
use crate::pdu::Rejects;
use endpoint_state::GroupEndpointState;
use engine::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries, Event,
    Instant, Layout, Note, NoteFields, PathFault, Properties, Protocol, Received, SendFlags,
    Status, TimerTable,
};
use quarantine::Quarantine;
use receiver::Receiver;
use replication::Replicator;
use sender::{GroupTracking, Sender};
pub(crate) use source_share::SourcePrefix;
use source_share::SourceShares;
use std::collections::{BTreeMap, VecDeque};

/// Routers that a packet of 3.x may pass: none, as no intermediate system forwards groups.
const HOP_LIMIT: u8 = 1;

/// A stream of this endpoint.
#[derive(Debug)]
enum GroupContext {
    Sender(Box<Sender>),
    Receiver(Box<Receiver>),
}

/// A multicast endpoint: it sends to and receives from any number of groups over one wire.
#[derive(Debug)]
pub struct GroupEndpoint {
    ep: GroupEndpointState,
    contexts: BTreeMap<AssociationId, GroupContext>,
    /// Contexts of streams this endpoint receives, by the sender and its key.
    receivers_by_sender: BTreeMap<(Address, Key), AssociationId>,
    /// The last hit in `receivers_by_sender`: packets come in trains.
    last_lookup: Option<((Address, Key), AssociationId)>,
    /// The same contexts by the sender and this endpoint's key, which JCNTL carries.
    receivers_by_key: BTreeMap<(Address, Key), AssociationId>,
    /// The same contexts by the source prefix of their senders.
    shares: SourceShares<AssociationId>,
    quarantine: Quarantine,
    /// Contexts that may have something to send, in round-robin order.
    ready: VecDeque<AssociationId>,
    timers: TimerTable<AssociationId>,
    replicator: Replicator,
    /// Member reports of streams that ended.
    final_reports: VecDeque<(AssociationId, Vec<Member>)>,
    /// Control packets damped by contexts that ended.
    damped_by_ended: u64,
    last_id: u32,
}

impl GroupEndpoint {
    /// An endpoint without streams. It accepts none until [`Associations::listen`] is called.
    ///
    /// # Panics
    ///
    /// When `packet_len` is below 128 octets or above 65,535.
    pub fn new(config: Config) -> GroupEndpoint {
        let range = 128..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        let codec = Codec::new(config.version, config.packet_len, HOP_LIMIT);
        let config = config.fit_to(codec);
        GroupEndpoint {
            shares: SourceShares::new(config.associations_max),
            ep: GroupEndpointState::new(config, codec),
            contexts: BTreeMap::new(),
            receivers_by_sender: BTreeMap::new(),
            last_lookup: None,
            receivers_by_key: BTreeMap::new(),
            quarantine: Quarantine::new(),
            ready: VecDeque::new(),
            timers: TimerTable::new(),
            replicator: Replicator::default(),
            final_reports: VecDeque::new(),
            damped_by_ended: 0,
            last_id: 0,
        }
    }

    /// The members of the group of stream `id`, departed members first, then the present ones by
    /// address. Empty for a group that is not counted. The reports of the last few streams are
    /// kept after they end.
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

    /// The oldest pending member event: a member joined, left, lost bytes or fell silent.
    pub fn poll_member_event(&mut self) -> Option<(AssociationId, Member)> {
        self.ep.member_events.pop_front()
    }

    /// Removes a member from the group of stream `id` and sends it END; the others go on. For a
    /// receiver whose user is too slow for the rest.
    pub fn expel(&mut self, now: Instant, id: AssociationId, address: Address) {
        if let Some(GroupContext::Sender(sender)) = self.contexts.get_mut(&id) {
            sender.expel(&mut self.ep, now, address);
        }
        self.update_timers_and_queue(now, id);
    }

    /// Control packets this endpoint sent as a receiver, and those that damping suppressed.
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

    /// Dropped packets, by reason.
    pub fn rejects(&self) -> Rejects {
        self.ep.rejects
    }

    /// What the endpoint holds right now. Walks all contexts.
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

    /// Opens a stream to the group at address `to`.
    fn open_stream(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        let id = self
            .free_id()
            .map_err(|_| CommandError::TooManyAssociations)?;
        let key = self.ep.grant_key(id);
        let sender = Sender::new(id, key, to, &mut self.ep, now);
        if sender.connected {
            self.ep.events.push_back(Event::Connected(id));
        }
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
            notes: NoteFields::NONE,
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
        self.quarantine.handle_timeout(now);
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
        engine::time::earlier(self.timers.deadline(), self.quarantine.deadline())
    }

    fn counters(&self) -> Counters {
        self.ep.counters
    }
}

impl Associations for GroupEndpoint {
    fn layout(&self, _id: Option<AssociationId>) -> Layout {
        Layout {
            header: self.ep.config.version.overhead(),
            payload: self.ep.payload_max() as usize,
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
                sender.queue.message_ends.push(end);
            }
            if flags.push || end > sender.queue.submitted {
                sender.submit(&self.ep, end, flags.push);
                self.update_timers_and_queue(now, id);
            }
        }
        if let (true, Some(GroupContext::Sender(sender))) =
            (flags.request_ack, self.contexts.get_mut(&id))
        {
            sender.request_ack();
            self.update_timers_and_queue(now, id);
        }
        if flags.fin {
            self.close(now, id, Close::Graceful);
        }
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
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
                sender.queue.pushed = sender.queue.submitted;
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

    fn receive_window(&self) -> u64 {
        self.ep.config.window
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        if let Some(GroupContext::Receiver(receiver)) = self.contexts.get_mut(&id) {
            receiver.rx.is_full = is_full;
        }
    }

    /// Members lie behind many routes: the configuration says how long packets are.
    fn set_path_mtu(&mut self, _: Instant, _: AssociationId, _: usize) {}

    /// Streams have no priorities.
    fn sort_by_priority(&self, _ids: &mut [AssociationId]) {}
}
