//! Short messages that are collected at the head and leave together, as SO_STRHOLD has it for streams of octets: over a
//! protocol of the process that keeps boundaries.

use super::{Inner, Provider, StreamOptions};
use crate::tpi::{RUN_CONTROL, RUN_MESSAGES, RUN_OCTETS, add_to_run, begin_run, run_messages};
use streams::{Block, Message};

/// A message longer than this part of what is collected goes by itself.
const HELD_SHARE: usize = 4;

/// What messages are collected up to.
#[derive(Clone, Copy, Debug)]
pub(super) struct GatherLimit {
    octets: usize,
    messages: usize,
}

impl GatherLimit {
    /// Those of a provider whose messages have at most `tsdu` octets; None where messages are not collected.
    pub(super) fn of(
        provider: Provider,
        options: &StreamOptions,
        tsdu: i32,
    ) -> Option<GatherLimit> {
        let keeps_messages = matches!(provider, Provider::Carried(_)) && tsdu != 0;
        // No more than the queue may hold.
        let most = options.marks.high();
        (keeps_messages && options.hold).then_some(GatherLimit {
            octets: RUN_OCTETS.min(most),
            messages: RUN_MESSAGES.min(most),
        })
    }
}

/// Messages that were collected.
pub(super) struct Gathered {
    control: Block,
    octets: Block,
}

impl Gathered {
    /// Adds a message if there is room.
    #[inline]
    fn add(&mut self, message: &[u8], limit: GatherLimit) -> bool {
        let has_room = self.octets.len() + message.len() <= limit.octets;
        if !has_room || run_messages(&self.control) >= limit.messages {
            return false;
        }
        add_to_run(&mut self.control, message.len());
        self.octets.append(message);
        true
    }
}

impl Inner {
    /// Whether a message of `len` octets is collected.
    #[inline]
    pub(super) fn gathers(&self, len: usize) -> bool {
        self.gather_limit
            .is_some_and(|limit| len <= limit.octets / HELD_SHARE)
    }

    /// Collects a message that [`Inner::gathers`] says is; false when the stream takes none now. What is collected
    /// leaves when it is full, before anything else that goes down, and with the next run.
    #[inline]
    pub(super) fn gather(&mut self, message: &[u8]) -> Result<bool, streams::Error> {
        let Some(limit) = self.gather_limit else {
            return Ok(false);
        };
        // The stream had room for the first of them.
        if let Some(gathered) = &mut self.gathered
            && gathered.add(message, limit)
        {
            return Ok(true);
        }
        self.begin_gathering(message, limit)
    }

    fn begin_gathering(
        &mut self,
        message: &[u8],
        limit: GatherLimit,
    ) -> Result<bool, streams::Error> {
        self.send_gathered();
        if !self.runtime.check_room(self.stream, 0)? {
            return Ok(false);
        }
        let pool = self.runtime.pool_mut();
        let (mut control, octets) = (
            pool.allocate(0, RUN_CONTROL),
            pool.allocate(0, limit.octets),
        );
        begin_run(&mut control);
        let mut gathered = Gathered { control, octets };
        gathered.add(message, limit);
        self.gathered = Some(gathered);
        Ok(true)
    }

    /// What was collected leaves. One message alone goes as it would have.
    #[inline]
    pub(super) fn send_gathered(&mut self) {
        if let Some(gathered) = self.gathered.take() {
            self.send_run(gathered);
        }
    }

    fn send_run(&mut self, Gathered { control, octets }: Gathered) {
        let message = match run_messages(&control) {
            1 => {
                self.runtime.pool_mut().release(control);
                Message::data(octets)
            }
            _ => Message::proto(control, Some(octets)),
        };
        // The stream had room; one that has failed since says so to the next call.
        if let Err((_, refused)) = self.runtime.put_blocks(self.stream, message) {
            refused.release(self.runtime.pool_mut());
        }
    }
}
