//! The address by which this host reaches a peer: asked of the kernel's route, without a packet.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Any port will do where nothing is sent; that of the discard service (RFC 863).
const PORT: u16 = 9;

/// The wildcard address and port 0, of the same family as `peer`.
pub fn wildcard_address(peer: &SocketAddr) -> SocketAddr {
    match peer {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// The source address that the kernel chooses for packets to `peer`, in the network of the calling thread.
///
/// # Errors
///
/// The kernel's: no route to `peer`, or no socket left.
pub fn source_address_to(peer: SocketAddr) -> io::Result<IpAddr> {
    let probe = UdpSocket::bind(wildcard_address(&peer))?;
    let mut to = peer;
    to.set_port(PORT);
    probe.connect(to)?;
    Ok(probe.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_reached_from_the_loopback() {
        for host in [IpAddr::from([127, 0, 0, 1]), Ipv6Addr::LOCALHOST.into()] {
            match source_address_to(SocketAddr::new(host, 0)) {
                Ok(source) => assert_eq!(source, host),
                Err(error) if host.is_ipv6() => println!("SKIPPED: no IPv6 here: {error}"),
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn wildcard_address_has_the_family_of_the_peer() {
        let of = |peer: &str| wildcard_address(&peer.parse().expect("an address"));
        assert_eq!(of("10.0.0.1:7").to_string(), "0.0.0.0:0");
        assert_eq!(of("[fe80::1%2]:7").to_string(), "[::]:0");
    }
}
