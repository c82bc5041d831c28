//! The media below engines that run in the user's thread.

use crate::options::Options;
use crate::socket;
use engine::Address;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use wire::Wire;
use wire_ether::{EtherWire, Interface};
use wire_ip::IpWire;
use wire_udp::UdpWire;

/// A wire, and how it is found.
pub(crate) struct OpenedWire<W> {
    pub(crate) wire: W,
    /// Its line in a rendezvous.
    pub(crate) rendezvous_entry: String,
    /// Which of the engines that share an address is meant, where they do.
    pub(crate) port: u16,
}

impl<W> OpenedWire<W> {
    /// Where it is, as far as its line says so.
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

/// How a race makes wires of one kind.
pub(crate) trait Medium: Send + 'static {
    /// The wires.
    type Wire: Wire + Send + 'static;

    /// A wire that peers can find.
    fn listen(options: &Options) -> io::Result<OpenedWire<Self::Wire>>;

    /// A wire to the listener of `line`, and its address.
    fn connect(line: &[u8], options: &Options) -> io::Result<(OpenedWire<Self::Wire>, Address)>;

    /// Speaks with `peer` only from now on, where the medium gains by it.
    fn restrict_to_peer(_wire: &Self::Wire, _peer: Address) -> io::Result<()> {
        Ok(())
    }

    /// Lets a receive wait until something comes.
    fn disable_receive_timeout(wire: &mut Self::Wire) -> io::Result<()>;

    /// How many packets pass the kernel at once, in words; one a call unless `wanted`.
    fn segmentation(wire: &mut Self::Wire, wanted: bool, packet_len: usize) -> io::Result<String>;
}

/// UDP.
pub(crate) struct UdpMedium;

impl UdpMedium {
    fn opened(local: SocketAddr) -> io::Result<OpenedWire<UdpWire>> {
        let wire = UdpWire::bind(local)?;
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

    fn listen(options: &Options) -> io::Result<OpenedWire<UdpWire>> {
        UdpMedium::opened(SocketAddr::new(options.bind_address(), 0))
    }

    fn connect(line: &[u8], _options: &Options) -> io::Result<(OpenedWire<UdpWire>, Address)> {
        let peer = socket::decode_address(line)?;
        let opened = UdpMedium::opened(socket::wildcard_address(&peer))?;
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

/// Raw IP, protocol 36.
pub(crate) struct IpMedium;

impl IpMedium {
    fn opened(local: IpAddr, port: u16) -> io::Result<OpenedWire<IpWire>> {
        let wire = IpWire::bind(local, wire_ip::XTP)?;
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

    fn listen(options: &Options) -> io::Result<OpenedWire<IpWire>> {
        IpMedium::opened(
            random_loopback_address(options.bind_address()),
            random_port(),
        )
    }

    fn connect(line: &[u8], _options: &Options) -> io::Result<(OpenedWire<IpWire>, Address)> {
        let peer = socket::decode_address(line)?;
        let opened = IpMedium::opened(
            random_loopback_address(source_address_to(peer)?),
            peer.port(),
        )?;
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

/// Ethernet, type 0x817D.
pub(crate) struct EtherMedium;

/// XTP's type among those of Ethernet.
pub(crate) const XTP_ETHERTYPE: u16 = 0x817d;

impl EtherMedium {
    /// The interface the user named.
    pub(crate) fn interface(options: &Options) -> io::Result<Interface> {
        let name = options.interface.as_deref().ok_or_else(|| {
            let text = "no network interface is named; name one with --interface";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        })?;
        Interface::find(name)
    }

    /// A wire on that interface for packets of up to `packet_max` octets.
    pub(crate) fn open_wire(options: &Options) -> io::Result<EtherWire> {
        let own = |name: &str| options.transport_specific.get(name).map(String::as_str);
        let settings = wire_ether::EtherWireConfig {
            ethertype: XTP_ETHERTYPE,
            // Slots of a ring are as long; a full packet is checked against it later.
            packet_max: ETHER_PACKET_MAX,
            bypass: own("bypass") == Some("on"),
        };
        EtherWire::open(EtherMedium::interface(options)?, &settings)
    }

    fn opened(options: &Options, port: u16) -> io::Result<OpenedWire<EtherWire>> {
        let wire = EtherMedium::open_wire(options)?;
        let hardware = wire.interface().hardware;
        let line = wire_ether::EtherAddress { hardware, port }.to_string();
        Ok(OpenedWire {
            wire,
            rendezvous_entry: line,
            port,
        })
    }
}

/// Octets of the longest packet of an Ethernet without special configuration.
pub(crate) const ETHER_PACKET_MAX: usize = 1500;

impl Medium for EtherMedium {
    type Wire = EtherWire;

    fn listen(options: &Options) -> io::Result<OpenedWire<EtherWire>> {
        EtherMedium::opened(options, random_port())
    }

    fn connect(line: &[u8], options: &Options) -> io::Result<(OpenedWire<EtherWire>, Address)> {
        let text = std::str::from_utf8(line).ok();
        let peer: Option<wire_ether::EtherAddress> = text.and_then(|text| text.parse().ok());
        let peer = peer.ok_or_else(|| {
            let text = "the rendezvous is no Ethernet address";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        let opened = EtherMedium::opened(options, peer.port)?;
        Ok((opened, Address::Ether(peer.hardware)))
    }

    fn disable_receive_timeout(_wire: &mut EtherWire) -> io::Result<()> {
        // Nothing could end such a wait; its receives wait for some milliseconds each.
        Ok(())
    }

    fn segmentation(wire: &mut EtherWire, _: bool, packet_len: usize) -> io::Result<String> {
        let count = wire.capabilities().segments(packet_len);
        Ok(format!("none; {count} frames a call"))
    }
}

/// The address this host speaks to `peer` from.
pub(crate) fn source_address_to(peer: SocketAddr) -> io::Result<IpAddr> {
    let socket = UdpSocket::bind(socket::wildcard_address(&peer))?;
    // Any port will do: nothing is sent.
    socket.connect(SocketAddr::new(peer.ip(), 9))?;
    Ok(socket.local_addr()?.ip())
}

/// All of 127.0.0.0/8 is this host's. Where there are no ports, an address of its own keeps an end
/// from hearing what is for others; it is drawn from 2^24, as nothing hands them out.
fn random_loopback_address(local: IpAddr) -> IpAddr {
    if local != IpAddr::V4(Ipv4Addr::LOCALHOST) {
        return local;
    }
    let [a, b, c, d, ..] = random().to_be_bytes();
    // Neither the first address nor the last: those are the network and its broadcast.
    IpAddr::V4(Ipv4Addr::new(127, a, b.max(1), (c ^ d).clamp(1, 254)))
}

/// A port that is likely nobody else's: nothing hands them out, so it is drawn from 65,535.
pub(crate) fn random_port() -> u16 {
    (random() % 65_535) as u16 + 1
}

fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
