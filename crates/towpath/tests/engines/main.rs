//! The engines of this project on real wires.

mod endpoint;
mod files;
mod group;
mod introspection;
mod lend;
mod relay;
mod services;
mod testbed_hosts;
mod timeouts;
mod tunnel;
mod two_processes;
mod vmtp;
