//! Packets. The specifications of 3.3 and 3.5 are lost; the lengths are known from the study, the
//! offsets of the fields are ours. Header and trailer stand together in front.
//!
//! ```text
//!  0 version    1 format   2 options    4 key
//!  8 seq                               12 dseq
//! 16 sync                              20 length of what follows
//! 24 check      26 zero                28 route
//! 32 sort                              36 trailer           (3.5 only)
//! ```
//!
//! A control segment: rseq, dseq, alloc, echo, rate, burst, pairs, time (four octets each), in 3.5
//! sixteen more, then the resend pairs if they are fixed.

use crate::config::{PACKET_MAX, PAIRS_LEN, Revision, Xtp3Config};
use engine::checksum;

/// Packet format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketFormat {
    /// User data.
    Data,
    /// Control.
    Cntl,
}

/// Option bits.
pub mod options {
    /// Belongs to a group's association.
    pub const MULTI: u16 = 1;
    /// Status request.
    pub const SREQ: u16 = 2;
    /// A message ends here.
    pub const EOM: u16 = 4;
    /// From a receiver: the key is its peer's.
    pub const RTN: u16 = 8;
}

/// The fields of a header that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xtp3Header {
    /// Packet format.
    pub format: PacketFormat,
    /// Option bits, see [`options`].
    pub options: u16,
    /// The sender's context.
    pub key: u32,
    /// Sequence number of the first byte, or of the next one to be sent.
    pub seq: u32,
    /// Delivered to the user, of the other direction.
    pub dseq: u32,
    /// Incremented with every data packet and every request.
    pub sync: u32,
}

/// The fields of a control segment that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlSegment {
    /// Received in order up to here.
    pub rseq: u32,
    /// Read by the user up to here.
    pub dseq: u32,
    /// The sender may send up to here.
    pub alloc: u32,
    /// The sync of the request answered.
    pub echo: u32,
}

/// The longest packet without user data: header 40, control segment 48, resend pairs 128.
pub(crate) const CONTROL_MAX: usize = 40 + 48 + PAIRS_LEN;

/// Octets of a packet, built without an allocation.
pub(crate) struct Octets {
    bytes: [u8; CONTROL_MAX],
    len: usize,
}

impl Octets {
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Xtp3Config {
    /// User bytes of a full packet.
    pub const fn payload(&self) -> usize {
        PACKET_MAX - self.revision.header_len()
    }

    /// Octets of a control packet.
    pub const fn control_packet(&self) -> usize {
        let pairs = if self.resend_pairs { PAIRS_LEN } else { 0 };
        self.revision.header_len() + self.revision.control_len() + pairs
    }
}

const fn version_octet(revision: Revision) -> u8 {
    match revision {
        Revision::V33 => 0x33,
        Revision::V35 => 0x35,
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

fn get(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(word.try_into().ok()?))
}

impl Xtp3Header {
    /// A data packet's header; `len` bytes of user data follow.
    pub(crate) fn emit_data(&self, config: &Xtp3Config, len: usize) -> Octets {
        self.emit(config, len, None)
    }

    /// A whole control packet.
    pub(crate) fn emit_control(&self, config: &Xtp3Config, control: &ControlSegment) -> Octets {
        let len = config.control_packet() - config.revision.header_len();
        self.emit(config, len, Some(control))
    }

    fn emit(&self, config: &Xtp3Config, len: usize, control: Option<&ControlSegment>) -> Octets {
        let mut bytes = [0; CONTROL_MAX];
        let header_len = config.revision.header_len();
        bytes[0] = version_octet(config.revision);
        bytes[1] = u8::from(self.format == PacketFormat::Cntl);
        bytes[2..4].copy_from_slice(&self.options.to_be_bytes());
        put(&mut bytes, 4, self.key);
        put(&mut bytes, 8, self.seq);
        put(&mut bytes, 12, self.dseq);
        put(&mut bytes, 16, self.sync);
        put(&mut bytes, 20, len as u32);
        let mut total = header_len;
        if let Some(control) = control {
            put(&mut bytes, header_len, control.rseq);
            put(&mut bytes, header_len + 4, control.dseq);
            put(&mut bytes, header_len + 8, control.alloc);
            put(&mut bytes, header_len + 12, control.echo);
            total += len;
        }
        // The checksum leaves out the data: the study ran without errors, and the host has its
        // cost.
        let check = checksum::checksum(&bytes[..total]);
        bytes[24..26].copy_from_slice(&check.to_be_bytes());
        Octets { bytes, len: total }
    }

    /// Parses a packet of `config`'s version; None if it is not one.
    pub(crate) fn parse(
        config: &Xtp3Config,
        packet: &[u8],
    ) -> Option<(Xtp3Header, Option<ControlSegment>)> {
        let header_len = config.revision.header_len();
        let len = get(packet, 20)? as usize;
        if packet[0] != version_octet(config.revision) || packet.len() != header_len + len {
            return None;
        }
        let format = match packet[1] {
            0 => PacketFormat::Data,
            1 => PacketFormat::Cntl,
            _ => return None,
        };
        let check_len = if format == PacketFormat::Data {
            header_len
        } else {
            header_len + len
        };
        if checksum::checksum(packet.get(..check_len)?) != 0 {
            return None;
        }
        let control = match format {
            PacketFormat::Data => None,
            PacketFormat::Cntl if packet.len() != config.control_packet() => return None,
            PacketFormat::Cntl => Some(ControlSegment {
                rseq: get(packet, header_len)?,
                dseq: get(packet, header_len + 4)?,
                alloc: get(packet, header_len + 8)?,
                echo: get(packet, header_len + 12)?,
            }),
        };
        let header = Xtp3Header {
            format,
            options: u16::from_be_bytes([packet[2], packet[3]]),
            key: get(packet, 4)?,
            seq: get(packet, 8)?,
            dseq: get(packet, 12)?,
            sync: get(packet, 16)?,
        };
        Some((header, control))
    }

    /// Whether all of `bits` are set.
    pub(crate) fn has(&self, bits: u16) -> bool {
        self.options & bits == bits
    }
}

/// The position with sequence number `seq` that is nearest to `near`.
pub(crate) fn unwrap(seq: u32, near: u64) -> u64 {
    let offset = seq.wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configs() -> impl Iterator<Item = Xtp3Config> {
        let revisions = [Revision::V33, Revision::V35].into_iter();
        revisions.flat_map(|revision| {
            [false, true].map(|resend_pairs| Xtp3Config {
                revision,
                resend_pairs,
                ..Xtp3Config::default()
            })
        })
    }

    #[test]
    fn packet_lengths_match_study() {
        let lengths: Vec<_> = configs()
            .map(|config| (config.payload(), config.control_packet()))
            .collect();
        assert_eq!(lengths, [(1468, 64), (1468, 192), (1460, 88), (1460, 216)]);
    }

    #[test]
    fn control_packet_round_trips_and_bit_errors_rejected() {
        let header = Xtp3Header {
            format: PacketFormat::Cntl,
            options: options::SREQ | options::EOM,
            key: 7,
            seq: 0xffff_fff0,
            dseq: 3,
            sync: 9,
        };
        let control = ControlSegment {
            rseq: 1,
            dseq: 2,
            alloc: 3,
            echo: 4,
        };
        for config in configs() {
            let octets = header.emit_control(&config, &control);
            let parsed = Xtp3Header::parse(&config, octets.as_slice());
            assert_eq!(parsed, Some((header, Some(control))));
            for bit in 0..octets.len * 8 {
                let mut bytes = octets.as_slice().to_vec();
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Xtp3Header::parse(&config, &bytes), None, "bit {bit}");
            }
            assert_eq!(Xtp3Header::parse(&config, &octets.as_slice()[..30]), None);
            assert_eq!(Xtp3Header::parse(&config, &[]), None);
        }
    }

    #[test]
    fn sequence_numbers_wrap_around() {
        let near = (5u64 << 32) - 2;
        assert_eq!(unwrap(1, near), (5 << 32) + 1);
        assert_eq!(unwrap(0xffff_fff0, near), (5 << 32) - 16);
        assert_eq!(unwrap(0xffff_ffff, 0), 0);
    }
}
