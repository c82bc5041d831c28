//! The header of [`crate::EtherSocket`]'s frames, 20 octets.

use std::fmt;
use std::str::FromStr;

/// Octets of the header: Ethernet's 14, the length, and two ports.
pub const HEADER_LEN: usize = 20;

/// Octets of the header that count against an interface's MTU.
pub(crate) const SUBHEADER_LEN: usize = 6;

/// User bytes that fit the length field.
pub const PAYLOAD_MAX: usize = u16::MAX as usize;

/// Offset of the source's hardware address in a frame, for the kernel's filter.
pub(crate) const SOURCE_OFFSET: u32 = 6;

/// Offset of the destination port in a frame, for the kernel's filter.
pub(crate) const PORT_OFFSET: u32 = 16;

/// Destination or source of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EtherAddress {
    /// The interface's hardware address.
    pub hardware: [u8; 6],
    /// The port, which names a program.
    pub port: u16,
}

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Destination.
    pub to: EtherAddress,
    /// Source.
    pub from: EtherAddress,
    /// EtherType of the protocol.
    pub ethertype: u16,
    /// User bytes behind the header; padding may follow them.
    pub len: u16,
}

impl FrameHeader {
    /// The header as octets, in network order.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        let mut octets = [0; HEADER_LEN];
        octets[..6].copy_from_slice(&self.to.hardware);
        octets[6..12].copy_from_slice(&self.from.hardware);
        octets[12..14].copy_from_slice(&self.ethertype.to_be_bytes());
        octets[14..16].copy_from_slice(&self.len.to_be_bytes());
        octets[16..18].copy_from_slice(&self.to.port.to_be_bytes());
        octets[18..20].copy_from_slice(&self.from.port.to_be_bytes());
        octets
    }

    /// Parses a header in front of `arrived` octets; None when its length field exceeds them.
    #[inline]
    pub fn parse(octets: &[u8; HEADER_LEN], arrived: usize) -> Option<FrameHeader> {
        let number = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        let hardware = |at: usize| {
            let mut address = [0; 6];
            address.copy_from_slice(&octets[at..at + 6]);
            address
        };
        let frame = FrameHeader {
            to: EtherAddress {
                hardware: hardware(0),
                port: number(16),
            },
            from: EtherAddress {
                hardware: hardware(6),
                port: number(18),
            },
            ethertype: number(12),
            len: number(14),
        };
        (usize::from(frame.len) <= arrived).then_some(frame)
    }
}

impl fmt::Display for EtherAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.hardware;
        write!(
            f,
            "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}/{}",
            self.port
        )
    }
}

/// The error for a text that is not of the form `02:00:00:00:00:01/4711`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidEtherAddress;

impl FromStr for EtherAddress {
    type Err = InvalidEtherAddress;

    fn from_str(text: &str) -> Result<EtherAddress, InvalidEtherAddress> {
        let (hardware, port) = text.split_once('/').ok_or(InvalidEtherAddress)?;
        let octets: Option<Vec<u8>> = hardware
            .split(':')
            .map(|pair| u8::from_str_radix(pair, 16).ok())
            .collect();
        Ok(EtherAddress {
            hardware: octets
                .and_then(|octets| octets.try_into().ok())
                .ok_or(InvalidEtherAddress)?,
            port: port.parse().map_err(|_| InvalidEtherAddress)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: FrameHeader = FrameHeader {
        to: EtherAddress {
            hardware: [2, 0, 0, 0, 0, 1],
            port: 0x1234,
        },
        from: EtherAddress {
            hardware: [2, 0, 0, 0, 0, 2],
            port: 0x5678,
        },
        ethertype: 0x88b5,
        len: 3,
    };

    #[test]
    fn frame_header_octets_match_the_format() {
        let octets = [
            2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5, 0, 3, 0x12, 0x34, 0x56, 0x78,
        ];
        assert_eq!(FRAME.emit(), octets);
        assert_eq!(FrameHeader::parse(&octets, 46), Some(FRAME));
    }

    #[test]
    fn frame_length_beyond_arrival_is_rejected() {
        assert_eq!(FrameHeader::parse(&FRAME.emit(), 3), Some(FRAME));
        assert_eq!(FrameHeader::parse(&FRAME.emit(), 2), None);
    }

    #[test]
    fn ether_address_text_round_trip() {
        let text = FRAME.to.to_string();
        assert_eq!(text, "02:00:00:00:00:01/4660");
        assert_eq!(text.parse(), Ok(FRAME.to));
        for wrong in ["", "02:00/1", "02:00:00:00:00:01", "02:00:00:00:00:zz/1"] {
            assert_eq!(
                wrong.parse::<EtherAddress>(),
                Err(InvalidEtherAddress),
                "{wrong}"
            );
        }
    }
}
