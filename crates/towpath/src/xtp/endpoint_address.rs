//! Where an endpoint is: on a UDP port, or without UDP, directly on IP or Ethernet.

use super::config::EndpointConfig;
use crate::medium::{ETHER_PACKET_MAX, random_port};
use crate::transport::xtp_raw;
use engine::{Address, Framing};
use engine_xtp::Config;
use std::io;
use std::net::{IpAddr, SocketAddr};
use wire::Wire;
use wire_ether::{Encapsulation, EtherWire, EtherWireConfig, Interface};
use wire_ip::IpWire;
use wire_shortcut::ShortcutHandle;
use wire_udp::UdpWire;

/// The wire below an endpoint, of any kind.
pub(super) type AnyWire = Box<dyn Wire + Send>;

/// The address of an endpoint.
///
/// IP and Ethernet have no ports, and all endpoints of an address see each other's packets: an endpoint takes those of
/// its own associations, and openings for its XTP port. Both ends of an association have the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointAddress {
    /// A UDP port, 0 for any free one.
    Udp(SocketAddr),
    /// An address of this host, for packets of XTP's protocol number (36). Needs the right to raw sockets
    /// (CAP_NET_RAW).
    Ip {
        /// One of the host's own. Endpoints of one host that are to reach each other have different ones.
        address: IpAddr,
        /// XTP's port; [`free_port`](EndpointAddress::free_port) chooses one.
        port: u16,
    },
    /// A network interface, for frames of XTP's EtherType (0x817D). Needs the right to packet sockets (CAP_NET_RAW).
    Ether {
        /// Its name, for example `eth0`.
        interface: String,
        /// XTP's port; [`free_port`](EndpointAddress::free_port) chooses one.
        port: u16,
    },
}

/// What an endpoint is made of.
pub(super) struct OpenedEndpoint {
    pub(super) wire: AnyWire,
    pub(super) address: Address,
    pub(super) config: Config,
    pub(super) shortcut: Option<ShortcutHandle>,
}

impl From<SocketAddr> for EndpointAddress {
    fn from(local: SocketAddr) -> EndpointAddress {
        EndpointAddress::Udp(local)
    }
}

impl EndpointAddress {
    /// A random XTP port, for an endpoint on IP or Ethernet whose peers are told it.
    pub fn free_port() -> u16 {
        random_port()
    }

    /// The default configuration of an endpoint there: full packets are as long as an Ethernet frame holds, and XTP sums
    /// user data on IP, where nothing else does.
    pub fn default_config(&self) -> EndpointConfig {
        match self {
            EndpointAddress::Udp(_) => EndpointConfig::default(),
            EndpointAddress::Ip { address, .. } => xtp_raw::default_ip_config(address.is_ipv4()),
            EndpointAddress::Ether { .. } => xtp_raw::default_ether_config(ETHER_PACKET_MAX),
        }
    }

    /// Opens the wire of an endpoint whose circuits have `framing`.
    pub(super) fn open(
        &self,
        settings: &EndpointConfig,
        framing: Framing,
    ) -> io::Result<OpenedEndpoint> {
        let config = settings.config(framing);
        match self {
            EndpointAddress::Udp(local) => open_udp(*local, settings, config),
            EndpointAddress::Ip { address, port } => {
                settings.require_no_udp_options()?;
                let mut wire = IpWire::bind(*address, xtp_raw::IP.protocol)?;
                wire.set_max_wait(None)?;
                let own = Address::from(*address);
                OpenedEndpoint::shared(Box::new(wire), own, config, *port)
            }
            EndpointAddress::Ether { interface, port } => {
                settings.require_no_udp_options()?;
                let wire = EtherWire::open(Interface::find(interface)?, &ETHER_WIRE)?;
                let own = Address::Ether(wire.interface().hardware);
                OpenedEndpoint::shared(Box::new(wire), own, config, *port)
            }
        }
    }
}

/// How frames are sent and received.
const ETHER_WIRE: EtherWireConfig = EtherWireConfig {
    ethertype: xtp_raw::ETHERNET.ethertype,
    packet_max: ETHER_PACKET_MAX,
    bypass: false,
    encapsulation: Encapsulation::EtherType,
};

fn open_udp(
    local: SocketAddr,
    settings: &EndpointConfig,
    config: Config,
) -> io::Result<OpenedEndpoint> {
    let mut wire = UdpWire::bind(local)?;
    // The endpoint's helper thread ends waits that time out.
    wire.set_max_wait(None)?;
    wire.set_spin(settings.spin);
    if let Some(socket) = wire.descriptor() {
        wire_udp::sys::set_buffers(socket, settings.socket_buffer_len);
    }
    if !settings.segmentation {
        wire.disable_segmentation()?;
    }
    let address = Address::Socket(wire.local_addr()?);
    let wire = settings.shortcut.wire(wire)?;
    Ok(OpenedEndpoint {
        shortcut: wire.handle(),
        wire: Box::new(wire),
        address,
        config,
    })
}

impl OpenedEndpoint {
    /// One that shares its address with others, from which `port` tells it.
    fn shared(wire: AnyWire, address: Address, config: Config, port: u16) -> io::Result<Self> {
        let (len, most) = (config.packet_len, wire.capabilities().packet_max);
        if len > most {
            let text = format!(
                "packets of {len} octets do not fit the interface, which takes {most}; set packet_len to {most}, or \
                 raise its MTU"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(OpenedEndpoint {
            wire,
            address,
            config: Config {
                port,
                shared_address: true,
                ..config
            },
            shortcut: None,
        })
    }
}
