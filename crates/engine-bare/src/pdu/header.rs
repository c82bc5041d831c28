//! The one header.

/// Octets of a header.
pub const HEADER_LEN: usize = 24;

/// First octet of every packet: guards against traffic that is not ours.
const MAGIC: u8 = 0xb7;

/// What a packet is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
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
pub struct Header {
    /// What the packet is for.
    pub kind: Kind,
    /// The receiver's number of the circuit.
    pub circuit: u32,
    /// Position of the first user byte; see [`Kind`] for the others.
    pub position: u64,
    /// Bytes of the other direction that no longer count against its window.
    pub acknowledged: u64,
}

impl Header {
    /// Reads a header from the front of `packet`; None when it is none of ours.
    pub fn parse(packet: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER_LEN] = packet.first_chunk()?;
        if bytes[0] != MAGIC || bytes[2] != 0 || bytes[3] != 0 {
            return None;
        }
        let word = |at: usize| -> [u8; 8] { *bytes[at..].first_chunk().expect("24 octets") };
        Some(Header {
            kind: kind_of(bytes[1])?,
            circuit: u32::from_be_bytes(*bytes[4..].first_chunk()?),
            position: u64::from_be_bytes(word(8)),
            acknowledged: u64::from_be_bytes(word(16)),
        })
    }

    /// The header as octets.
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = MAGIC;
        bytes[1] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.circuit.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.acknowledged.to_be_bytes());
        bytes
    }
}

fn kind_of(octet: u8) -> Option<Kind> {
    Some(match octet {
        1 => Kind::Open,
        2 => Kind::Opened,
        3 => Kind::Refused,
        4 => Kind::Data,
        5 => Kind::Final,
        _ => return None,
    })
}
