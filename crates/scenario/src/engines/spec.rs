//! A protocol and its options in a scenario file.

use crate::units::{BitRate, ByteCount, SimTime};
use serde::Deserialize;
use toml::Spanned;

/// A protocol and its options.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// `bare`, `call` and `vmtp` (transactions), `sctp`, `udp`, `xtp` (4.0, 3.6, 3.5, 3.3), `xtp-forwarder` (a
    /// router of 3.6), `xtp-group` (to groups) or `xtp3` (3.3 and 3.5 as the study of 1992 simulated
    /// them).
    pub protocol: Spanned<String>,
    /// `bare`, `call`, `sctp`, `udp`, `vmtp`, `xtp`: octets of a full packet; 1500 if not given, and of `udp` on links what they carry.
    pub packet: Option<ByteCount>,
    /// `bare`: bytes in flight; `sctp`, `udp`, `xtp`: receive buffer.
    pub window: Option<ByteCount>,
    /// `xtp`, `xtp-group`: retransmission: `selective`, `go-back-n` or `none`.
    pub error: Option<Spanned<String>>,
    /// `udp`, `xtp`, `xtp-group`: the checksum covers the data too; `sctp`: packets have one.
    pub checksum: Option<bool>,
    /// `xtp`, `xtp-group`: gaps are reported at once.
    pub fastnak: Option<bool>,
    /// `xtp`: `allocation` or `off`.
    pub flow: Option<Spanned<String>>,
    /// `xtp`: `off`, `newreno`, `ledbat` or `bbr`; `sctp`: these or `rfc9260`.
    pub congestion: Option<Spanned<String>>,
    /// `xtp`, `xtp-forwarder`, `xtp-group`: rate limit.
    pub rate: Option<BitRate>,
    /// `xtp`, `xtp-forwarder`, `xtp-group`: burst under `rate`; 8 full packets if not given.
    pub burst: Option<ByteCount>,
    /// `xtp`: circuits are opened by a handshake before data.
    pub explicit: Option<bool>,
    /// `xtp`, `xtp-group`: bytes between two status requests.
    pub status_every: Option<ByteCount>,
    /// `xtp`, `xtp-group`: time that data is in flight before its status is requested.
    pub status_delay: Option<SimTime>,
    /// `xtp`, `xtp-group`: shortest wait for a status (WTIMER); `sctp`: RTO.Min.
    pub wait_min: Option<SimTime>,
    /// `xtp`, `xtp-group`: longest wait for a status; `sctp`: RTO.Max.
    pub wait_max: Option<SimTime>,
    /// `xtp`, `xtp-group`: wait for a status before an RTT was measured; `call`: until a message is
    /// sent again for the first time; `vmtp`: the round trip before one was measured; `sctp`: RTO
    /// before an RTT was measured.
    pub wait_initial: Option<SimTime>,
    /// `xtp`, `xtp-group`: unanswered requests before a circuit is closed; `call`, `vmtp`: times a
    /// message is sent again; `sctp`: timeouts in a row that an association and its opening survive.
    pub retries: Option<u32>,
    /// `xtp`, `xtp-group`: keepalive: silence before a status request; `sctp`: before a HEARTBEAT; 0
    /// for none.
    pub keep_alive: Option<SimTime>,
    /// `sctp`: longest delay of an acknowledgement, up to 500 ms.
    pub sack_delay: Option<SimTime>,
    /// `sctp`: messages share packets.
    pub bundle: Option<bool>,
    /// `sctp`: streams that messages take in turn; 1 if not given.
    pub streams: Option<u16>,
    /// `sctp`: messages may overtake each other.
    pub unordered: Option<bool>,
    /// `sctp`: long messages of several streams take turns (I-DATA), if both ends say so.
    pub interleave: Option<bool>,
    /// `sctp`: `fcfs`, `rr`, `rr-packet`, `priority`, `fair` or `wfq`.
    pub scheduler: Option<Spanned<String>>,
    /// `sctp`: messages that were not received for so long are given up.
    pub life: Option<SimTime>,
    /// `sctp`: all chunks that may be are authenticated, if both ends say so.
    pub auth: Option<bool>,
    /// `sctp`: `probe`, packets grow from 1200 octets to what each path carries, or `fixed`, all have the length
    /// of `packet`; `fixed` if not given.
    pub path_mtu: Option<Spanned<String>>,
    /// `sctp`: own streams begin anew so often, at most 16 times an association.
    pub reset: Option<SimTime>,
    /// `sctp`: own addresses change so often, at most 16 times an association: first the station gets the
    /// last of several, then it goes and comes back. Authenticated, as addresses that change must be.
    pub address_changes: Option<SimTime>,
    /// `xtp`: version: `4.0`, `3.6`, `3.5` or `3.3`; `xtp-group`: `4.0`, `3.6` or `3.5`.
    pub dialect: Option<Spanned<String>>,
    /// `xtp`: `stream`, `isochronous` or `bulk`.
    pub service: Option<Spanned<String>>,
    /// `xtp`: priority (SORT); the lowest value is served first, none last.
    pub sort: Option<u16>,
    /// `xtp`, 3.x: control packets carry sixteen resend pairs, used or not.
    pub fixed_pairs: Option<bool>,
    /// `xtp`, 3.x: adjacent stations exchange routes.
    pub routes: Option<bool>,
    /// `xtp`, 3.6: the router that forwards the packets.
    pub gateway: Option<u64>,
    /// `xtp`: packets to other stations of its host that take the shortcut go through rings of shared memory.
    pub shortcut: Option<bool>,
    /// `xtp-forwarder`: octets of its queue.
    pub queue: Option<ByteCount>,
    /// `xtp-group`: `counted`, `buckets` or `none`.
    pub reliability: Option<Spanned<String>>,
    /// `xtp-group`: receivers that must have joined before the sender begins.
    pub members: Option<u64>,
    /// `xtp-group`: receivers below which the sender aborts.
    pub members_keep: Option<u64>,
    /// `xtp-group`: status requests within a wait-timer interval (N of the bucket algorithm).
    pub requests: Option<u64>,
    /// `xtp-group`: consecutive control packets that may get lost (E of the bucket algorithm).
    pub tolerated: Option<u64>,
    /// `xtp-group`: receivers send control packets to the whole group.
    pub answer_to_group: Option<bool>,
    /// `xtp3`: `3.3` or `3.5`.
    pub revision: Option<Spanned<String>>,
    /// `xtp3`: control packets carry 128 octets of resend pairs.
    pub resend_pairs: Option<bool>,
    /// `xtp3`: circuits go to all stations.
    pub multicast: Option<bool>,
    /// `xtp3`: this station answers status requests of a group.
    pub answers: Option<bool>,
    /// `xtp3`: control packets the sender to a group waits for; 1 if not given.
    pub answerers: Option<u64>,
    /// `xtp3`: the sender to a group acts so long after its request, however many answered.
    pub hold: Option<SimTime>,
    /// `xtp3`, `xtp-group`: control packets to a group wait a random time below this (slotting).
    pub slot: Option<SimTime>,
    /// `xtp3`, `xtp-group`: a control packet that another receiver has sent is suppressed
    /// (damping).
    pub damping: Option<bool>,
    /// `xtp3`: receive buffer.
    pub alloc: Option<ByteCount>,
    /// `xtp3`: bytes at once in 1/60 s.
    pub credit: Option<ByteCount>,
    /// `xtp3`: wait for a status before the request is repeated.
    pub wtimer: Option<SimTime>,
    /// `xtp3`: wait for a status before the circuit is closed.
    pub ctimer: Option<SimTime>,
}

/// Protocols that have an option.
type Protocols = &'static [&'static str];

const WINDOWED: Protocols = &["bare", "sctp", "udp", "xtp", "xtp-group"];
const XTP: Protocols = &["xtp"];
const SCTP: Protocols = &["sctp"];
const CONTROLLED: Protocols = &["sctp", "xtp"];
const SUMMED: Protocols = &["sctp", "xtp", "xtp-group"];
const CHECKED: Protocols = &["sctp", "udp", "xtp", "xtp-group"];
const PACED: Protocols = &["xtp", "xtp-forwarder", "xtp-group"];
const ROUTER: Protocols = &["xtp-forwarder"];
const PACKETS: Protocols = &["bare", "call", "sctp", "udp", "vmtp", "xtp", "xtp-group"];
const RETRYING: Protocols = &["call", "sctp", "vmtp", "xtp", "xtp-group"];
const XTPS: Protocols = &["xtp", "xtp-group"];
const GROUP: Protocols = &["xtp-group"];
const GROUPS: Protocols = &["xtp3", "xtp-group"];
const XTP3: Protocols = &["xtp3"];

impl EngineSpec {
    /// The first option given that the protocol does not have.
    pub(super) fn unsupported_option(&self) -> Option<&'static str> {
        let protocol = self.protocol.get_ref().as_str();
        let given = [
            ("packet", self.packet.is_some(), PACKETS),
            ("window", self.window.is_some(), WINDOWED),
            ("error", self.error.is_some(), XTPS),
            ("checksum", self.checksum.is_some(), CHECKED),
            ("fastnak", self.fastnak.is_some(), XTPS),
            ("flow", self.flow.is_some(), XTP),
            ("congestion", self.congestion.is_some(), CONTROLLED),
            ("rate", self.rate.is_some(), PACED),
            ("burst", self.burst.is_some(), PACED),
            ("explicit", self.explicit.is_some(), XTP),
            ("status_every", self.status_every.is_some(), XTPS),
            ("status_delay", self.status_delay.is_some(), XTPS),
            ("wait_min", self.wait_min.is_some(), SUMMED),
            ("wait_max", self.wait_max.is_some(), SUMMED),
            ("wait_initial", self.wait_initial.is_some(), RETRYING),
            ("retries", self.retries.is_some(), RETRYING),
            ("keep_alive", self.keep_alive.is_some(), SUMMED),
            ("sack_delay", self.sack_delay.is_some(), SCTP),
            ("bundle", self.bundle.is_some(), SCTP),
            ("streams", self.streams.is_some(), SCTP),
            ("unordered", self.unordered.is_some(), SCTP),
            ("interleave", self.interleave.is_some(), SCTP),
            ("scheduler", self.scheduler.is_some(), SCTP),
            ("life", self.life.is_some(), SCTP),
            ("path_mtu", self.path_mtu.is_some(), SCTP),
            ("auth", self.auth.is_some(), SCTP),
            ("reset", self.reset.is_some(), SCTP),
            ("address_changes", self.address_changes.is_some(), SCTP),
            ("reliability", self.reliability.is_some(), GROUP),
            ("members", self.members.is_some(), GROUP),
            ("members_keep", self.members_keep.is_some(), GROUP),
            ("requests", self.requests.is_some(), GROUP),
            ("tolerated", self.tolerated.is_some(), GROUP),
            ("answer_to_group", self.answer_to_group.is_some(), GROUP),
            ("dialect", self.dialect.is_some(), XTPS),
            ("service", self.service.is_some(), XTP),
            ("sort", self.sort.is_some(), XTP),
            ("fixed_pairs", self.fixed_pairs.is_some(), XTP),
            ("routes", self.routes.is_some(), XTP),
            ("gateway", self.gateway.is_some(), XTP),
            ("shortcut", self.shortcut.is_some(), XTP),
            ("queue", self.queue.is_some(), ROUTER),
            ("revision", self.revision.is_some(), XTP3),
            ("resend_pairs", self.resend_pairs.is_some(), XTP3),
            ("multicast", self.multicast.is_some(), XTP3),
            ("answers", self.answers.is_some(), XTP3),
            ("answerers", self.answerers.is_some(), XTP3),
            ("hold", self.hold.is_some(), XTP3),
            ("slot", self.slot.is_some(), GROUPS),
            ("damping", self.damping.is_some(), GROUPS),
            ("alloc", self.alloc.is_some(), XTP3),
            ("credit", self.credit.is_some(), XTP3),
            ("wtimer", self.wtimer.is_some(), XTP3),
            ("ctimer", self.ctimer.is_some(), XTP3),
        ];
        let unsupported = given
            .iter()
            .find(|(_, is_given, protocols)| *is_given && !protocols.contains(&protocol));
        unsupported.map(|(name, ..)| *name)
    }
}
