//! Which revision, and the study's tunables.

use core::time::Duration;

/// A revision of the protocol, as far as the study tells them apart.
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
    /// This station answers status requests. In the study one of the receivers does.
    pub responds: bool,
    /// Receivers the sender waits for before it acts on a bucket, unless `hold` says when.
    pub responders: u32,
    /// The sender acts on a bucket this long after its request if anybody answered.
    pub bucket_delay: Option<Duration>,
    /// Slotting: an answer waits a random time below this.
    pub slot: Option<Duration>,
    /// Damping: an answer is left out when another receiver is heard to say the same or less.
    pub damping: bool,
    /// Status requests within a wait-timer interval (N), at least 1.
    pub requests: u32,
    /// Answers in a row that may be lost (E).
    pub tolerated: u32,
}

impl Multicast {
    /// The study's: one answer, N = 1, E = 0.
    pub const fn new(responds: bool) -> Multicast {
        Multicast {
            responds,
            responders: 1,
            bucket_delay: None,
            slot: None,
            damping: false,
            requests: 1,
            tolerated: 0,
        }
    }

    /// Whether anything of it needs a timer.
    pub const fn is_timed(&self) -> bool {
        self.bucket_delay.is_some() || self.slot.is_some()
    }

    /// Buckets of the sender: N + E + 1.
    pub const fn buckets(self) -> usize {
        (self.requests + self.tolerated) as usize + 1
    }
}

/// How an endpoint behaves.
///
/// Of the study's seven tunables, `alloc`, `credit`, `wtimer` and `ctimer` are here; `separation`,
/// `copy_delay` and `checksum_delay` are costs of the host ([`sim::HostCost`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StudyConfig {
    /// Which revision.
    pub revision: Revision,
    /// Control packets carry 128 octets of resend pairs, needed or not.
    pub resend_pairs: bool,
    /// All circuits go to the group.
    pub multicast: Option<Multicast>,
    /// Receive buffer, in bytes: how far the sender may go beyond what was read.
    pub alloc: u32,
    /// Bytes sent at once in a credit interval of 1/60 s; None for no limit.
    pub credit: Option<u32>,
    /// Time to wait for the answer to a status request before asking again; None for ever.
    pub wtimer: Option<Duration>,
    /// Time without an answer after which a circuit is given up; None for never.
    pub ctimer: Option<Duration>,
    /// Makes the keys. Equal seeds, equal bytes.
    pub seed: u64,
}

impl Default for StudyConfig {
    /// Revision 3.5 as the study ran it: no resend pairs, timers off, credit and buffer so large
    /// that they never hold anything back.
    fn default() -> Self {
        StudyConfig {
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
