//! The one packet of the protocol.
//!
//! | octets | |
//! | --- | --- |
//! | 0 | kind: 1 request, 2 reply, 3 acknowledgement of a reply |
//! | 1 | flags: 1 refused |
//! | 2..4 | Internet checksum of the whole packet |
//! | 4..8 | length of the message |
//! | 8..12 | offset of the block that follows the header |
//! | 12..16 | zero |
//! | 16..24 | transaction, as its caller numbers it |
//! | 24..32 | the entity that calls |
//! | 32..40 | the entity that is called |

use engine::{EntityId, checksum};

/// Octets of the header.
pub const HEADER_LEN: usize = 40;

/// Where the checksum stands.
pub const CHECKSUM_AT: u16 = 2;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A block of a request.
    Request,
    /// A block of a reply.
    Reply,
    /// The caller has the whole reply, or knows no such transaction.
    Ack,
}

/// The header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it is.
    pub kind: Kind,
    /// The call was refused ([`Kind::Reply`] only).
    pub refused: bool,
    /// Octets of the message.
    pub message_len: u32,
    /// Offset of the block.
    pub offset: u32,
    /// The caller's number of the transaction.
    pub transaction: u64,
    /// The entity that calls.
    pub client: EntityId,
    /// The entity that is called.
    pub server: EntityId,
}

impl Header {
    /// That of a packet with no block, of a transaction between `client` and `server`.
    pub fn without_block(
        kind: Kind,
        transaction: u64,
        (client, server): (EntityId, EntityId),
    ) -> Header {
        Header {
            kind,
            refused: false,
            message_len: 0,
            offset: 0,
            transaction,
            client,
            server,
        }
    }

    /// The octets, with a checksum over them alone.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut octets = [0; HEADER_LEN];
        octets[0] = match self.kind {
            Kind::Request => 1,
            Kind::Reply => 2,
            Kind::Ack => 3,
        };
        octets[1] = u8::from(self.refused);
        octets[4..8].copy_from_slice(&self.message_len.to_be_bytes());
        octets[8..12].copy_from_slice(&self.offset.to_be_bytes());
        octets[16..24].copy_from_slice(&self.transaction.to_be_bytes());
        octets[24..32].copy_from_slice(&self.client.0.to_be_bytes());
        octets[32..40].copy_from_slice(&self.server.0.to_be_bytes());
        let check = checksum::checksum(&octets);
        octets[2..4].copy_from_slice(&check.to_be_bytes());
        octets
    }

    /// The header of `packet`, if its checksum is right and its block lies within its message.
    pub fn parse(packet: &[u8]) -> Option<Header> {
        let octets: &[u8; HEADER_LEN] = packet.first_chunk()?;
        if checksum::sum(packet) != u16::MAX {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let header = Header {
            kind: match octets[0] {
                1 => Kind::Request,
                2 => Kind::Reply,
                3 => Kind::Ack,
                _ => return None,
            },
            refused: octets[1] == 1,
            message_len: word(4),
            offset: word(8),
            transaction: long(16),
            client: EntityId(long(24)),
            server: EntityId(long(32)),
        };
        let end = u64::from(header.offset) + (packet.len() - HEADER_LEN) as u64;
        (end <= u64::from(header.message_len)).then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> Header {
        Header {
            kind: Kind::Reply,
            refused: false,
            message_len: 7,
            offset: 4,
            transaction: 0x0102_0304_0506_0708,
            client: EntityId(9),
            server: EntityId(10),
        }
    }

    fn with_block(header: &Header, block: &[u8]) -> Vec<u8> {
        let mut packet = header.emit().to_vec();
        packet.extend(block);
        let check = checksum::extend(
            u16::from_be_bytes([packet[2], packet[3]]),
            checksum::sum(block),
        );
        packet[2..4].copy_from_slice(&check.to_be_bytes());
        packet
    }

    #[test]
    fn header_round_trip() {
        assert_eq!(
            Header::parse(&with_block(&header(), b"abc")),
            Some(header())
        );
    }

    #[test]
    fn damaged_short_and_overlong_packets_are_rejected() {
        let good = with_block(&header(), b"abc");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert_eq!(Header::parse(&bad), None, "octet {at}");
            assert_eq!(Header::parse(&good[..at]), None);
        }
        assert_eq!(Header::parse(&with_block(&header(), b"abcd")), None);
    }
}
