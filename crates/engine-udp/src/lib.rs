//! UDP (RFC 768) over IPv4 (RFC 791), for scenarios: a message is a datagram, cut into fragments where it is longer than a packet of the
//! medium. Nothing is sent again, so that the loss of one fragment loses the datagram.
//!
//! * [`config`] - configuration, with the reason for each default.
//! * [`endpoint`] - the engine itself.
//! * [`pdu`] - the headers, of IPv4 and of UDP.
//! * [`reassembly`] - fragments that wait for the others of their datagram.
//!
//! Real hosts have UDP from their kernel; this engine is its model, so that a scenario can race it against other protocols on the same
//! hosts. Two things differ from the standards. The octets of the two addresses, which the medium has of its own, carry the number of
//! the message, so that a receiver's user knows which ones were lost. And the checksum is one of each fragment, in the place of
//! that of IP's header, instead of one of the whole datagram: a datagram with a wrong octet is dropped in either case, and the
//! octets that are summed are as many.
#![forbid(unsafe_code)]

pub mod config;
pub mod endpoint;
pub mod pdu;
pub mod reassembly;

pub use config::UdpConfig;
pub use endpoint::{MESSAGE_MAX, Udp};
