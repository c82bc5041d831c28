//! The wires below engines that run in the user's thread: UDP, raw IP, Ethernet.

use crate::engine_setup::random_seed;
use crate::options::Options;
use crate::raw_sockets;
use crate::socket;
use crate::source_filter;
use engine::Address;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use wire::Wire;
use wire_ether::{Encapsulation, EtherWire, Interface};
use wire_ip::IpWire;
use wire_shortcut::ShortcutHandle;
use wire_udp::UdpWire;

/// An open wire and its rendezvous entry.
pub(crate) struct OpenedWire<W> {
    pub(crate) wire: W,
    /// Its entry in a rendezvous.
    pub(crate) rendezvous_entry: String,
    /// Identifies the engine among those that share the wire's address; 0 if the wire has ports.
    pub(crate) port: u16,
}

impl<W> OpenedWire<W> {
    /// Its address, parsed from the rendezvous entry.
    pub(crate) fn local_address(&self) -> Address {
        let ether = || {
            self.rendezvous_entry
                .parse::<wire_ether::EtherAddress>()
                .ok()
        };
        match (self.rendezvous_entry.parse().ok(), ether()) {
            (Some(socket), _) => Address::Socket(socket),
            (None, Some(address)) => Address::Ether(address.hardware),
            (None, None) => Address::Station(0),
        }
    }
}

/// How a transport opens wires of one kind.
pub(crate) trait Medium: Send + 'static {
    /// The wire.
    type Wire: Wire + Send + 'static;

    /// Opens the wire of a listener.
    fn listen(&self, options: &Options) -> io::Result<OpenedWire<Self::Wire>>;

    /// Opens a wire to the listener of rendezvous entry `line`; returns the listener's address too.
    fn connect(
        &self,
        line: &[u8],
        options: &Options,
    ) -> io::Result<(OpenedWire<Self::Wire>, Address)>;

    /// Whether its sockets take a filter of sources: not where they see no IP header, and not where they have one.
    fn takes_source_filter(_options: &Options) -> bool {
        true
    }

    /// The sockets below the wire, in the order of its local addresses.
    fn sockets(wire: &Self::Wire) -> Vec<BorrowedFd<'_>> {
        wire.descriptor().into_iter().collect()
    }

    /// The shortcut of the wire, if it has one.
    fn shortcut(_wire: &Self::Wire) -> Option<ShortcutHandle> {
        None
    }

    /// Restricts the wire to one peer, if that makes the medium cheaper (UDP: a connected socket).
    fn restrict_to_peer(_wire: &Self::Wire, _peer: Address) -> io::Result<()> {
        Ok(())
    }

    /// Lets a receive wait without a timeout.
    fn disable_receive_timeout(wire: &mut Self::Wire) -> io::Result<()>;

    /// Sends by reference if `wanted` and possible, and says whether.
    fn splice(_wire: &mut Self::Wire, wanted: bool) -> io::Result<&'static str> {
        Ok(match wanted {
            true => "off: not on this medium",
            false => "off",
        })
    }

    /// Sets segmentation offload if `wanted`, and describes the batching in effect.
    fn segmentation(wire: &mut Self::Wire, wanted: bool, packet_len: usize) -> io::Result<String>;
}

/// UDP.
pub(crate) struct UdpMedium;

impl UdpMedium {
    /// A wire at `local`.
    pub(crate) fn opened(local: SocketAddr, options: &Options) -> io::Result<OpenedWire<UdpWire>> {
        let wire = UdpWire::from_socket(source_filter::bind_udp(local, options.only_from)?)?;
        let line = wire.local_addr()?.to_string();
        Ok(OpenedWire {
            wire,
            rendezvous_entry: line,
            port: 0,
        })
    }
}

impl Medium for UdpMedium {
    type Wire = UdpWire;

    fn listen(&self, options: &Options) -> io::Result<OpenedWire<UdpWire>> {
        let local = SocketAddr::new(options.bind_address(), options.bind_port);
        UdpMedium::opened(local, options)
    }

    fn connect(
        &self,
        line: &[u8],
        options: &Options,
    ) -> io::Result<(OpenedWire<UdpWire>, Address)> {
        let peer = socket::decode_address(line)?;
        let opened = UdpMedium::opened(socket::wildcard_address(&peer), options)?;
        Ok((opened, Address::Socket(peer)))
    }

    fn restrict_to_peer(wire: &UdpWire, peer: Address) -> io::Result<()> {
        match peer {
            Address::Socket(peer) => wire.connect(peer),
            _ => Ok(()),
        }
    }

    fn disable_receive_timeout(wire: &mut UdpWire) -> io::Result<()> {
        wire.set_max_wait(None)
    }

    fn splice(wire: &mut UdpWire, wanted: bool) -> io::Result<&'static str> {
        Ok(match wanted {
            false => "off",
            true if wire.enable_references()? => "on",
            true => "off: not with one peer on this host",
        })
    }

    fn segmentation(wire: &mut UdpWire, wanted: bool, packet_len: usize) -> io::Result<String> {
        if !wanted {
            wire.disable_segmentation()?;
            return Ok("off".into());
        }
        Ok(match wire.is_segmented() {
            true => format!("on, {} segments", wire.capabilities().segments(packet_len)),
            false => "off: not in this kernel".into(),
        })
    }
}

/// Raw IP.
pub(crate) struct IpMedium {
    /// The transport's protocol number (IANA).
    pub(crate) protocol: u8,
}

impl IpMedium {
    fn opened(
        &self,
        local: IpAddr,
        port: u16,
        options: &Options,
    ) -> io::Result<OpenedWire<IpWire>> {
        let wire = match &options.raw_sockets {
            Some(granted) => IpWire::over(granted.take()?.socket, local, self.protocol)?,
            None => IpWire::bind(local, self.protocol)?,
        };
        let line = SocketAddr::new(local, port).to_string();
        Ok(OpenedWire {
            wire,
            rendezvous_entry: line,
            port,
        })
    }
}

impl Medium for IpMedium {
    type Wire = IpWire;

    fn takes_source_filter(options: &Options) -> bool {
        options.raw_sockets.is_none()
    }

    fn listen(&self, options: &Options) -> io::Result<OpenedWire<IpWire>> {
        let local = random_loopback_address(options.bind_address());
        self.opened(local, random_port(), options)
    }

    fn connect(&self, line: &[u8], options: &Options) -> io::Result<(OpenedWire<IpWire>, Address)> {
        let peer = socket::decode_address(line)?;
        let local = random_loopback_address(socket::source_address_to(peer)?);
        let opened = self.opened(local, peer.port(), options)?;
        Ok((opened, Address::Socket(SocketAddr::new(peer.ip(), 0))))
    }

    fn disable_receive_timeout(wire: &mut IpWire) -> io::Result<()> {
        wire.set_max_wait(None)
    }

    fn segmentation(wire: &mut IpWire, _: bool, packet_len: usize) -> io::Result<String> {
        let count = wire.capabilities().segments(packet_len);
        Ok(format!("none; {count} packets a call"))
    }
}

/// Ethernet.
pub(crate) struct EtherMedium {
    /// The transport's EtherType.
    pub(crate) ethertype: u16,
}

impl EtherMedium {
    /// The interface of option --interface, or the one that leads to the only peer.
    pub(crate) fn interface(options: &Options) -> io::Result<Interface> {
        let name = raw_sockets::interface_of(options).ok_or_else(|| {
            let text = "no network interface is named; name one with --interface";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        Interface::find(&name)
    }

    /// Opens a wire on that interface for packets of up to [`ETHER_PACKET_MAX`] octets.
    pub(crate) fn open_wire(&self, options: &Options) -> io::Result<EtherWire> {
        let own = |name: &str| options.transport_specific.get(name).map(String::as_str);
        let settings = wire_ether::EtherWireConfig {
            ethertype: self.ethertype,
            // Also the length of a ring slot; the engine's packet length is checked later.
            packet_max: ETHER_PACKET_MAX,
            bypass: own("bypass") == Some("on"),
            encapsulation: match own(LLC) {
                Some("on") => Encapsulation::Llc,
                _ => Encapsulation::EtherType,
            },
        };
        let interface = EtherMedium::interface(options)?;
        match &options.raw_sockets {
            Some(granted) => EtherWire::over(granted.take()?.socket, interface, &settings),
            None => EtherWire::open(interface, &settings),
        }
    }

    fn opened(&self, options: &Options, port: u16) -> io::Result<OpenedWire<EtherWire>> {
        let wire = self.open_wire(options)?;
        let hardware = wire.interface().hardware;
        let line = wire_ether::EtherAddress { hardware, port }.to_string();
        Ok(OpenedWire {
            wire,
            rendezvous_entry: line,
            port,
        })
    }
}

/// The option that has frames say by LLC and SNAP, instead of an EtherType, what they carry.
pub(crate) const LLC: &str = "llc";

/// The standard Ethernet MTU, octets.
pub(crate) const ETHER_PACKET_MAX: usize = 1500;

impl Medium for EtherMedium {
    type Wire = EtherWire;

    fn takes_source_filter(_options: &Options) -> bool {
        false
    }

    fn listen(&self, options: &Options) -> io::Result<OpenedWire<EtherWire>> {
        self.opened(options, random_port())
    }

    fn connect(
        &self,
        line: &[u8],
        options: &Options,
    ) -> io::Result<(OpenedWire<EtherWire>, Address)> {
        let text = std::str::from_utf8(line).ok();
        let peer: Option<wire_ether::EtherAddress> = text.and_then(|text| text.parse().ok());
        let peer = peer.ok_or_else(|| {
            let text = "the rendezvous is no Ethernet address";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let opened = self.opened(options, peer.port)?;
        Ok((opened, Address::Ether(peer.hardware)))
    }

    fn disable_receive_timeout(_wire: &mut EtherWire) -> io::Result<()> {
        // Nothing could interrupt such a wait; each receive waits for some milliseconds.
        Ok(())
    }

    fn segmentation(wire: &mut EtherWire, _: bool, packet_len: usize) -> io::Result<String> {
        let count = wire.capabilities().segments(packet_len);
        Ok(format!("none; {count} frames a call"))
    }
}

/// A random address of 127.0.0.0/8 instead of 127.0.0.1. Raw IP has no ports, so ends on one
/// address would all receive each other's packets. Nothing allocates these addresses, hence random.
fn random_loopback_address(local: IpAddr) -> IpAddr {
    if local != IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return local;
    }
    let [a, b, c, d, ..] = random_seed().to_be_bytes();
    // Not 0 or 255 in the last octet: they could be network or broadcast addresses.
    IpAddr::V4(Ipv4Addr::new(127, a, b.max(1), (c ^ d).clamp(1, 254)))
}

/// A random port, 1 to 65,535. Nothing allocates ports on these wires; collisions are unlikely.
pub(crate) fn random_port() -> u16 {
    (random_seed() % 65_535) as u16 + 1
}
