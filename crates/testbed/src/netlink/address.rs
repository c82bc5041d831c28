//! Addresses.

use ::netlink::{Netlink, Request, address_octets};
use std::io;
use std::net::IpAddr;

const RTM_NEWADDR: u16 = 20;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// No duplicate address detection.
const IFA_F_NODAD: u8 = 0x02;

/// Adds an address with a prefix length to interface `index`.
pub(crate) fn add_address(
    netlink: &mut Netlink,
    index: u32,
    address: IpAddr,
    prefix: u8,
) -> io::Result<()> {
    let (family, octets) = address_octets(address);
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let mut fixed = [family, prefix, IFA_F_NODAD, 0, 0, 0, 0, 0];
    fixed[4..8].copy_from_slice(&index.to_ne_bytes());
    let mut request = Request::create(RTM_NEWADDR, &fixed);
    request.attribute(IFA_LOCAL, &octets);
    request.attribute(IFA_ADDRESS, &octets);
    netlink.request(request)
}
