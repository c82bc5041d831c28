//! Packets on the wire: the common header, and one file a chunk (RFC 9260 section 3).
//!
//! Decoders take octets of a peer and give values that hold valid contents only; what they allocate
//! is bounded by a constant beside the code. Encoders append to a list of octets.

pub mod asconf;
pub mod auth;
pub mod cause;
pub mod chunk;
pub mod cookie;
pub mod data;
pub mod forward_tsn;
pub mod header;
pub mod i_data;
pub mod init;
pub mod parameter;
pub mod re_config;
pub mod sack;

pub use asconf::{Asconf, AsconfAck};
pub use auth::{AuthChunk, AuthOffer, HmacId, KeyId};
pub use chunk::{Chunk, ChunkType, Chunks};
pub use cookie::Cookie;
pub use data::{DATA_HEADER_LEN, DataHeader};
pub use forward_tsn::ForwardTsn;
pub use header::{COMMON_HEADER_LEN, CommonHeader};
pub use i_data::{I_DATA_HEADER_LEN, IDataHeader};
pub use init::{Extensions, Init, InitFault, InitParameters};
pub use re_config::ReconfigParameter;
pub use sack::Sack;

/// The two octets of `octets` at `at`; None behind its end.
pub(crate) fn u16_at(octets: &[u8], at: usize) -> Option<u16> {
    let value = octets.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*value))
}

/// The four octets of `octets` at `at`; None behind its end.
pub(crate) fn u32_at(octets: &[u8], at: usize) -> Option<u32> {
    let value = octets.get(at..)?.first_chunk()?;
    Some(u32::from_be_bytes(*value))
}

/// The eight octets of `octets` at `at`; None behind its end.
pub(crate) fn u64_at(octets: &[u8], at: usize) -> Option<u64> {
    let value = octets.get(at..)?.first_chunk()?;
    Some(u64::from_be_bytes(*value))
}
