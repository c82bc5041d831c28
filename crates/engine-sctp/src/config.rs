//! Configuration.

use crate::addresses::LocalAddresses;
use crate::auth::Authentication;
use crate::numbers::Port;
use congestion::{Congestion, RtoBounds};
use core::time::Duration;
use engine::{Framing, Reliability, Secret};

/// Congestion control of each path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionChoice {
    /// That of RFC 9260 section 7: slow start and congestion avoidance that count bytes
    /// (`partial_bytes_acked`).
    Rfc9260,
    /// One of crate `congestion`, or none.
    Other(Congestion),
}

impl CongestionChoice {
    /// The word for it in options and files.
    pub fn name(self) -> &'static str {
        match self {
            CongestionChoice::Rfc9260 => "rfc9260",
            CongestionChoice::Other(other) => other.name(),
        }
    }

    /// The choice that `word` names; None for an unknown one.
    pub fn from_name(word: &str) -> Option<CongestionChoice> {
        match word {
            "rfc9260" => Some(CongestionChoice::Rfc9260),
            _ => Congestion::from_name(word).map(CongestionChoice::Other),
        }
    }

    /// All names, for messages that refuse a word.
    pub fn names() -> String {
        format!("rfc9260, {}", Congestion::names())
    }
}

/// Which stream's message is sent next (RFC 8260 section 3). With [`SctpConfig::interleave`] the
/// streams take turns chunk by chunk, else message by message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// Messages leave in the order in which they were submitted.
    #[default]
    Fcfs,
    /// Streams take turns.
    RoundRobin,
    /// Streams take turns, and a packet has messages of one stream.
    RoundRobinPacket,
    /// The stream with the lowest value goes first; its value is its number unless
    /// [`crate::Sctp::set_stream_value`] says another.
    Priority,
    /// Streams get equal shares of the octets.
    FairBandwidth,
    /// Streams get shares by their weights; the weight of a stream is its number and 1 unless
    /// [`crate::Sctp::set_stream_value`] says another.
    Weighted,
}

/// The words for them in options and files.
const SCHEDULERS: [(&str, Scheduler); 6] = [
    ("fcfs", Scheduler::Fcfs),
    ("rr", Scheduler::RoundRobin),
    ("rr-packet", Scheduler::RoundRobinPacket),
    ("priority", Scheduler::Priority),
    ("fair", Scheduler::FairBandwidth),
    ("wfq", Scheduler::Weighted),
];

impl Scheduler {
    /// The word for it in options and files.
    pub fn name(self) -> &'static str {
        let mut known = SCHEDULERS.iter();
        known
            .find(|(_, one)| *one == self)
            .map_or("", |(name, _)| name)
    }

    /// The scheduler that `word` names; None for an unknown one.
    pub fn from_name(word: &str) -> Option<Scheduler> {
        let mut known = SCHEDULERS.iter();
        known.find(|(name, _)| *name == word).map(|(_, one)| *one)
    }

    /// All names, for messages that refuse a word.
    pub fn names() -> String {
        SCHEDULERS.map(|(name, _)| name).join(", ")
    }
}

/// Own addresses that change by themselves, for simulations: those that the endpoint gets first, then the
/// last one goes and comes back, of one association and of all in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressSchedule {
    /// Time from one change to the next.
    pub interval: Duration,
    /// Media that a station gets, one a change.
    pub gains: u16,
}

/// Configuration of an endpoint; all its associations share it.
#[derive(Clone, Debug)]
pub struct SctpConfig {
    /// The user is told that an association that it opened can carry data when the peer has answered the INIT:
    /// its first message, if it comes within [`SctpConfig::coalesce_delay`], travels with the COOKIE-ECHO (RFC 9260
    /// section 5.1, C). A peer that does not take the cookie ends the association afterwards.
    pub connects_early: bool,
    /// Octets of a full packet, common header included.
    ///
    /// 1472 fills an Ethernet frame of 1500 octets behind an IPv4 (20) and a UDP (8) header.
    pub packet_len: usize,
    /// Packets begin with 1200 octets, and probes find what each path carries, up to
    /// [`SctpConfig::packet_len`] (RFC 8899). Without it all have that length, and what is too long for a path is
    /// left to be fragmented.
    pub probes_path_mtu: bool,
    /// How users send and receive: messages, or one message without end
    /// ([`Framing::Stream`]).
    pub framing: Framing,
    /// The port that is listened on.
    pub port: Port,
    /// The peer's port of associations opened here.
    pub peer_port: Port,
    /// The own port of associations opened here; None for one that no other association to that peer
    /// has, 49152 to 65535.
    pub local_port: Option<Port>,
    /// Other endpoints share the address (raw IP): packets to ports that are none of this one's are
    /// theirs, and not answered.
    pub shared_address: bool,
    /// The addresses of this end, and which of the peer's are used.
    pub local_addresses: LocalAddresses,
    /// Streams to send on (OS); fewer are used if the peer accepts fewer.
    pub outbound_streams: u16,
    /// Streams accepted from a peer (MIS). Each takes some 60 bytes once it was used.
    pub inbound_streams: u16,
    /// Messages with a plain note go to the streams in turn, instead of to stream 0.
    pub spread: bool,
    /// Messages with a plain note are unordered.
    pub unordered: bool,
    /// Messages may be given up: both ends must say so (RFC 3758). Not in one message without end.
    pub partial_reliability: bool,
    /// Messages of several streams may take turns, by I-DATA, if the peer can (RFC 8260).
    pub interleave: bool,
    /// Streams may be reset and added, by either end, if the peer can (RFC 6525). Not in one message
    /// without end.
    pub reconfigure: bool,
    /// For simulations: own streams begin anew so often, at most 16 times an association; zero for never.
    pub reset_interval: Duration,
    /// Chunks are authenticated, if the peer can (RFC 4895).
    pub authentication: Option<Authentication>,
    /// Addresses of either end may come and go while an association lives, if the peer can (RFC 5061).
    /// Only with [`SctpConfig::authentication`].
    pub dynamic_addresses: bool,
    /// For simulations: own addresses change so often, at most 16 times an association.
    pub address_changes: Option<AddressSchedule>,
    /// A number that the peer's user is told ([`crate::Notice::Adaptation`], RFC 5061 section 4.2.6).
    pub adaptation: Option<u32>,
    /// Which stream's message is sent next.
    pub scheduler: Scheduler,
    /// How hard the sender tries for messages with a plain note.
    pub reliability: Reliability,
    /// Bytes that may wait for acknowledgement before messages of high values are given up for those of
    /// low ones ([`Reliability::Priority`]): three quarters of a send store of 512 KiB.
    pub send_buffer: u64,
    /// When an association ends, each message that the peer does not have for certain is reported
    /// ([`engine::Event::Abandoned`]).
    pub report_unacknowledged: bool,
    /// Several messages may share a packet. Without it each has its own.
    pub bundle: bool,
    /// Receive buffer: bytes that wait for the user or for chunks in front of them (a_rwnd).
    ///
    /// 512 KiB is eight segmented sends of 64 KiB: enough that the receiver of a loopback never
    /// blocks the sender, and little enough to stay in a second-level cache.
    pub receive_buffer: u64,
    /// Bounds of the retransmission timeout. The RFC recommends 1 s, 1 s and 60 s; the least of 200 ms
    /// here is that of TCP in Linux, as a loss at the end of a message costs that much.
    pub rto: RtoBounds,
    /// Longest delay of an acknowledgement. The RFC recommends 200 ms and allows 500 ms; 20 ms stays
    /// far below the least timeout of peers that lower theirs.
    pub sack_delay: Duration,
    /// Silence on a path before a HEARTBEAT, besides an RTO (HB.interval); zero for none.
    pub heartbeat_interval: Duration,
    /// Timeouts in a row that a path survives (Path.Max.Retrans).
    pub path_retries: u32,
    /// Timeouts in a row before data leave a path for another one (PotentiallyFailed.Max.Retrans of RFC
    /// 7829). The RFC's 0: at the first.
    pub failover_retries: u32,
    /// Timeouts in a row that an association survives (Association.Max.Retrans).
    pub association_retries: u32,
    /// Repeats of an INIT or COOKIE-ECHO (Max.Init.Retransmits).
    pub init_retries: u32,
    /// How long a state cookie is valid (Valid.Cookie.Life).
    pub cookie_life: Duration,
    /// Congestion control of each path.
    pub congestion: CongestionChoice,
    /// Full packets that a path's first window holds; None for that of RFC 9260 section 7.2.1, about
    /// three. Of the RFC's congestion control alone.
    pub initial_window_packets: Option<u32>,
    /// Packets sent at one opportunity at most (Max.Burst); 0 for no limit. The RFC recommends 4; as
    /// acknowledgements here cover whole arrivals of up to 44 packets, four packets for each would
    /// leave the path idle.
    pub max_burst: u32,
    /// Packets carry a CRC-32c. Without it both ends say in their INITs that a checksum of zero will
    /// do (RFC 9653), with a method number of our own; the handshake has it always.
    pub checksum: bool,
    /// How long short messages at the host wait to share a packet while data are in flight; zero for
    /// not at all.
    pub coalesce_delay: Duration,
    /// Associations of an endpoint, at most; each takes about a kilobyte besides its buffers.
    pub associations_max: usize,
    /// Seed of tags and TSNs. Equal seeds give equal packets.
    pub seed: u64,
    /// What peers must not guess; from the operating system on a real host.
    pub secret: Secret,
}

impl SctpConfig {
    /// Octets of the longest DATA chunk in a packet (PMDCS): a multiple of four.
    pub(crate) fn pmdcs(&self) -> usize {
        (self.packet_len - crate::pdu::COMMON_HEADER_LEN) & !3
    }

    /// Whether addresses may come and go: only authenticated.
    pub(crate) fn has_dynamic_addresses(&self) -> bool {
        self.dynamic_addresses && self.authentication.is_some()
    }

    /// Whether messages may take turns: not where there is only one, without end.
    pub(crate) fn has_interleave(&self) -> bool {
        self.interleave && self.framing != Framing::Stream
    }

    /// Whether messages may be given up: not where there is only one, without end.
    pub(crate) fn has_partial_reliability(&self) -> bool {
        self.partial_reliability && self.framing != Framing::Stream
    }
}

impl Default for SctpConfig {
    fn default() -> Self {
        SctpConfig {
            connects_early: false,
            packet_len: 1472,
            probes_path_mtu: false,
            framing: Framing::Messages,
            port: Port(5000),
            peer_port: Port(5000),
            local_port: None,
            shared_address: false,
            local_addresses: LocalAddresses::One,
            outbound_streams: 16,
            inbound_streams: 2048,
            spread: false,
            unordered: false,
            partial_reliability: true,
            interleave: false,
            reconfigure: true,
            reset_interval: Duration::ZERO,
            authentication: None,
            dynamic_addresses: false,
            address_changes: None,
            adaptation: None,
            scheduler: Scheduler::Fcfs,
            reliability: Reliability::Full,
            send_buffer: 384 << 10,
            report_unacknowledged: false,
            bundle: true,
            receive_buffer: 512 << 10,
            rto: RtoBounds {
                initial: Duration::from_secs(1),
                min: Duration::from_millis(200),
                max: Duration::from_secs(60),
            },
            sack_delay: Duration::from_millis(20),
            heartbeat_interval: Duration::from_secs(30),
            path_retries: 5,
            failover_retries: 0,
            association_retries: 10,
            init_retries: 8,
            cookie_life: Duration::from_secs(60),
            congestion: CongestionChoice::Rfc9260,
            initial_window_packets: None,
            max_burst: 0,
            checksum: true,
            coalesce_delay: Duration::from_millis(1),
            associations_max: 4096,
            seed: 1,
            secret: Secret::default(),
        }
    }
}
