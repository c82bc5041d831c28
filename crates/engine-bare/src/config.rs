//! Configuration.

use core::time::Duration;
use engine::Secret;

/// Configuration of an endpoint of `bare`; all its associations share it.
#[derive(Clone, Debug)]
pub struct BareConfig {
    /// Octets of a full packet, header included.
    ///
    /// 1472 fills an Ethernet frame of 1500 octets behind an IPv4 (20) and a UDP (8) header.
    pub packet_len: usize,
    /// Send window: user bytes that may be in flight.
    ///
    /// 512 KiB is eight segmented sends of 64 KiB: enough that the receiver of a loopback never
    /// blocks the sender, and little enough to stay in a second-level cache.
    pub window: u64,
    /// Longest delay of an acknowledgement while less than an eighth of the window was read.
    ///
    /// 10 ms is far below the RTO and costs at most 100 packets a second.
    pub ack_delay: Duration,
    /// Retransmission timeout of Open and Final. After as long without a packet of the peer, bytes
    /// in flight are considered lost.
    pub rto: Duration,
    /// Opens, Finals and loss timeouts in a row before the association times out.
    ///
    /// With 200 ms each, 10 are two seconds.
    pub retries_max: u32,
    /// Associations of an endpoint, at most; each takes about 200 bytes.
    pub associations_max: usize,
    /// Seed of the tokens of Opens. Equal seeds give equal packets.
    pub seed: u64,
    /// What peers must not guess; from the operating system on a real host.
    pub secret: Secret,
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
            secret: Secret::default(),
        }
    }
}
