//! All transports of this build.
//!
//! To add one, write a file in `transport/` with a unit struct that implements [`Transport`], and
//! add it to [`all`]. `examples/add_transport.rs` is a complete example; run it with
//! `cargo run -p towpath --example add_transport`. `tests/conformance/` tests every transport in
//! [`all`] against the contract. A program of its own that brings one into races calls [`add`].

use crate::contract::Transport;
use crate::push::Pushable;
use crate::transport::{
    datagrams, ip_streams, loopback, mptcp, null, over_cells, pipe, quic, quic_kernel, raw_ether,
    sctp_kernel, shm, shm_remote, smc, tcp, tcp_batched, tcp_sendfile, tcp_zerocopy, tls,
    udp_batched, udp_segmented, unix_seqpacket, unix_stream, xti_engine, xti_tcp, xti_udp,
};
use std::sync::{LazyLock, PoisonError, RwLock};

static TRANSPORTS: [&dyn Transport; 53] = [
    &tcp::Tcp,
    &tcp_batched::TCP_BATCHED,
    &tcp_zerocopy::TCP_ZEROCOPY,
    &tcp_sendfile::TCP_SENDFILE,
    &mptcp::Mptcp,
    &xti_tcp::XtiTcp,
    &tls::Tls,
    &smc::Smc,
    &datagrams::UDP,
    &datagrams::UDP_CONNECTED,
    &datagrams::UDP_NOCHECKSUM,
    &udp_batched::UDP_BATCHED,
    &udp_segmented::UdpSegmented,
    &datagrams::UDP_LITE,
    &xti_udp::XtiUdp,
    &ip_streams::UDP,
    &ip_streams::RAW_IP,
    &unix_stream::UnixStream,
    &unix_seqpacket::UnixSeqpacket,
    &datagrams::UNIX_DGRAM,
    &pipe::Pipe,
    &shm::SHM,
    &shm::SHM_SPIN,
    &shm::STREAMS_PIPE,
    &loopback::CLTS,
    &loopback::COTS,
    &loopback::COTS_ORD,
    &shm_remote::ShmRemote,
    &raw_ether::RawEther,
    &quic::Quic,
    &quic_kernel::QuicKernel,
    &over_cells::XTP,
    &over_cells::XTP_MESSAGES,
    &over_cells::XTP_LENT,
    &over_cells::XTP_DRIVER,
    &over_cells::XTP_TRANSACTION,
    &over_cells::XTP_DATAGRAM,
    &over_cells::XTP_MULTICAST,
    &over_cells::XTP_RAW_IP,
    &over_cells::XTP_ETHERNET,
    &over_cells::SCTP,
    &xti_engine::XTP,
    &xti_engine::SCTP,
    &over_cells::SCTP_RAW_IP,
    &sctp_kernel::SctpKernel,
    &over_cells::VMTP,
    &over_cells::VMTP_RAW_IP,
    &over_cells::VMTP_ETHERNET,
    &over_cells::VMTP_AAL34,
    &over_cells::AAL34,
    &over_cells::AAL5,
    &over_cells::BARE,
    &null::Null,
];

/// All take modules, and streams have a head without them too, but `null`, which moves nothing, and those to many, as a stream has one other end.
static ALL: LazyLock<Vec<&dyn Transport>> = LazyLock::new(|| {
    let all = TRANSPORTS.iter().map(|&transport| -> &dyn Transport {
        match transport.name() {
            "null" => transport,
            _ if transport.is_one_to_many() => transport,
            "streams-pipe" => Box::leak(Box::new(Pushable::with_head(transport))),
            _ => Box::leak(Box::new(Pushable::new(transport))),
        }
    });
    all.collect()
});

/// Transports that this program has beside those of this build.
static ADDED: RwLock<Vec<&'static dyn Transport>> = RwLock::new(Vec::new());

/// Adds a transport of this program's own, which [`find`] then finds; [`all`] does not list it.
///
/// # Errors
///
/// A sentence when there is one of that name.
pub fn add(transport: &'static dyn Transport) -> Result<(), String> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let name = transport.name();
    let taken = all().iter().chain(&*added).any(|one| one.name() == name);
    if taken {
        return Err(format!(
            "there is a transport '{name}' already; choose another name"
        ));
    }
    added.push(transport);
    Ok(())
}

/// All transports of this build, in the order of result tables.
pub fn all() -> &'static [&'static dyn Transport] {
    &ALL
}

/// The transport called `name`, of this build or added.
///
/// # Errors
///
/// [`UnknownTransport`], whose text lists all names.
pub fn find(name: &str) -> Result<&'static dyn Transport, UnknownTransport> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    let mut known = all().iter().chain(&*added);
    let found = known.find(|transport| transport.name() == name);
    found.copied().ok_or_else(|| UnknownTransport {
        name: name.to_owned(),
    })
}

/// No transport has that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownTransport {
    /// The unknown name.
    pub name: String,
}

impl std::fmt::Display for UnknownTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = all().iter().map(|transport| transport.name()).collect();
        write!(
            f,
            "unknown transport '{}'; there are {}",
            self.name,
            names.join(", ")
        )
    }
}

impl std::error::Error for UnknownTransport {}
