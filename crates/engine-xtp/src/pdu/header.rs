//! The packet header (XTP 4.0 s. 2).

use super::{Options, Reject};
use crate::numbers::SyncNumber;
use engine::checksum;

/// Octets of a header.
pub const HEADER_LEN: usize = 32;

/// Offset of the checksum in a header.
pub const CHECK_AT: usize = 16;

/// Top bit of a key: the key is the receiver's own, returned to it.
pub const RTN: u64 = 1 << 63;

/// XTP 4.0 in the top three bits of the packet type.
const VERSION: u8 = 1 << 5;

/// The word behind the key in a header of DATA without options.
pub(crate) const DATA_WORD: u32 = (VERSION | Format::Data as u8) as u32;

/// The same of FIRST.
pub(crate) const FIRST_WORD: u32 = (VERSION | Format::First as u8) as u32;

/// Packet format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// DATA: user data.
    Data = 0,
    /// CNTL: state of the receiving direction.
    Cntl = 1,
    /// FIRST: opens an association, with user data if there are any.
    First = 2,
    /// ECNTL: as `Cntl`, with spans of received or missing data.
    Ecntl = 3,
    /// TCNTL: as `Cntl`, with a key and a traffic specifier.
    Tcntl = 5,
    /// JCNTL: joins a multicast association.
    Jcntl = 7,
    /// DIAG: reports an error.
    Diag = 8,
}

impl Format {
    fn from_code(code: u8) -> Option<Format> {
        Some(match code {
            0 => Format::Data,
            1 => Format::Cntl,
            2 => Format::First,
            3 => Format::Ecntl,
            5 => Format::Tcntl,
            7 => Format::Jcntl,
            8 => Format::Diag,
            _ => return None,
        })
    }
}

/// Header of every packet, 32 octets in network byte order.
///
/// ```text
///  0                              16                             31
/// +---------------------------------------------------------------+
/// |R|  key (63)                                                   |
/// |                                                               |
/// +-----------------------------------------------+-----+---------+
/// |  options (24)                                 |  1  | format  |
/// +-----------------------------------------------+-----+---------+
/// |  dlen: octets behind the header                               |
/// +-------------------------------+-------------------------------+
/// |  check                        |  sort                         |
/// +-------------------------------+-------------------------------+
/// |  sync                                                         |
/// +---------------------------------------------------------------+
/// |  seq (64)                                                     |
/// |                                                               |
/// +---------------------------------------------------------------+
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Names the context, with [`RTN`] in the top bit.
    pub key: u64,
    /// The option bits.
    pub options: Options,
    /// The packet format.
    pub format: Format,
    /// Octets behind the header.
    pub dlen: u32,
    /// Checksum over the packet, or over the header alone with [`Options::NOCHECK`].
    pub check: u16,
    /// Priority, valid with [`Options::SORT`].
    pub sort: u16,
    /// Number of the sender's last status request.
    pub sync: SyncNumber,
    /// Number of the first user byte, or of the next one to be sent.
    pub seq: u64,
}

/// Length of the packet that begins with these octets, from its header.
pub fn packet_len(octets: &[u8]) -> Option<usize> {
    let header: &[u8; HEADER_LEN] = octets.first_chunk()?;
    let dlen = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
    HEADER_LEN.checked_add(usize::try_from(dlen).ok()?)
}

/// The key in a packet that is a FIRST of 4.0 by its type; nothing else of it is checked.
#[inline]
pub(crate) fn first_key(packet: &[u8]) -> Option<u64> {
    let header: &[u8; HEADER_LEN] = packet.first_chunk()?;
    let is_first = header[11] == VERSION | Format::First as u8;
    is_first.then(|| u64::from_be_bytes(header.as_chunks().0[0]))
}

/// Whether the checksum of `packet`, which begins with `header`, is right: over the header alone if `options` say so, or
/// there is no more.
#[inline]
pub(crate) fn has_right_check(header: &[u8; HEADER_LEN], packet: &[u8], options: Options) -> bool {
    let sum = if options.has(Options::NOCHECK) || packet.len() == HEADER_LEN {
        let (words, _) = header.as_chunks::<8>();
        sum_of([0, 1, 2, 3].map(|at| u64::from_be_bytes(words[at])))
    } else {
        checksum::sum(packet)
    };
    sum == 0xffff
}

impl Header {
    /// Parses and checks the header of `packet`, in the order of [`Reject`].
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Header, Reject> {
        let bytes: &[u8; HEADER_LEN] = packet.first_chunk().ok_or(Reject::Short)?;
        if bytes[11] & 0xe0 != VERSION {
            return Err(Reject::Version);
        }
        let word = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) << 32 | u64::from(word(at + 4));
        let dlen = word(12);
        if dlen as usize != packet.len() - HEADER_LEN {
            return Err(Reject::Length);
        }
        let options = Options(word(8) >> 8);
        if !has_right_check(bytes, packet, options) {
            return Err(Reject::Checksum);
        }
        Ok(Header {
            key: long(0),
            options,
            format: Format::from_code(bytes[11] & 0x1f).ok_or(Reject::Format)?,
            dlen,
            check: u16::from_be_bytes([bytes[16], bytes[17]]),
            sort: u16::from_be_bytes([bytes[18], bytes[19]]),
            sync: SyncNumber(word(20)),
            seq: long(24),
        })
    }

    /// Encodes the header with `check` as it stands.
    #[inline]
    pub fn emit(&self) -> [u8; HEADER_LEN] {
        octets_of(self.words())
    }

    /// The header as four words of 64 bits.
    #[inline]
    fn words(&self) -> [u64; 4] {
        let check = u64::from(self.check) << 48 | u64::from(self.sort) << 32;
        [
            self.key,
            u64::from(self.cmd()) << 32 | u64::from(self.dlen),
            check | u64::from(self.sync.0),
            self.seq,
        ]
    }

    /// Encodes the header with a checksum over itself only.
    #[inline]
    pub fn emit_with_checksum(&self) -> [u8; HEADER_LEN] {
        let [key, kind, check, seq] = self.words();
        let rest = check & (u64::MAX >> 16);
        let check = u64::from(!sum_of([key, kind, rest, seq])) << 48;
        octets_of([key, kind, check | rest, seq])
    }

    /// Encodes the header, in which `check` is 0, with a checksum over itself and octets behind it of this sum.
    #[inline]
    pub(crate) fn emit_with_sum(&self, sum_behind: u16) -> [u8; HEADER_LEN] {
        let [key, kind, rest, seq] = self.words();
        let sum = checksum::combine(sum_of([key, kind, rest, seq]), HEADER_LEN, sum_behind);
        octets_of([key, kind, u64::from(!sum) << 48 | rest, seq])
    }

    /// Encodes the header in front of `body`, with its length and a checksum over both.
    #[inline]
    pub(super) fn emit_before<const LEN: usize>(&self, body: &[u8; LEN]) -> [u8; HEADER_LEN] {
        let header = Header {
            dlen: LEN as u32,
            check: 0,
            ..*self
        };
        header.emit_with_sum(checksum::sum(body))
    }

    fn cmd(&self) -> u32 {
        self.options.0 << 8 | u32::from(VERSION | self.format as u8)
    }
}

#[inline]
fn octets_of([key, kind, check, seq]: [u64; 4]) -> [u8; HEADER_LEN] {
    let mut octets = [0; HEADER_LEN];
    octets[..8].copy_from_slice(&key.to_be_bytes());
    octets[8..16].copy_from_slice(&kind.to_be_bytes());
    octets[16..24].copy_from_slice(&check.to_be_bytes());
    octets[24..].copy_from_slice(&seq.to_be_bytes());
    octets
}

/// The Internet sum of a header.
#[inline]
fn sum_of(words: [u64; 4]) -> u16 {
    let half = |word: u64| (word >> 32) + (word & 0xffff_ffff);
    let [key, kind, check, seq] = words.map(half);
    fold(key + kind + check + seq)
}

/// Folds the sum of a header's words to the Internet checksum: 35 bits, then 20, 17, 16.
#[inline]
fn fold(total: u64) -> u16 {
    let fold = |total: u64| (total & 0xffff) + (total >> 16);
    fold(fold(fold(total))) as u16
}
