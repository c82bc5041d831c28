//! The header of every packet: 64 octets, most significant octet first (RFC 1045 section III).
//!
//! | octets | |
//! | --- | --- |
//! | 0..8 | Client |
//! | 8..12 | version 3 bits (0), domain 13, HCO, EPG, MPG, length 13: words of segment data in this packet |
//! | 12..16 | [`Control`] |
//! | 16..20 | Transaction |
//! | 20..24 | PacketDelivery |
//! | 24..32 | Server |
//! | 32..36 | [`Flags`], code 24 bits |
//! | 36..56 | user data; of a Request with CRE, the first eight are CoResidentEntity |
//! | 56..60 | MsgDelivery, if MDM |
//! | 60..64 | SegmentSize, if SDA |

use super::{Control, Flags, entity_at, word_at};
use crate::blocks::BlockMask;
use engine::EntityId;
use std::ops::Range;

/// Octets of a header.
pub const HEADER_LEN: usize = 64;

/// Where user data stands in a header: 20 octets.
pub const USER_DATA: Range<usize> = 36..56;

/// Where it stands in a Request with CoResidentEntity: 12 octets.
pub const USER_DATA_CO_RESIDENT: Range<usize> = 44..56;

/// Bits of the third half word, at offset 10, that count the words of segment data.
pub(super) const DATA_WORDS: u16 = 0x1fff;

const HEADER_CHECK_ONLY: u32 = 1 << 15;
const ENCRYPTED: u32 = 1 << 14;
const MULTICAST: u32 = 1 << 13;

/// The header of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VmtpHeader {
    /// The client of the transaction.
    pub client: EntityId,
    /// Of identifiers: 1 the Internet; 13 bits.
    pub domain: u16,
    /// The check covers the header only (HCO).
    pub checks_header_only: bool,
    /// The packet group is encrypted (EPG).
    pub encrypted: bool,
    /// The packet was sent to a group (MPG).
    pub multicast: bool,
    /// 32-bit words of segment data in this packet, 0 to 4096, even.
    pub data_words: u16,
    /// The control word.
    pub control: Control,
    /// The packet group.
    pub transaction: u32,
    /// The blocks in this packet.
    pub delivery: BlockMask,
    /// The server, or the group of servers.
    pub server: EntityId,
    /// Flags of the message.
    pub flags: Flags,
    /// 24 bits: of a Request, what is wanted; of a Response, a [`super::ResponseCode`].
    pub code: u32,
    /// The octets from 36 to 56.
    pub user_data: [u8; 20],
    /// Blocks of the message that are valid, if MDM.
    pub message_delivery: u32,
    /// Octets of the message's segment, if SDA.
    pub segment_size: u32,
}

impl VmtpHeader {
    /// The octets.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut octets = [0; HEADER_LEN];
        let flag = |set: bool, bit: u32| if set { bit } else { 0 };
        let domain = u32::from(self.domain & 0x1fff) << 16
            | flag(self.checks_header_only, HEADER_CHECK_ONLY)
            | flag(self.encrypted, ENCRYPTED)
            | flag(self.multicast, MULTICAST)
            | u32::from(self.data_words & DATA_WORDS);
        let operation = u32::from(self.flags.0) << 24 | self.code & 0x00ff_ffff;
        let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let (user, _) = self.user_data.as_chunks::<4>();
        let user = |at: usize| u32::from_be_bytes(user[at]);
        let words = [
            self.client.0,
            both(domain, self.control.0),
            both(self.transaction, self.delivery.0),
            self.server.0,
            both(operation, user(0)),
            both(user(1), user(2)),
            both(user(3), user(4)),
            both(self.message_delivery, self.segment_size),
        ];
        // Word by word: of eleven fields each copied to its place a packet took five times as many instructions.
        for (place, word) in octets.as_chunks_mut().0.iter_mut().zip(words) {
            *place = word.to_be_bytes();
        }
        octets
    }

    /// Says in the octets of a header which blocks its packet has, and how many words of data they are.
    pub fn set_blocks(octets: &mut [u8; HEADER_LEN], delivery: BlockMask, data_words: u16) {
        let other = u16::from_be_bytes([octets[10], octets[11]]) & !DATA_WORDS;
        octets[10..12].copy_from_slice(&(other | data_words & DATA_WORDS).to_be_bytes());
        octets[20..24].copy_from_slice(&delivery.0.to_be_bytes());
    }

    /// The blocks that a packet with this header has, and how many words of data they are.
    pub fn blocks(octets: &[u8; HEADER_LEN]) -> (BlockMask, u16) {
        let words = u16::from_be_bytes([octets[10], octets[11]]) & DATA_WORDS;
        (BlockMask(word_at(octets, 20)), words)
    }

    /// The header of these octets; None for a version other than 0.
    pub fn parse(octets: &[u8; HEADER_LEN]) -> Option<VmtpHeader> {
        let second = word_at(octets, 8);
        if second >> 29 != 0 {
            return None;
        }
        let mut user_data = [0; 20];
        user_data.copy_from_slice(&octets[USER_DATA]);
        Some(VmtpHeader {
            client: entity_at(octets, 0),
            domain: (second >> 16) as u16 & 0x1fff,
            checks_header_only: second & HEADER_CHECK_ONLY != 0,
            encrypted: second & ENCRYPTED != 0,
            multicast: second & MULTICAST != 0,
            data_words: second as u16 & DATA_WORDS,
            control: Control(word_at(octets, 12)),
            transaction: word_at(octets, 16),
            delivery: BlockMask(word_at(octets, 20)),
            server: entity_at(octets, 24),
            flags: Flags(octets[32]),
            code: word_at(octets, 32) & 0x00ff_ffff,
            user_data,
            message_delivery: word_at(octets, 56),
            segment_size: word_at(octets, 60),
        })
    }

    /// CoResidentEntity, if it is valid.
    pub fn co_resident(&self) -> EntityId {
        entity_at(&self.user_data, 0)
    }

    /// Octets of segment data in this packet.
    pub fn data_len(&self) -> usize {
        4 * usize::from(self.data_words)
    }

    /// Whether a segment belongs to the message.
    pub fn has_segment(&self) -> bool {
        self.flags.has(Flags::SEGMENT)
    }

    /// Where the message lies in the header, if it has no segment. The word behind the user data,
    /// which is the user's then, says how many octets it has; a foreign value stands for all of them.
    pub fn message_in_header(&self) -> Range<usize> {
        let is_co_resident = !self.control.is_response() && self.flags.has(Flags::CO_RESIDENT);
        let place = match is_co_resident {
            true => USER_DATA_CO_RESIDENT,
            false => USER_DATA,
        };
        let len = place.len().min(self.segment_size as usize);
        place.start..place.start + len
    }
}
