//! The one header.

/// Octets of a header.
pub const HEADER_LEN: usize = 24;

/// First octet of every packet: guards against traffic that is not ours.
const MAGIC: u8 = 0xb7;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// Asks for a circuit. `position` is the asker's number for it, `acknowledged` a token.
    Open = 1,
    /// Grants it. `position` is the granter's number, `acknowledged` the token echoed.
    Opened = 2,
    /// Refuses it. `acknowledged` is the token echoed.
    Refused = 3,
    /// User bytes from `position` on, possibly none.
    Data = 4,
    /// The last user bytes: the sender's stream ends behind them.
    Final = 5,
}

/// Header of every packet, 24 octets in network byte order.
///
/// ```text
///  0               8              16                              31
/// +---------------+---------------+-------------------------------+
/// |  0xb7         |  kind         |  zero                         |
/// +---------------+---------------+-------------------------------+
/// |  circuit: the receiver's number, 0 in an Open                 |
/// +---------------------------------------------------------------+
/// |  position (64)                                                |
/// +---------------------------------------------------------------+
/// |  acknowledged (64): the sender's stream may slide up to here  |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareHeader {
    /// What the packet is for.
    pub packet_type: PacketType,
    /// The receiver's number of the circuit.
    pub receiver_id: u32,
    /// Position of the first user byte; see [`Kind`] for the others.
    pub position: u64,
    /// Bytes of the other direction that no longer count against its window.
    pub acknowledged: u64,
}

impl BareHeader {
    /// Reads a header from the front of `packet`; None when it is none of ours.
    pub fn parse(packet: &[u8]) -> Option<BareHeader> {
        let bytes: &[u8; HEADER_LEN] = packet.first_chunk()?;
        if bytes[0] != MAGIC || bytes[2] != 0 || bytes[3] != 0 {
            return None;
        }
        let word = |at: usize| -> [u8; 8] { *bytes[at..].first_chunk().expect("24 octets") };
        Some(BareHeader {
            packet_type: packet_type_of(bytes[1])?,
            receiver_id: u32::from_be_bytes(*bytes[4..].first_chunk()?),
            position: u64::from_be_bytes(word(8)),
            acknowledged: u64::from_be_bytes(word(16)),
        })
    }

    /// The header as octets.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = MAGIC;
        bytes[1] = self.packet_type as u8;
        bytes[4..8].copy_from_slice(&self.receiver_id.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.acknowledged.to_be_bytes());
        bytes
    }
}

fn packet_type_of(octet: u8) -> Option<PacketType> {
    Some(match octet {
        1 => PacketType::Open,
        2 => PacketType::Opened,
        3 => PacketType::Refused,
        4 => PacketType::Data,
        5 => PacketType::Final,
        _ => return None,
    })
}
