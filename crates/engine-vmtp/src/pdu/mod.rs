//! Packets (RFC 1045 section 2 and appendix III): one file each.
//!
//! * [`header`] - the 64 octets of every Request and Response.
//! * [`control`] - its control word and its flags.
//! * [`code`] - response codes.
//! * [`packet`] - a whole packet: lengths and check.
//! * [`notify`], [`probe`], [`manage`], [`introduce`] - management requests: they are Requests to the managers' group.

pub mod code;
pub mod control;
pub mod header;
pub mod introduce;
pub mod manage;
pub mod notify;
pub mod packet;
pub mod probe;

pub use code::ResponseCode;
pub use control::{Control, Flags};
pub use header::{HEADER_LEN, VmtpHeader};
pub use introduce::Introduction;
pub use manage::{ManagerAnswer, ManagerRequest};
pub use notify::{NotifyClient, NotifyServer};
pub use packet::{CHECK_LEN, PACKET_MIN, PacketFault};
pub use probe::{ProbeAnswer, ProbeEntity};

use engine::EntityId;

/// The managers of all hosts (RFC 1045 section 2.10): RG-1-224.0.1.0.
pub const MANAGER_GROUP: EntityId = EntityId(0x4000_0001_e000_0100);

/// The word at offset 32 of a header: flags and code.
fn operation(header: &VmtpHeader) -> u32 {
    u32::from(header.flags.0) << 24 | header.code
}

/// A header of a management request from `manager`, with nothing in its user data.
fn management(manager: EntityId, domain: u16, transaction: u32, word: u32) -> VmtpHeader {
    VmtpHeader {
        client: manager,
        domain,
        transaction,
        server: MANAGER_GROUP,
        flags: Flags((word >> 24) as u8),
        code: word & 0x00ff_ffff,
        ..VmtpHeader::default()
    }
}

fn word_at(octets: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

fn entity_at(octets: &[u8], at: usize) -> EntityId {
    EntityId(u64::from(word_at(octets, at)) << 32 | u64::from(word_at(octets, at + 4)))
}
