//! Management requests that this host answers (RFC 1045 appendix III).

use crate::endpoint::{Vmtp, is_group};
use crate::pdu::manage::node_results;
use crate::pdu::{ManagerAnswer, ManagerRequest, ResponseCode, VmtpHeader};
use engine::{EntityId, Path};

impl Vmtp {
    /// Answers a management request other than a probe or a notification. Datagrams, and what other
    /// hosts may know, are not answered.
    pub(crate) fn answer_manager(&mut self, path: Path, header: &VmtpHeader) {
        let request = ManagerRequest::parse(header);
        let is_unanswered = header.flags.has(crate::pdu::Flags::DATAGRAM);
        let answer = match request {
            ManagerRequest::AuthProbeEntity => {
                ManagerAnswer::code(ResponseCode::SECURITY_NOT_SUPPORTED)
            }
            ManagerRequest::ProbeEntityBlock(block) => self.probe_block(block),
            ManagerRequest::QueryVmtpNode => ManagerAnswer {
                code: ResponseCode::OK,
                results: node_results(self.sh.config.packet_len, self.sh.config.domain),
            },
            ManagerRequest::GetRequestForwarder(entity) => self.forwarder_of(entity),
            ManagerRequest::QueryEntity(entity) => {
                let is_here = self.own_entity(entity).is_some();
                ManagerAnswer::code(match is_here {
                    true => ResponseCode::OK,
                    false => ResponseCode::NONEXISTENT_ENTITY,
                })
            }
            ManagerRequest::QueryGroup(group) => self.count_members(group),
            // Users of other hosts have no rights here.
            ManagerRequest::Change => ManagerAnswer::code(ResponseCode::NO_PERMISSION),
            ManagerRequest::Unknown => ManagerAnswer::code(ResponseCode::VMTP_ERROR),
        };
        let is_negative = answer.code != ResponseCode::OK;
        let is_others = header.multicast || self.sh.config.shared_address;
        if is_unanswered || (is_negative && is_others) {
            return;
        }
        let answer = answer.header(self.sh.config.manager(), header);
        self.sh.send(path, &answer);
    }

    /// The entity of this host with an identifier, as the host numbers it.
    pub(crate) fn own_entity(&self, identifier: EntityId) -> Option<EntityId> {
        let own = self.sh.config.entity(identifier);
        let is_own =
            self.entities.contains_key(&own) && self.sh.config.identifier(own) == identifier;
        is_own.then_some(own)
    }

    /// Whether one of the 256 identifiers from `block` on is of this host.
    fn probe_block(&self, block: EntityId) -> ManagerAnswer {
        let first = self.sh.config.entity(EntityId(block.0 & !0xff));
        let range = first..EntityId(first.0.saturating_add(0x100));
        let is_used = self.entities.range(range).next().is_some();
        ManagerAnswer {
            code: match is_used {
                true => ResponseCode::OK,
                false => ResponseCode::NONEXISTENT_ENTITY,
            },
            results: [(block.0 >> 32) as u32, block.0 as u32, 0, 0, 0],
        }
    }

    fn forwarder_of(&self, entity: EntityId) -> ManagerAnswer {
        let own = self.sh.config.entity(entity);
        match self.moved.contains_key(&own) {
            true => ManagerAnswer {
                code: ResponseCode::OK,
                results: [(entity.0 >> 32) as u32, entity.0 as u32, 0, 0, 0],
            },
            false => ManagerAnswer::code(ResponseCode::NONEXISTENT_ENTITY),
        }
    }

    fn count_members(&self, group: EntityId) -> ManagerAnswer {
        let own = self.sh.config.entity(group);
        let is_member = is_group(group) && self.members.contains_key(&own);
        ManagerAnswer {
            code: match is_member {
                true => ResponseCode::OK,
                false => ResponseCode::NONEXISTENT_ENTITY,
            },
            results: [u32::from(is_member), 0, 0, 0, 0],
        }
    }
}
