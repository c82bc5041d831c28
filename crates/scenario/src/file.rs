//! The format of scenario files.

use crate::cells::{AdapterSpec, CellsSpec};
use crate::disturbance::DisturbanceSpec;
use crate::engines::EngineSpec;
use crate::units::{BitRate, ByteCount, Fraction, SimTime};
use serde::Deserialize;
use toml::Spanned;

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows.
    #[serde(default)]
    pub name: String,
    /// Seed of all random choices.
    #[serde(default = "one")]
    pub seed: u64,
    /// The run ends at this simulated time.
    pub time_limit: SimTime,
    /// The run ends when so many messages are settled.
    pub messages: Option<u64>,
    /// The medium between the stations.
    pub medium: MediumSpec,
    /// Faults of frames: on a link, or independently at each receiver of an ether.
    pub faults: Option<FaultSpec>,
    /// Disturbances at certain times.
    #[serde(default)]
    pub disturbance: Vec<DisturbanceSpec>,
    /// Hosts of several stations that are not as others.
    #[serde(default)]
    pub host: Vec<HostSpec>,
    /// The stations, numbered from 0 in this order.
    pub station: Vec<StationSpec>,
    /// The traffic.
    pub traffic: Vec<TrafficSpec>,
}

fn one() -> u64 {
    1
}

impl Scenario {
    /// How many stations there are.
    pub fn station_count(&self) -> u64 {
        self.station.iter().map(|spec| spec.count).sum()
    }

    /// What station `number` is.
    pub fn station_spec(&self, number: usize) -> Option<&StationSpec> {
        let mut end = 0;
        self.station.iter().find(|spec| {
            end += spec.count;
            (number as u64) < end
        })
    }
}

/// The medium between the stations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumSpec {
    /// `ether10` (10 Mbit/s on one cable), `ether3` (the experimental 3 Mbit/s), `fddi` (a ring of
    /// 100 Mbit/s with one token), `direct` (two stations, full duplex), `switch` (an output queue for
    /// each station) or `atm` (a switch of cells).
    pub kind: Spanned<String>,
    /// How many of it lie side by side; each station has an address on each. One if not given.
    pub paths: Option<Spanned<usize>>,
    /// Ethers and `fddi`: positions of the stations along the cable, as propagation from its beginning.
    #[serde(default)]
    pub positions: Vec<SimTime>,
    /// Ethers: whether short frames are padded; yes if not given.
    pub padding: Option<bool>,
    /// Ethers: whether frames have LLC and SNAP (RFC 1042) around their packets; no if not given.
    pub llc: Option<Spanned<bool>>,
    /// Links: bits a second; unlimited if not given.
    pub rate: Option<BitRate>,
    /// Links: propagation delay; `fddi`: from the last station to the first.
    #[serde(default)]
    pub delay: SimTime,
    /// `fddi`: target token rotation time; 8 ms if not given.
    pub ttrt: Option<SimTime>,
    /// Links: the queue's limit; unlimited if not given.
    pub queue: Option<ByteCount>,
    /// Links: octets of the longest packet that they carry in one piece; longer ones are lost without a
    /// word. Any if not given.
    pub mtu: Option<Spanned<ByteCount>>,
    /// `atm`: octets in an output queue of the switch above which cells of low priority are
    /// discarded.
    pub low_priority_queue: Option<ByteCount>,
    /// Switch: octets of a frame it needs to forward it; all if not given.
    pub cut_through: Option<u32>,
}

impl MediumSpec {
    /// How many there are side by side.
    pub fn paths(&self) -> usize {
        self.paths.as_ref().map_or(1, |paths| *paths.get_ref())
    }
}

/// Faults of frames.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// Frames lost.
    pub loss: Fraction,
    /// Mean length of a burst of losses; independent losses if not given.
    pub loss_run: Option<f64>,
    /// Frames that arrive twice (links only).
    pub duplicate: Fraction,
    /// Frames reordered.
    pub reorder: Fraction,
    /// By how much they are delayed.
    pub reorder_by: SimTime,
    /// Frames with a bit error.
    pub corrupt: Fraction,
    /// When all faults end; never if not given.
    pub until: Option<SimTime>,
    /// The path that has them; all if not given.
    pub path: Option<usize>,
}

/// What the rings between the stations of a host are like.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Its name, which stations give as their host.
    pub name: Spanned<String>,
    /// Octets that a ring holds; 1 MiB if not given.
    pub ring: Option<Spanned<ByteCount>>,
    /// From the write of a packet into a ring to its arrival; 1 us if not given.
    pub latency: Option<SimTime>,
    /// The processor's copy of `copy_bytes` into a ring, and out of it.
    #[serde(default)]
    pub copy_delay: SimTime,
    /// Bytes `copy_delay` is for; 1 if not given.
    pub copy_bytes: Option<ByteCount>,
    /// Each such copy, besides.
    #[serde(default)]
    pub copy_fixed: SimTime,
    /// From the arrival of an offer to the exchange of rings; 100 us if not given.
    pub meeting: Option<SimTime>,
}

/// One or more stations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StationSpec {
    /// How many of this kind.
    #[serde(default = "one")]
    pub count: u64,
    /// The protocol.
    pub engine: EngineSpec,
    /// The host that it is on, with others that name the same; one of its own if not given.
    pub host: Option<Spanned<String>>,
    /// What lies between its packets and the frames of the medium: `halves`; nothing if not given.
    pub layer: Option<Spanned<String>>,
    /// ATM cells between its packets and the frames of the medium.
    pub cells: Option<Spanned<CellsSpec>>,
    /// The cost of a host's work.
    #[serde(default)]
    pub chips: ChipsSpec,
}

/// The cost of a host's work.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChipsSpec {
    /// Copying `copy_bytes` between user and protocol.
    pub copy_delay: SimTime,
    /// Bytes `copy_delay` is for; 1 if not given.
    pub copy_bytes: Option<ByteCount>,
    /// Each copy, besides.
    pub copy_fixed: SimTime,
    /// A packet's checksum.
    pub checksum_delay: SimTime,
    /// A byte's checksum.
    pub checksum_byte: SimTime,
    /// Each packet built or parsed.
    pub packet: SimTime,
    /// Each arrival.
    pub interrupt: SimTime,
    /// Each timer that expires.
    pub timer: SimTime,
    /// Between two packets sent.
    pub separation: SimTime,
    /// Parts per million by which the station's clock runs fast; slow if negative.
    pub clock_ppm: i32,
    /// On a switch, with `xtp-forwarder`: octets of a frame it needs to forward it, once it knows
    /// the route; all if not given.
    pub cut_through: Option<u32>,
    /// The network controller passes packets by that are for groups (`to = { group = [..] }`) of which no
    /// user of the station is a member; if not, each costs the processor its arrival.
    pub filter_groups: bool,
    /// Packets that may wait for the receiver; those that come while so many wait are dropped. Any number if not given.
    pub queue: Option<u64>,
    /// On medium `atm`: the queues between processor and line; a controller that takes all cells if
    /// not given.
    pub adapter: Option<AdapterSpec>,
}

/// A pattern of messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSpec {
    /// Senders: numbers of stations, or `"others"`, all that are not in `to`.
    pub from: Spanned<StationsSpec>,
    /// Receivers: numbers of stations, or `"all"` others, or with `vmtp` `{ group = [..] }`, these at
    /// once, or `{ members = 4 }`, so many at once.
    pub to: Spanned<StationsSpec>,
    /// Bytes of a message.
    pub length: LengthSpec,
    /// Time from one message to the next.
    pub interarrival: IntervalSpec,
    /// How likely each of `from` and of `to`, in their order, is to be drawn; equally if not given.
    #[serde(default)]
    pub weights: WeightsSpec,
    /// Messages that are produced at once at the end of each interval; 1 if not given.
    pub burst: Option<Spanned<u64>>,
    /// Messages of the pattern; unlimited if not given.
    pub messages: Option<u64>,
    /// Messages that users of other stations write beside and that no association carries: their copies
    /// take the processor.
    pub unsent: Option<Spanned<UnsentSpec>>,
    /// Time before the first interval.
    #[serde(default)]
    pub start: SimTime,
    /// Unsettled messages at most; the next one is produced an interval after there is room.
    pub outstanding: Option<u64>,
    /// Calls: what they are answered with: `empty`, `same`, as many bytes as the request has, or a
    /// number of bytes; `empty` if not given.
    pub reply: Option<Spanned<ReplySpec>>,
    /// Calls: time that the called user takes for a request before it answers; several at once.
    pub service: Option<Spanned<SimTime>>,
    /// Calls: callers, each of which produces its next message an interval after its last one was
    /// answered or given up; if not given, messages do not wait for each other.
    pub clients: Option<Spanned<u64>>,
    /// `vmtp`: calls of a sender to a receiver are in flight together, and are served and answered in
    /// order, in runs of so many, 1 to 64.
    pub stream: Option<Spanned<u64>>,
    /// `vmtp`: the called user passes each request on to this station, whose user answers.
    pub forward: Option<Spanned<usize>>,
    /// `vmtp`, calls to a group: replies are collected for so long; if not given, the first one settles a
    /// call.
    pub collect: Option<Spanned<SimTime>>,
    /// `vmtp`, with `collect`: replies that settle a call at once; it is given up if fewer come in time.
    /// 0: those of all members.
    pub replies: Option<Spanned<u64>>,
    /// `vmtp`: nobody answers; each request is a datagram, of which so many copies are sent, 1 to 8.
    pub repeat: Option<Spanned<u64>>,
    /// `vmtp`: times that a request is sent, at most, 1 to 255; as `retries` of the engine if not given.
    pub tries: Option<Spanned<u64>>,
    /// `vmtp`: between two of them, or between copies, without back-off; as the engine measures if not
    /// given, 10 ms between copies.
    pub spacing: Option<Spanned<SimTime>>,
    /// `vmtp`: what is done about lost blocks of a request: `notify`, its receiver asks for them, or
    /// `timeout`, all of it is sent again; `notify` if not given.
    pub repair: Option<Spanned<String>>,
}

/// How likely stations of a pattern are to be drawn.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightsSpec {
    /// Senders, in the order of `from`.
    pub from: Option<Spanned<Vec<u64>>>,
    /// Receivers, in the order of `to`.
    pub to: Option<Spanned<Vec<u64>>>,
}

/// Messages that no association carries, as long as the pattern's.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UnsentSpec {
    /// Stations whose users write them.
    pub from: Vec<usize>,
    /// At each of them, for each message of the pattern: above 0, at most 1000.
    pub share: f64,
}

/// What calls are answered with.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum ReplySpec {
    /// A number of bytes.
    Bytes(ByteCount),
    /// `empty` or `same`.
    Word(String),
}

/// Stations of a pattern.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum StationsSpec {
    /// One of these for each message.
    Stations(Vec<usize>),
    /// These at once.
    Group {
        /// The members.
        group: Vec<usize>,
    },
    /// So many at once, those with the lowest numbers that do not send.
    Members {
        /// How many.
        members: usize,
    },
    /// `all` or `others`.
    Word(String),
}

/// Distribution of message lengths.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LengthSpec {
    /// Always this.
    Fixed(ByteCount),
    /// Uniform between two lengths.
    Uniform(ByteCount, ByteCount),
    /// Exponential with this mean.
    Exponential(ByteCount),
}

/// Distribution of the times between messages.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum IntervalSpec {
    /// Always this.
    Fixed(SimTime),
    /// Uniform between two times.
    Uniform(SimTime, SimTime),
    /// Exponential with this mean.
    Exponential(SimTime),
}
