//! A scenario as it stands in a file.

use crate::disturbance::DisturbanceSpec;
use crate::engines::EngineSpec;
use crate::units::{BitRate, ByteCount, Fraction, SimTime};
use serde::Deserialize;
use toml::Spanned;

/// Everything a run needs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it shows.
    #[serde(default)]
    pub name: String,
    /// All random choices follow from it.
    #[serde(default = "one")]
    pub seed: u64,
    /// The run ends at this simulated time.
    pub time_limit: SimTime,
    /// The run ends when so many messages are settled.
    pub messages: Option<u64>,
    /// What joins the stations.
    pub medium: MediumSpec,
    /// What befalls frames: on a link, or at each receiver of an ether on its own.
    pub faults: Option<FaultSpec>,
    /// What happens at certain times.
    #[serde(default)]
    pub disturbance: Vec<DisturbanceSpec>,
    /// The stations, numbered from 0 in this order.
    pub station: Vec<StationSpec>,
    /// Who sends what to whom.
    pub traffic: Vec<TrafficSpec>,
}

fn one() -> u64 {
    1
}

/// What joins the stations.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediumSpec {
    /// `ether10` (10 Mbit/s on one cable), `ether3` (the experimental 3 Mbit/s), `direct` (two
    /// stations, full duplex) or `switch` (an output queue for each station).
    pub kind: Spanned<String>,
    /// Ethers: places of the stations along the cable, as propagation from its beginning.
    #[serde(default)]
    pub positions: Vec<SimTime>,
    /// Ethers: short frames are padded to their least length; not, if false.
    pub padding: Option<bool>,
    /// Links: bits a second; none takes no time.
    pub rate: Option<BitRate>,
    /// Links: propagation.
    #[serde(default)]
    pub delay: SimTime,
    /// Links: what may wait.
    pub queue: Option<ByteCount>,
    /// Switch: octets of a frame it waits for before it passes it on; all if not given.
    pub cut_through: Option<u32>,
}

/// Faults.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultSpec {
    /// Frames lost.
    pub loss: Fraction,
    /// Mean length of a run of losses; each on its own if not given.
    pub loss_run: Option<f64>,
    /// Frames that arrive twice (links only).
    pub duplicate: Fraction,
    /// Frames held back.
    pub reorder: Fraction,
    /// For how long.
    pub reorder_by: SimTime,
    /// Frames with a bit turned over.
    pub corrupt: Fraction,
    /// When all of this ends; never if not given.
    pub until: Option<SimTime>,
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
    /// What work costs.
    #[serde(default)]
    pub chips: ChipsSpec,
}

/// What a host's work costs.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ChipsSpec {
    /// Copying `copy_bytes` between user and protocol.
    pub copy_delay: SimTime,
    /// Bytes `copy_delay` is for; 1 if not given.
    pub copy_bytes: Option<ByteCount>,
    /// Each piece copied, besides.
    pub copy_fixed: SimTime,
    /// A packet's checksum.
    pub checksum_delay: SimTime,
    /// A byte's checksum.
    pub checksum_byte: SimTime,
    /// Each packet built or parsed.
    pub packet: SimTime,
    /// Each arrival.
    pub interrupt: SimTime,
    /// Each timer that goes off.
    pub timer: SimTime,
    /// Between two packets on their way out.
    pub separation: SimTime,
    /// Parts of a million by which the station's clock runs fast; slow if negative.
    pub clock_ppm: i32,
    /// On a switch, with `xtp-forwarder`: octets of a frame it waits for before it passes it on, once
    /// it knows the route; all if not given.
    pub cut_through: Option<u32>,
}

/// A pattern of messages.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrafficSpec {
    /// Where messages come up: numbers of stations, or `"others"`, all that are not in `to`.
    pub from: Spanned<StationsSpec>,
    /// Where they go: numbers of stations, or `"all"` others.
    pub to: Spanned<StationsSpec>,
    /// Bytes of a message.
    pub length: LengthSpec,
    /// Time from one message to the next.
    pub interarrival: IntervalSpec,
    /// Messages of the pattern; without end if not given.
    pub messages: Option<u64>,
    /// Before the first interval.
    #[serde(default)]
    pub start: SimTime,
    /// Messages not settled at most; the next one comes up an interval after there is room.
    pub outstanding: Option<u64>,
}

/// Stations of a pattern.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum StationsSpec {
    /// Each message at, or to, one of these.
    Stations(Vec<usize>),
    /// A word for several.
    Word(String),
}

/// How long messages are.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum LengthSpec {
    /// Always this.
    Fixed(ByteCount),
    /// Between two lengths, all alike.
    Uniform(ByteCount, ByteCount),
    /// Exponential with this mean.
    Exponential(ByteCount),
}

/// How often they come.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum IntervalSpec {
    /// Always this.
    Fixed(SimTime),
    /// Between two times, all alike.
    Uniform(SimTime, SimTime),
    /// Exponential with this mean.
    Exponential(SimTime),
}
