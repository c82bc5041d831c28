//! Addresses of formats by which no wire of ours finds a host: a FIRST calls one, and a listener answers to it (0123).

use super::AddressSegment;
use core::fmt;
use std::sync::Arc;

/// Code of Direct addresses.
const DIRECT: u8 = 5;
/// Code of ISO's connectionless network protocol.
const ISO: u8 = 2;
/// Code of Xerox Network Systems.
const XNS: u8 = 3;

/// Longest Direct address, octets.
const DIRECT_LEN_MAX: usize = 32;

/// Longest network service access point (ISO 8348, addendum 2), octets.
const NSAP_LEN_MAX: usize = 20;

/// Octets behind the head of a segment at least, those of IPv4's: a FIRST with fewer is shorter than its answer
/// (0007, Address validation).
const LEN_MIN: usize = 12;

/// What a FIRST calls instead of a host and a port of the Internet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedAddress {
    format: u8,
    /// Those behind the head of the segment.
    octets: Arc<[u8]>,
}

impl NamedAddress {
    /// Parses `direct:HEX`, `iso:HEX` (a network service access point) or `xns:NETWORK.HOST.SOCKET`, all in
    /// hexadecimal digits; None for anything else.
    pub fn parse(text: &str) -> Option<NamedAddress> {
        let (format, rest) = text.split_once(':')?;
        let (format, mut octets) = match format {
            "direct" => (DIRECT, hex(rest, DIRECT_LEN_MAX)?),
            "iso" => (ISO, iso(&hex(rest, NSAP_LEN_MAX)?)),
            "xns" => (XNS, xns(rest)?),
            _ => return None,
        };
        let len = octets.len().max(LEN_MIN);
        octets.resize(len, 0);
        Some(NamedAddress {
            format,
            octets: octets.into(),
        })
    }

    /// The segment that carries it.
    pub fn segment(&self) -> AddressSegment<'_> {
        match self.format {
            DIRECT => AddressSegment::Direct(&self.octets),
            other => AddressSegment::Other(other, &self.octets),
        }
    }
}

/// As it is parsed.
impl fmt::Display for NamedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let write = |f: &mut fmt::Formatter<'_>, octets: &[u8]| {
            octets.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
        };
        match (self.format, &self.octets[..]) {
            (ISO, [len, rest @ ..]) => {
                f.write_str("iso:")?;
                write(f, rest.get(..usize::from(*len)).unwrap_or(rest))
            }
            (XNS, octets) if octets.len() >= LEN_MIN => {
                f.write_str("xns:")?;
                write(f, &octets[..4])?;
                f.write_str(".")?;
                write(f, &octets[4..10])?;
                f.write_str(".")?;
                write(f, &octets[10..12])
            }
            (_, octets) => {
                let used = octets
                    .iter()
                    .rposition(|octet| *octet != 0)
                    .map_or(1, |at| at + 1);
                f.write_str("direct:")?;
                write(f, &octets[..used])
            }
        }
    }
}

/// One to `most` octets.
fn hex(text: &str, most: usize) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits.filter(|digits| !digits.is_empty() && digits.len().is_multiple_of(2))?;
    let (pairs, _) = digits.as_chunks::<2>();
    let octets: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    (octets.len() <= most).then_some(octets)
}

/// Destination and source, each behind its length; the source is the one that the frame or the datagram has.
fn iso(destination: &[u8]) -> Vec<u8> {
    let mut octets = vec![destination.len() as u8];
    octets.extend_from_slice(destination);
    octets.push(0);
    octets
}

/// Destination and source: network (32 bits), host (48), socket (16).
fn xns(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('.');
    let mut part = |bits: u32| {
        let digits = parts.next().filter(|part| !part.starts_with('+'))?;
        let number = u64::from_str_radix(digits, 16).ok()?;
        (number < 1 << bits).then_some(number)
    };
    let (network, host, socket) = (part(32)?, part(48)?, part(16)?);
    if parts.next().is_some() {
        return None;
    }
    let mut octets = (network as u32).to_be_bytes().to_vec();
    octets.extend_from_slice(&host.to_be_bytes()[2..]);
    octets.extend_from_slice(&(socket as u16).to_be_bytes());
    octets.resize(24, 0);
    Some(octets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(text: &str) -> (u8, Vec<u8>) {
        let parsed = NamedAddress::parse(text).expect(text);
        match parsed.segment() {
            AddressSegment::Direct(octets) => (DIRECT, octets.to_vec()),
            AddressSegment::Other(format, octets) => (format, octets.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn layouts() {
        let padded = |known: &[u8], len: usize| {
            let mut octets = known.to_vec();
            octets.resize(len, 0);
            octets
        };
        assert_eq!(octets("direct:0aFF"), (5, padded(&[0x0a, 0xff], 12)));
        assert_eq!(octets("iso:49000101"), (2, padded(&[4, 0x49, 0, 1, 1], 12)));
        let xns = [0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 4, 0x51];
        assert_eq!(octets("xns:1.020000000002.451"), (3, padded(&xns, 24)));
    }

    #[test]
    fn text_round_trips() {
        for text in [
            "direct:00",
            "direct:0aff",
            "iso:49000100",
            "xns:00000001.020000000002.0451",
        ] {
            let parsed = NamedAddress::parse(text).expect(text);
            assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn text_that_is_no_address_is_refused() {
        let long = format!("direct:{}", "00".repeat(DIRECT_LEN_MAX + 1));
        let nsap = format!("iso:{}", "00".repeat(NSAP_LEN_MAX + 1));
        for text in [
            "",
            "direct:",
            "direct:0",
            "direct:0g",
            "iso:",
            "iso:4",
            "xns:1.2",
            "xns:1.2.3.4",
            "xns:1.2.10000",
            "xns:100000000.2.3",
            "xns:+1.2.3",
            "ipx:1.2.3",
            "0a",
            &long,
            &nsap,
        ] {
            assert_eq!(NamedAddress::parse(text), None, "{text}");
        }
    }
}
