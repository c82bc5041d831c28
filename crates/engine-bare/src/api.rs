//! Configuration.

use core::time::Duration;

/// How an endpoint of `bare` behaves. All circuits of an engine share it.
#[derive(Clone, Debug)]
pub struct BareConfig {
    /// Octets of a full packet, header included.
    ///
    /// 1472 fills an Ethernet frame of 1500 octets behind an IPv4 (20) and a UDP (8) header.
    pub packet_len: usize,
    /// User bytes that may be on their way unacknowledged.
    ///
    /// 512 KiB is eight segmented sends of 64 KiB: enough that the receiver of a loopback never
    /// starves the sender, and little enough to stay in a second-level cache.
    pub window: u64,
    /// The receiver acknowledges at the latest after this, when the window's eighth is not reached.
    ///
    /// 10 ms is far under the stall limit and costs 100 packets a second at most.
    pub ack_delay: Duration,
    /// Without any news from the peer for this long, what is in flight is taken for lost.
    pub rto: Duration,
    /// Openings, endings and stalls in a row before the circuit is given up.
    ///
    /// With 200 ms each, 10 are two seconds.
    pub retries_max: u32,
    /// Circuits an endpoint holds at most; each takes about 200 bytes.
    pub associations_max: usize,
    /// Makes the tokens of openings. Equal seeds, equal bytes.
    pub seed: u64,
}

impl Default for BareConfig {
    fn default() -> Self {
        BareConfig {
            packet_len: 1472,
            window: 512 << 10,
            ack_delay: Duration::from_millis(10),
            rto: Duration::from_millis(200),
            retries_max: 10,
            associations_max: 4096,
            seed: 1,
        }
    }
}
