//! Notifications: acknowledgements and refusals, as datagram Requests between managers
//! (RFC 1045 section III.4). The first parameter travels as CoResidentEntity.

use super::{Control, ResponseCode, VmtpHeader, entity_at, management, operation, word_at};
use crate::blocks::BlockMask;
use engine::EntityId;

const NOTIFY_CLIENT: u32 = 0x4500_010f;
const NOTIFY_REMOTE: u32 = 0x4100_0111;
const NOTIFY_SERVER: u32 = 0x4500_0110;

/// NotifyVmtpClient, and NotifyRemoteVmtpClient: what became of a Request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifyClient {
    /// It is for the host that forwarded the Request, which has no such client.
    pub is_remote: bool,
    /// The client of the transaction.
    pub client: EntityId,
    /// The control word that a Response would have.
    pub control: Control,
    /// Number of a received message, if such are logged; else 0.
    pub receive_sequence: u32,
    /// The packet group.
    pub transaction: u32,
    /// Blocks of it that were received.
    pub delivery: BlockMask,
    /// What became of it.
    pub code: ResponseCode,
}

impl NotifyClient {
    /// The header of the datagram, the message `transaction` of `manager`.
    pub fn header(&self, manager: EntityId, domain: u16, transaction: u32) -> VmtpHeader {
        let word = match self.is_remote {
            true => NOTIFY_REMOTE,
            false => NOTIFY_CLIENT,
        };
        let mut header = management(manager, domain, transaction, word);
        header.user_data[..8].copy_from_slice(&self.client.0.to_be_bytes());
        header.user_data[8..12].copy_from_slice(&self.control.0.to_be_bytes());
        header.user_data[12..16].copy_from_slice(&self.receive_sequence.to_be_bytes());
        header.user_data[16..20].copy_from_slice(&self.transaction.to_be_bytes());
        header.message_delivery = self.delivery.0;
        header.segment_size = self.code.0;
        header
    }

    /// What `header` says; None if it is no such notification.
    pub fn parse(header: &VmtpHeader) -> Option<NotifyClient> {
        let word = operation(header);
        matches!(word, NOTIFY_CLIENT | NOTIFY_REMOTE).then(|| NotifyClient {
            is_remote: word == NOTIFY_REMOTE,
            client: entity_at(&header.user_data, 0),
            control: Control(word_at(&header.user_data, 8)),
            receive_sequence: word_at(&header.user_data, 12),
            transaction: word_at(&header.user_data, 16),
            delivery: BlockMask(header.message_delivery),
            code: ResponseCode(header.segment_size),
        })
    }
}

/// NotifyVmtpServer: what became of a Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotifyServer {
    /// The server of the transaction.
    pub server: EntityId,
    /// Its client.
    pub client: EntityId,
    /// The packet group.
    pub transaction: u32,
    /// Blocks of it that were received.
    pub delivery: BlockMask,
    /// What became of it.
    pub code: ResponseCode,
}

impl NotifyServer {
    /// The header of the datagram, the message `transaction` of `manager`.
    pub fn header(&self, manager: EntityId, domain: u16, transaction: u32) -> VmtpHeader {
        let mut header = management(manager, domain, transaction, NOTIFY_SERVER);
        header.user_data[..8].copy_from_slice(&self.server.0.to_be_bytes());
        header.user_data[8..16].copy_from_slice(&self.client.0.to_be_bytes());
        header.user_data[16..20].copy_from_slice(&self.transaction.to_be_bytes());
        header.message_delivery = self.delivery.0;
        header.segment_size = self.code.0;
        header
    }

    /// What `header` says; None if it is no such notification.
    pub fn parse(header: &VmtpHeader) -> Option<NotifyServer> {
        (operation(header) == NOTIFY_SERVER).then(|| NotifyServer {
            server: entity_at(&header.user_data, 0),
            client: entity_at(&header.user_data, 8),
            transaction: word_at(&header.user_data, 16),
            delivery: BlockMask(header.message_delivery),
            code: ResponseCode(header.segment_size),
        })
    }
}
