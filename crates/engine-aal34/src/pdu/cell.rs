//! The cell: 5 octets of header, 48 of payload (ITU-T I.361).

use super::hec;

/// Octets of a cell.
pub const CELL_LEN: usize = 53;

/// Octets of its header, the check among them.
pub const HEADER_LEN: usize = 5;

/// Octets of its payload.
pub const PAYLOAD_LEN: usize = 48;

/// The header of an idle cell: path and channel 0, low priority.
pub const IDLE_HEADER: [u8; HEADER_LEN] = [0, 0, 0, 1, 0x52];

/// Octets that the payload of an idle cell consists of.
pub const IDLE_OCTET: u8 = 0x6a;

/// Channels below this are reserved on every path.
pub const CHANNELS_RESERVED: u16 = 32;

/// What the first twelve bits of a header are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HeaderFormat {
    /// Between user and network: flow control in 4 bits, a path of 8.
    #[default]
    Uni,
    /// Between networks: a path of 12 bits.
    Nni,
}

/// What a cell carries (the field PT, 3 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadType {
    /// User data.
    User {
        /// A switch on the way was congested (EFCI).
        congested: bool,
        /// The last cell of a PDU, in AAL5 (AUU).
        last: bool,
    },
    /// Operation and maintenance of a segment of the channel (F5).
    OamSegment,
    /// Operation and maintenance from end to end (F5).
    OamEndToEnd,
    /// Resource management.
    ResourceManagement,
    /// 111.
    Reserved,
}

impl PayloadType {
    /// User data, neither last nor congested.
    pub const USER: PayloadType = PayloadType::User {
        congested: false,
        last: false,
    };

    /// From three bits.
    pub fn from_bits(bits: u32) -> PayloadType {
        match bits & 7 {
            4 => PayloadType::OamSegment,
            5 => PayloadType::OamEndToEnd,
            6 => PayloadType::ResourceManagement,
            7 => PayloadType::Reserved,
            user => PayloadType::User {
                congested: user & 2 != 0,
                last: user & 1 != 0,
            },
        }
    }

    /// As three bits.
    pub fn bits(self) -> u32 {
        match self {
            PayloadType::User { congested, last } => u32::from(congested) << 1 | u32::from(last),
            PayloadType::OamSegment => 4,
            PayloadType::OamEndToEnd => 5,
            PayloadType::ResourceManagement => 6,
            PayloadType::Reserved => 7,
        }
    }
}

/// A virtual channel: the two numbers by which a cell is switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Channel {
    /// Virtual path, 8 bits between user and network, 12 between networks.
    pub vpi: u16,
    /// Virtual channel in that path.
    pub vci: u16,
}

/// A header without its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellHeader {
    /// Generic flow control, 4 bits; not sent between networks.
    pub gfc: u8,
    /// Path and channel.
    pub channel: Channel,
    /// What it carries.
    pub payload_type: PayloadType,
    /// Cell loss priority: a congested switch discards this cell before others.
    pub clp: bool,
}

impl CellHeader {
    /// A header of user data on `channel`.
    pub fn user(channel: Channel) -> CellHeader {
        CellHeader {
            gfc: 0,
            channel,
            payload_type: PayloadType::USER,
            clp: false,
        }
    }

    /// From the four octets in front of the check.
    pub fn from_bits(bits: u32, format: HeaderFormat) -> CellHeader {
        let (gfc, vpi) = match format {
            HeaderFormat::Uni => (bits >> 28, bits >> 20 & 0xff),
            HeaderFormat::Nni => (0, bits >> 20),
        };
        CellHeader {
            gfc: gfc as u8,
            channel: Channel {
                vpi: vpi as u16,
                vci: (bits >> 4) as u16,
            },
            payload_type: PayloadType::from_bits(bits >> 1),
            clp: bits & 1 != 0,
        }
    }

    /// The four octets in front of the check; of fields that are too wide, the low bits.
    pub fn bits(&self, format: HeaderFormat) -> u32 {
        let vpi = u32::from(self.channel.vpi);
        let first = match format {
            HeaderFormat::Uni => u32::from(self.gfc & 15) << 28 | (vpi & 0xff) << 20,
            HeaderFormat::Nni => (vpi & 0xfff) << 20,
        };
        let rest = u32::from(self.channel.vci) << 4 | self.payload_type.bits() << 1;
        first | rest | u32::from(self.clp)
    }

    /// The header with its check, as it is sent.
    pub fn octets(&self, format: HeaderFormat) -> [u8; HEADER_LEN] {
        let bits = self.bits(format);
        let [a, b, c, d] = bits.to_be_bytes();
        [a, b, c, d, hec::hec(bits)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SplitMix64;

    #[test]
    fn header_of_the_example_is_00_10_06_40_and_its_check() {
        let channel = Channel { vpi: 1, vci: 100 };
        let header = CellHeader::user(channel).octets(HeaderFormat::Uni);
        assert_eq!(header, [0x00, 0x10, 0x06, 0x40, 0x4e]);
    }

    #[test]
    fn idle_cell_is_channel_zero_of_low_priority() {
        let idle = CellHeader {
            clp: true,
            ..CellHeader::user(Channel { vpi: 0, vci: 0 })
        };
        assert_eq!(idle.octets(HeaderFormat::Uni), IDLE_HEADER);
    }

    #[test]
    fn header_of_any_bits_is_read_as_it_is_written() {
        let mut random = SplitMix64::new(1);
        for _ in 0..10_000 {
            let bits = random.next_u64() as u32;
            for format in [HeaderFormat::Uni, HeaderFormat::Nni] {
                assert_eq!(CellHeader::from_bits(bits, format).bits(format), bits);
            }
        }
    }
}
