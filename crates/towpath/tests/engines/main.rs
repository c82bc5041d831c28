//! The engines of this project on real wires.

mod blocks;
mod blocks_under_faults;
mod channel_proxy;
mod endpoint;
mod equal_bytes;
mod files;
mod group;
mod hostile_datagrams;
mod introspection;
mod lend;
mod path_mtu;
mod pushed_tools;
mod relay;
mod sctp;
mod sctp_addresses;
mod sctp_again;
mod sctp_asked;
mod services;
mod shortcut;
mod testbed_hosts;
mod timeouts;
mod tunnel;
mod two_processes;
mod vmtp;
mod vmtp_services;
mod xti;
