//! Ethernet frames as a medium: packet sockets on a named interface.
//!
//! * [`Interface`] - what an interface is: its number, address and largest packet.
//! * [`Frame`] - the header in front of the user's bytes.
//! * [`EtherSocket`] - sends and receives one frame a call, for one port.
//! * `sys` - the system calls that no library offers safely; the only unsafe code.
//!
//! Ethernet pads short frames and knows hosts, not programs. So behind the Ethernet header stand 6
//! octets more: the length of the user's bytes, and the ports they go to and come from. The kernel
//! filters by port, so that several circuits share an interface and a type without waking one
//! another.
//!
//! A packet socket needs the privilege CAP_NET_RAW.

mod frame;
mod socket;
mod sys;

pub use frame::{Address, Frame, HEADER_LEN, LEN_MAX};
pub use socket::{EtherSocket, Interface};
