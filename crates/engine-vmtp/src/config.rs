//! How an endpoint behaves, with the reasons.

use crate::blocks::MESSAGE_MAX;
use core::time::Duration;
use engine::{EntityId, Secret};

/// How an endpoint behaves. All packets of the endpoints of one network have the same
/// [`domain`](VmtpConfig::domain).
#[derive(Clone, Debug)]
pub struct VmtpConfig {
    /// Octets of the longest packet, 580 to 65,535: a packet holds whole blocks of 512 octets.
    pub packet_len: usize,
    /// Octets of the longest message, at most 4 MiB.
    pub message_max: u32,
    /// What entity identifiers mean: 1 is the Internet (RFC 1045 section IV).
    pub domain: u16,
    /// Added to the host's entity numbers, which may then be small: identifiers of all zeros are
    /// invalid, and the upper half of a discriminator is the endpoint's ([`CLIENT_NUMBER_SHIFT`]).
    pub entity_base: u64,
    /// The low word of this host's own identifiers: its IPv4 address, or one of 240.0.0.0/4 on a host
    /// without.
    pub host: u32,
    /// Other endpoints have the same address and get the same packets: what is for no entity of this
    /// end is dropped, not refused.
    pub shared_address: bool,
    /// Whether packets have a check. One that has none is accepted either way.
    pub checksum: bool,
    /// How long a client waits for its Response beyond the round trip (TC1 - TC2; RFC 1045 suggests
    /// 200 ms), and a server for what acknowledges its Response (TS5).
    pub service_wait: Duration,
    /// The round trip before it was measured (TC2, TS3).
    pub rtt_initial: Duration,
    /// The least wait for the next packet of a group (TC3, TS1). RFC 1045 gives ten times the time of
    /// a packet, 120 us at 1 Gbit/s; a host's timers are coarser. 2 s at most.
    pub packet_wait: Duration,
    /// Times a Request or a Response is sent again without an answer before it is given up.
    pub retries_max: u32,
    /// How long a packet may live in the network. Until the endpoint is four of them old it probes a
    /// client that it has no record of before it serves it (RFC 1045 section 2.3); zero: never.
    pub packet_lifetime: Duration,
    /// Time of a full packet on the slowest link, of which gaps between packets are 1/32 each; at
    /// 1 Gbit/s, 12 us.
    pub packet_time: Duration,
    /// Times a datagram is sent, of which one may arrive on a path without a way back.
    pub datagram_copies: u32,
    /// Between two of these.
    pub copy_spacing: Duration,
    /// Members of a group that are asked to wait before they reply wait for a random part of this.
    pub group_delay_max: Duration,
    /// Packet groups of a message in flight.
    pub groups_in_flight: u16,
    /// Entities of this end, and calls of it that are not answered, at most.
    pub entities_max: usize,
    /// Records of clients, at most. One takes some 300 octets and what its Response holds: 65,536 of
    /// them are 20 MB.
    pub records_max: usize,
    /// The endpoint's first numbers.
    pub seed: u64,
    /// What peers must not guess follows from it.
    pub secret: Secret,
}

/// The longest wait of a back-off after "in progress" (TC1).
pub(crate) const PROGRESS_WAIT_MAX: Duration = Duration::from_secs(8);

/// The longest wait between two retransmissions (TC2, TS3).
pub(crate) const RETRY_WAIT_MAX: Duration = Duration::from_secs(2);

/// The least retransmission time-out after a measurement.
pub(crate) const RETRY_WAIT_MIN: Duration = Duration::from_millis(10);

/// An entity calls through clients of its own, one for each call that is not answered. They are told
/// apart by twelve bits of the identifier's discriminator, which the host's entities have as zeros.
pub const CLIENT_NUMBER_SHIFT: u32 = 48;

/// Clients of an entity, at most.
pub const CLIENT_NUMBERS: u16 = 1 << 12;

/// Discriminators of a host's own entities, beyond the host's users': the manager, and the clients
/// that it probes with.
const MANAGER: u32 = 0xffff;
const PROBER: u32 = 0xfffe;

impl Default for VmtpConfig {
    fn default() -> VmtpConfig {
        VmtpConfig {
            packet_len: 1472,
            message_max: MESSAGE_MAX as u32,
            domain: 1,
            entity_base: 0,
            host: 0x7f00_0001,
            shared_address: false,
            checksum: true,
            service_wait: Duration::from_millis(200),
            rtt_initial: Duration::from_millis(200),
            packet_wait: Duration::from_millis(5),
            retries_max: 5,
            packet_lifetime: Duration::from_secs(1),
            packet_time: Duration::from_micros(12),
            datagram_copies: 1,
            copy_spacing: Duration::from_millis(10),
            group_delay_max: Duration::from_millis(20),
            groups_in_flight: 4,
            entities_max: 65_536,
            records_max: 65_536,
            seed: 0,
            secret: Secret::default(),
        }
    }
}

impl VmtpConfig {
    /// How long a server remembers a transaction that is over (TS4): four packet lifetimes, and as
    /// long as a caller of the same configuration may repeat its Request.
    pub fn record_wait(&self) -> Duration {
        4 * self.packet_lifetime + PROGRESS_WAIT_MAX + RETRY_WAIT_MAX * (self.retries_max + 1)
    }

    /// How long a server works on a Request of which it hears nothing (TS2): a client that is there
    /// asks after the longest back-off, and repeats the question.
    pub(crate) fn orphan_wait(&self) -> Duration {
        PROGRESS_WAIT_MAX + RETRY_WAIT_MAX * (self.retries_max + 1)
    }

    /// Blocks of a full packet.
    pub(crate) fn blocks_a_packet(&self) -> u32 {
        let room = self.packet_len - crate::pdu::PACKET_MIN;
        (room / crate::blocks::BLOCK_LEN as usize).clamp(1, 32) as u32
    }

    /// The entity of the host's manager.
    pub(crate) fn manager(&self) -> EntityId {
        EntityId(u64::from(MANAGER) << 32 | u64::from(self.host))
    }

    /// A client that the manager probes with.
    pub(crate) fn prober(&self, slot: u16) -> EntityId {
        let number = u64::from(slot) << CLIENT_NUMBER_SHIFT;
        EntityId(number | u64::from(PROBER) << 32 | u64::from(self.host))
    }

    /// The slot of one of these clients; None for other entities.
    pub(crate) fn prober_slot(&self, entity: EntityId) -> Option<u16> {
        let slot = (entity.0 >> CLIENT_NUMBER_SHIFT) as u16 & (CLIENT_NUMBERS - 1);
        (self.prober(slot) == entity).then_some(slot)
    }

    /// The identifier of an entity of the host.
    pub(crate) fn identifier(&self, entity: EntityId) -> EntityId {
        EntityId(entity.0.wrapping_add(self.entity_base))
    }

    /// The client `number` of an entity of the host.
    pub(crate) fn client(&self, entity: EntityId, number: u16) -> EntityId {
        let number = u64::from(number % CLIENT_NUMBERS) << CLIENT_NUMBER_SHIFT;
        EntityId(self.identifier(entity).0 ^ number)
    }

    /// The host's number of the entity with this identifier, or of one of its clients.
    pub(crate) fn entity(&self, identifier: EntityId) -> EntityId {
        let numbers = u64::from(CLIENT_NUMBERS - 1) << CLIENT_NUMBER_SHIFT;
        EntityId((identifier.0 & !numbers).wrapping_sub(self.entity_base))
    }
}
