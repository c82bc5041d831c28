//! Ethernet frames as a medium: packet sockets on a named interface.
//!
//! * [`EtherWire`] - a packet socket as a wire for engines: frames lie in two rings that the kernel
//!   shares, and a call sends as many as there are.
//! * [`Interface`] - what an interface is: its number, address and largest packet.
//! * [`Frame`], [`EtherSocket`] - one message a frame and a call, for one port, without an engine.
//! * [`packet`] - opening a packet socket, also for captures and for emulated links.
//! * `sys` - the system calls that no library offers safely; the only unsafe code.
//!
//! Ethernet pads short frames and knows hosts, not programs. An engine's packets say themselves how
//! long they are and whom they are for, so an [`EtherWire`] puts nothing in front of them but the
//! Ethernet header. An [`EtherSocket`] adds 6 octets: the length of the user's bytes, and the ports
//! they go to and come from. The kernel filters by port, so that several circuits share an interface
//! and a type without waking one another.
//!
//! A packet socket needs the privilege CAP_NET_RAW.

mod frame;
pub mod packet;
mod ring_wire;
mod socket;
mod sys;

pub use frame::{EtherAddress, FrameHeader, HEADER_LEN, PAYLOAD_MAX};
pub use ring_wire::{EtherWire, EtherWireConfig};
pub use socket::{EtherSocket, Interface};
