//! Messages in packets: records split into fragments that are readable without other packets.
//!
//! A packet's payload is a sequence of fragments, each behind four octets in big-endian order:
//!
//! ```text
//!  0 1 2 3                             31
//! +-+-+----------------------------------+
//! |F|L|        length of fragment        |   F first, L last fragment of its message
//! +-+-+----------------------------------+
//! ```
//!
//! A header of zero ends the sequence; padding follows, so that all packets of a batch have the
//! same length. No fragment spans packets, so a lost packet damages only the messages it carried
//! bytes of.

use core::ops::Range;

/// Octets of a fragment's header.
pub const FRAGMENT_HEADER_LEN: usize = 4;

/// Least room for a fragment: a header and one byte. A packet with less room is padded.
pub const FRAGMENT_ROOM_MIN: usize = FRAGMENT_HEADER_LEN + 1;

const FIRST: u32 = 1 << 31;
const LAST: u32 = 1 << 30;
const LENGTH: u32 = LAST - 1;

/// The longest message, bounded by the 30 bits of a fragment's length.
pub const MESSAGE_MAX: usize = LENGTH as usize;

/// The header of a fragment of `len` bytes.
#[inline]
pub fn fragment_header(len: usize, first: bool, last: bool) -> [u8; FRAGMENT_HEADER_LEN] {
    let word = len as u32 | if first { FIRST } else { 0 } | if last { LAST } else { 0 };
    word.to_be_bytes()
}

/// Upper bound of the store bytes a message of `len` takes when packets hold `payload` bytes.
///
/// Each packet it is in costs a header and may leave [`FRAGMENT_ROOM_MIN`] - 1 bytes unused; it is
/// in at most two packets more than its length fills.
#[inline]
pub fn store_len_max(len: usize, payload: usize) -> usize {
    if len + FRAGMENT_HEADER_LEN + FRAGMENT_ROOM_MIN <= payload {
        return len + 2 * (FRAGMENT_HEADER_LEN + FRAGMENT_ROOM_MIN);
    }
    len + (len / (payload - FRAGMENT_HEADER_LEN - FRAGMENT_ROOM_MIN) + 2)
        * (FRAGMENT_HEADER_LEN + FRAGMENT_ROOM_MIN)
}

/// One fragment of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its bytes, as a range of the payload given to [`parse_fragment`].
    pub bytes: Range<usize>,
    /// Whether a message begins here.
    pub first: bool,
    /// Whether a message ends here.
    pub last: bool,
}

/// The fragment at `at` in `payload`, or None where the sequence ends.
///
/// A header whose length exceeds the packet ends the sequence too: the peer is not trusted.
#[inline]
pub fn parse_fragment(payload: &[u8], at: usize) -> Option<Fragment> {
    let head = payload.get(at..at + FRAGMENT_HEADER_LEN)?;
    let word = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    if word == 0 {
        return None;
    }
    let start = at + FRAGMENT_HEADER_LEN;
    let end = start + (word & LENGTH) as usize;
    (end <= payload.len()).then_some(Fragment {
        bytes: start..end,
        first: word & FIRST != 0,
        last: word & LAST != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragment_round_trip() {
        let mut payload = fragment_header(3, true, true).to_vec();
        payload.extend_from_slice(b"abc");
        payload.extend_from_slice(&[0; 4]);
        let found = parse_fragment(&payload, 0).expect("a fragment stands at 0");
        assert_eq!(&payload[found.bytes.clone()], b"abc");
        assert!(found.first && found.last);
        assert_eq!(parse_fragment(&payload, found.bytes.end), None);
    }

    #[test]
    fn fragment_length_beyond_packet_is_rejected() {
        let payload = fragment_header(1000, true, false);
        assert_eq!(parse_fragment(&payload, 0), None);
        assert_eq!(parse_fragment(&payload[..2], 0), None);
    }

    #[test]
    fn empty_message_header_differs_from_padding() {
        let found = parse_fragment(&fragment_header(0, true, true), 0)
            .expect("an empty message is a message");
        assert!(found.bytes.is_empty() && found.first && found.last);
    }
}
