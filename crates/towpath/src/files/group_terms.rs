//! How the content of an offer to a group comes: what sender and receivers must agree on.

use super::protocol::invalid_data;
use crate::xtp::group::words::SLOT_MAX;
use crate::xtp::group::{GroupEndpointConfig, GroupWords};
use std::io;
use std::time::Duration;

/// Octets of encoded terms: flags, and the slot in microseconds.
pub(super) const TERMS_LEN: usize = 5;

/// Control packets go to the group.
const ANSWER_TO_GROUP: u8 = 1;
/// Packets are sent to each receiver, at the group's port.
const REPLICATE: u8 = 2;

/// What a receiver has to know of a group besides its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupTerms {
    pub(super) answer_to_group: bool,
    pub(super) replicate: bool,
    pub(super) slot: Duration,
}

impl GroupTerms {
    pub(super) fn of(words: &GroupWords) -> GroupTerms {
        GroupTerms {
            answer_to_group: words.answer_to_group,
            replicate: words.replicate,
            slot: words.slot,
        }
    }

    pub(super) fn encode(&self) -> [u8; TERMS_LEN] {
        let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
        let flags = flag(self.answer_to_group, ANSWER_TO_GROUP) | flag(self.replicate, REPLICATE);
        // At most a second.
        let [a, b, c, d] = (self.slot.as_micros() as u32).to_be_bytes();
        [flags, a, b, c, d]
    }

    /// # Errors
    ///
    /// `InvalidData` for terms that a sender of this program does not make.
    pub(super) fn decode([flags, slot @ ..]: [u8; TERMS_LEN]) -> io::Result<GroupTerms> {
        let slot = Duration::from_micros(u32::from_be_bytes(slot).into());
        if flags >= ANSWER_TO_GROUP | REPLICATE || slot > SLOT_MAX {
            return Err(invalid_data("the peer's terms for its group are unknown"));
        }
        Ok(GroupTerms {
            answer_to_group: flags & ANSWER_TO_GROUP != 0,
            replicate: flags & REPLICATE != 0,
            slot,
        })
    }

    /// Changes a receiver's configuration accordingly.
    pub(super) fn apply(&self, settings: &mut GroupEndpointConfig) {
        settings.ack_to_group = self.answer_to_group;
        settings.config.slot = self.slot;
    }
}

/// Whether files can be sent to a group with these words: their senders know each host.
///
/// # Errors
///
/// A sentence that names the word and what would be right.
pub fn check_group_words(words: &GroupWords) -> Result<(), String> {
    let word = match words {
        _ if words.version.is_v3() => "dialect",
        _ if words.buckets.is_some() => "buckets",
        _ if words.is_reliable() => return Ok(()),
        _ => "error=none",
    };
    Err(format!(
        "a file comes whole to hosts that are named, so its group counts them; leave out {word}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_round_trip_and_unknown_ones_are_refused() {
        for (answer_to_group, replicate, slot_us) in [
            (false, false, 0),
            (true, false, 1),
            (false, true, 1_000_000),
        ] {
            let terms = GroupTerms {
                answer_to_group,
                replicate,
                slot: Duration::from_micros(slot_us),
            };
            assert_eq!(GroupTerms::decode(terms.encode()).expect("known"), terms);
            let mut settings = GroupEndpointConfig::default();
            terms.apply(&mut settings);
            assert_eq!(settings.ack_to_group, answer_to_group);
            assert_eq!(settings.config.slot, terms.slot);
        }
        for wrong in [[3, 0, 0, 0, 0], [4, 0, 0, 0, 0], [0, 0, 15, 66, 65]] {
            let error = GroupTerms::decode(wrong).expect_err("unknown");
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn words_of_groups_that_count_nobody_are_refused() {
        let check = |word: (&str, &str)| {
            let own = [(word.0.to_owned(), word.1.to_owned())];
            check_group_words(&GroupWords::parse(&own.into_iter().collect())?)
        };
        for (word, part) in [
            (("buckets", "2/2"), "leave out buckets"),
            (("dialect", "3.6"), "leave out dialect"),
            (("error", "none"), "leave out error=none"),
        ] {
            let why = check(word).expect_err("refused");
            assert!(why.contains(part), "{why}");
        }
        assert_eq!(check(("error", "gbn")), Ok(()));
        assert_eq!(check(("rate", "10mbit")), Ok(()));
    }
}
