//! Ethernet frames as a medium: packet sockets on a named interface.
//!
//! * [`EtherWire`] - a packet socket as a wire for engines: frames are in two rings shared with the
//!   kernel, and a call sends all frames in the send ring.
//! * [`Interface`] - an interface's index, hardware address and MTU.
//! * [`FrameHeader`], [`EtherSocket`] - one message a frame and a call, for one port, without an
//!   engine.
//! * [`packet`] - opens packet sockets, also for captures and emulated links.
//! * `sys` - the system calls that no library offers safely; the only unsafe code.
//!
//! Ethernet pads short frames and addresses hosts, not programs. An engine's packets carry their
//! own length and destination, so an [`EtherWire`] puts only the Ethernet header in front of them, or one of IEEE 802.3
//! with LLC ([`Encapsulation`]).
//! An [`EtherSocket`] adds 6 octets: the length of the user's bytes and two ports. The kernel
//! filters by port, so that several circuits share an interface and an EtherType without waking one
//! another.
//!
//! A packet socket needs CAP_NET_RAW.

mod encapsulation;
mod frame;
pub mod packet;
mod ring_wire;
mod socket;
mod sys;

pub use encapsulation::Encapsulation;
pub use frame::{EtherAddress, FrameHeader, HEADER_LEN, PAYLOAD_MAX};
pub use ring_wire::{EtherWire, EtherWireConfig};
pub use socket::{EtherSocket, Interface};
