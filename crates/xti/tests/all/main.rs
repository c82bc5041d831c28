//! Tests of TPI and XTI, over real sockets of the loopback.

mod datagrams;
mod endpoint;
mod hostile;
mod kit;
mod options;
mod primitives;
mod states;
mod transfer;
mod vectors;
