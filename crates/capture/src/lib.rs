//! Packets kept in files that other tools read.
//!
//! The files are pcapng with times in nanoseconds, which Wireshark and tshark open.
//!
//! * [`pcapng`] - the format: [`Writer`] writes it to anything.
//! * [`tap`] - what an engine sends and receives: a [`Tap`] stands between a pump and its wire and
//!   writes each packet behind an IP header of its own making. What is no wire, such as the trace of
//!   a simulation, is written with [`Recorder::write`].
//! * [`ip`] - that header.
//! * [`socket`] - what crosses a network interface: a [`Capture`] is a thread that copies frames
//!   from the kernel into a file until it is stopped.
//! * `sys` - the packet socket; the only unsafe code.
//!
//! Writing a capture never gets in the way of the packets: a file that cannot be written ends the
//! capture, and its error is told at the end.

pub mod ip;
pub mod pcapng;
pub mod socket;
mod sys;
pub mod tap;

pub use pcapng::{Direction, FileLimit, InterfaceId, LinkType, Packet, PcapngWriter};
pub use socket::{Capture, CaptureTotals};
pub use tap::{CapturedPackets, Recorder, Tap};
