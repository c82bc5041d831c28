//! Packet format of `bare`.
//!
//! Every packet begins with one [`BareHeader`]. [`BareHeader::parse`] accepts any bytes and never
//! panics; [`BareHeader::emit`] writes [`HEADER_LEN`] octets that parse to the same header.

mod header;

pub use header::{BareHeader, HEADER_LEN, PacketType};
