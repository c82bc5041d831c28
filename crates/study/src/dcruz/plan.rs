//! The study's plan: sizes, loads, hosts, modes.

use crate::protocol::{Multicast, Revision, StudyConfig, StudyXtp};
use link::EtherConfig;
use sim::{
    Distribution, HostCost, MediumConfig, Network, NetworkConfig, Node, PerByte, Receivers, Traffic,
};

/// A time unit of the study: one bit at 10 Mbit/s.
pub const TU_PS: u64 = 100_000;

/// Propagation from sender to receiver, in tenths of a time unit.
///
/// The study does not state it. Its minimum delay of a 6-byte message is 1,607 time units:  576 and
/// 912 bits of frames, one gap of 96, and two propagations. That leaves 23 for both.
const PROPAGATION_TENTHS_TU: u64 = 115;

/// User bytes of a message, and the loads it is offered at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizePlan {
    /// User bytes of a message.
    pub bytes: u64,
    /// Copying a whole message between user and protocol, time units.
    pub copy_tu: u64,
    /// Mean time between messages, time units, as tables 1, 3, 5 and 7 list them, with two
    /// misprints corrected from the tables of delays (245 for 2,485, 14,850 for 14,858).
    pub interarrivals_tu: &'static [u64],
}

/// The four sizes: terminal, remote procedure call, page, file.
pub const SIZES: [SizePlan; 4] = [
    SizePlan {
        bytes: 6,
        copy_tu: 16,
        interarrivals_tu: &[
            22_472, 11_261, 7_513, 5_636, 4_510, 3_759, 3_222, 2_820, 2_506, 2_256, 2_051, 1_880,
            1_735, 1_611, 1_504, 1_410,
        ],
    },
    SizePlan {
        bytes: 128,
        copy_tu: 336,
        interarrivals_tu: &[
            32_258, 16_077, 10_741, 8_064, 6_455, 5_382, 4_615, 4_038, 3_591, 3_232, 2_937, 2_692,
            2_485, 2_309,
        ],
    },
    SizePlan {
        bytes: 1024,
        copy_tu: 2_694,
        interarrivals_tu: &[
            104_166, 51_813, 34_602, 25_974, 20_790, 17_331, 14_858, 13_003, 11_645, 10_405, 9_460,
            8_673, 8_006,
        ],
    },
    SizePlan {
        bytes: 8192,
        copy_tu: 21_559,
        interarrivals_tu: &[
            714_285, 357_142, 238_095, 178_571, 142_857, 119_047, 104_166, 89_285, 79_363, 71_428,
            64_935, 59_524, 54_945,
        ],
    },
];

/// One checksum, time units.
const CHECKSUM_TU: u64 = 1;

/// Messages sent in a run.
pub const MESSAGES: u64 = 10_000;

/// The seeds of a point.
pub const SEEDS: [u64; 3] = [1, 2, 3];

/// A variant of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Variant {
    /// Its version.
    pub revision: Revision,
    /// Control packets carry 128 octets of resend pairs.
    pub resend_pairs: bool,
    /// To a group, of which one receiver answers.
    pub multicast: bool,
}

impl Variant {
    /// The name of the variant, as in rows.
    pub fn name(&self) -> String {
        let revision = match self.revision {
            Revision::V33 => "3.3",
            Revision::V35 => "3.5",
        };
        let mode = if self.multicast {
            "multicast"
        } else {
            "unicast"
        };
        let pairs = if self.resend_pairs {
            "with resend pairs"
        } else {
            "no resend pairs"
        };
        format!("{revision} {mode}, {pairs}")
    }

    /// The version alone.
    pub fn revision_name(&self) -> &'static str {
        match self.revision {
            Revision::V33 => "3.3",
            Revision::V35 => "3.5",
        }
    }
}

/// The variants the study simulated: 3.3 as in Chen's thesis (figures 1 to 8), 3.5 unicast (tables
/// 1 to 8) and 3.5 multicast (tables 9 to 16).
pub const SIMULATED: [Variant; 3] = [
    Variant {
        revision: Revision::V33,
        resend_pairs: true,
        multicast: false,
    },
    Variant {
        revision: Revision::V35,
        resend_pairs: false,
        multicast: false,
    },
    Variant {
        revision: Revision::V35,
        resend_pairs: false,
        multicast: true,
    },
];

/// The ether of a version. The study's 3.3 simulations do not pad short frames.
pub fn ether(revision: Revision) -> EtherConfig {
    EtherConfig {
        frame_min: match revision {
            Revision::V33 => 0,
            Revision::V35 => 64,
        },
        ..EtherConfig::ten_megabit()
    }
}

/// The study's host: copying by the byte and a checksum for each packet, or no cost.
pub fn host(size: &SizePlan, with_delays: bool) -> HostCost {
    if !with_delays {
        return HostCost::FREE;
    }
    HostCost {
        copy: PerByte {
            ps: size.copy_tu * TU_PS,
            bytes: size.bytes,
        },
        checksum_fixed_ps: CHECKSUM_TU * TU_PS,
        ..HostCost::FREE
    }
}

/// Stations of a run: a sender, a receiver, and in a group one more receiver.
fn stations(variant: Variant) -> usize {
    if variant.multicast { 3 } else { 2 }
}

/// The network of a variant without traffic.
pub fn network(variant: Variant, cost: HostCost, seed: u64) -> Network {
    let propagation_ps = PROPAGATION_TENTHS_TU * TU_PS / 10;
    let config = NetworkConfig {
        medium: MediumConfig::Ether {
            ether: ether(variant.revision),
            positions_ps: vec![0, propagation_ps, propagation_ps / 2],
        },
        faults: None,
        seed,
    };
    let engine = |station: usize| {
        StudyXtp::new(StudyConfig {
            revision: variant.revision,
            resend_pairs: variant.resend_pairs,
            multicast: variant.multicast.then_some(Multicast::new(station == 1)),
            seed: seed * 1000 + station as u64,
            ..StudyConfig::default()
        })
    };
    let hosts = (0..stations(variant)).map(|station| (Node::associations(engine(station)), cost));
    Network::new(&config, hosts.collect())
}

/// The traffic of a point: exponential times between messages of one length, without end.
///
/// The study's runs end when [`MESSAGES`] messages were sent, not when so many were produced: its
/// throughput with host delays falls as the load rises, so the user went on copying all the time.
pub fn traffic(variant: Variant, bytes: u64, interarrival_tu: u64) -> Traffic {
    Traffic {
        senders: vec![0],
        receivers: if variant.multicast {
            Receivers::All
        } else {
            Receivers::One(vec![1])
        },
        length: Distribution::Fixed(bytes),
        interarrival_ps: Distribution::Exponential(interarrival_tu * TU_PS),
        messages: u64::MAX,
        outstanding: None,
        start_ps: 0,
        service: sim::Service::default(),
    }
}
