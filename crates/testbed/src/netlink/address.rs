//! Addresses and neighbours.

use super::Netlink;
use super::message::Request;
use std::io;
use std::net::IpAddr;

const RTM_NEWADDR: u16 = 20;
const RTM_NEWNEIGH: u16 = 28;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
/// No duplicate address detection.
const IFA_F_NODAD: u8 = 0x02;
/// A permanent neighbour entry.
const NUD_PERMANENT: u16 = 0x80;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

fn family(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (AF_INET, address.octets().to_vec()),
        IpAddr::V6(address) => (AF_INET6, address.octets().to_vec()),
    }
}

/// Adds an address with a prefix length to interface `index`.
pub(crate) fn add_address(
    netlink: &mut Netlink,
    index: u32,
    address: IpAddr,
    prefix: u8,
) -> io::Result<()> {
    let (family, octets) = family(address);
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut fixed = [family, prefix, IFA_F_NODAD, 0, 0, 0, 0, 0];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut request = Request::create(RTM_NEWADDR, &fixed);
    request.attribute(IFA_LOCAL, &octets);
    request.attribute(IFA_ADDRESS, &octets);
    netlink.request(request)
}

/// Adds a permanent neighbour entry, so that no measured packet waits for ARP or NDP.
pub(crate) fn add_neighbour(
    netlink: &mut Netlink,
    index: u32,
    address: IpAddr,
    hardware: [u8; 6],
) -> io::Result<()> {
    let (family, octets) = family(address);
    // struct ndmsg: family, two of padding, index, state, flags, type.
    let mut fixed = [0; 12];
    fixed[0] = family;
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    fixed[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
    let mut request = Request::replace(RTM_NEWNEIGH, &fixed);
    request.attribute(NDA_DST, &octets);
    request.attribute(NDA_LLADDR, &hardware);
    netlink.request(request)
}
