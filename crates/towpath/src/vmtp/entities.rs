//! Reports on the entities, calls and clients of live endpoints, for their user: as the contexts of
//! XTP ([`crate::xtp::contexts`]), in the same private directory.
//!
//! An endpoint serves reports when its program asks for it ([`Endpoint::serve_entities`]), or when
//! TOWPATH_CONTEXTS=on is in its environment.

use super::Endpoint;
use crate::xtp::contexts::{self, Queried, ReportSocket};
use driver::transactions::TransactionObserver;
use engine::{Address, Instant};
use engine_vmtp::Vmtp;
use engine_vmtp::view::{CallView, EntityView, RecordView, VmtpView};
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::PoisonError;
use wire::trace::Traced;
use wire_udp::UdpWire;

/// Entities, calls and records in a report, at most, of each: with 200 octets each 300 kB.
const LISTED_MAX: usize = 500;

/// An endpoint. Counters are since it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntitiesReport {
    /// Its PID.
    pub process: u32,
    /// Its address.
    pub address: String,
    /// Time since it was created.
    pub age_ns: u64,
    /// Its entities, listed here or not.
    pub entities_total: usize,
    /// The first of them.
    pub entities: Vec<EntityReport>,
    /// The first of its calls that are not over.
    pub calls: Vec<TransactionReport>,
    /// Records of clients, listed here or not.
    pub records_total: usize,
    /// The first of them.
    pub records: Vec<TransactionReport>,
    /// Packets that it built.
    pub packets_built: u64,
    /// Packets that it parsed.
    pub packets_parsed: u64,
    /// Packets that it dropped.
    pub packets_discarded: u64,
    /// Packets that it sent again.
    pub retransmissions: u64,
}

/// An entity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityReport {
    /// Its identifier, hexadecimal.
    pub entity: String,
    /// Clients that it has called through.
    pub clients: u16,
    /// Those of them that wait for a Response.
    pub calling: u16,
    /// Groups that it is a member of.
    pub groups: Vec<String>,
}

/// A transaction, at either end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransactionReport {
    /// Its client, hexadecimal.
    pub client: String,
    /// Its server, hexadecimal.
    pub server: String,
    /// The address of the other end.
    pub peer: String,
    /// Its number.
    pub transaction: u32,
    /// How far it is.
    pub state: String,
    /// Until its timer expires, nanoseconds.
    pub timeout_ns: Option<u64>,
}

impl EntitiesReport {
    fn new(address: &str, now: Instant, view: VmtpView, counters: engine::Counters) -> Self {
        EntitiesReport {
            process: std::process::id(),
            address: address.to_owned(),
            age_ns: now.as_nanos(),
            entities_total: view.entities_total,
            entities: view.entities.iter().map(entity_report).collect(),
            calls: view.calls.iter().map(call_report).collect(),
            records_total: view.records_total,
            records: view.records.iter().map(record_report).collect(),
            packets_built: counters.packets_built,
            packets_parsed: counters.packets_parsed,
            packets_discarded: counters.packets_discarded,
            retransmissions: counters.retransmissions,
        }
    }
}

fn entity_report(view: &EntityView) -> EntityReport {
    EntityReport {
        entity: hex(view.entity),
        clients: view.clients,
        calling: view.calling,
        groups: view.groups.iter().map(|group| hex(*group)).collect(),
    }
}

fn call_report(view: &CallView) -> TransactionReport {
    TransactionReport {
        client: hex(view.client),
        server: hex(view.server),
        peer: address_text(view.peer),
        transaction: view.transaction,
        state: view.state.to_owned(),
        timeout_ns: view.timeout.map(|timeout| timeout.as_nanos() as u64),
    }
}

fn record_report(view: &RecordView) -> TransactionReport {
    TransactionReport {
        client: hex(view.client),
        server: hex(view.server),
        peer: address_text(view.peer),
        transaction: view.transaction,
        state: view.state.to_owned(),
        timeout_ns: view.timeout.map(|timeout| timeout.as_nanos() as u64),
    }
}

fn hex(entity: engine::EntityId) -> String {
    format!("{:016x}", entity.0)
}

fn address_text(address: Address) -> String {
    match address {
        Address::Socket(address) => address.to_string(),
        other => format!("{other:?}"),
    }
}

/// What looks at an endpoint of this module.
pub(super) type Observer = TransactionObserver<Vmtp, Traced<UdpWire>>;

/// Serves reports of what `observer` sees.
pub(super) fn serve(observer: Observer, address: String) -> io::Result<ReportSocket> {
    contexts::serve_reports("vmtp", move || {
        let report = observer.look(|engine, now| {
            let counters = engine::Protocol::counters(engine);
            EntitiesReport::new(&address, now, engine.view(now, LISTED_MAX), counters)
        })?;
        Some(serde_json::to_vec(&report).unwrap_or_default())
    })
}

impl Endpoint {
    /// Serves reports until the endpoint is dropped; the path of the socket.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the directory is not private to the user.
    pub fn serve_entities(&self) -> io::Result<PathBuf> {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(socket) = &*reports {
            return Ok(socket.path().to_owned());
        }
        let socket = serve(self.inner.observer(), self.local.to_string())?;
        let path = socket.path().to_owned();
        *reports = Some(socket);
        Ok(path)
    }
}

/// Queries all endpoints of this user, or those of one process, ordered by PID and number.
///
/// # Errors
///
/// `PermissionDenied` if the directory is not private to the user.
pub fn query_all(process: Option<u32>) -> io::Result<Vec<Queried<EntitiesReport>>> {
    contexts::query_sockets("vmtp", process)
}

/// Queries the endpoint whose socket is at `path`.
///
/// # Errors
///
/// `ConnectionRefused` when the socket is stale, `InvalidData` for an invalid report.
pub fn query(path: &Path) -> io::Result<EntitiesReport> {
    contexts::query_report(path)
}
