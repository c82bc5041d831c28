//! Messages on their way out.

use crate::endpoint::Shared;
use crate::pdu::{CHECKSUM_AT, HEADER_LEN, Header};
use engine::{Batch, Instant, Integrity, OutgoingMessage, Store};

/// A time that does not come: 584 years.
pub(crate) const NEVER: Instant = Instant::from_nanos(u64::MAX);

/// A message on its way out: sent once, and again whole after each time-out.
#[derive(Debug)]
pub(crate) struct Transmission {
    pub(crate) message: OutgoingMessage,
    len: u64,
    /// Where the next block begins; None when all have left.
    pub(crate) next: Option<u64>,
    pub(crate) sent: u32,
    /// When it is sent again; [`NEVER`] while it is being sent.
    again_at: Instant,
    /// It waits in the queue of the endpoint.
    pub(crate) queued: bool,
}

impl Transmission {
    pub(crate) fn new((message, len): (OutgoingMessage, u64)) -> Transmission {
        Transmission {
            message,
            len,
            next: Some(0),
            sent: 0,
            again_at: NEVER,
            queued: false,
        }
    }

    pub(crate) fn timeout(&self) -> Instant {
        self.again_at
    }

    /// Sends everything again from the start, unless that is being done. The time to wait begins when
    /// the last block has left.
    pub(crate) fn restart(&mut self, sh: &mut Shared) {
        if self.next.is_none() {
            self.next = Some(0);
            self.again_at = NEVER;
            sh.counters.retransmissions += 1;
        }
    }

    /// The peer is there: it gets all its time again.
    pub(crate) fn heard(&mut self, now: Instant, sh: &Shared) {
        self.sent = self.sent.min(1);
        if self.next.is_none() {
            self.again_at = now + sh.config.retry * 2;
        }
    }

    /// Fills the batch with the next blocks; true when there are more.
    pub(crate) fn transmit(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        mut header: Header,
        batch: &mut Batch,
    ) -> bool {
        let block_max = (sh.config.packet_len - HEADER_LEN) as u64;
        header.message_len = self.len as u32;
        self.queued = true;
        while let Some(start) = self.next {
            if batch.room() == 0 {
                return true;
            }
            let end = self.len.min(start + block_max);
            header.offset = start as u32;
            let integrity = Integrity::Internet { at: CHECKSUM_AT };
            batch.push(
                &header.emit(),
                Store::Message(self.message),
                start..end,
                integrity,
            );
            sh.counters.packets_built += 1;
            sh.counters.bytes_sent += end - start;
            sh.counters.bytes_summed += HEADER_LEN as u64 + end - start;
            self.next = Some(end).filter(|end| *end < self.len);
        }
        self.again_at = now + sh.config.retry * 2u32.saturating_pow(self.sent.min(16));
        self.sent += 1;
        self.queued = false;
        false
    }
}
