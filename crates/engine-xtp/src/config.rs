//! Configuration of an endpoint, and what it reports about itself.

use crate::pdu::{NamedAddress, Service, Version};
use core::net::IpAddr;
use core::time::Duration;
use engine::{Address, Framing, Secret};

pub use congestion::{Congestion, RateLimit};

/// Default length of a full packet: 1500 octets of an Ethernet frame less 20 of IPv4 and 8 of UDP.
pub const PACKET_LEN: usize = 1472;

/// How losses are repaired. Sender and receiver each follow their own setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorControl {
    /// Out-of-order bytes are kept for reassembly; only missing ranges are retransmitted.
    Selective,
    /// Out-of-order bytes are dropped; everything from the first loss on is retransmitted.
    GoBackN,
    /// No retransmission (NOERR); gaps are delivered as gaps.
    None,
}

/// Flow control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// The receiver allocates a window beyond what its user consumed.
    Allocation,
    /// The receiver allocates only the buffers that its user posted (RES), see
    /// [`crate::Xtp::post`].
    Reservation,
    /// The sender ignores the allocation (NOFLOW). A receiver drops what it cannot take.
    Off,
}

/// What the spans of an ECNTL list. No published text settles it, so both ends must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanMeaning {
    /// Ranges received beyond the first gap.
    Received,
    /// Ranges missing.
    Missing,
}

/// What status requests in DATA packets ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRequestKind {
    /// What was received (SREQ): answered at once.
    Received,
    /// What the user consumed (DREQ): answered when that is everything.
    Delivered,
}

/// Limit of an association's input and output queue in the 1992 studies, octets.
pub const STUDY_QUEUE_LEN: u64 = 16 << 10;

/// Configuration of an endpoint, shared by all its associations.
#[derive(Clone, Debug)]
pub struct Config {
    /// Octets of a full packet, header included; without the header this is the studies' maxdata.
    ///
    /// At least 128; see [`PACKET_LEN`] for the default.
    pub packet_len: usize,
    /// Whether packets become shorter when long ones of an association are lost again and again
    /// while short ones pass (RFC 8899 section 4.3). For hosts on a network; what a simulated medium
    /// carries is known.
    pub black_hole_detection: bool,
    /// Receive window: bytes a peer may send beyond what the user consumed (the studies' ralloc).
    ///
    /// 1 MiB is sixteen segmented sends of 64 KiB, or 8 ms at a gigabit a second.
    pub window: u64,
    /// Bytes a sender may send before it received an allocation, and a receiver allocates before
    /// the peer's address is validated (the studies' talloc).
    ///
    /// 64 KiB is one segmented send. Times `unvalidated_max` it bounds what forged openings take.
    pub initial_window: u64,
    /// Whether the checksum covers the user data of DATA packets (otherwise NOCHECK).
    ///
    /// On: UDP's checksum is 16 bits too, but offloads and middleboxes recompute that one.
    pub checksum: bool,
    /// Byte stream, or messages delimited by EOM. [`Framing::Records`] is left to the host.
    pub framing: Framing,
    /// How losses are repaired.
    pub error: ErrorControl,
    /// Asks the peer to report each gap at once (FASTNAK). Off: status requests find gaps within
    /// `status_interval_bytes`.
    pub fastnak: bool,
    /// Flow control.
    pub flow: FlowControl,
    /// The service that associations opened here request. [`Service::Isochronous`] needs a `rate`
    /// as well, [`Service::Bulk`] a receiver that posts its buffers.
    pub service: Service,
    /// Explicit open: data wait for the answer to FIRST. An implicit open sends the first user
    /// data with FIRST and saves a round trip; a FIRST without data leaves after `coalesce_delay`, since
    /// the peer's user may be the one who sends first.
    pub explicit: bool,
    /// Openings by peers wait for [`crate::Xtp::admit`] or [`crate::Xtp::refuse`].
    pub supervised: bool,
    /// Rate limit of this side, which is also imposed on peers, unless the two fields below differ.
    pub rate: Option<RateLimit>,
    /// Rate limit imposed on peers; None for `rate`.
    pub input_rate: Option<RateLimit>,
    /// Rate limit of this side; None for `rate`.
    pub output_rate: Option<RateLimit>,
    /// Congestion control. XTP itself has none (0011).
    pub congestion: Congestion,
    /// What spans list.
    pub spans: SpanMeaning,
    /// Priority (SORT) of associations opened here, and of accepted ones whose peer sent none: the
    /// lowest value is served first, None last.
    pub sort: Option<u16>,
    /// The port to listen on and to connect to; openings for another are refused.
    pub port: u16,
    /// Source port in FIRST.
    pub source_port: u16,
    /// What FIRST and PATH call instead of a host and [`Config::port`], and what a listener answers to as well as to its
    /// port. Routers find no way by it.
    pub address: Option<NamedAddress>,
    /// Other endpoints receive packets for this address too, as on raw IP and Ethernet, and only
    /// [`Config::port`] distinguishes them: openings for another port are ignored, not refused.
    pub shared_address: bool,
    /// Bytes between two status requests of a busy sender.
    ///
    /// 120 KiB is just under two segmented sends: one control packet for 85 of data, and eight
    /// requests a window.
    pub status_interval_bytes: u64,
    /// When bytes have been in flight this long without a status request, the next DATA packet
    /// carries one; after as long again, a CNTL.
    ///
    /// 1 ms: a single loss is repaired in two milliseconds and a round trip, and a dialogue of
    /// short messages costs at most a thousand control packets a second.
    pub status_delay: Duration,
    /// How long the control packet of a transaction waits to be sent with the reply.
    ///
    /// 10 ms, a fiftieth of the initial WTIMER: the initiator does not retransmit meanwhile.
    pub reply_delay: Duration,
    /// WTIMER before the first RTT sample.
    ///
    /// 500 ms is longer than nearly every path on Earth.
    pub wtimer_initial: Duration,
    /// Shortest WTIMER.
    ///
    /// 20 ms is several scheduler ticks: a busy host is not taken for dead.
    pub wtimer_min: Duration,
    /// Longest WTIMER; it doubles with each retry.
    pub wtimer_max: Duration,
    /// Status requests in a row without an answer before the association is abandoned (the
    /// studies' retrycount).
    ///
    /// 8: with one packet in five lost each way, one association in ten thousand is lost.
    pub retries_max: u32,
    /// CTIMEOUT: how long a synchronizing handshake may last, and an opening stay unvalidated.
    ///
    /// 30 s covers the reboot of a switch.
    pub handshake_max: Duration,
    /// CTIMER: silence after which a keepalive is sent; zero for never.
    ///
    /// 60 s keeps most address translators from forgetting a UDP flow.
    pub keepalive: Duration,
    /// Quarantine of a closed key, in which duplicates are answered with END.
    ///
    /// 2 s: four times the longest RTT that the initial WTIMER allows for.
    pub quarantine: Duration,
    /// Limit of closed keys in quarantine, about 100 bytes each; the oldest go first.
    ///
    /// 16,384 cover 2 s of 8,000 transactions a second. Raise it for hosts that close more and
    /// must detect every duplicate: with 65,536 the table exceeds the caches, and a transaction
    /// takes some 3 % longer.
    pub quarantine_max: usize,
    /// Limit of associations; each takes about 700 bytes when idle.
    pub associations_max: usize,
    /// Limit of those opened by peers whose address is not validated. Beyond it, openings of 4.0 are
    /// answered with cookies, and in 3.x the oldest gives way (0021).
    ///
    /// 1024 with 64 KiB each: forged openings take 64 MiB at most.
    pub unvalidated_max: usize,
    /// Openings are accepted, and their user data delivered, before the peer's address is validated.
    /// Off: 4.0 answers all of them with cookies and keeps nothing; 3.x keeps an association that
    /// takes no data yet. The data of FIRST are then discarded and come again, and datagrams without acknowledgement
    /// never arrive.
    ///
    /// On: a transaction takes one round trip. Off for users whom an accepted opening costs more than
    /// memory (0021).
    pub early_accept: bool,
    /// Low-water mark: with at most this many bytes in flight, new bytes are sent at once, even in
    /// a part-filled packet.
    ///
    /// 0: a lone message never waits, and while one is in flight others are coalesced.
    pub low_water: u64,
    /// High-water mark: this many unsent bytes are sent even with more than `low_water` in flight.
    /// Above one packet, whole packets are coalesced too; below, packets are sent part-filled.
    ///
    /// None: one full packet.
    pub high_water: Option<u64>,
    /// How long bytes between the marks, and short messages at the host, wait to be coalesced.
    /// Zero: never.
    ///
    /// 1 ms, as the status delay: the control packet that would release them waits as long anyway.
    pub coalesce_delay: Duration,
    /// RTT assumed before the first sample. WTIMER then begins at three times this, as after a
    /// first sample (RFC 6298), instead of `wtimer_initial`.
    ///
    /// None: nothing is known of the path.
    pub initial_rtt: Option<Duration>,
    /// Limit of unacknowledged bytes of an association.
    ///
    /// None: the host's send buffer is the limit. The studies': [`STUDY_QUEUE_LEN`].
    pub oqmax: Option<u64>,
    /// Limit of received bytes that the user has not consumed, for each association.
    ///
    /// None: `window`, and four windows for a sender with NOFLOW. The studies':
    /// [`STUDY_QUEUE_LEN`].
    pub iqmax: Option<u64>,
    /// Status requests without user data are sent in an empty DATA instead of a CNTL.
    ///
    /// Off: a CNTL acknowledges as well.
    pub null_data: bool,
    /// What status requests in DATA packets ask for.
    pub status_request_kind: StatusRequestKind,
    /// Protocol version, the same at both ends.
    ///
    /// 4.0, whose wire format is known. The fields below apply to 3.x only.
    pub version: Version,
    /// Sequence number of the first byte in both directions.
    ///
    /// None: another random one for each association (0008, Names). Tests begin close to 2^32, where
    /// the numbers wrap.
    pub initial_seq: Option<u32>,
    /// Control packets always carry sixteen resend pairs, if packets are long enough.
    ///
    /// Off: as many as needed.
    pub fixed_pairs: bool,
    /// Associations use routes, which neighbours assign, share and release (0008, Routes).
    ///
    /// Off: hosts on one link need no routes.
    pub routes: bool,
    /// The router for all associations opened here. Needs `routes`.
    pub gateway: Option<Address>,
    /// Routers a packet may pass (3.6).
    ///
    /// 16 is more than any local network has, and ends a loop within milliseconds.
    pub hop_limit: u8,
    /// Hosts that may ask for contexts, routes and counters (MGMT of 3.x, [`crate::management`]).
    ///
    /// None: what an endpoint carries is its host's own.
    pub managers: Vec<IpAddr>,
    /// Seed of keys, initial syncs and initial sequence numbers. Equal seeds give equal packets.
    pub seed: u64,
    /// What peers must not guess; from the operating system on a real host.
    pub secret: Secret,
}

impl Config {
    /// The rate limit of this side.
    pub fn own_rate(&self) -> Option<RateLimit> {
        self.output_rate.or(self.rate)
    }

    /// The rate limit imposed on peers.
    pub fn imposed_rate(&self) -> Option<RateLimit> {
        self.input_rate.or(self.rate)
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            packet_len: PACKET_LEN,
            black_hole_detection: false,
            window: 1 << 20,
            initial_window: 64 << 10,
            checksum: true,
            framing: Framing::Stream,
            error: ErrorControl::Selective,
            fastnak: false,
            flow: FlowControl::Allocation,
            service: Service::Stream,
            explicit: true,
            supervised: false,
            rate: None,
            input_rate: None,
            output_rate: None,
            congestion: Congestion::Off,
            spans: SpanMeaning::Received,
            sort: None,
            port: 1,
            source_port: 0,
            address: None,
            shared_address: false,
            status_interval_bytes: 120 << 10,
            status_delay: Duration::from_millis(1),
            reply_delay: Duration::from_millis(10),
            wtimer_initial: Duration::from_millis(500),
            wtimer_min: Duration::from_millis(20),
            wtimer_max: Duration::from_secs(10),
            retries_max: 8,
            handshake_max: Duration::from_secs(30),
            keepalive: Duration::from_secs(60),
            quarantine: Duration::from_secs(2),
            quarantine_max: 16_384,
            associations_max: 65_536,
            unvalidated_max: 1024,
            early_accept: true,
            low_water: 0,
            high_water: None,
            coalesce_delay: Duration::from_millis(1),
            initial_rtt: None,
            oqmax: None,
            iqmax: None,
            null_data: false,
            status_request_kind: StatusRequestKind::Received,
            version: Version::V40,
            initial_seq: None,
            fixed_pairs: false,
            routes: false,
            gateway: None,
            hop_limit: 16,
            managers: Vec::new(),
            seed: 1,
            secret: Secret::default(),
        }
    }
}

/// The four close bits of an association at one end (0007, Close).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloseState {
    /// WCLOSE sent: this side's stream ends.
    pub wclose_sent: bool,
    /// RCLOSE received: the peer has all of this side's stream.
    pub rclose_received: bool,
    /// WCLOSE received: the end of the peer's stream is known.
    pub wclose_received: bool,
    /// RCLOSE sent: all of the peer's stream was received.
    pub rclose_sent: bool,
}

/// What an endpoint holds right now. All return to zero when nothing is open and no key is in
/// quarantine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Associations, open or opening.
    pub associations: usize,
    /// Of these, those whose peer's address is not validated.
    pub unvalidated: usize,
    /// Closed keys in quarantine.
    pub quarantined: usize,
    /// Bytes in reassembly queues.
    pub reassembly_bytes: usize,
    /// Armed timers.
    pub timers: usize,
    /// Routes (XTP 3.x).
    pub routes: usize,
    /// Packets, events and ready associations that the host has not polled yet.
    pub queued: usize,
}
