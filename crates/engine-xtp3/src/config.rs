//! Versions, and the study's tunables.

use core::time::Duration;
use engine::Address;

/// A version of the protocol, as far as the study distinguishes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// 3.3: header and trailer 32 octets, control segment 32.
    V33,
    /// 3.5: header and trailer 40 octets, control segment 48.
    V35,
}

impl Revision {
    /// Octets of header and trailer.
    pub const fn header_len(self) -> usize {
        match self {
            Revision::V33 => 32,
            Revision::V35 => 40,
        }
    }

    /// Octets of a control segment without resend pairs.
    pub const fn control_len(self) -> usize {
        match self {
            Revision::V33 => 32,
            Revision::V35 => 48,
        }
    }
}

/// Octets of the fixed number of resend pairs: 16 of two 32-bit sequence numbers.
pub const PAIRS_LEN: usize = 128;

/// Octets of the largest packet: what an Ethernet frame carries.
pub const PACKET_MAX: usize = 1500;

/// Sending to a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Multicast {
    /// Where packets to the group go, those of receivers too.
    pub group: Address,
    /// This station answers status requests. In the study one of the receivers does.
    pub responds: bool,
    /// Receivers the sender waits for before it acts on a bucket, unless `bucket_delay` is given.
    pub responders: u32,
    /// The sender acts on a bucket this long after its request if any receiver answered.
    pub bucket_delay: Option<Duration>,
    /// Slotting: a control packet waits a random time below this.
    pub slot: Option<Duration>,
    /// Damping: a control packet is suppressed when another receiver has reported the same or less.
    pub damping: bool,
    /// Status requests within a wait-timer interval (N), at least 1.
    pub requests: u32,
    /// Consecutive control packets that may be lost (E).
    pub tolerated: u32,
}

impl Multicast {
    /// The study's: one responder, N = 1, E = 0.
    pub const fn new(group: Address, responds: bool) -> Multicast {
        Multicast {
            group,
            responds,
            responders: 1,
            bucket_delay: None,
            slot: None,
            damping: false,
            requests: 1,
            tolerated: 0,
        }
    }

    /// Whether it needs a timer.
    pub const fn is_timed(&self) -> bool {
        self.bucket_delay.is_some() || self.slot.is_some()
    }

    /// Buckets of the sender: N + E + 1.
    pub const fn buckets(self) -> usize {
        (self.requests + self.tolerated) as usize + 1
    }
}

/// Configuration of an endpoint.
///
/// Of the study's seven tunables, `alloc`, `credit`, `wtimer` and `ctimer` are here; `separation`,
/// `copy_delay` and `checksum_delay` are costs of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xtp3Config {
    /// The version.
    pub revision: Revision,
    /// Control packets carry 128 octets of resend pairs, used or not.
    pub resend_pairs: bool,
    /// All associations send to the group.
    pub multicast: Option<Multicast>,
    /// Receive buffer, in bytes: how far the sender may go beyond what was read.
    pub alloc: u32,
    /// Bytes sent at once in a credit interval of 1/60 s; None for no limit.
    pub credit: Option<u32>,
    /// Time before an unanswered status request is repeated; None for never.
    pub wtimer: Option<Duration>,
    /// Time without a status after which an association is closed; None for never.
    pub ctimer: Option<Duration>,
    /// Seed of the keys. Equal seeds give equal packets.
    pub seed: u64,
}

impl Default for Xtp3Config {
    /// Version 3.5 as the study ran it: no resend pairs, timers off, credit and buffer so large
    /// that they limit nothing.
    fn default() -> Self {
        Xtp3Config {
            revision: Revision::V35,
            resend_pairs: false,
            multicast: None,
            alloc: 64 << 10,
            credit: None,
            wtimer: None,
            ctimer: None,
            seed: 1,
        }
    }
}
