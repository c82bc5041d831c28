//! Tables 17 to 21: the expected maximum throughput, computed from the packets the engines send.
//!
//! One message goes from sender to receiver; all frames that leave a controller are summed up, with
//! preamble, addresses, type and check sequence. The expected throughput is the message over these
//! octets times the 1,250,000 octets a second of the medium.

use super::plan::{self, SIZES, Variant};
use crate::protocol::Revision;
use serde::Serialize;
use sim::{Distribution, HostCost, PacketEvent, Traffic};
use std::cell::Cell;
use std::rc::Rc;

/// Octets of a frame beside its packet: addresses 12, type 2, check sequence 4.
const FRAME_OCTETS: u64 = 18;

/// Octets of preamble.
const PREAMBLE_OCTETS: u64 = 8;

/// The medium, octets a second.
const MEDIUM_BPS: f64 = 1_250_000.0;

/// The expected maximum of a variant at a size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Expected {
    /// Version of the protocol.
    pub revision: &'static str,
    /// To a group.
    pub multicast: bool,
    /// Control packets carry resend pairs.
    pub resend_pairs: bool,
    /// User bytes of a message.
    pub size_bytes: u64,
    /// Frames of the exchange.
    pub frames: u64,
    /// Octets of these frames.
    pub frame_octets: u64,
    /// User bytes a second, the exchange repeated without pause.
    pub throughput_bps: f64,
}

/// Sends one message and counts the frames.
pub fn expected(variant: Variant, bytes: u64) -> Expected {
    let counts = Rc::new(Cell::new((0, 0)));
    let frame_min = u64::from(plan::ether(variant.revision).frame_min);
    let mut network = plan::network(variant, HostCost::FREE, 1);
    let seen = Rc::clone(&counts);
    network.observe(move |observation| {
        if observation.event == PacketEvent::Offered {
            let packet = observation.packet.len() as u64;
            let octets = (packet + FRAME_OCTETS).max(frame_min) + PREAMBLE_OCTETS;
            let (frames, total) = seen.get();
            seen.set((frames + 1, total + octets));
        }
    });
    let traffic = Traffic {
        messages: 1,
        interarrival_ps: Distribution::Fixed(0),
        ..plan::traffic(variant, bytes, 1)
    };
    if network.add_traffic(traffic).is_ok() {
        network.run(u64::MAX);
    }
    let (frames, frame_octets) = counts.get();
    Expected {
        revision: variant.revision_name(),
        multicast: variant.multicast,
        resend_pairs: variant.resend_pairs,
        size_bytes: bytes,
        frames,
        frame_octets,
        throughput_bps: bytes as f64 * MEDIUM_BPS / frame_octets.max(1) as f64,
    }
}

/// A column of tables 17 to 21: a variant at the four sizes.
pub fn column(revision: Revision, multicast: bool, resend_pairs: bool) -> Vec<Expected> {
    let variant = Variant {
        revision,
        resend_pairs,
        multicast,
    };
    let sizes = SIZES.iter();
    sizes.map(|size| expected(variant, size.bytes)).collect()
}
