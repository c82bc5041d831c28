//! The other management procedures (RFC 1045 appendix III): what they ask, and the form of an answer.

use super::{Control, ResponseCode, VmtpHeader, entity_at, word_at};
use crate::blocks::BLOCK_LEN;
use engine::EntityId;

/// A management procedure that is answered; PIC codes 0x000102 to 0x00010e.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManagerRequest {
    /// AuthProbeEntity: asks for a key.
    AuthProbeEntity,
    /// ProbeEntityBlock: whether a host has one of 256 identifiers.
    ProbeEntityBlock(EntityId),
    /// QueryVMTPNode: what a host can do.
    QueryVmtpNode,
    /// GetRequestForwarder: who forwards to an entity that is elsewhere.
    GetRequestForwarder(EntityId),
    /// QueryEntity: what a host knows of an entity.
    QueryEntity(EntityId),
    /// QueryGroup: how many members of a group a host has.
    QueryGroup(EntityId),
    /// CreateEntity, DeleteEntity, SignalEntity, CreateGroup, AddToGroup, RemoveFromGroup,
    /// ModifyService: changes that only the host's own users make.
    Change,
    /// A code that is none of the RFC's.
    Unknown,
}

impl ManagerRequest {
    /// What a Request to a manager asks. The bits of its flags beyond the code are not looked at: RFC
    /// 1045 prints some codes with a reserved one.
    pub fn parse(header: &VmtpHeader) -> ManagerRequest {
        let first = header.co_resident();
        let second = entity_at(&header.user_data, 8);
        match header.code {
            0x102 => ManagerRequest::AuthProbeEntity,
            0x103 => ManagerRequest::ProbeEntityBlock(first),
            0x104 => ManagerRequest::QueryVmtpNode,
            0x105 => ManagerRequest::GetRequestForwarder(second),
            0x108 => ManagerRequest::QueryEntity(first),
            0x10d => ManagerRequest::QueryGroup(first),
            0x106 | 0x107 | 0x109..=0x10c | 0x10e => ManagerRequest::Change,
            _ => ManagerRequest::Unknown,
        }
    }
}

/// QueryVMTPNode: the host serves streams, and issues them.
pub const SERVES_STREAMS: u32 = 1;
/// See [`SERVES_STREAMS`].
pub const ISSUES_STREAMS: u32 = 2;

/// The Response of a manager: a code, and results from offset 36 on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ManagerAnswer {
    /// OK, or why not.
    pub code: ResponseCode,
    /// Five words of results.
    pub results: [u32; 5],
}

impl ManagerAnswer {
    /// An answer without results.
    pub fn code(code: ResponseCode) -> ManagerAnswer {
        ManagerAnswer {
            code,
            results: [0; 5],
        }
    }

    /// The Response of `manager` to the Request with header `request`.
    pub fn header(&self, manager: EntityId, request: &VmtpHeader) -> VmtpHeader {
        let count = u32::from(request.control.retransmit_count());
        let mut header = VmtpHeader {
            client: request.client,
            domain: request.domain,
            transaction: request.transaction,
            server: manager,
            control: Control::response(0).with_retransmit_count(count),
            code: self.code.0,
            ..VmtpHeader::default()
        };
        for (place, word) in header.user_data.chunks_mut(4).zip(self.results) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        header
    }

    /// What a Response to a management request says.
    pub fn parse(header: &VmtpHeader) -> ManagerAnswer {
        let word = |number: usize| word_at(&header.user_data, 4 * number);
        ManagerAnswer {
            code: ResponseCode(header.code),
            results: [word(0), word(1), word(2), word(3), word(4)],
        }
    }
}

/// What QueryVMTPNode is answered with: octets of the longest packet, what the host can do, no domain of
/// authentication, and how many domains the list has: one of identifiers.
pub fn node_results(packet_len: usize) -> [u32; 5] {
    let least = BLOCK_LEN as u32 + super::PACKET_MIN as u32;
    let mtu = (packet_len as u32).max(least);
    [mtu, SERVES_STREAMS | ISSUES_STREAMS, 0, 1, 0]
}
