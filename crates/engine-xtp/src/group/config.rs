//! Options of a multicast endpoint, with the reason of each default.

use super::admission::{AdmittedHost, JoinSecret};
use crate::codec::Codec;
use crate::config::{ErrorControl, PACKET_LEN, RateLimit};
use crate::pdu::Version;
use core::time::Duration;
use engine::{Address, Framing, Secret};
use std::net::IpAddr;

/// How a sender tracks what its receivers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Each receiver joins; bytes are kept until all members have acknowledged them (4.0).
    Counted,
    /// The sender keeps no member list; the bucket algorithm decides when bytes are released (3.5).
    Buckets(BucketConfig),
    /// No retransmission; gaps are delivered as gaps.
    None,
}

/// The two parameters of the bucket algorithm (0009, Buckets).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// N: status requests within one WTIMER, at least 1.
    ///
    /// 2: the send buffer holds (2 + E + 1) / 2.5 WTIMERs of data, and a receiver sends five
    /// control packets in two of them. A larger N needs less buffer and more control packets.
    pub requests: u32,
    /// E: control packets of one receiver in a row that may be lost.
    ///
    /// 2: with one control packet in ten lost, one round in a thousand exceeds it.
    pub tolerated: u32,
}

impl BucketConfig {
    /// The number of buckets: N + E + 1.
    pub fn count(self) -> usize {
        self.requests.max(1) as usize + self.tolerated as usize + 1
    }

    /// ST, the time between two status requests: WT / (N + 0.5), with WT = `wait`.
    pub fn request_interval(self, wait: Duration) -> Duration {
        wait * 2 / (2 * self.requests.max(1) + 1)
    }
}

impl Default for BucketConfig {
    fn default() -> Self {
        BucketConfig {
            requests: 2,
            tolerated: 2,
        }
    }
}

/// Where a receiver begins that joins a running stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateJoin {
    /// At the oldest byte in the sender's buffer.
    Earliest,
    /// At the next byte the sender sends.
    Next,
    /// It does not join.
    Never,
}

/// Options of a multicast endpoint, as a sender, as a receiver, or both.
#[derive(Clone, Debug)]
pub struct Config {
    /// The version of all packets, the same at all ends. 3.x has no packet by which receivers join, so a sender of it
    /// cannot count them: `Counted` becomes buckets there, and repair goes back (0122).
    pub version: Version,
    /// Octets of a full packet, header included, at least 128.
    pub packet_len: usize,
    /// Receive window: bytes a sender may send beyond what this receiver's user consumed.
    ///
    /// 1 MiB as for unicast: the socket buffer of each receiver must hold it, since a group is not
    /// slowed down for packets already sent.
    pub window: u64,
    /// Bytes a sender may send before it receives an allocation. 64 KiB is one segmented send.
    pub initial_window: u64,
    /// Whether the checksum of DATA covers the payload; it always covers the header and all of
    /// other packets.
    pub checksum: bool,
    /// Byte stream, or messages delimited by EOM.
    pub framing: Framing,
    /// How a sender tracks its receivers. Counted: the only kind that can report each member.
    pub reliability: Reliability,
    /// Retransmission in a counted group: selective or go-back-n. The bucket algorithm always goes
    /// back.
    ///
    /// Selective: with 100 receivers that lose one packet in a hundred each, go-back-n sends nearly
    /// everything twice.
    pub error: ErrorControl,
    /// Receivers report a gap at once (counted groups). Off: status requests find gaps soon enough,
    /// and all receivers would report a loss they share.
    pub fastnak: bool,
    /// Members that must have joined before the stream is connected (counted groups).
    pub members_min: usize,
    /// Members below which the sender aborts the stream; 0 for never (counted groups).
    ///
    /// 1: a group without members receives nothing. The value of `members_min` makes the group all
    /// or nothing.
    pub members_keep: usize,
    /// Members at most; each takes some 150 bytes. Further joins are refused.
    pub members_max: usize,
    /// Hosts that may join this endpoint's streams; None for all.
    pub admitted: Option<Vec<AdmittedHost>>,
    /// Hosts whose streams this endpoint accepts; None for all.
    pub accept_from: Option<Vec<IpAddr>>,
    /// The secret by which the senders of `accept_from` know this receiver, told to them by other
    /// means. None: its keys are random.
    pub join_secret: Option<JoinSecret>,
    /// Where receivers begin that join late.
    pub late_join: LateJoin,
    /// Receivers send their control packets to this address, the group's; None for unicast to the
    /// sender.
    ///
    /// None: 4.0 uses unicast. Damping needs multicast control packets.
    pub answer_to: Option<Address>,
    /// Slotting: a control packet is delayed by a random time below this. Senders add it to WTIMER.
    ///
    /// Zero: up to some ten receivers slotting costs more than it saves. Use twice the RTT for
    /// more.
    pub slot: Duration,
    /// Damping: a control packet is suppressed when another receiver's carried the same or lower
    /// `rseq` and `alloc`. Ignored in counted groups, where each member must answer.
    pub damping: bool,
    /// Receivers to which a sender replicates each packet, for media without multicast. Empty: each
    /// packet is sent once, to the group.
    pub replicate: Vec<Address>,
    /// The rate limit of this endpoint as a sender, and the one it requires of its senders.
    pub rate: Option<RateLimit>,
    /// Bytes between two status requests of a busy sender (counted groups).
    ///
    /// 240 KiB is four segmented sends, so that a window has four requests and each receiver sends
    /// one control packet for 170.
    pub status_interval_bytes: u64,
    /// Data in flight for this long without a status request cause one. 1 ms, as for unicast.
    pub status_delay: Duration,
    /// WTIMER before the first RTT sample, and the time between two FIRST or JCNTL.
    ///
    /// 100 ms: groups are mostly local, and a lost FIRST delays all members.
    pub wtimer_initial: Duration,
    /// Shortest WTIMER. 20 ms, as for unicast.
    pub wtimer_min: Duration,
    /// Longest WTIMER.
    pub wtimer_max: Duration,
    /// Status requests in a row that a member may leave unanswered before it is dropped.
    ///
    /// 8, as for unicast.
    pub retries_max: u32,
    /// A receiver times out after this long without a packet from its sender, and a sender after
    /// this long without a control packet from any receiver.
    pub silence_max: Duration,
    /// An idle sender sends a status request this often (CTIMER).
    ///
    /// 5 s: six times within `silence_max`.
    pub keepalive: Duration,
    /// How long the key of a stream that ended answers late packets.
    pub quarantine: Duration,
    /// Streams, sent and received, at most. The received ones are shared by address (0018, Room).
    pub associations_max: usize,
    /// The port in the address segment of FIRST.
    pub port: u16,
    /// How long the host may delay a short message to coalesce it with others.
    pub coalesce_delay: Duration,
    /// Seed of keys, initial syncs and slots. Equal seeds give equal packets.
    pub seed: u64,
    /// What peers must not guess; from the operating system on a real host.
    pub secret: Secret,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            version: Version::V40,
            packet_len: PACKET_LEN,
            window: 1 << 20,
            initial_window: 64 << 10,
            checksum: true,
            framing: Framing::Stream,
            reliability: Reliability::Counted,
            error: ErrorControl::Selective,
            fastnak: false,
            members_min: 1,
            members_keep: 1,
            members_max: 1024,
            admitted: None,
            accept_from: None,
            join_secret: None,
            late_join: LateJoin::Earliest,
            answer_to: None,
            slot: Duration::ZERO,
            damping: false,
            replicate: Vec::new(),
            rate: None,
            status_interval_bytes: 240 << 10,
            status_delay: Duration::from_millis(1),
            wtimer_initial: Duration::from_millis(100),
            wtimer_min: Duration::from_millis(20),
            wtimer_max: Duration::from_secs(2),
            retries_max: 8,
            silence_max: Duration::from_secs(30),
            keepalive: Duration::from_secs(5),
            quarantine: Duration::from_secs(2),
            associations_max: 4096,
            port: 1,
            coalesce_delay: Duration::from_millis(1),
            seed: 1,
            secret: Secret::default(),
        }
    }
}

impl Config {
    /// This configuration, adjusted to what the packets of its version can say.
    pub(super) fn fit_to(self, codec: Codec) -> Config {
        if codec.has_joins() {
            return self;
        }
        Config {
            window: self.window.min(codec.window_max()),
            initial_window: self.initial_window.min(codec.window_max()),
            reliability: match self.reliability {
                Reliability::Counted => Reliability::Buckets(BucketConfig::default()),
                uncounted => uncounted,
            },
            error: ErrorControl::GoBackN,
            ..self
        }
    }
}

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It receives the stream.
    Member,
    /// It has acknowledged the whole stream.
    Done,
    /// It left by itself.
    Left,
    /// It lost bytes that the sender had already released, and dropped out.
    Lost,
    /// It stopped answering and was dropped.
    Silent,
    /// It lost its state and joined again under another key.
    Restarted,
    /// It asked for more retransmissions than a member may, and was dropped for the others' sake.
    Excluded,
}

/// A receiver in its sender's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its address.
    pub address: Address,
    /// Its state.
    pub state: MemberState,
    /// The first byte it was granted when it joined.
    pub start: u64,
    /// The highest `rseq` it reported: it has all bytes from `start` to here.
    pub received: u64,
}

/// What a multicast endpoint holds right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Streams, sent and received.
    pub associations: usize,
    /// Keys in quarantine.
    pub quarantined: usize,
    /// Members of all groups.
    pub members: usize,
    /// Bytes that senders have not released.
    pub unreleased: u64,
    /// Bytes in the reassembly queues of receivers.
    pub reassembly_bytes: usize,
    /// Entries in the lists of senders: status requests, buckets, ranges to retransmit and
    /// retransmitted.
    pub entries: usize,
}
