//! The path manager of Multipath TCP, a generic netlink family (linux/mptcp_pm.h, genetlink.h).

use ::netlink::{Netlink, Request, attribute};
use std::io;
use std::net::IpAddr;

/// `GENL_ID_CTRL`, the family that knows the numbers of the others.
const CONTROLLER: u16 = 0x10;
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
const MPTCP_PM_CMD_ADD_ADDR: u8 = 1;
const MPTCP_PM_CMD_SET_LIMITS: u8 = 5;
const MPTCP_PM_ATTR_ADDR: u16 = 1;
const MPTCP_PM_ATTR_RCV_ADD_ADDRS: u16 = 2;
const MPTCP_PM_ATTR_SUBFLOWS: u16 = 3;
const MPTCP_PM_ADDR_ATTR_FAMILY: u16 = 1;
const MPTCP_PM_ADDR_ATTR_ADDR4: u16 = 3;
const MPTCP_PM_ADDR_ATTR_ADDR6: u16 = 4;
const MPTCP_PM_ADDR_ATTR_FLAGS: u16 = 6;
/// The address is announced to the peer (ADD_ADDR).
const MPTCP_PM_ADDR_FLAG_SIGNAL: u32 = 1;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Octets of the header of a generic message, `struct genlmsghdr`.
const HEADER: usize = 4;

/// A request to generic family `family`: command, version, two of padding.
fn request(family: u16, command: u8) -> Request {
    Request::change(family, &[command, 1, 0, 0])
}

/// The number of the path manager's family. Fails with `NotFound` for a kernel without Multipath TCP.
pub(crate) fn mptcp_family(netlink: &mut Netlink) -> io::Result<u16> {
    let mut asked = request(CONTROLLER, CTRL_CMD_GETFAMILY);
    asked.text(CTRL_ATTR_FAMILY_NAME, "mptcp_pm");
    let reply = netlink.request_reply(asked)?;
    let number = attribute(reply.get(HEADER..).unwrap_or_default(), CTRL_ATTR_FAMILY_ID);
    let number = number.and_then(|octets| octets.try_into().ok());
    let no_number = || io::Error::new(io::ErrorKind::InvalidData, "the family has no number");
    number.map(u16::from_ne_bytes).ok_or_else(no_number)
}

/// Sets how many subflows beside the first, and how many announced addresses, a connection takes.
pub(crate) fn set_mptcp_limits(netlink: &mut Netlink, family: u16, most: u32) -> io::Result<()> {
    let mut asked = request(family, MPTCP_PM_CMD_SET_LIMITS);
    asked.number(MPTCP_PM_ATTR_RCV_ADD_ADDRS, most);
    asked.number(MPTCP_PM_ATTR_SUBFLOWS, most);
    netlink.request(asked)
}

/// Has the path manager announce `address` to the peers of all connections.
pub(crate) fn announce_address(
    netlink: &mut Netlink,
    family: u16,
    address: IpAddr,
) -> io::Result<()> {
    let mut asked = request(family, MPTCP_PM_CMD_ADD_ADDR);
    let endpoint = asked.open(MPTCP_PM_ATTR_ADDR | NESTED);
    match address {
        IpAddr::V4(address) => {
            asked.attribute(MPTCP_PM_ADDR_ATTR_FAMILY, &AF_INET.to_ne_bytes());
            asked.attribute(MPTCP_PM_ADDR_ATTR_ADDR4, &address.octets());
        }
        IpAddr::V6(address) => {
            asked.attribute(MPTCP_PM_ADDR_ATTR_FAMILY, &AF_INET6.to_ne_bytes());
            asked.attribute(MPTCP_PM_ADDR_ATTR_ADDR6, &address.octets());
        }
    }
    asked.number(MPTCP_PM_ADDR_ATTR_FLAGS, MPTCP_PM_ADDR_FLAG_SIGNAL);
    asked.close(endpoint);
    netlink.request(asked)
}
