//! Configuration.

use core::time::Duration;

/// Octets of a packet between which it is chosen: a fragment needs a header and eight octets, and a length has 16 bits.
pub const PACKET_LEN_MIN: usize = 64;

/// How an endpoint behaves.
#[derive(Clone, Debug)]
pub struct UdpConfig {
    /// Octets of the longest packet: those of an Ethernet frame, 1500.
    pub packet_len: usize,
    /// Packets have a checksum over their data too. Off in the workstations of the studies: SunOS 4 left it out unless asked.
    pub checksum: bool,
    /// Bytes of an association that its user has not read, at most; a datagram beyond is dropped. 256 KiB, some 30 datagrams of 8 KiB.
    pub receive_buffer: u64,
    /// How long fragments wait for the others: 30 s, as of 4.3BSD; RFC 1122 section 3.3.2 asks for 60 s to 120 s.
    pub reassembly_timeout: Duration,
    /// Associations at most.
    pub associations_max: usize,
}

impl Default for UdpConfig {
    fn default() -> UdpConfig {
        UdpConfig {
            packet_len: 1500,
            checksum: true,
            receive_buffer: 256 << 10,
            reassembly_timeout: Duration::from_secs(30),
            associations_max: 1 << 16,
        }
    }
}
