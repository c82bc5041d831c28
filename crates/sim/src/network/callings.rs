//! Calls with more than one user that answers: groups, requests that are passed on, and what a stream
//! says about its calls.

use super::calls::entity;
use super::{Network, ScheduledEvent};
use crate::flow::Target;
use crate::frames::MessageTag;
use crate::host::{Process, address, group_address};
use crate::node::Node;
use crate::traffic::{Calling, Receivers, Service};
use engine::{
    Address, CallFlags, CallNote, CommandError, EntityId, Note, Reliability, TransactionId,
};

/// The flag of groups in an entity identifier (RFC 1045 section IV.1).
const GROUP_FLAG: u64 = 1 << 62;

/// Patterns whose groups differ: a discriminator's part that is neither a client's number nor that of an
/// endpoint's own entities.
const PATTERNS: u64 = 0xf000;

/// The group that a station calls in a pattern.
pub(super) fn group(from: usize, source: usize) -> EntityId {
    EntityId(GROUP_FLAG | (source as u64 % PATTERNS) << 32 | from as u64)
}

/// The address of what a flow's calls are to. Each pattern's group has one of its own.
pub(super) fn called_address(to: Target, source: usize) -> Address {
    match to {
        Target::Station(_) => address(to),
        Target::All => group_address(source),
    }
}

/// The entity, or group, that a flow's calls are to.
pub(super) fn called(from: usize, to: Target, source: usize) -> EntityId {
    match to {
        Target::Station(station) => entity(station),
        Target::All => group(from, source),
    }
}

/// What a call of a pattern asks for. Streams are numbered as their patterns are: 0 is none.
pub(super) fn call_note(service: &Service, source: usize, ends_run: bool) -> Note {
    let retries = service.retries;
    let (stream, flags) = match service.calling {
        Calling::Single | Calling::Forwarded(_) | Calling::Datagrams(_) => (0, CallFlags::NONE),
        Calling::Stream(_) => {
            let number = (source % usize::from(u16::MAX)) as u16 + 1;
            let flags = CallFlags::NONE.with_if(ends_run, CallFlags::END_OF_STREAM);
            (number, flags)
        }
        Calling::Collected { .. } => (0, CallFlags::MANY_REPLIES),
    };
    let (tries, reliability) = match service.calling {
        Calling::Datagrams(copies) => (copies, Reliability::Retransmissions(0)),
        _ => (retries.tries, Reliability::default()),
    };
    let call = CallNote {
        flags: flags.with_if(retries.no_repair, CallFlags::NO_REPAIR),
        tries,
        spacing_us: retries.spacing_us,
        ..CallNote::default()
    };
    Note {
        stream,
        reliability,
        call,
        ..Note::default()
    }
}

impl Network {
    /// The stations whose users get calls of a pattern from a station, in order.
    pub(super) fn users_of_calls(&self, from: usize, to: Target, source: usize) -> Vec<usize> {
        let traffic = &self.sources[source].traffic;
        let mut users = match (to, &traffic.receivers, traffic.service.calling) {
            (Target::Station(station), _, Calling::Forwarded(last)) => vec![station, last],
            (Target::Station(station), ..) => vec![station],
            (Target::All, Receivers::Group(members), _) => members.clone(),
            (Target::All, ..) => (0..self.hosts.len()).collect(),
        };
        users.sort_unstable();
        users.dedup();
        if to == Target::All {
            users.retain(|&station| station != from);
        }
        users
    }

    /// Whether a station's adapter passes a packet by: it is for a group that no user of the station is
    /// a member of.
    pub(super) fn filters_out(&self, station: usize, tag: u64) -> bool {
        let frame = self.frames.get(tag);
        let Some(source) = frame
            .group
            .filter(|_| self.hosts[station].cost.filters_groups)
        else {
            return false;
        };
        match &self.sources[source].traffic.receivers {
            Receivers::Group(members) => !members.contains(&station),
            Receivers::One(_) | Receivers::All => false,
        }
    }

    /// Makes the receivers of a pattern members of the groups that its senders call.
    pub(super) fn join_members(&mut self, source: usize) -> Result<(), CommandError> {
        let is_grouped = matches!(
            self.sources[source].traffic.receivers,
            Receivers::All | Receivers::Group(_)
        );
        let senders = self.sources[source].traffic.senders.clone();
        for from in senders.into_iter().filter(|_| is_grouped) {
            for station in self.users_of_calls(from, Target::All, source) {
                if let Some(engine) = self.hosts[station].engine.transactions_mut() {
                    engine.set_member(group(from, source), entity(station), true)?;
                }
            }
        }
        Ok(())
    }

    /// A station restarts with this engine: it joins the groups again that it was in.
    pub(super) fn join_groups(&self, engine: &mut Node, station: usize) {
        let Some(engine) = engine.transactions_mut() else {
            return;
        };
        let flows = self.flows.iter().filter(|flow| flow.to == Target::All);
        for flow in flows.filter(|flow| flow.receiver_index(station).is_some()) {
            // It fitted before.
            let _ = engine.set_member(group(flow.from, flow.source), entity(station), true);
        }
    }

    /// The index among the receivers of a flow of the one that is to answer its calls and is `from`.
    pub(super) fn answerer(&self, flow: usize, from: EntityId) -> Option<usize> {
        let station = usize::try_from(from.0).ok()?;
        if let Calling::Forwarded(last) = self.service(flow).calling
            && last != station
        {
            return None;
        }
        self.flows[flow].receiver_index(station)
    }

    /// The called user passes a request on, without another copy. One that the engine does not pass on is
    /// refused.
    pub(super) fn forward(
        &mut self,
        station: usize,
        transaction: TransactionId,
        tag: MessageTag,
        to: usize,
    ) {
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        let (Some(engine), Some(messages)) = (host.engine.transactions_mut(), &mut host.messages)
        else {
            return;
        };
        engine.locate(entity(to), address(Target::Station(to)));
        let request = messages.keep(tag);
        let passed = engine.forward(now, transaction, entity(to), request);
        if passed.is_err() {
            messages.outgoing.remove(&request.0);
            engine.abandon(now, transaction);
        }
    }

    /// A call has begun: replies to it are collected for a time, if they are.
    pub(super) fn begin_collecting(
        &mut self,
        station: usize,
        transaction: TransactionId,
        calling: Calling,
    ) {
        if let Calling::Collected { time_ps, .. } = calling {
            let done = ScheduledEvent::CollectingDone {
                station,
                transaction,
            };
            self.queue.push(self.now_ps + time_ps, 1, done);
        }
    }

    /// Time is over for replies to a call; false if it was over, or its station crashed.
    pub(super) fn finish_collecting(&mut self, station: usize, transaction: TransactionId) -> bool {
        let messages = self.hosts[station].messages.as_ref();
        let request = messages.and_then(|messages| messages.called.get(&transaction));
        let Some(&request) = request else {
            return false;
        };
        if self.flows[request.flow].end_collecting(self.now_ps, request) {
            self.note_settled(request.flow);
        } else {
            self.give_up_call(request);
        }
        self.stop_collecting(station, transaction, request.flow);
        self.drain_events(station, self.now_ps);
        self.hosts[station].signal(Process::Sender);
        self.run_processes(station);
        true
    }

    /// No more replies are wanted.
    pub(super) fn stop_collecting(
        &mut self,
        station: usize,
        transaction: TransactionId,
        flow: usize,
    ) {
        if !matches!(self.service(flow).calling, Calling::Collected { .. }) {
            return;
        }
        let host = &mut self.hosts[station];
        let now = host.local_time(self.now_ps);
        if let Some(engine) = host.engine.transactions_mut() {
            engine.abandon(now, transaction);
        }
    }
}
