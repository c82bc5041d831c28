//! System calls behind safe functions.
#![allow(unsafe_code)]

mod ethtool;
mod namespace;
mod rps;
mod tap;
mod udp_offload;

pub(crate) use ethtool::disable_offloads;
pub(crate) use namespace::{unshare_network, unshare_user};
pub(crate) use rps::set_rps_cpus;
pub(crate) use tap::{TapOffloads, open_tap};
pub(crate) use udp_offload::{enable_udp_gro, enable_udp_segment};
