//! The messages of a source, and their stamps.

use control::caps::STAMP_LEN;
use control::{Job, Mix};
use random::SplitMix64;
use std::sync::Arc;

/// The messages of a source: all of one length, or of two in random order. They are
/// reference-counted, so that a transport may send them without a copy.
#[derive(Debug)]
pub(crate) struct Messages {
    only: Arc<[u8]>,
    mix: Option<MixedMessages>,
}

#[derive(Debug)]
struct MixedMessages {
    mix: Mix,
    small: Arc<[u8]>,
    full: Arc<[u8]>,
    random: SplitMix64,
}

impl Messages {
    pub(crate) fn new(job: &Job) -> Messages {
        let mix = job.mix.map(|mix| MixedMessages {
            mix,
            small: octets(mix.small),
            full: octets(mix.full),
            random: SplitMix64::new(job.seed),
        });
        Messages {
            only: octets(job.message_len),
            mix,
        }
    }

    /// Whether every message is the same, so that many can be sent in one run.
    pub(crate) fn is_uniform(&self) -> bool {
        self.mix.is_none()
    }

    /// The next message.
    #[inline]
    pub(crate) fn next(&mut self) -> &Arc<[u8]> {
        match &mut self.mix {
            None => &self.only,
            Some(mixed) => {
                let small = mixed.random.below(100) < u64::from(mixed.mix.small_percent);
                if small { &mixed.small } else { &mixed.full }
            }
        }
    }

    /// A message to write a stamp to.
    pub(crate) fn next_mut(&mut self) -> &mut [u8] {
        Arc::make_mut(&mut self.only)
    }
}

/// Not all zeros, so that compression on the path gains no more than with user data.
pub(super) fn octets(len: u64) -> Arc<[u8]> {
    (0..len).map(|at| (at * 131 + 7) as u8).collect()
}

/// Writes the number of a message and its intended send time.
pub(crate) fn put_stamp(message: &mut [u8], number: u64, intended_ns: u64) {
    message[..8].copy_from_slice(&number.to_le_bytes());
    message[8..STAMP_LEN].copy_from_slice(&intended_ns.to_le_bytes());
}

/// Reads a stamp.
pub(crate) fn stamp(message: &[u8]) -> Option<(u64, u64)> {
    let number = u64::from_le_bytes(*message.first_chunk()?);
    let intended_ns = u64::from_le_bytes(*message.get(8..)?.first_chunk()?);
    Some((number, intended_ns))
}
