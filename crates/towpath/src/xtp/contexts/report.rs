//! The report of an endpoint. Field names are the JSON keys.

use super::group_report::{self, GroupReceiverReport, GroupSenderReport};
use super::server::{EndpointIdentity, Snapshot};
use engine::{Address, Counters};
use engine_xtp::pdu::{Reject, Rejects};
use engine_xtp::{AssociationView, Holdings, RateLimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// An endpoint. Counters are since it was created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndpointReport {
    /// Its PID.
    pub process: u32,
    /// Name of its program.
    pub program: String,
    /// Its address.
    pub address: String,
    /// Its XTP version.
    pub dialect: String,
    /// Time since it was created.
    pub age_ns: u64,
    /// Number of its associations and streams, listed here or not.
    pub associations_total: usize,
    /// The first associations.
    pub associations: Vec<AssociationReport>,
    /// The first streams that it sends to groups.
    #[serde(default)]
    pub group_senders: Vec<GroupSenderReport>,
    /// The first streams that it receives from groups.
    #[serde(default)]
    pub group_receivers: Vec<GroupReceiverReport>,
    /// Resources it holds.
    pub holdings: BTreeMap<String, u64>,
    /// Its counters.
    pub counters: BTreeMap<String, u64>,
    /// Packets rejected, by reason.
    pub rejects: BTreeMap<String, u64>,
    /// Peers of this host with which it has rings of shared memory; none if the shortcut is off.
    #[serde(default)]
    pub shortcut: Option<Vec<RingsReport>>,
}

/// Rings with a peer, and what went through them: calls of the wire, and octets of their packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingsReport {
    /// The peer's address.
    pub peer: String,
    /// Calls that sent.
    pub sends: u64,
    /// Octets they sent.
    pub octets_sent: u64,
    /// Calls that went by UDP because the ring was full.
    pub spills: u64,
    /// Calls that received.
    pub receives: u64,
    /// Octets they received.
    pub octets_received: u64,
}

/// An association. Sequence numbers start at 0 in each direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssociationReport {
    /// Its identifier within the endpoint.
    pub circuit: u32,
    /// The peer's address.
    pub peer: String,
    /// Whether this side opened it.
    pub initiator: bool,
    /// opening, active, synchronizing or closing.
    pub state: String,
    /// Close bits that are set: wclose or rclose, sent or received.
    pub close: Vec<String>,
    /// The service its initiator requested.
    pub service: String,
    /// This side's key, hexadecimal.
    pub key: String,
    /// The peer's key, once known.
    pub remote_key: Option<String>,
    /// This side's route value; 0 for none.
    pub route: u32,
    /// The priority, if set.
    pub sort: Option<u16>,
    /// End of the data submitted by the user.
    pub send_end: u64,
    /// Next byte to send for the first time.
    pub send_next: u64,
    /// All bytes below are acknowledged.
    pub send_acknowledged: u64,
    /// The peer's allocation: it accepts bytes below this (XTP alloc).
    pub send_allocation: u64,
    /// Lost bytes not retransmitted yet.
    pub send_lost_bytes: u64,
    /// Packets retransmitted.
    pub retransmissions: u64,
    /// Congestion window, bytes.
    pub congestion_window: Option<u64>,
    /// Sending rate limit.
    pub rate_bytes_per_s: Option<u32>,
    /// The last sync value used.
    pub sync: u32,
    /// Status requests without a reply so far.
    pub requests: usize,
    /// All bytes below have arrived.
    pub receive_next: u64,
    /// Bytes the user has not read.
    pub unread_bytes: u64,
    /// Bytes in the reassembly queue.
    pub held_bytes: u64,
    /// The allocation advertised to the peer.
    pub receive_allocation: u64,
    /// Smoothed RTT, once measured.
    pub rtt_ns: Option<u64>,
    /// RTT variation.
    pub rtt_variation_ns: u64,
    /// Time since the last packet of the peer.
    pub silence_ns: u64,
    /// Running timers and the time left of each.
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
            associations_total: snapshot.total,
            associations: snapshot
                .associations
                .iter()
                .map(association_report)
                .collect(),
            group_senders: group_report::sender_reports(&snapshot.groups),
            group_receivers: group_report::receiver_reports(&snapshot.groups),
            holdings: snapshot.holdings,
            counters: counters_map(&snapshot.counters),
            rejects: rejects_map(&snapshot.rejects),
            shortcut: identity
                .shortcut
                .as_ref()
                .map(|handle| handle.rings().iter().map(rings_report).collect()),
        }
    }
}

fn rings_report(rings: &wire_shortcut::RingReport) -> RingsReport {
    RingsReport {
        peer: rings.peer.to_string(),
        sends: rings.sends,
        octets_sent: rings.octets_sent,
        spills: rings.spills,
        receives: rings.receives,
        octets_received: rings.octets_received,
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

/// An address as text.
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

pub(super) fn holdings_map(holdings: &Holdings) -> BTreeMap<String, u64> {
    to_map([
        ("unproven", holdings.unvalidated as u64),
        ("quarantined", holdings.quarantined as u64),
        ("held_bytes", holdings.reassembly_bytes as u64),
        ("timers", holdings.timers as u64),
        ("routes", holdings.routes as u64),
        ("waiting", holdings.queued as u64),
    ])
}

pub(super) fn group_holdings_map(holdings: &engine_xtp::group::Holdings) -> BTreeMap<String, u64> {
    to_map([
        ("quarantined", holdings.quarantined as u64),
        ("members", holdings.members as u64),
        ("unreleased_bytes", holdings.unreleased),
        ("held_bytes", holdings.reassembly_bytes as u64),
        ("entries", holdings.entries as u64),
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
