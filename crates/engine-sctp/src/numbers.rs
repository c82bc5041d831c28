//! Numbers of the protocol, one type each.

/// A transmission sequence number: a chunk of user data has one (RFC 9260 section 1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Tsn(pub u32);

/// A TSN that does not wrap: its low 32 bits are the TSN, and numbers grow from
/// [`LongTsn::first`] on. An association of 10^9 chunks a second lasts 584 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LongTsn(pub u64);

impl LongTsn {
    /// The number of the first chunk. A cycle of TSNs lies before it, so that one may be subtracted.
    pub fn first(initial: Tsn) -> LongTsn {
        LongTsn((1 << 32) + u64::from(initial.0))
    }

    /// As it is on the wire.
    pub fn tsn(self) -> Tsn {
        Tsn(self.0 as u32)
    }

    /// The number that `tsn` stands for: the one nearest to `self` (serial arithmetic, RFC 1982).
    pub fn nearest(self, tsn: Tsn) -> LongTsn {
        let distance = tsn.0.wrapping_sub(self.0 as u32) as i32;
        LongTsn(self.0.wrapping_add_signed(i64::from(distance)))
    }

    /// The number `count` further.
    pub fn plus(self, count: u64) -> LongTsn {
        LongTsn(self.0 + count)
    }

    /// How many numbers lie from `earlier` to `self`; 0 if it is later.
    pub fn since(self, earlier: LongTsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A verification tag: the receiver's 32 random bits in each packet (RFC 9260 section 8.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u32);

impl Tag {
    /// The tag of a packet that holds an INIT.
    pub const NONE: Tag = Tag(0);
}

/// A port of SCTP, which is none of UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Port(pub u16);

/// Names a stream of one direction of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u16);

/// A stream sequence number: it counts the ordered messages of a stream (RFC 9260 section 1.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ssn(pub u16);

impl Ssn {
    /// That of the next message.
    pub fn next(self) -> Ssn {
        Ssn(self.0.wrapping_add(1))
    }
}

/// A message identifier: it counts the ordered messages of a stream, and apart from them the unordered
/// ones (RFC 8260 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mid(pub u32);

/// A fragment sequence number: it counts the fragments of a message (RFC 8260 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fsn(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_follows_serial_arithmetic_across_the_wrap() {
        for initial in [0, 1, 5, u32::MAX - 1, 1 << 31] {
            let first = LongTsn::first(Tsn(initial));
            assert_eq!(first.tsn(), Tsn(initial));
            for distance in [0u64, 1, 2, 1000, (1 << 31) - 1] {
                let later = first.plus(distance);
                assert_eq!(first.nearest(later.tsn()), later);
                assert_eq!(later.nearest(first.tsn()), first);
                assert_eq!(later.since(first), distance);
            }
        }
    }
}
