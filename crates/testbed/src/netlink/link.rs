//! Interfaces.

use ::netlink::{Netlink, Request};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFF_UP: u32 = 1;
const IFF_RUNNING: u32 = 0x40;
/// Offset of the flags in RTM_NEWLINK.
const FLAGS_AT: usize = 8;

/// Configuration of an interface; None leaves a value unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct InterfaceConfig {
    /// MTU.
    pub(crate) mtu: Option<u32>,
    /// MAC address.
    pub(crate) mac_address: Option<[u8; 6]>,
    /// Transmit queue length, packets.
    pub(crate) queue_len: Option<u32>,
}

/// `struct ifinfomsg` for interface `index`, or 0 if an attribute names it; with IFF_UP if `up`.
fn fixed(index: u32, up: bool) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[4..8].copy_from_slice(&index.to_ne_bytes());
    let flags = if up { IFF_UP } else { 0 };
    octets[8..12].copy_from_slice(&flags.to_ne_bytes());
    octets[12..16].copy_from_slice(&flags.to_ne_bytes());
    octets
}

/// Creates a veth pair: `name` here, `peer` in namespace `other`.
pub(crate) fn add_veth(
    netlink: &mut Netlink,
    name: &str,
    peer: &str,
    other: BorrowedFd<'_>,
) -> io::Result<()> {
    let mut request = Request::create(RTM_NEWLINK, &fixed(0, false));
    request.text(IFLA_IFNAME, name);
    let info = request.open(IFLA_LINKINFO);
    request.text(IFLA_INFO_KIND, "veth");
    let data = request.open(IFLA_INFO_DATA);
    let second = request.open(VETH_INFO_PEER);
    request.raw(&fixed(0, false));
    request.text(IFLA_IFNAME, peer);
    request.number(IFLA_NET_NS_FD, other.as_raw_fd() as u32);
    request.close(second);
    request.close(data);
    request.close(info);
    netlink.request(request)
}

/// Configures the interface called `name` and brings it up.
pub(crate) fn configure_interface(
    netlink: &mut Netlink,
    name: &str,
    settings: InterfaceConfig,
) -> io::Result<()> {
    let mut request = Request::change(RTM_NEWLINK, &fixed(0, true));
    request.text(IFLA_IFNAME, name);
    if let Some(mtu) = settings.mtu {
        request.number(IFLA_MTU, mtu);
    }
    if let Some(hardware) = settings.mac_address {
        request.attribute(IFLA_ADDRESS, &hardware);
    }
    if let Some(len) = settings.queue_len {
        request.number(IFLA_TXQLEN, len);
    }
    netlink.request(request)
}

/// Whether the interface called `name` is running (IFF_RUNNING).
pub(crate) fn is_running(netlink: &mut Netlink, name: &str) -> io::Result<bool> {
    let mut request = Request::change(RTM_GETLINK, &fixed(0, false));
    request.text(IFLA_IFNAME, name);
    let reply = netlink.request_reply(request)?;
    let flags = reply.get(FLAGS_AT..FLAGS_AT + 4);
    let flags = flags.and_then(|octets| octets.try_into().ok());
    Ok(u32::from_ne_bytes(flags.unwrap_or_default()) & IFF_RUNNING != 0)
}
