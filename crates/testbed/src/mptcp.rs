//! Which addresses the kernel's Multipath TCP uses in a host (ip-mptcp(8), RFC 8684).
//!
//! A connection begins with one subflow, between the addresses that its user gave. Each end then
//! announces its addresses on the other links (ADD_ADDR, s. 3.4.1), and the end that connected joins
//! a subflow to each (MP_JOIN, s. 3.2) from its own address on that link, as the route to the
//! announced address says.

use crate::error::TestbedError;
use crate::host::Host;
use crate::interface::run_in_host;
use crate::netlink::{self, Netlink};
use crate::plan::TestbedPlan;
use std::io;
use std::net::IpAddr;

/// Subflows beside the first, and announced addresses, that a connection takes: as many as the
/// kernel allows (MPTCP_PM_ADDR_MAX).
const SUBFLOWS_MAX: u32 = 8;

/// Has `host` announce its addresses on all links but the first. A kernel without Multipath TCP is
/// no fault: other transports run.
pub(crate) fn announce_addresses(host: &Host, plan: &TestbedPlan) -> Result<(), TestbedError> {
    let mut addresses: Vec<IpAddr> = Vec::new();
    for link in 1..plan.links.len() {
        addresses.push(host.address_on(link));
        addresses.extend(plan.ipv6.then(|| host.address6_on(link)));
    }
    run_in_host(host, "the paths of MPTCP", move || {
        let mut netlink = Netlink::open_generic()?;
        let family = match netlink::mptcp_family(&mut netlink) {
            Ok(family) => family,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        netlink::set_mptcp_limits(&mut netlink, family, SUBFLOWS_MAX)?;
        let mut announced = addresses.into_iter();
        announced.try_for_each(|address| netlink::announce_address(&mut netlink, family, address))
    })
}
