//! Network configuration by rtnetlink(7) and generic netlink: the requests a testbed makes. A [`Netlink`] configures the
//! network namespace of the thread that opened it.

mod address;
mod link;
mod mptcp;
mod qdisc;
mod route;

pub(crate) use ::netlink::{Netlink, add_neighbour};
pub(crate) use address::add_address;
pub(crate) use link::{InterfaceConfig, add_veth, configure_interface, is_running};
pub(crate) use mptcp::{announce_address, mptcp_family, set_mptcp_limits};
pub(crate) use qdisc::{TokenBucket, add_netem, add_token_bucket, backlog_octets};
pub(crate) use route::add_route;
