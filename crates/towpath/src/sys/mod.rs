//! System calls that no library wraps safely.
#![allow(unsafe_code)]

mod rcvlowat;
mod sctp_nodelay;
mod tcp_info;
mod zerocopy;

pub(crate) use rcvlowat::{rcvlowat, set_rcvlowat};
pub(crate) use sctp_nodelay::set_sctp_nodelay;
pub(crate) use tcp_info::{mptcp_info, tcp_connection_info, tcp_info};
pub(crate) use zerocopy::{Completion, next_completion, send_zerocopy, set_zerocopy};
