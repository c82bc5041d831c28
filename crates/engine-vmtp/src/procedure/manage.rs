//! Management requests that this host answers (RFC 1045 appendix III).

use crate::blocks::BLOCK_LEN;
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
                results: node_results(self.sh.config.packet_len),
            },
            ManagerRequest::GetRequestForwarder(entity) => self.forwarder_of(entity),
            ManagerRequest::QueryEntity(entity) => self.describe_entity(entity),
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
        let list = match answer.code {
            ResponseCode::OK => self.list_of(request),
            _ => Vec::new(),
        };
        let answer = answer.header(self.sh.config.manager(), header);
        self.sh.send_list(path, &answer, &list);
    }

    /// The segment of an answer, as much of it as a packet holds: of a host the domain of its
    /// identifiers, four octets; of an entity the groups that it is in, of a group its members of this
    /// host, identifiers of eight octets each.
    fn list_of(&self, request: ManagerRequest) -> Vec<u8> {
        let domain = u32::from(self.sh.config.domain).to_be_bytes();
        let identifiers = match request {
            ManagerRequest::QueryVmtpNode => return domain.to_vec(),
            ManagerRequest::QueryEntity(entity) => self.groups_of(entity),
            ManagerRequest::QueryGroup(group) => self.members_of(self.sh.config.entity(group)),
            _ => return Vec::new(),
        };
        let octets = self.sh.config.blocks_a_packet() as usize * BLOCK_LEN as usize;
        let identifiers = identifiers.into_iter().take(octets / size_of::<EntityId>());
        let own = |entity| self.sh.config.identifier(entity).0.to_be_bytes();
        identifiers.flat_map(own).collect()
    }

    /// The groups that an entity of this host is a member of.
    fn groups_of(&self, identifier: EntityId) -> Vec<EntityId> {
        let own = self.sh.config.entity(identifier);
        let groups = self.members.iter();
        let groups = groups.filter(|(_, members)| members.contains(&own));
        groups.map(|(group, _)| *group).collect()
    }

    /// The members of a group that are of this host.
    pub(crate) fn members_of(&self, group: EntityId) -> Vec<EntityId> {
        let members = self.members.get(&group).into_iter().flatten();
        members.copied().collect()
    }

    /// What is known of an entity: its identifier, how many clients it has called with, and how many
    /// groups it is in.
    fn describe_entity(&self, identifier: EntityId) -> ManagerAnswer {
        let Some(own) = self.own_entity(identifier) else {
            return ManagerAnswer::code(ResponseCode::NONEXISTENT_ENTITY);
        };
        let clients = self.entities.get(&own).map_or(0, |entity| entity.clients);
        let groups = self.groups_of(identifier).len() as u32;
        let (high, low) = ((identifier.0 >> 32) as u32, identifier.0 as u32);
        ManagerAnswer {
            code: ResponseCode::OK,
            results: [high, low, u32::from(clients), groups, 0],
        }
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
        let members = match is_group(group) {
            true => self.members_of(own).len() as u32,
            false => 0,
        };
        ManagerAnswer {
            code: match members {
                0 => ResponseCode::NONEXISTENT_ENTITY,
                _ => ResponseCode::OK,
            },
            results: [members, 0, 0, 0, 0],
        }
    }
}
