//! What a provider can, as it says in T_INFO_ACK.

use super::primitive::{Malformed, word};

/// Kind of service (SERV_type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ServiceType {
    /// Connections (T_COTS).
    Connections = 1,
    /// Connections with orderly release (T_COTS_ORD).
    ConnectionsWithRelease = 2,
    /// Datagrams (T_CLTS).
    Datagrams = 3,
}

/// What a provider can (T_INFO_ACK). Sizes: 0 for a stream without boundaries, -1 for no limit, -2
/// for what is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Information {
    /// Octets of a message (TSDU).
    pub tsdu: i32,
    /// Octets of an expedited message (ETSDU).
    pub etsdu: i32,
    /// Octets of data with a connect.
    pub connect: i32,
    /// Octets of data with a disconnect.
    pub disconnect: i32,
    /// Octets of an address.
    pub address: i32,
    /// Octets of options.
    pub options: i32,
    /// Octets of one primitive's data (TIDU).
    pub tidu: i32,
    /// Kind of service.
    pub service: ServiceType,
    /// State of the provider.
    pub state: u32,
    /// What else it can (PROVIDER_flag): [`SEND_ZERO`], [`RELEASE_DATA`].
    pub flags: u32,
}

/// Flag of a provider that carries messages without octets (SENDZERO).
pub const SEND_ZERO: u32 = 1;
/// Flag of a provider that carries data with an orderly release (ORDRELDATA).
pub const RELEASE_DATA: u32 = 2;

impl Information {
    /// Before the provider has said.
    pub(crate) const UNKNOWN: Information = Information {
        tsdu: -2,
        etsdu: -2,
        connect: -2,
        disconnect: -2,
        address: 0,
        options: -3,
        tidu: 0,
        service: ServiceType::Connections,
        state: 0,
        flags: 0,
    };
}

pub(super) fn parse_information(octets: &[u8]) -> Result<Information, Malformed> {
    let size = |index| word(octets, index).map(|value| value as i32);
    Ok(Information {
        tsdu: size(1)?,
        etsdu: size(2)?,
        connect: size(3)?,
        disconnect: size(4)?,
        address: size(5)?,
        options: size(6)?,
        tidu: size(7)?,
        service: match word(octets, 8)? {
            1 => ServiceType::Connections,
            2 => ServiceType::ConnectionsWithRelease,
            3 => ServiceType::Datagrams,
            _ => return Err(Malformed::Fatal),
        },
        state: word(octets, 9)?,
        flags: word(octets, 10)?,
    })
}

pub(super) fn information_words(number: u32, info: &Information) -> [u32; 11] {
    let sizes = [
        info.tsdu,
        info.etsdu,
        info.connect,
        info.disconnect,
        info.address,
        info.options,
        info.tidu,
    ];
    let mut words = [0; 11];
    words[0] = number;
    for (word, size) in words[1..8].iter_mut().zip(sizes) {
        *word = size as u32;
    }
    words[8] = info.service as u32;
    words[9] = info.state;
    words[10] = info.flags;
    words
}
