//! Packet captures in files that other tools read.
//!
//! The files are pcapng with timestamps in nanoseconds, which Wireshark and tshark open.
//!
//! * [`pcapng`] - the file format: [`PcapngWriter`] writes it to any output.
//! * [`mod@tap`] - packets of an engine: a [`Tap`] is a wire around another and writes each packet
//!   behind a synthetic IP header. Other packets, such as those of a simulation, are written with
//!   [`Recorder::write`].
//! * [`ip`] - that header.
//! * [`cells`] - ATM cells, and PDUs of AAL5: a [`CellWriter`] writes those of one sender.
//! * [`socket`] - packets of a network interface: a [`Capture`] is a thread that copies frames from
//!   the kernel into a file until it is stopped.
//! * `sys` - receiving from the packet socket; the only unsafe code.
//!
//! A capture never blocks or fails traffic: a write error ends the capture and is returned at the
//! end.

pub mod cells;
pub mod ip;
pub mod pcapng;
pub mod socket;
mod sys;
pub mod tap;

pub use cells::{CellWriter, CellsSeen};
pub use pcapng::{Direction, FileLimit, InterfaceId, LinkType, PacketBlock, PcapngWriter};
pub use socket::{Capture, CaptureTotals};
pub use tap::{CapturedPackets, Recorder, Tap, tap};
