//! Engines of this project on a real wire.

mod endpoint;
mod files;
mod group;
mod introspection;
mod lend;
mod relay;
mod services;
mod testbed_hosts;
mod tunnel;
mod two_processes;
