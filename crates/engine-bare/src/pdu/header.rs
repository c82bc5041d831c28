//! The one header.

/// Octets of a header.
pub const HEADER_LEN: usize = 24;

/// First octet of every packet: guards against foreign traffic.
const MAGIC: u8 = 0xb7;

/// Packet types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketType {
    /// Opens an association. `position` is the sender's number of it, `acknowledged` a token.
    Open = 1,
    /// Accepts an Open. `position` is the sender's number, `acknowledged` echoes the token.
    Opened = 2,
    /// Refuses an Open. `acknowledged` echoes the token.
    Refused = 3,
    /// User bytes from `position` on, possibly none.
    Data = 4,
    /// Ends the sender's stream at `position`.
    Final = 5,
}

/// Header of every packet, 24 octets in network byte order.
///
/// ```text
///  0               8              16                              31
/// +---------------+---------------+-------------------------------+
/// |  0xb7         |  type         |  zero                         |
/// +---------------+---------------+-------------------------------+
/// |  receiver's number of the association, 0 in an Open           |
/// +---------------------------------------------------------------+
/// |  position (64)                                                |
/// +---------------------------------------------------------------+
/// |  acknowledged (64): left edge of the peer's send window       |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BareHeader {
    /// Packet type.
    pub packet_type: PacketType,
    /// The receiver's number of the association.
    pub receiver_id: u32,
    /// Position of the first user byte; see [`PacketType`] for the handshake.
    pub position: u64,
    /// Bytes of the other direction that no longer count against its window.
    pub acknowledged: u64,
}

impl BareHeader {
    /// Parses the header of `packet`; None when it is not a packet of `bare`.
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
