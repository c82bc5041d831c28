//! What is sent.

use control::{Job, Mix};
use engine::SplitMix64;

/// The messages of a source: all of one length, or of two in random order.
#[derive(Debug)]
pub(crate) struct Messages {
    octets: Vec<u8>,
    len: usize,
    mix: Option<(Mix, SplitMix64)>,
}

impl Messages {
    pub(crate) fn new(job: &Job) -> Messages {
        let mix = job.mix.map(|mix| (mix, SplitMix64::new(job.seed)));
        let longest = job
            .mix
            .map_or(job.message_len, |mix| mix.small.max(mix.full));
        // Not all zeros, so that nothing on the way has it easier than with a user's data.
        let octets = (0..longest).map(|at| (at * 131 + 7) as u8).collect();
        Messages {
            octets,
            len: job.message_len as usize,
            mix,
        }
    }

    /// Whether every message is the same, so that many can be sent in one run.
    pub(crate) fn is_uniform(&self) -> bool {
        self.mix.is_none()
    }

    /// The next message.
    #[inline]
    pub(crate) fn next(&mut self) -> &[u8] {
        let len = match &mut self.mix {
            None => self.len,
            Some((mix, random)) => {
                let small = random.below(100) < u64::from(mix.small_percent);
                (if small { mix.small } else { mix.full }) as usize
            }
        };
        &self.octets[..len]
    }

    /// A message whose front can be written to.
    pub(crate) fn next_mut(&mut self) -> &mut [u8] {
        &mut self.octets[..self.len]
    }
}

/// Octets of the stamp that open-loop messages begin with.
pub(crate) const STAMP_LEN: usize = 16;

/// Writes the number of a message and the time it was meant to be sent.
pub(crate) fn put_stamp(message: &mut [u8], number: u64, intended_ns: u64) {
    message[..8].copy_from_slice(&number.to_le_bytes());
    message[8..STAMP_LEN].copy_from_slice(&intended_ns.to_le_bytes());
}

/// Reads them back.
pub(crate) fn stamp(message: &[u8]) -> Option<(u64, u64)> {
    let number = u64::from_le_bytes(*message.first_chunk()?);
    let intended_ns = u64::from_le_bytes(*message.get(8..)?.first_chunk()?);
    Some((number, intended_ns))
}
