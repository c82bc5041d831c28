//! Keys of streams that ended, answered until their quarantine expires (0009, Closing).

use crate::numbers::Key;
use crate::pdu::Options;
use engine::{Address, Instant, TimerTable};
use std::collections::{BTreeMap, BTreeSet};

/// Streams in quarantine at most.
const QUARANTINE_MAX: usize = 1024;

/// The number of a stream in quarantine: in the order in which they ended.
type Number = u64;

/// A stream that this endpoint sent. Members that missed the end get it again.
#[derive(Clone, Debug)]
pub(super) struct SentStream {
    pub(super) key: Key,
    /// The keys granted to members.
    pub(super) granted_keys: Vec<Key>,
}

/// A stream that this endpoint received. Late status requests are answered.
#[derive(Clone, Debug)]
pub(super) struct ReceivedStream {
    pub(super) sender: Address,
    pub(super) sender_key: Key,
    /// The sender is known to be at its address.
    pub(super) is_validated: bool,
    pub(super) final_control: FinalControl,
}

/// The reply to a status request after the end.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinalControl {
    /// The key that the sender knows this receiver by.
    pub(super) key: Key,
    pub(super) options: Options,
    pub(super) rseq: u64,
}

#[derive(Clone, Debug)]
enum EndedStream {
    Sent(SentStream),
    Received(ReceivedStream),
}

/// Streams that ended, by their names.
#[derive(Debug)]
pub(super) struct Quarantine {
    streams: BTreeMap<Number, EndedStream>,
    /// Received ones whose senders are not validated.
    unvalidated: BTreeSet<Number>,
    /// Sent ones by their key and those that they granted.
    by_key: BTreeMap<Key, Number>,
    /// Received ones by the sender and its key.
    by_sender: BTreeMap<(Address, Key), Number>,
    expiries: TimerTable<Number>,
    next: Number,
}

impl Quarantine {
    pub(super) fn new() -> Quarantine {
        Quarantine {
            streams: BTreeMap::new(),
            unvalidated: BTreeSet::new(),
            by_key: BTreeMap::new(),
            by_sender: BTreeMap::new(),
            expiries: TimerTable::new(),
            next: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// The key of the sent stream with this key, its own or one that it granted.
    pub(super) fn find_sent(&self, key: Key) -> Option<Key> {
        match self.streams.get(self.by_key.get(&key)?)? {
            EndedStream::Sent(stream) => Some(stream.key),
            EndedStream::Received(_) => None,
        }
    }

    /// The final control packet of the received stream with this name, which stays until `until`.
    pub(super) fn prolong(&mut self, name: (Address, Key), until: Instant) -> Option<FinalControl> {
        let number = *self.by_sender.get(&name)?;
        let EndedStream::Received(stream) = self.streams.get(&number)? else {
            return None;
        };
        self.expiries.set(number, until);
        Some(stream.final_control)
    }

    /// Keeps a stream that this endpoint sent.
    pub(super) fn keep_sent(&mut self, stream: SentStream, until: Instant) {
        let number = self.make_room(until);
        for key in stream.granted_keys.iter().chain([&stream.key]) {
            self.by_key.insert(*key, number);
        }
        self.streams.insert(number, EndedStream::Sent(stream));
    }

    /// Keeps a stream that this endpoint received.
    pub(super) fn keep_received(&mut self, stream: ReceivedStream, until: Instant) {
        let number = self.make_room(until);
        self.by_sender
            .insert((stream.sender, stream.sender_key), number);
        if !stream.is_validated {
            self.unvalidated.insert(number);
        }
        self.streams.insert(number, EndedStream::Received(stream));
    }

    /// A number for another stream. Forged streams do not displace the keys of validated senders.
    fn make_room(&mut self, until: Instant) -> Number {
        if self.streams.len() == QUARANTINE_MAX {
            let oldest = self.streams.keys().next();
            if let Some(&number) = self.unvalidated.first().or(oldest) {
                self.forget(number);
                self.expiries.cancel(number);
            }
        }
        self.next += 1;
        self.expiries.set(self.next, until);
        self.next
    }

    fn forget(&mut self, number: Number) {
        self.unvalidated.remove(&number);
        match self.streams.remove(&number) {
            Some(EndedStream::Sent(stream)) => {
                for key in stream.granted_keys.iter().chain([&stream.key]) {
                    self.by_key.remove(key);
                }
            }
            Some(EndedStream::Received(stream)) => {
                self.by_sender.remove(&(stream.sender, stream.sender_key));
            }
            None => {}
        }
    }

    /// When the next quarantine expires.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.expiries.deadline()
    }

    /// Forgets the streams whose quarantine is over.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while let Some(number) = self.expiries.pop_due(now) {
            self.forget(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(number: u64, is_validated: bool) -> ReceivedStream {
        let key = Key::in_field(number);
        ReceivedStream {
            sender: Address::Station(1),
            sender_key: key,
            is_validated,
            final_control: FinalControl {
                key,
                options: Options::NONE,
                rseq: number,
            },
        }
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn streams_found_by_every_name_until_they_expire() {
        let mut quarantine = Quarantine::new();
        let sent = SentStream {
            key: Key::in_field(7),
            granted_keys: [8, 9].map(Key::in_field).to_vec(),
        };
        quarantine.keep_sent(sent, at(10));
        quarantine.keep_received(received(7, true), at(20));
        assert_eq!(
            [7, 8, 9, 10].map(|key| quarantine.find_sent(Key::in_field(key)).map(Key::field)),
            [Some(7), Some(7), Some(7), None]
        );
        let name = (Address::Station(1), Key::in_field(7));
        assert_eq!(
            quarantine.prolong(name, at(30)).map(|end| end.rseq),
            Some(7)
        );
        assert!(
            quarantine
                .prolong((Address::Station(2), Key::in_field(7)), at(30))
                .is_none()
        );
        quarantine.handle_timeout(at(10));
        assert_eq!(
            (
                quarantine.find_sent(Key::in_field(8)),
                quarantine.deadline()
            ),
            (None, Some(at(30)))
        );
        quarantine.handle_timeout(at(30));
        assert_eq!((quarantine.len(), quarantine.deadline()), (0, None));
        assert!(quarantine.by_key.is_empty() && quarantine.by_sender.is_empty());
    }

    #[test]
    fn full_quarantine_drops_unvalidated_streams_first_then_the_oldest() {
        let mut quarantine = Quarantine::new();
        for key in 0..QUARANTINE_MAX as u64 {
            quarantine.keep_received(received(key, key != 5), at(10));
        }
        let has = |quarantine: &mut Quarantine, key| {
            quarantine
                .prolong((Address::Station(1), Key::in_field(key)), at(10))
                .is_some()
        };
        quarantine.keep_received(received(2000, true), at(10));
        assert!(!has(&mut quarantine, 5) && has(&mut quarantine, 0));
        quarantine.keep_received(received(2001, true), at(10));
        assert!(!has(&mut quarantine, 0) && has(&mut quarantine, 1));
        assert_eq!(quarantine.len(), QUARANTINE_MAX);
    }
}
