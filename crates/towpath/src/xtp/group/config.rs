//! Configuration of the two ends of a group.

use super::{Config, words};
use crate::cells;
use crate::source_filter;
use crate::xtp::contexts::{self, EndpointIdentity};
use crate::xtp::tracing;
use driver::Endpoint;
use engine::{Address, Framing, Protocol};
use engine_aal34::CellsConfig;
use engine_xtp::group::GroupEndpoint;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use wire::Wire;
use wire::trace::{TraceLog, Traced};
use wire_udp::UdpWire;

/// The endpoint of a sender or a receiver, and its streams.
pub(super) type HostedGroup = Endpoint<GroupEndpoint, Traced<UdpWire>>;
pub(super) type GroupCircuit = driver::Circuit<GroupEndpoint, Traced<UdpWire>>;

/// Configuration of a sender or a receiver.
#[derive(Clone, Debug)]
pub struct GroupEndpointConfig {
    /// The engine's configuration.
    pub config: Config,
    /// Bytes of a sender's send buffer; data stay in it until all members have acknowledged them.
    ///
    /// 2 MiB: the slowest member may be a window of 1 MiB behind while the user writes the next.
    pub send_buffer_len: usize,
    /// SO_SNDBUF and SO_RCVBUF requested. If the system grants less, a receiver's window is a
    /// quarter of the buffer granted, because the kernel counts its overhead too.
    pub socket_buffer_len: usize,
    /// IP_MULTICAST_TTL of a sender's packets: 1 keeps them on the local network.
    pub hops: u8,
    /// Whether receivers send their control packets to the group instead of the sender, at the port
    /// after the group's. Damping requires it; both ends must agree.
    pub ack_to_group: bool,
    /// Where a trace of its packets goes; None for the one of the process, if there is any (see
    /// [`crate::xtp::tracing`]).
    pub trace: Option<Arc<TraceLog>>,
    /// The only source address whose packets are accepted; None for any.
    pub only_from: Option<IpAddr>,
    /// Whether it serves reports on its streams; see [`crate::xtp::contexts`].
    pub contexts: bool,
    /// ATM cells between packets and datagrams, the same at all ends; None for none. Cells are not asked
    /// for again: each member would have to be told apart.
    pub cells: Option<CellsConfig>,
}

/// Octets of a full packet over IPv6: Ethernet's 1500 less 40 for IPv6 and 8 for UDP. The kernel
/// refuses segments longer than the MTU.
const PACKET_V6_LEN: usize = 1452;

impl Default for GroupEndpointConfig {
    /// The engine's defaults, without XTP's checksum over data, which UDP's covers.
    fn default() -> GroupEndpointConfig {
        GroupEndpointConfig {
            config: Config {
                checksum: false,
                ..Config::default()
            },
            send_buffer_len: 2 << 20,
            socket_buffer_len: wire_udp::BUFFER_LEN,
            hops: 1,
            ack_to_group: false,
            trace: None,
            only_from: None,
            contexts: false,
            cells: None,
        }
    }
}

impl GroupEndpointConfig {
    /// The defaults, for a sender that waits for `count` members.
    pub fn for_members(count: usize) -> GroupEndpointConfig {
        let mut settings = GroupEndpointConfig::default();
        settings.config.members_min = count;
        settings
    }

    /// This configuration with message boundaries: each send is a message, received as one.
    #[must_use]
    pub fn messages(mut self) -> GroupEndpointConfig {
        self.config.framing = Framing::Messages;
        self
    }

    /// The engine's configuration for an end in `group`.
    pub(super) fn engine_config(&self, group: Option<SocketAddr>) -> Config {
        let to_group = group.filter(|_| self.ack_to_group);
        Config {
            seed: crate::engine_setup::random_seed(),
            secret: crate::engine_setup::random_secret(),
            answer_to: to_group.map(|group| Address::Socket(ack_address(group))),
            window: self.config.window.min(self.window_max()),
            packet_len: self.packet_len(group),
            ..self.config.clone()
        }
    }

    /// Octets of a full packet to `group`.
    fn packet_len(&self, group: Option<SocketAddr>) -> usize {
        let asked = self.config.packet_len;
        match (&self.cells, group) {
            // Frames are as short as the path needs.
            (Some(cells), _) => asked.min(cells.packet_limit()),
            (None, Some(SocketAddr::V6(_))) => asked.min(PACKET_V6_LEN),
            (None, _) => asked,
        }
    }

    /// The largest window for which the system grants socket buffers.
    fn window_max(&self) -> u64 {
        let granted = || -> io::Result<i32> {
            let probe = UdpSocket::bind("127.0.0.1:0")?;
            wire_udp::sys::set_buffers(probe.as_fd(), self.socket_buffer_len);
            wire_udp::sys::option(probe.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF)
        };
        // If the buffer cannot be read back, assume it was granted.
        granted().map_or(u64::MAX, |len| (len as u64 / 4).max(8 << 10))
    }

    /// An endpoint on `wire`: traced, and serving reports, as this configuration demands.
    pub(super) fn host(
        &self,
        engine: GroupEndpoint,
        wire: UdpWire,
        send_buffer_len: usize,
    ) -> io::Result<HostedGroup> {
        let address = wire.local_addr()?;
        let log = match &self.trace {
            Some(log) => Some(Arc::clone(log)),
            None => tracing::process_log()?,
        };
        let wire = Traced::new(wire, log, Address::Socket(address));
        let endpoint = match &self.cells {
            None => Endpoint::new(engine, wire, send_buffer_len)?,
            Some(cells) => {
                let layer = cells::layer(cells, engine.properties().packet_max, 1)?;
                Endpoint::with_layer(engine, wire, layer, send_buffer_len)?
            }
        };
        if self.contexts || contexts::enabled_by_environment() {
            let identity = EndpointIdentity {
                address: address.to_string(),
                dialect: words::version_name(self.config.version).to_owned(),
                shortcut: None,
            };
            contexts::serve(&endpoint, identity, contexts::snapshot_group)?;
        }
        Ok(endpoint)
    }

    /// A wire on the interface that has the address `local`.
    pub(super) fn bind_wire(&self, local: IpAddr, scope: u32, port: u16) -> io::Result<UdpWire> {
        let address = match local {
            IpAddr::V4(_) => SocketAddr::new(local, port),
            IpAddr::V6(host) => std::net::SocketAddrV6::new(host, port, 0, scope).into(),
        };
        let mut wire = UdpWire::from_socket(source_filter::bind_udp(address, self.only_from)?)?;
        wire.set_only_from(self.only_from);
        if let Some(socket) = wire.descriptor() {
            wire_udp::sys::set_buffers(socket, self.socket_buffer_len);
            wire_udp::multicast::set_hops(socket, address, self.hops)?;
        }
        Ok(wire)
    }
}

/// Where receivers of `group` send control packets to the group: the port after the group's.
pub(super) fn ack_address(group: SocketAddr) -> SocketAddr {
    let mut to = group;
    to.set_port(group.port().wrapping_add(1).max(1));
    to
}

/// The scope of an IPv6 group, which selects its interface; 0 for none.
pub(super) fn ipv6_scope(group: SocketAddr) -> u32 {
    match group {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(group) => group.scope_id(),
    }
}

/// Refuses an address that is not multicast.
pub(super) fn check_multicast(group: SocketAddr) -> io::Result<()> {
    if group.ip().is_multicast() {
        return Ok(());
    }
    let text = format!("{group} is no multicast address; use one such as 239.1.2.3:5000");
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
