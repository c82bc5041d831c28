//! System calls that no library wraps safely.
#![allow(unsafe_code)]

mod tcp_info;

pub(crate) use tcp_info::{mptcp_info, tcp_info};
