//! What an endpoint tells.

use super::server::{EndpointIdentity, Snapshot};
use engine::{Address, Counters};
use engine_xtp::pdu::{Reject, Rejects};
use engine_xtp::{AssociationView, Holdings, RateLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An endpoint. Counts are since it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Number of its process.
    pub process: u32,
    /// Name of its program.
    pub program: String,
    /// Where it is.
    pub address: String,
    /// The revision of XTP it speaks.
    pub dialect: String,
    /// How long it has been there, ns.
    pub age_ns: u64,
    /// Associations it has, told here or not.
    pub associations_total: usize,
    /// The first of them.
    pub associations: Vec<AssociationReport>,
    /// What it holds.
    pub holdings: BTreeMap<String, u64>,
    /// The work it has done.
    pub counters: BTreeMap<String, u64>,
    /// Packets it dropped, by reason.
    pub rejects: BTreeMap<String, u64>,
}

/// An association. Byte numbers begin with 0 in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationReport {
    /// Its number within the endpoint.
    pub circuit: u32,
    /// The other end.
    pub peer: String,
    /// This side opened it.
    pub initiator: bool,
    /// opening, active, synchronizing or closing.
    pub state: String,
    /// Close bits that are set: wclose or rclose, sent or received.
    pub close: Vec<String>,
    /// What its initiator asked for.
    pub service: String,
    /// The own key, hexadecimal.
    pub key: String,
    /// The peer's key, once known.
    pub remote_key: Option<String>,
    /// The own value of the route; 0 for none.
    pub route: u32,
    /// The priority, if it has one.
    pub sort: Option<u16>,
    /// The user's bytes end here, so far.
    pub send_end: u64,
    /// The next byte to send for the first time.
    pub send_next: u64,
    /// Everything below was acknowledged.
    pub send_acknowledged: u64,
    /// The peer takes bytes below this.
    pub send_allocation: u64,
    /// Bytes that were lost and are yet to be sent again.
    pub send_lost_bytes: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Bytes the congestion controller lets be on their way.
    pub congestion_window: Option<u64>,
    /// The rate it keeps to, bytes a second.
    pub rate_bytes_per_s: Option<u32>,
    /// The last sync used.
    pub sync: u32,
    /// Status requests that were not answered yet.
    pub requests: usize,
    /// Everything below arrived.
    pub receive_next: u64,
    /// Bytes that the user has not taken.
    pub unread_bytes: u64,
    /// Bytes that came before their turn and are kept.
    pub held_bytes: u64,
    /// The peer was told that it may send bytes below this.
    pub receive_allocation: u64,
    /// The smoothed round trip, once measured, ns.
    pub rtt_ns: Option<u64>,
    /// How much it varies, ns.
    pub rtt_variation_ns: u64,
    /// Since when nothing was heard of the peer, ns.
    pub silence_ns: u64,
    /// Timers that run, and the time each has left, ns.
    pub timers_ns: BTreeMap<String, u64>,
}

impl EndpointReport {
    pub(super) fn new(identity: &EndpointIdentity, snapshot: Snapshot) -> EndpointReport {
        EndpointReport {
            process: std::process::id(),
            program: program(),
            address: identity.address.clone(),
            dialect: identity.dialect.clone(),
            age_ns: snapshot.now.as_nanos(),
            associations_total: snapshot.holdings.associations,
            associations: snapshot
                .associations
                .iter()
                .map(association_report)
                .collect(),
            holdings: holdings_map(&snapshot.holdings),
            counters: counters_map(&snapshot.counters),
            rejects: rejects_map(&snapshot.rejects),
        }
    }
}

fn program() -> String {
    let path = std::env::current_exe().ok();
    let name = path.as_ref().and_then(|path| path.file_name());
    name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn association_report(view: &AssociationView) -> AssociationReport {
    let bits = [
        ("wclose sent", view.close.wclose_sent),
        ("rclose received", view.close.rclose_received),
        ("wclose received", view.close.wclose_received),
        ("rclose sent", view.close.rclose_sent),
    ];
    let set = bits.into_iter().filter(|(_, set)| *set);
    let timers = view.timers.iter();
    let timers = timers.map(|(name, left)| ((*name).to_owned(), left.as_nanos() as u64));
    let (sending, receiving) = (&view.sending, &view.receiving);
    let rate = |limit: RateLimit| limit.rate_bytes_per_s;
    AssociationReport {
        circuit: view.association.0,
        peer: address(view.peer),
        initiator: view.initiator,
        state: view.state.name().to_owned(),
        close: set.map(|(name, _)| name.to_owned()).collect(),
        service: view.service.name().to_owned(),
        key: format!("{:016x}", view.key),
        remote_key: view.remote_key.map(|key| format!("{key:016x}")),
        route: view.route,
        sort: view.sort,
        send_end: sending.end,
        send_next: sending.next,
        send_acknowledged: sending.acknowledged,
        send_allocation: sending.allocation,
        send_lost_bytes: sending.lost_bytes,
        retransmissions: sending.retransmissions,
        congestion_window: sending.congestion_window,
        rate_bytes_per_s: sending.rate.map(rate),
        sync: sending.sync,
        requests: sending.outstanding_requests,
        receive_next: receiving.next,
        unread_bytes: receiving.unread_bytes,
        held_bytes: receiving.reassembly_bytes,
        receive_allocation: receiving.advertised_alloc,
        rtt_ns: view.rtt.map(|rtt| rtt.as_nanos() as u64),
        rtt_variation_ns: view.rtt_variation.as_nanos() as u64,
        silence_ns: view.since_last_received.as_nanos() as u64,
        timers_ns: timers.collect(),
    }
}

/// An address as people write it.
pub(crate) fn address(address: Address) -> String {
    match address {
        Address::Socket(socket) if socket.port() == 0 => socket.ip().to_string(),
        Address::Socket(socket) => socket.to_string(),
        Address::Station(station) => format!("station {station}"),
        Address::Ether(octets) => octets.map(|octet| format!("{octet:02x}")).join(":"),
    }
}

fn to_map<const N: usize>(pairs: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

fn holdings_map(holdings: &Holdings) -> BTreeMap<String, u64> {
    to_map([
        ("unproven", holdings.unvalidated as u64),
        ("quarantined", holdings.quarantined as u64),
        ("held_bytes", holdings.reassembly_bytes as u64),
        ("timers", holdings.timers as u64),
        ("routes", holdings.routes as u64),
        ("waiting", holdings.queued as u64),
    ])
}

fn counters_map(counters: &Counters) -> BTreeMap<String, u64> {
    to_map([
        ("packets_sent", counters.packets_built),
        ("packets_received", counters.packets_parsed),
        ("packets_discarded", counters.packets_discarded),
        ("bytes_sent", counters.bytes_sent),
        ("bytes_delivered", counters.bytes_delivered),
        ("bytes_lost", counters.bytes_lost),
        ("bytes_copied", counters.bytes_copied),
        ("bytes_summed", counters.bytes_summed),
        ("retransmissions", counters.retransmissions),
        ("timers_set", counters.timers_set),
    ])
}

fn rejects_map(rejects: &Rejects) -> BTreeMap<String, u64> {
    let counts = Reject::ALL.iter();
    let counts = counts.map(|reject| (reject.name().to_owned(), rejects.count(*reject)));
    counts.filter(|(_, count)| *count > 0).collect()
}
