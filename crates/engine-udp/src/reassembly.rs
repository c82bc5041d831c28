//! Fragments that wait for the others of their datagram (RFC 791 section 3.2).

use crate::pdu::{IP_LEN, IpHeader};
use engine::{Address, Instant, RangeSet};
use std::collections::BTreeMap;

/// Datagrams that wait for fragments, at most: 64 KiB each, 4 MiB. The oldest gives way.
const PARTIAL_MAX: usize = 64;

/// Octets of the longest datagram: a packet has at most 65,535.
const DATAGRAM_MAX: usize = 65_535 - IP_LEN;

/// A datagram of which fragments came.
#[derive(Debug)]
struct Partial {
    octets: Vec<u8>,
    arrived: RangeSet,
    /// Its octets, once the last fragment came.
    len: Option<usize>,
    until: Instant,
}

/// The sender and the number of a datagram, and the message that it carries. Numbers come round, and those of a host that
/// restarted may come again: fragments of two messages make no datagram, as the checksum of a whole one would tell.
type Key = (Address, u16, u64);

/// The datagrams that are not whole.
#[derive(Debug, Default)]
pub struct Reassembly {
    partial: BTreeMap<Key, Partial>,
}

impl Reassembly {
    /// Takes in a fragment; gives the datagram that it completes. It waits for the others until `until`.
    pub fn add(
        &mut self,
        from: Address,
        header: &IpHeader,
        octets: &[u8],
        until: Instant,
    ) -> Option<Vec<u8>> {
        let start = usize::from(header.offset);
        let end = start + octets.len();
        // All but the last end where the next one may begin.
        if end > DATAGRAM_MAX
            || (header.more && !octets.len().is_multiple_of(8))
            || octets.is_empty()
        {
            return None;
        }
        let key = (from, header.id, header.tag);
        self.make_room(&key);
        let partial = self.partial.entry(key).or_insert_with(|| Partial {
            octets: Vec::new(),
            arrived: RangeSet::new(),
            len: None,
            until,
        });
        if partial.octets.len() < end {
            partial.octets.resize(end, 0);
        }
        partial.octets[start..end].copy_from_slice(octets);
        partial.arrived.insert(start as u64..end as u64);
        if !header.more {
            partial.len = Some(end);
        }
        let first = partial.arrived.first()?;
        let is_whole = partial.len.is_some_and(|len| first == (0..len as u64));
        let whole = is_whole.then(|| self.partial.remove(&key)).flatten()?;
        let mut octets = whole.octets;
        octets.truncate(whole.len.unwrap_or(0));
        Some(octets)
    }

    fn make_room(&mut self, key: &Key) {
        if self.partial.len() < PARTIAL_MAX || self.partial.contains_key(key) {
            return;
        }
        let oldest = self.partial.iter().min_by_key(|(_, partial)| partial.until);
        if let Some(oldest) = oldest.map(|(key, _)| *key) {
            self.partial.remove(&oldest);
        }
    }

    /// When the first of them is given up.
    pub fn deadline(&self) -> Option<Instant> {
        self.partial.values().map(|partial| partial.until).min()
    }

    /// Gives up those whose time is over; how many.
    pub fn expire(&mut self, now: Instant) -> u64 {
        let before = self.partial.len();
        self.partial.retain(|_, partial| partial.until > now);
        (before - self.partial.len()) as u64
    }

    /// Datagrams that wait.
    pub fn len(&self) -> usize {
        self.partial.len()
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.partial.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(id: u16, offset: u16, more: bool) -> IpHeader {
        IpHeader {
            len: 0,
            id,
            offset,
            more,
            tag: 0,
        }
    }

    const FROM: Address = Address::Station(1);

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn fragments_in_any_order_and_twice_make_their_datagram() {
        let whole: Vec<u8> = (0..20).collect();
        let mut waiting = Reassembly::default();
        let mut add = |offset: u16, end: usize| {
            let header = header(3, offset, end < 20);
            waiting.add(FROM, &header, &whole[usize::from(offset)..end], at(9))
        };
        assert_eq!(add(16, 20), None);
        assert_eq!(add(0, 8), None);
        assert_eq!(add(0, 8), None);
        assert_eq!(add(8, 16), Some(whole.clone()));
        assert!(waiting.is_empty());
    }

    #[test]
    fn datagrams_of_others_and_other_numbers_are_kept_apart_and_expire() {
        let mut waiting = Reassembly::default();
        assert_eq!(waiting.add(FROM, &header(1, 0, true), &[1; 8], at(5)), None);
        assert_eq!(
            waiting.add(FROM, &header(2, 8, false), &[2; 8], at(7)),
            None
        );
        let other = Address::Station(2);
        assert_eq!(
            waiting.add(other, &header(1, 8, false), &[3; 8], at(9)),
            None
        );
        assert_eq!((waiting.len(), waiting.deadline()), (3, Some(at(5))));
        assert_eq!(waiting.expire(at(7)), 2);
        assert_eq!(waiting.len(), 1);
    }

    #[test]
    fn fragments_of_two_messages_with_one_number_are_not_mixed() {
        let mut waiting = Reassembly::default();
        let of_message = |tag: u64, offset: u16, more: bool| IpHeader {
            tag,
            ..header(1, offset, more)
        };
        let first = waiting.add(FROM, &of_message(1, 0, true), &[1; 8], at(9));
        assert_eq!(first, None);
        let other = waiting.add(FROM, &of_message(2, 8, false), &[2; 8], at(9));
        assert_eq!((other, waiting.len()), (None, 2));
        let whole = waiting.add(FROM, &of_message(2, 0, true), &[2; 8], at(9));
        assert_eq!((whole, waiting.len()), (Some(vec![2; 16]), 1));
    }

    #[test]
    fn hostile_fragments_take_bounded_memory() {
        let mut waiting = Reassembly::default();
        for id in 0..1000 {
            let long = header(id, 65_528, true);
            assert_eq!(
                waiting.add(FROM, &long, &[0; 1480], at(u64::from(id))),
                None
            );
            let odd = header(id, 0, true);
            assert_eq!(waiting.add(FROM, &odd, &[0; 7], at(u64::from(id))), None);
            assert_eq!(waiting.add(FROM, &odd, &[], at(u64::from(id))), None);
        }
        assert!(waiting.is_empty());
        for id in 0..1000 {
            waiting.add(FROM, &header(id, 8, false), &[0; 8], at(u64::from(id)));
        }
        assert_eq!(waiting.len(), PARTIAL_MAX);
        assert_eq!(waiting.deadline(), Some(at(1000 - PARTIAL_MAX as u64)));
    }

    #[test]
    fn datagram_ends_where_its_last_fragment_says() {
        let mut waiting = Reassembly::default();
        assert_eq!(
            waiting.add(FROM, &header(1, 0, true), &[1; 16], at(5)),
            None
        );
        assert_eq!(
            waiting.add(FROM, &header(1, 8, false), &[2; 4], at(5)),
            None,
            "16 octets came"
        );
    }
}
