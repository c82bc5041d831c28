//! Configuration, and what an endpoint tells about itself.

use crate::pdu::{Service, Version};
use core::time::Duration;
use engine::{Address, Framing};

/// Octets of a full packet unless configured otherwise: 1500 of an Ethernet frame less 20 of IPv4
/// and 8 of UDP.
pub const PACKET_LEN: usize = 1472;

/// How losses are made good. The sender and the receiver each follow their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorControl {
    /// Bytes that came before their turn are kept; only what is missing is sent again.
    Selective,
    /// Bytes that came before their turn are dropped; everything from the first loss on is sent
    /// again.
    GoBackN,
    /// Nothing is kept and nothing sent again; gaps are delivered as gaps (NOERR).
    None,
}

/// What keeps a sender from overrunning its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// The receiver allocates a window beyond what its user took.
    Allocation,
    /// The receiver allocates only what its user posted (RES), see [`crate::Xtp::post`].
    Reservation,
    /// The sender heeds nothing (NOFLOW). What a receiver cannot take it drops.
    Off,
}

/// What the spans of an ECNTL list. No text settles it, so both ends must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanMeaning {
    /// Ranges that arrived beyond the first gap.
    Received,
    /// Ranges that did not.
    Missing,
}

/// What a sender's status requests ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRequestKind {
    /// What arrived (SREQ): the answer comes at once.
    Received,
    /// What the user took (DREQ): the answer comes when that is everything.
    Delivered,
}

/// The study's greatest input and output queue of an association, octets.
pub const STUDY_QUEUE_LEN: u64 = 16 << 10;

/// A limit on the sending rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// Octets of XTP packets a second, at least 1.
    pub rate_bytes_per_s: u32,
    /// Octets sent at once, then none for `burst / rate` seconds.
    pub burst_bytes: u32,
}

/// How the sender learns what the path takes. XTP itself has nothing of the kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Congestion {
    /// The path is the user's own: only the peer and the rate limit the sender.
    Off,
    /// Slow start, one packet more a round trip, half after a loss.
    Loss,
    /// As `Loss`, and leaves slow start or shrinks by an eighth when the round trip takes more
    /// than twice the shortest one seen.
    Delay,
    /// Sends at the rate at which bytes were delivered lately, and tries now and then whether there
    /// is more, as BBR does. A single loss means nothing, so it is the one for paths that lose.
    Rate,
}

/// How an endpoint behaves. All associations of an engine share it.
#[derive(Clone, Debug)]
pub struct Config {
    /// Octets of a full packet, header included; without the header this is the study's maxdata.
    ///
    /// At least 128; see [`PACKET_LEN`] for the default.
    pub packet_len: usize,
    /// Bytes a peer may send beyond what the user took: the study's ralloc.
    ///
    /// 1 MiB is sixteen segmented sends of 64 KiB, or 8 ms at a gigabit a second.
    pub window: u64,
    /// Bytes a sender may send before it heard an allocation, and a receiver allocates before the
    /// peer's address is proven: the study's talloc.
    ///
    /// 64 KiB is one segmented send. Times `unproven_max` it bounds what forged openings can take.
    pub initial_window: u64,
    /// Whether DATA packets are summed whole; headers and all other packets always are.
    ///
    /// On: UDP's own checksum is 16 bits too, but offloads and middle boxes see to that one.
    pub checksum: bool,
    /// Byte stream, or messages kept apart by EOM. [`Framing::Records`] works as the host's
    /// affair.
    pub framing: Framing,
    /// How losses are made good.
    pub error: ErrorControl,
    /// Asks the peer to report each gap at once (FASTNAK). Off: status requests find gaps
    /// within `status_every` bytes.
    pub fastnak: bool,
    /// What keeps the sender from overrunning its peer.
    pub flow: FlowControl,
    /// The service circuits opened here ask for. [`Service::Isochronous`] wants a `rate` as well,
    /// and [`Service::Bulk`] a receiver that posts its buffers.
    pub service: Service,
    /// Whether opening waits for the peer's answer. Implicit opening sends the first user bytes
    /// with FIRST and loses no round trip.
    pub explicit: bool,
    /// Whether openings by peers wait for [`crate::Xtp::admit`] or [`crate::Xtp::refuse`].
    pub supervised: bool,
    /// The limit on this side's sending, and what it tells peers to keep to.
    pub rate: Option<RateLimit>,
    /// How the sender learns what the path takes.
    pub congestion: Congestion,
    /// What spans list.
    pub spans: SpanMeaning,
    /// Priority of circuits opened here, and of those whose opener has none (SORT): the lowest value
    /// is served first, those without one last.
    pub sort: Option<u16>,
    /// The port listened on and asked for; openings for another are refused.
    pub port: u16,
    /// The port openings say they come from.
    pub source_port: u16,
    /// Whether other endpoints hear what comes to this one's address, as on raw IP and Ethernet,
    /// and [`Config::port`] alone tells them apart: openings for others are ignored, not refused.
    pub shared_address: bool,
    /// Bytes between two status requests of a busy sender.
    ///
    /// 120 KiB is just under two segmented sends: a control packet every 85, and eight
    /// requests a window.
    pub status_interval_bytes: u64,
    /// When bytes have been on their way this long and no request asks about them, the next
    /// packet with data does; when as much time passes without one, a CNTL.
    ///
    /// 1 ms: a lone loss is repaired in two milliseconds and a round trip, and a conversation of
    /// short messages pays for at most a thousand answers a second.
    pub status_delay: Duration,
    /// How long a reply may wait to travel with the answer of a transaction.
    ///
    /// 10 ms, a fiftieth of the initial WTIMER: the initiator does not repeat itself meanwhile.
    pub reply_delay: Duration,
    /// WTIMER before the first round trip was measured.
    ///
    /// 500 ms is longer than nearly every path on Earth.
    pub wtimer_initial: Duration,
    /// Shortest WTIMER.
    ///
    /// 20 ms: a host that schedules its processes every few milliseconds is not taken for dead.
    pub wtimer_min: Duration,
    /// Longest WTIMER; it doubles with each retry.
    pub wtimer_max: Duration,
    /// Requests in a row without an answer before the association is given up: the study's
    /// retrycount.
    ///
    /// 8: with one packet in five lost each way, one association in ten thousand dies of it.
    pub retries_max: u32,
    /// CTIMEOUT: how long a synchronizing handshake may last, and an opening stay unproven.
    ///
    /// 30 s is what users wait for a host that reboots its switch.
    pub handshake_max: Duration,
    /// CTIMER: silence after which a peer is asked whether it is there; zero for never.
    ///
    /// 60 s keeps most address translators from forgetting a UDP flow.
    pub keepalive: Duration,
    /// How long a closed key is kept to answer duplicates.
    ///
    /// 2 s: four times the longest round trip the initial WTIMER allows for.
    pub quarantine: Duration,
    /// Closed keys kept at most, about 100 bytes each; the oldest go first.
    ///
    /// 16,384 cover 2 s of 8,000 transactions a second. Hosts that close more and must know a
    /// duplicate of each for the whole time say a larger number: with 65,536 the memory lies in no
    /// cache any more, and a transaction takes some 3 % longer.
    pub quarantine_max: usize,
    /// Associations an endpoint holds at most; each takes about 700 bytes when idle.
    pub associations_max: usize,
    /// Of these, ones opened by peers whose address is not proven.
    ///
    /// 1024 with 64 KiB each bound what forged openings can take to 64 MiB.
    pub unvalidated_max: usize,
    /// Bytes on their way up to which new ones leave at once, though they fill no packet.
    ///
    /// 0: a lone message never waits, and while one is on its way others gather behind it.
    pub low_water: u64,
    /// Unsent bytes that leave though more than `low_water` are on their way. Above the length of
    /// a packet, packets are gathered too; below it, they leave part-filled.
    ///
    /// None stands for one full packet, which cannot take another byte.
    pub high_water: Option<u64>,
    /// How long bytes wait between the marks, and how long the host may keep a short message
    /// back, to share a packet with others. Zero: they never do.
    ///
    /// 1 ms, as the status delay: what waits longest waits for an answer as long anyway.
    pub coalesce_delay: Duration,
    /// The round trip taken for granted before one was measured; WTIMER begins at three of them
    /// then, as after a first sample (RFC 6298), and not at `wait_initial`.
    ///
    /// None: nothing is known of the path.
    pub initial_rtt: Option<Duration>,
    /// Bytes sent and kept to be sent again at most, for each association.
    ///
    /// None: the host's send store is the limit. The study's is [`STUDY_QUEUE_LEN`].
    pub oqmax: Option<u64>,
    /// Bytes kept for a user that does not take them at most, for each association.
    ///
    /// None: `window` is the limit, and four windows for a sender that heeds none. The study's is
    /// [`STUDY_QUEUE_LEN`].
    pub iqmax: Option<u64>,
    /// Status requests without user bytes travel in DATA without bytes, not in CNTL.
    ///
    /// Off: a CNTL says more.
    pub null_data: bool,
    /// What status requests with user bytes ask for.
    pub status_request_kind: StatusRequestKind,
    /// Which revision is spoken; both ends the same.
    ///
    /// 4.0, whose wire format is known. What follows is of the third revision alone.
    pub version: Version,
    /// The number of the first byte a circuit sends and receives.
    ///
    /// 0. Byte numbers wrap around at 2^32, which tests begin close to.
    pub initial_seq: u32,
    /// Control packets carry sixteen resend pairs, used or not, if packets are long enough.
    ///
    /// Off: as many as are needed.
    pub fixed_pairs: bool,
    /// Associations have routes, which neighbours name, share and release.
    ///
    /// Off: between hosts on one medium there is nothing to switch.
    pub routes: bool,
    /// The intermediate system that all circuits opened here go through. It needs `routes`.
    pub gateway: Option<Address>,
    /// Intermediate systems a packet may pass (3.6).
    ///
    /// 16 is beyond any local network, and ends a loop within a few milliseconds.
    pub hop_limit: u8,
    /// Makes keys and first syncs. Equal seeds, equal bytes.
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
            error: ErrorControl::Selective,
            fastnak: false,
            flow: FlowControl::Allocation,
            service: Service::Stream,
            explicit: true,
            supervised: false,
            rate: None,
            congestion: Congestion::Off,
            spans: SpanMeaning::Received,
            sort: None,
            port: 1,
            source_port: 0,
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
            low_water: 0,
            high_water: None,
            coalesce_delay: Duration::from_millis(1),
            initial_rtt: None,
            oqmax: None,
            iqmax: None,
            null_data: false,
            status_request_kind: StatusRequestKind::Received,
            version: Version::V40,
            initial_seq: 0,
            fixed_pairs: false,
            routes: false,
            gateway: None,
            hop_limit: 16,
            seed: 1,
        }
    }
}

/// How far the close of an association got at one end: the four bits of XTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct CloseState {
    /// The end of the own stream was sent.
    pub wclose_sent: bool,
    /// The peer has all of the own stream.
    pub rclose_received: bool,
    /// The peer said where its stream ends.
    pub wclose_received: bool,
    /// The peer was told that all of its stream is here.
    pub rclose_sent: bool,
}

/// What an endpoint holds right now. All but the constant ones return to zero when nothing is
/// open and no key is in quarantine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// Associations, open or opening.
    pub associations: usize,
    /// Of these, ones whose peer's address is not proven.
    pub unvalidated: usize,
    /// Closed keys in quarantine.
    pub quarantined: usize,
    /// User bytes kept because they came before their turn.
    pub reassembly_bytes: usize,
    /// Timers armed.
    pub timers: usize,
    /// Routes, in the third revision.
    pub routes: usize,
    /// Packets, events and associations that wait for the host to fetch them.
    pub queued: usize,
}
