//! Reports on the associations of live endpoints, for their user: as the contexts of XTP
//! ([`crate::xtp::contexts`]), in the same private directory.

use super::endpoint::{Endpoint, EndpointWire};
use super::own_addresses::OwnAddresses;
use crate::xtp::contexts::{self, Queried, ReportSocket};
use driver::EndpointObserver;
use engine::{Counters, Instant, Protocol};
use engine_sctp::{AssociationView, DiscardReason, Discards, PathStatus, PathSummary, Sctp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Associations of a report: 500 with eight paths of 200 octets each are 800 kB.
const LISTED_MAX: usize = 500;

/// An endpoint. Counters are since it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationsReport {
    /// Its PID.
    pub process: u32,
    /// Its addresses.
    pub addresses: Vec<String>,
    /// Time since it was created.
    pub age_ns: u64,
    /// Associations, listed here or not.
    pub associations_total: usize,
    /// The first associations.
    pub associations: Vec<AssociationReport>,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
    /// Packets and chunks dropped, by reason.
    pub discards: BTreeMap<String, u64>,
}

/// An association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationReport {
    /// Its number within the endpoint.
    pub association: u32,
    /// Its state (RFC 9260 section 4), such as established.
    pub state: String,
    /// Whether this side opened it.
    pub opened_here: bool,
    /// The own port of SCTP.
    pub local_port: u16,
    /// The peer's port of SCTP.
    pub peer_port: u16,
    /// The own verification tag, hexadecimal.
    pub local_tag: String,
    /// The peer's, hexadecimal.
    pub peer_tag: String,
    /// Streams to send on.
    pub outbound_streams: u16,
    /// User bytes sent that the peer has not acknowledged.
    pub unacknowledged_bytes: u64,
    /// Octets that the own window allows the peer now.
    pub receive_window: u32,
    /// Timeouts in a row.
    pub errors: u32,
    /// Its paths.
    pub paths: Vec<AssociationPath>,
}

/// A path of an association.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationPath {
    /// This end's address.
    pub local: String,
    /// The peer's.
    pub remote: String,
    /// active, potentially failed, inactive or unconfirmed.
    pub state: String,
    /// It is preferred for data.
    pub is_primary: bool,
    /// Data leave by it now.
    pub carries_data: bool,
    /// Smoothed RTT; zero before the first sample.
    pub srtt_ns: u64,
    /// Retransmission timeout.
    pub rto_ns: u64,
    /// Octets of the longest SCTP packet that it is known to carry (PLPMTU).
    #[serde(default)]
    pub path_mtu: usize,
    /// Octets of chunks that may be in flight.
    pub congestion_window: u64,
    /// Octets of chunks in flight.
    pub flight: u64,
    /// Timeouts in a row.
    pub errors: u32,
}

/// Every reason for which a packet is dropped, and its name here.
const REASONS: [(DiscardReason, &str); 10] = [
    (DiscardReason::Malformed, "malformed"),
    (DiscardReason::Checksum, "checksum"),
    (DiscardReason::Tag, "tag"),
    (DiscardReason::OutOfTheBlue, "out_of_the_blue"),
    (DiscardReason::Cookie, "cookie"),
    (DiscardReason::State, "state"),
    (DiscardReason::Window, "window"),
    (DiscardReason::Sack, "sack"),
    (DiscardReason::Authentication, "authentication"),
    (DiscardReason::Full, "full"),
];

impl AssociationsReport {
    fn new(addresses: &OwnAddresses, engine: &Sctp, now: Instant) -> AssociationsReport {
        let views = engine.association_views(LISTED_MAX);
        let present = addresses.present();
        AssociationsReport {
            process: std::process::id(),
            addresses: present.iter().map(SocketAddr::to_string).collect(),
            age_ns: now.as_nanos(),
            associations_total: engine.associations_len(),
            associations: views
                .iter()
                .map(|view| association_report(addresses, view))
                .collect(),
            counters: counters_map(&engine.counters()),
            discards: discards_map(&engine.discards()),
        }
    }
}

fn association_report(addresses: &OwnAddresses, view: &AssociationView) -> AssociationReport {
    let paths = view.paths.iter();
    AssociationReport {
        association: view.association.0,
        state: view.state.to_owned(),
        opened_here: view.opened_here,
        local_port: view.ports.0.0,
        peer_port: view.ports.1.0,
        local_tag: format!("{:08x}", view.tags.0.0),
        peer_tag: format!("{:08x}", view.tags.1.0),
        outbound_streams: view.outbound_streams,
        unacknowledged_bytes: view.unacknowledged_bytes,
        receive_window: view.receive_window,
        errors: view.errors,
        paths: paths.map(|path| path_report(addresses, path)).collect(),
    }
}

fn path_report(addresses: &OwnAddresses, path: &PathSummary) -> AssociationPath {
    AssociationPath {
        local: addresses.at(path.path.local).to_string(),
        remote: contexts::report::address(path.path.remote),
        state: path_state(path.status).to_owned(),
        is_primary: path.is_primary,
        carries_data: path.carries_data,
        srtt_ns: path.srtt.as_nanos() as u64,
        rto_ns: path.rto.as_nanos() as u64,
        path_mtu: path.path_mtu,
        congestion_window: path.congestion_window,
        flight: path.flight,
        errors: path.errors,
    }
}

/// The state of a path in words.
pub fn path_state(status: PathStatus) -> &'static str {
    match status {
        PathStatus::Active => "active",
        PathStatus::PotentiallyFailed => "potentially failed",
        PathStatus::Inactive => "inactive",
        PathStatus::Unconfirmed => "unconfirmed",
    }
}

fn counters_map(counters: &Counters) -> BTreeMap<String, u64> {
    BTreeMap::from([
        ("packets_sent".to_owned(), counters.packets_built),
        ("packets_received".to_owned(), counters.packets_parsed),
        ("packets_discarded".to_owned(), counters.packets_discarded),
        ("retransmissions".to_owned(), counters.retransmissions),
    ])
}

fn discards_map(discards: &Discards) -> BTreeMap<String, u64> {
    let counts = REASONS.iter();
    let counts = counts.map(|(reason, name)| ((*name).to_owned(), discards.count(*reason)));
    counts.filter(|(_, count)| *count > 0).collect()
}

/// Serves reports of what `observer` sees, at the endpoint with `addresses`.
fn serve(
    observer: EndpointObserver<Sctp, EndpointWire>,
    addresses: Arc<OwnAddresses>,
) -> io::Result<ReportSocket> {
    contexts::serve_reports("sctp", move || {
        let report = observer
            .with_pump(|pump, now| AssociationsReport::new(&addresses, pump.engine(), now))?;
        Some(serde_json::to_vec(&report).unwrap_or_default())
    })
}

impl Endpoint {
    /// Serves reports until the endpoint and its associations are dropped; the path of the socket.
    ///
    /// # Errors
    ///
    /// `PermissionDenied` if the directory is not private to the user.
    pub fn serve_contexts(&self) -> io::Result<PathBuf> {
        let socket = serve(self.inner.observer(), Arc::clone(&self.addresses))?;
        let path = socket.path().to_owned();
        self.inner.keep(Box::new(socket));
        Ok(path)
    }
}

/// Queries all endpoints of this user, or those of one process, ordered by PID and number.
///
/// # Errors
///
/// `PermissionDenied` if the directory is not private to the user.
pub fn query_all(process: Option<u32>) -> io::Result<Vec<Queried<AssociationsReport>>> {
    contexts::query_sockets("sctp", process)
}

/// Queries the endpoint whose socket is at `path`.
///
/// # Errors
///
/// `ConnectionRefused` when the socket is stale, `InvalidData` for an invalid report.
pub fn query(path: &Path) -> io::Result<AssociationsReport> {
    contexts::query_report(path)
}
