//! ProbeEntity and its answer: whether an entity is there, and its current transaction
//! (RFC 1045 section III.4).

use super::{Control, ResponseCode, VmtpHeader, entity_at, management, operation, word_at};
use engine::EntityId;

const PROBE_ENTITY: u32 = 0x0500_0101;

/// ProbeEntity: asks the manager of a host for one of its entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeEntity {
    /// The entity whose manager is asked; the entity itself as a rule.
    pub co_resident: EntityId,
    /// The entity that is asked for.
    pub entity: EntityId,
    /// Whose rules of authentication hold; 0.
    pub authentication_domain: u32,
}

impl ProbeEntity {
    /// The header of the Request, the message `transaction` of `prober`.
    pub fn header(&self, prober: EntityId, domain: u16, transaction: u32) -> VmtpHeader {
        let mut header = management(prober, domain, transaction, PROBE_ENTITY);
        header.user_data[..8].copy_from_slice(&self.co_resident.0.to_be_bytes());
        header.user_data[8..16].copy_from_slice(&self.entity.0.to_be_bytes());
        header.user_data[16..20].copy_from_slice(&self.authentication_domain.to_be_bytes());
        header
    }

    /// What `header` asks; None if it is no such request.
    pub fn parse(header: &VmtpHeader) -> Option<ProbeEntity> {
        (operation(header) == PROBE_ENTITY).then(|| ProbeEntity {
            co_resident: entity_at(&header.user_data, 0),
            entity: entity_at(&header.user_data, 8),
            authentication_domain: word_at(&header.user_data, 16),
        })
    }
}

/// The Response to [`ProbeEntity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeAnswer {
    /// OK, or NONEXISTENT_ENTITY.
    pub code: ResponseCode,
    /// The entity's current transaction.
    pub transaction: u32,
}

impl ProbeAnswer {
    /// The Response of `manager` to the Request with header `request`.
    pub fn header(&self, manager: EntityId, request: &VmtpHeader) -> VmtpHeader {
        let mut header = VmtpHeader {
            client: request.client,
            domain: request.domain,
            transaction: request.transaction,
            server: manager,
            control: Control::response(0)
                .with_retransmit_count(u32::from(request.control.retransmit_count())),
            code: self.code.0,
            ..VmtpHeader::default()
        };
        header.user_data[..4].copy_from_slice(&self.transaction.to_be_bytes());
        header
    }

    /// What a Response to a probe says.
    pub fn parse(header: &VmtpHeader) -> ProbeAnswer {
        ProbeAnswer {
            code: ResponseCode(header.code),
            transaction: word_at(&header.user_data, 0),
        }
    }
}
