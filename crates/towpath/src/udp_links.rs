//! UDP sockets side by side: one at each address of an end, for engines with several paths.

use crate::medium::{Medium, OpenedWire};
use crate::options::Options;
use crate::socket;
use crate::source_filter;
use engine::Address;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use wire::{Many, Wire};
use wire_udp::UdpWire;

/// UDP at each of an end's addresses, all with one port: a peer that knows the port of one address
/// tries it at the others (RFC 6951 section 5.4).
pub(crate) struct UdpLinksMedium;

/// Ports that are tried until one is free at all addresses.
const PORTS_TRIED: u32 = 20;

impl UdpLinksMedium {
    fn opened(options: &Options) -> io::Result<OpenedWire<Many<UdpWire>>> {
        let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
        for _ in 0..PORTS_TRIED {
            match bind_all(options) {
                Ok(wires) => {
                    let first = wires.first().ok_or(io::ErrorKind::AddrNotAvailable)?;
                    let line = first.local_addr()?.to_string();
                    return Ok(OpenedWire {
                        wire: Many::new(wires)?,
                        rendezvous_entry: line,
                        port: 0,
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }
}

/// A wire at each local address, with the port that the first one was given.
fn bind_all(options: &Options) -> io::Result<Vec<UdpWire>> {
    let (mut wires, mut port) = (Vec::new(), 0);
    for (link, ip) in options.local_addresses.iter().enumerate() {
        let local = SocketAddr::new(*ip, port);
        let bound = source_filter::bind_udp(local, options.only_from_by(link))?;
        let wire = UdpWire::from_socket(bound)?;
        port = wire.local_addr()?.port();
        wires.push(wire);
    }
    Ok(wires)
}

impl Medium for UdpLinksMedium {
    type Wire = Many<UdpWire>;

    fn listen(&self, options: &Options) -> io::Result<OpenedWire<Many<UdpWire>>> {
        UdpLinksMedium::opened(options)
    }

    fn connect(
        &self,
        line: &[u8],
        options: &Options,
    ) -> io::Result<(OpenedWire<Many<UdpWire>>, Address)> {
        let peer = socket::decode_address(line)?;
        Ok((UdpLinksMedium::opened(options)?, Address::Socket(peer)))
    }

    fn sockets(wire: &Many<UdpWire>) -> Vec<BorrowedFd<'_>> {
        wire.wires().filter_map(Wire::descriptor).collect()
    }

    fn disable_receive_timeout(_wire: &mut Many<UdpWire>) -> io::Result<()> {
        // They have no receiver that could wait without one.
        Ok(())
    }

    fn segmentation(
        wire: &mut Many<UdpWire>,
        wanted: bool,
        packet_len: usize,
    ) -> io::Result<String> {
        if !wanted {
            wire.wires_mut()
                .try_for_each(UdpWire::disable_segmentation)?;
            return Ok("off".into());
        }
        Ok(match wire.wires().all(UdpWire::is_segmented) {
            true => format!("on, {} segments", wire.capabilities().segments(packet_len)),
            false => "off: not in this kernel".into(),
        })
    }
}
