//! The bytes of `bare`.
//!
//! Every packet begins with one [`Header`]. [`Header::parse`] accepts any bytes and never panics;
//! [`Header::emit`] writes exactly [`HEADER_LEN`] octets that parse to the same header.

mod header;

pub use header::{BareHeader, HEADER_LEN, PacketType};
