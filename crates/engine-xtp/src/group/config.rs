//! What can be set on an endpoint of groups, with the reason of each default.

use crate::config::{ErrorControl, PACKET_LEN, RateLimit};
use core::time::Duration;
use engine::{Address, Framing};
use std::net::IpAddr;

/// How a sender knows that a group has what it sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reliability {
    /// Each receiver joins and is counted; bytes are kept until all members have them (4.0).
    Counted,
    /// The sender knows nobody and keeps bytes for as long as the bucket algorithm says (3.5).
    Buckets(BucketConfig),
    /// Nothing is kept and nothing sent again; gaps are delivered as gaps.
    None,
}

/// The two parameters of the bucket algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// N: status requests within a wait-timer interval, at least 1.
    ///
    /// 2: the store holds (2 + E + 1) / 2.5 wait timers of data, and a receiver answers five times
    /// in two of them. A large N saves store and costs answers.
    pub requests: u32,
    /// E: lost answers in a row of one receiver that are tolerated.
    ///
    /// 2: with one answer in ten lost, one in a thousand rounds is too much for a receiver.
    pub tolerated: u32,
}

impl BucketConfig {
    /// Buckets there are: N + E + 1.
    pub fn count(self) -> usize {
        self.requests.max(1) as usize + self.tolerated as usize + 1
    }

    /// ST, the time from one request to the next, for a wait timer of `wait`: WT / (N + 0.5).
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

/// Where a receiver begins that hears of a stream after it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateJoin {
    /// With the oldest byte the sender still has: the first one, if it is there.
    Earliest,
    /// With what is sent next.
    Next,
    /// Not at all.
    Never,
}

/// How an endpoint of groups behaves, as a sender, as a receiver, or both.
#[derive(Clone, Debug)]
pub struct Config {
    /// Octets of a full packet, header included, at least 128.
    pub packet_len: usize,
    /// Bytes a sender may send beyond what this receiver's user took.
    ///
    /// 1 MiB as for two parties: the kernel's buffer of each receiver must hold it, since nobody
    /// slows a group down for a packet that has already left.
    pub window: u64,
    /// Bytes a sender may send before it heard an allocation. 64 KiB is one segmented send.
    pub initial_window: u64,
    /// Whether DATA packets are summed whole; headers and all other packets always are.
    pub checksum: bool,
    /// Byte stream, or messages kept apart by EOM.
    pub framing: Framing,
    /// How a sender knows that the group has everything. Counted: it is the only one by which a
    /// sender can say who has it.
    pub reliability: Reliability,
    /// How a counted group repairs: what anybody lacks, or everything from the first byte anybody
    /// lacks. The bucket algorithm goes back in any case.
    ///
    /// Selective: with 100 receivers that lose one packet in a hundred each, going back sends
    /// nearly everything twice.
    pub error: ErrorControl,
    /// Receivers report a gap at once (counted groups). Off: requests find gaps soon enough, and
    /// a loss shared by all would be reported by all.
    pub fastnak: bool,
    /// Receivers that must have joined before the sender is ready (counted groups).
    pub members_min: usize,
    /// Receivers below which the sender gives up; 0 for never (counted groups).
    ///
    /// 1: without members nobody gets anything. `members_min` here makes the group all or nothing.
    pub members_keep: usize,
    /// Members at most; each takes some 150 bytes. Beyond, joins are refused.
    pub members_max: usize,
    /// Hosts that may join; None for any.
    pub admitted: Option<Vec<IpAddr>>,
    /// Where late receivers begin.
    pub late_join: LateJoin,
    /// Receivers answer to this address, so that they hear one another; None for the sender alone.
    ///
    /// None: 4.0 answers the sender. Damping needs it.
    pub answer_to: Option<Address>,
    /// Slotting: an answer waits a random time below this. Senders add it to their wait timer.
    ///
    /// Zero: up to some ten receivers it costs more than it saves. Twice the round-trip time for
    /// more.
    pub slot: Duration,
    /// Damping: an answer is left out when another receiver was heard to say the same or less.
    /// Not heeded in counted groups, where each member must be heard.
    pub damping: bool,
    /// A sender repeats each packet to each of these instead of sending it to the group: for media
    /// without multicast. Empty for one packet to the group.
    pub replicate: Vec<Address>,
    /// The limit on this side's sending, and what it tells senders to keep to.
    pub rate: Option<RateLimit>,
    /// Bytes between two status requests of a busy sender (counted groups).
    ///
    /// 240 KiB is four segmented sends, so that a window has four requests and each receiver sends
    /// one control packet for 170.
    pub status_interval_bytes: u64,
    /// Bytes on their way for so long make a request. 1 ms, as for two parties.
    pub status_delay: Duration,
    /// WTIMER before a round trip was measured, and the time between two openings or joins.
    ///
    /// 100 ms: groups are mostly local, and an opening that was lost holds everybody up.
    pub wtimer_initial: Duration,
    /// Shortest WTIMER. 20 ms, as for two parties.
    pub wtimer_min: Duration,
    /// Longest WTIMER.
    pub wtimer_max: Duration,
    /// Requests a member may leave without an answer before it is dropped.
    ///
    /// 8, as for two parties.
    pub retries_max: u32,
    /// Silence of a sender after which its receivers give it up, and of all receivers after which a
    /// sender does.
    pub silence_max: Duration,
    /// A sender asks whether its members are there after so long without a request.
    ///
    /// 5 s: six times within `silence_max`.
    pub keepalive: Duration,
    /// How long a stream that ended answers late packets.
    pub quarantine: Duration,
    /// Streams, sent and received, at most.
    pub associations_max: usize,
    /// The port written into openings.
    pub port: u16,
    /// How long the host may keep a short message back to let it share a packet.
    pub coalesce_delay: Duration,
    /// Makes keys, first syncs and slots. Equal seeds, equal bytes.
    pub seed: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
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
        }
    }
}

/// How a member stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It takes part.
    Member,
    /// It has everything.
    Done,
    /// It left of its own will.
    Left,
    /// It lost bytes that the sender no longer had, and dropped out.
    Lost,
    /// It did not answer and was dropped.
    Silent,
    /// It came back without what it had, and joined anew under another key.
    Restarted,
}

/// One receiver, as its sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it is.
    pub address: Address,
    /// How it stands.
    pub state: MemberState,
    /// The first byte of the stream it was promised.
    pub start: u64,
    /// It said that it has everything below.
    pub received: u64,
}

/// What an endpoint holds right now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Streams, sent and received.
    pub associations: usize,
    /// Keys of streams that ended.
    pub quarantined: usize,
    /// Members of all groups.
    pub members: usize,
    /// Bytes senders keep.
    pub unreleased: u64,
    /// User bytes receivers keep because they came before their turn.
    pub reassembly_bytes: usize,
    /// Entries of the lists of a sender: requests, buckets, ranges to send again and sent again.
    pub entries: usize,
}
