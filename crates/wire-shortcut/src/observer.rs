//! What is told of packets that no interface shows.

use std::fmt::Debug;
use std::io::IoSlice;
use std::net::SocketAddr;
use std::time::SystemTime;

/// Is told of the packets that cross the rings of a wire.
///
/// Packets come as in the calls of a wire: one after the other, each but the last of `packet_len` octets.
pub trait RingObserver: Debug + Send + Sync {
    /// Packets to `peer` are in its ring since `at`, a time taken before the peer could see them.
    fn on_sent(&self, at: SystemTime, peer: SocketAddr, slices: &[IoSlice<'_>], packet_len: usize);

    /// Packets of `peer` were taken out of its ring just now.
    fn on_received(&self, peer: SocketAddr, octets: &[u8], packet_len: usize);
}
