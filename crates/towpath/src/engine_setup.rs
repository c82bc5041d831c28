//! What the transports with an engine in the user's thread set up: engines and the parameters of
//! their circuits, seeds and secrets, packet lengths.

use crate::connection_info::{ConnectionInfo, NoConnectionInfo};
use crate::contract::{Class, Reach};
use crate::options::Options;
use crate::xtp::EndpointConfig;
use crate::xtp::contexts::{self, EndpointIdentity, SnapshotFn};
use crate::xtp::tracing;
use engine::{AssociationId, Secret};
use engine_xtp::Xtp;
use rustix::rand::GetRandomFlags;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::trace::TraceLog;

/// The class of an engine's associations over segmented UDP.
pub(crate) const CLASS: Class = Class {
    reliable: true,
    ordered: true,
    duplicates: false,
    encrypted: false,
    stream: false,
    kernel: false,
    connectionless: false,
    connects: true,
    flow_control: true,
    half_close: true,
    calls: false,
    reach: Reach::Network,
    checksum: "Internet, 16 bit, by UDP",
    congestion: "",
    offload: "UDP segmentation and coalescing by the kernel",
};

/// An engine and the parameters of its circuits.
pub(crate) struct EngineSetup<E> {
    /// The engine.
    pub(crate) engine: E,
    /// Bytes of a circuit's send buffer.
    pub(crate) send_buffer_len: usize,
    /// Whether to use the kernel's segmentation offload where it exists.
    pub(crate) use_segmentation: bool,
    /// Whether to send by reference where that helps; None where the transport has no such option.
    pub(crate) splice: Option<bool>,
    /// Options in effect, besides the socket's.
    pub(crate) effective: BTreeMap<String, String>,
    /// The error for an empty message, if the protocol cannot carry one.
    pub(crate) empty_message_error: Option<&'static str>,
    /// Shared messages are lent to the engine instead of copied.
    pub(crate) zero_copy: bool,
    /// The end of a circuit is a handshake of its own, which a circuit that is dropped waits for.
    pub(crate) ends_by_handshake: bool,
    /// Packet trace and context reports.
    pub(crate) introspection: Introspection<E>,
    /// Receive buffers that the user posts, if the service needs them.
    pub(crate) buffer_posting: Option<ReceiveBufferPosting<E>>,
    /// What an association says of itself.
    pub(crate) connection_info: ReadConnection<E>,
}

/// Reads the state of an association.
pub(crate) type ReadConnection<E> =
    fn(&E, AssociationId) -> Result<ConnectionInfo, NoConnectionInfo>;

/// Posts receive buffers of so many bytes more for an association.
type PostBuffers<E> = fn(&mut E, engine::Instant, AssociationId, u64);

/// Receive buffers posted by the user; posted again when a quarter of them has been consumed.
pub(crate) struct ReceiveBufferPosting<E> {
    pub(crate) post: PostBuffers<E>,
    buffer_len: u64,
    /// Bytes consumed and not posted again.
    unposted_bytes: u64,
}

impl<E> Clone for ReceiveBufferPosting<E> {
    fn clone(&self) -> Self {
        ReceiveBufferPosting { ..*self }
    }
}

impl<E> ReceiveBufferPosting<E> {
    /// Buffers of `buffer_len` bytes, posted by `post`.
    pub(crate) fn new(buffer_len: u64, post: PostBuffers<E>) -> ReceiveBufferPosting<E> {
        let unposted_bytes = buffer_len;
        ReceiveBufferPosting {
            post,
            buffer_len,
            unposted_bytes,
        }
    }

    /// Counts `bytes` consumed; returns how many to post now, if any.
    pub(crate) fn consume(&mut self, bytes: u64) -> Option<u64> {
        self.unposted_bytes += bytes;
        let due = self.unposted_bytes >= self.buffer_len / 4;
        due.then(|| std::mem::take(&mut self.unposted_bytes))
    }
}

/// Packet trace and context reports of an endpoint.
pub(crate) struct Introspection<E> {
    /// The trace its packets are written to.
    pub(crate) log: io::Result<Option<Arc<TraceLog>>>,
    /// How to report its associations, if enabled.
    pub(crate) served_contexts: Option<(EndpointIdentity, SnapshotFn<E>)>,
}

impl<E> Introspection<E> {
    /// The trace of the process, if there is one, and no reports.
    pub(crate) fn trace_only() -> Introspection<E> {
        Introspection {
            log: tracing::process_log(),
            served_contexts: None,
        }
    }
}

impl Introspection<Xtp> {
    /// As the configuration and the environment demand.
    pub(crate) fn from_config(config: &EndpointConfig) -> Introspection<Xtp> {
        let served_contexts = config.serves_contexts();
        let snapshot: SnapshotFn<Xtp> = contexts::snapshot_xtp;
        Introspection {
            log: config.log(),
            served_contexts: served_contexts.then(|| (config.identity(String::new()), snapshot)),
        }
    }
}

/// A random seed for an engine: an endpoint that reuses a port must not repeat the previous one's
/// keys and sequence numbers.
pub(crate) fn random_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A secret for an engine, from the operating system.
pub(crate) fn random_secret() -> Secret {
    let mut octets = [0; 32];
    let flags = GetRandomFlags::empty();
    if rustix::rand::getrandom(&mut octets, flags) != Ok(octets.len()) {
        // A kernel before 3.17: what the standard library seeds its hash tables from.
        for word in octets.chunks_exact_mut(8) {
            word.copy_from_slice(&random_seed().to_ne_bytes());
        }
    }
    Secret::new(octets)
}

/// UDP payload of a full Ethernet frame: 1500 octets less 28 for IPv4 and UDP headers (the engines'
/// default), or 48 for IPv6 and UDP.
const PACKET_V4: usize = 1472;
const PACKET_V6: usize = 1452;

/// `len`, reduced if it is the IPv4 default and the headers are IPv6's.
pub(crate) fn packet_len_for_family(len: usize, options: &Options) -> usize {
    match options.bind_address() {
        IpAddr::V6(_) if len == PACKET_V4 => PACKET_V6,
        _ => len,
    }
}

/// The packet length that the loopback's MTU allows, if `host` is a loopback address; None for
/// others, as the path MTU may be below any interface's.
pub(crate) fn loopback_packet_len(host: IpAddr) -> Option<usize> {
    let probe = UdpSocket::bind(SocketAddr::new(host, 0)).ok()?;
    // Any port will do: nothing is sent.
    probe.connect(SocketAddr::new(host, 9)).ok()?;
    let (level, name, headers) = match host {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU, 28),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU, 48),
    };
    let mtu = wire_udp::sys::option(probe.as_fd(), level, name).ok()?;
    let room = usize::try_from(mtu).ok()?.checked_sub(headers)?;
    host.is_loopback()
        .then(|| room.min(wire_udp::UDP_PAYLOAD_MAX))
}
