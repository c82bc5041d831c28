//! Tests of TPI and XTI, over real sockets of the loopback and rings of shared memory.

mod affinity;
mod carried_datagrams;
mod datagram_options;
mod datagrams;
mod endpoint;
mod fuzz;
mod hostile;
mod kit;
mod loopback;
mod loopback_datagrams;
mod modules;
mod options;
mod primitives;
mod sctp_options;
mod sockets;
mod sockmod;
mod states;
mod transfer;
mod unix;
mod urgent;
mod vectors;
