//! Routes.

use ::netlink::{Netlink, Request};
use std::io;
use std::net::Ipv4Addr;

const RTM_NEWROUTE: u16 = 24;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const AF_INET: u8 = 2;
/// `RT_TABLE_MAIN`.
const MAIN_TABLE: u8 = 254;
/// `RTPROT_STATIC`.
const STATIC: u8 = 4;
/// `RT_SCOPE_LINK`: destinations on the link.
const ON_LINK: u8 = 253;
/// `RTN_UNICAST`, which routes to groups have too.
const UNICAST: u8 = 1;

/// Adds a route to the destinations of a prefix through interface `index`.
pub(crate) fn add_route(
    netlink: &mut Netlink,
    index: u32,
    destination: Ipv4Addr,
    prefix: u8,
) -> io::Result<()> {
    // struct rtmsg: family, lengths of destination and source, TOS, table, protocol, scope, type,
    // flags.
    let fixed = [
        AF_INET, prefix, 0, 0, MAIN_TABLE, STATIC, ON_LINK, UNICAST, 0, 0, 0, 0,
    ];
    let mut request = Request::create(RTM_NEWROUTE, &fixed);
    request.attribute(RTA_DST, &destination.octets());
    request.number(RTA_OIF, index);
    netlink.request(request)
}
