//! What an endpoint holds, for its user: entities, calls, and records of clients.

use crate::client::Current;
use crate::endpoint::Vmtp;
use crate::server::{Record, State};
use crate::shared::NEVER;
use core::time::Duration;
use engine::{Address, EntityId, Instant};

/// What an endpoint holds: the first of each kind, and how many there are.
#[derive(Clone, Debug, Default)]
pub struct VmtpView {
    /// Entities, by their identifiers.
    pub entities: Vec<EntityView>,
    /// How many there are.
    pub entities_total: usize,
    /// Calls that are not over.
    pub calls: Vec<CallView>,
    /// Records of clients.
    pub records: Vec<RecordView>,
    /// How many there are.
    pub records_total: usize,
    /// Transactions that the host knows of.
    pub transactions: usize,
}

/// An entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityView {
    /// Its identifier.
    pub entity: EntityId,
    /// Clients that it has called through.
    pub clients: u16,
    /// Those of them that wait for a Response.
    pub calling: u16,
    /// Groups that it is a member of.
    pub groups: Vec<EntityId>,
}

/// A call that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallView {
    /// The client.
    pub client: EntityId,
    /// Who is called.
    pub server: EntityId,
    /// Where it is.
    pub peer: Address,
    /// The number of its first packet group.
    pub transaction: u32,
    /// awaiting-response or receiving-response.
    pub state: &'static str,
    /// Packet groups of the Request.
    pub groups: u16,
    /// Times it was sent again without an answer.
    pub retries: u32,
    /// Until its timer expires.
    pub timeout: Option<Duration>,
}

/// A client's last transaction with an entity of this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordView {
    /// The client.
    pub client: EntityId,
    /// Who answers it.
    pub server: EntityId,
    /// Where the client is.
    pub peer: Address,
    /// The number of its first packet group.
    pub transaction: u32,
    /// receiving-request, awaiting-probe, processing, forwarded, responded or over.
    pub state: &'static str,
    /// Until its timer expires.
    pub timeout: Option<Duration>,
}

impl Vmtp {
    /// What the endpoint holds: up to `max` of each kind.
    pub fn view(&self, now: Instant, max: usize) -> VmtpView {
        VmtpView {
            entities: self.entity_views(max),
            entities_total: self.entities.len(),
            calls: self.call_views(now, max),
            records: self
                .records
                .values()
                .take(max)
                .map(|record| record_view(now, record))
                .collect(),
            records_total: self.records.len(),
            transactions: self.transactions.len(),
        }
    }

    fn entity_views(&self, max: usize) -> Vec<EntityView> {
        let views = self.entities.iter().take(max).map(|(number, entity)| {
            let groups = self.members.iter();
            let groups = groups.filter(|(_, members)| members.contains(number));
            EntityView {
                entity: self.sh.config.identifier(*number),
                clients: entity.clients,
                calling: entity.clients - entity.idle.len().min(entity.clients.into()) as u16,
                groups: groups
                    .map(|(group, _)| self.sh.config.identifier(*group))
                    .collect(),
            }
        });
        views.collect()
    }

    fn call_views(&self, now: Instant, max: usize) -> Vec<CallView> {
        let calls = self.clients.sorted().into_iter();
        let calls = calls.filter_map(|(_, client)| match &client.current {
            Current::Call(call) => Some(call),
            _ => None,
        });
        let views = calls.take(max).map(|call| CallView {
            client: call.client,
            server: call.called.server,
            peer: call.called.path.remote,
            transaction: call.first,
            state: match call.reply {
                None => "awaiting-response",
                Some(_) => "receiving-response",
            },
            groups: call.request.groups(),
            retries: call.request.retries,
            timeout: (call.timeout < NEVER).then(|| call.timeout.since(now)),
        });
        views.collect()
    }
}

fn record_view(now: Instant, record: &Record) -> RecordView {
    RecordView {
        client: record.client,
        server: record.answerer,
        peer: record.path.remote,
        transaction: record.first,
        state: match record.state {
            State::Receiving(_) => "receiving-request",
            State::AwaitingProbe(_) => "awaiting-probe",
            State::Queued(_) => "queued",
            State::Processing => "processing",
            State::Forwarded(_) => "forwarded",
            State::Responding(_) => "responded",
            State::Over(..) => "over",
        },
        timeout: (record.timeout < NEVER).then(|| record.timeout.since(now)),
    }
}
