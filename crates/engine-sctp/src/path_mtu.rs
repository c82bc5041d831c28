//! The longest packet that a path carries, found by probes (RFC 8899): the numbers, without chunks and
//! timers.

use engine::Instant;

/// Octets of a packet that most paths carry, before anything was asked (BASE_PLPMTU, RFC 8899 section
/// 5.1.2).
const BASE_LEN: u32 = 1200;

/// Octets of a packet that every path carries: 576 of IPv4 (RFC 1122 section 3.3.2) less its header
/// and that of UDP (MIN_PLPMTU).
const LEAST_LEN: u32 = 548;

/// Longer packets are asked for when the user had as much to send at once: such a probe costs as much as they
/// do. What is shorter, a jumbo frame of Ethernet, is asked for at once.
const EAGER_LEN: u32 = 9000;

/// First step upwards from a confirmed length; it doubles with each that is confirmed.
const STEP: u32 = 32;

/// The search ends when the shortest known as too long is no further away: one per cent of a frame is
/// not worth the packets that would be lost for it.
const GRANULARITY: u32 = 16;

/// Probes of one length that may be lost although the path carries short packets (MAX_PROBES).
const PROBES_MAX: u8 = 3;

/// What a path's probes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Nothing is asked: the length is that of the configuration.
    Fixed,
    /// The path is not confirmed yet.
    Waiting,
    /// A longer packet is looked for.
    Searching,
    /// The length in use may be too long (RFC 8899 section 4.3).
    Doubting,
    /// The search is over until it is raised.
    Complete,
}

/// A packet whose answer shows that the path carries its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Octets, common header included.
    pub(crate) len: u32,
    /// What the answer must carry; that of the short HEARTBEAT beside it is one higher.
    pub(crate) nonce: u64,
    pub(crate) sent_at: Instant,
    /// How often its loss counted.
    losses: u8,
    /// A short HEARTBEAT accompanies it, and was answered if `is_answered`.
    pub(crate) is_accompanied: bool,
    is_answered: bool,
    /// It waits for a packet, or the short one does, which follows it.
    pub(crate) is_due: bool,
    pub(crate) is_short_due: bool,
}

/// What follows from the time that an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeLoss {
    /// The probe leaves once more.
    Repeat,
    /// Its length is too long for the path; the search goes on.
    TooLong,
    /// The length in use was too long: a shorter one is.
    BlackHole,
}

/// The longest packet that a path carries (PLPMTU), and the search for it.
#[derive(Clone, Debug)]
pub(crate) struct PathMtu {
    /// Octets of a full packet, common header included: confirmed, or the base.
    len: u32,
    /// Octets of the longest that is of use (MAX_PLPMTU).
    max: u32,
    /// Octets of the longest that the user has had a use for.
    wanted: u32,
    /// The shortest known as too long; beyond `max` for none.
    failed: u32,
    /// What a report of the path said, which is asked next; 0 for nothing. It may be forged.
    hint: u32,
    /// Octets to the next; 0 once the search is bracketed, and halves what is left.
    step: u32,
    phase: Phase,
    probe: Option<Probe>,
    /// Something was answered, or found to be too long.
    is_known: bool,
}

impl PathMtu {
    /// The length `max` permanently, without probes.
    pub(crate) fn fixed(max: usize) -> PathMtu {
        let max = aligned(max);
        PathMtu {
            len: max,
            max,
            wanted: max.min(EAGER_LEN),
            failed: max + 4,
            hint: 0,
            step: STEP,
            phase: Phase::Fixed,
            probe: None,
            is_known: true,
        }
    }

    /// The base length, until probes find a longer one of `max` at most.
    pub(crate) fn probed(max: usize) -> PathMtu {
        let fixed = PathMtu::fixed(max);
        PathMtu {
            len: fixed.max.min(BASE_LEN),
            phase: Phase::Waiting,
            is_known: false,
            ..fixed
        }
    }

    /// Octets of a full packet.
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether the length says something of the path; before the first probe ended it is the base.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// The probe that is not answered.
    pub(crate) fn probe(&self) -> Option<&Probe> {
        self.probe.as_ref()
    }

    /// Whether the probe asks for the length in use, and not for a longer one.
    pub(crate) fn is_in_doubt(&self) -> bool {
        self.phase == Phase::Doubting
    }

    /// The path is confirmed: the search begins, once.
    pub(crate) fn begin(&mut self) {
        if self.phase == Phase::Waiting {
            self.search();
        }
    }

    /// The user has `octets` to send at once. Longer packets are asked for in powers of two, so that a user who
    /// sends a little more each time costs a few probes.
    #[inline]
    pub(crate) fn want(&mut self, octets: u64) {
        if self.wanted < self.max && octets > u64::from(self.wanted) {
            let octets = octets.min(u64::from(self.max)) as u32;
            self.wanted = octets.next_power_of_two().min(self.max);
            if self.phase == Phase::Complete && self.failed > self.max {
                self.search();
            }
        }
    }

    /// The path may have changed for the better: the search begins anew, at the longest.
    pub(crate) fn raise(&mut self) {
        if self.phase == Phase::Complete {
            self.failed = self.max + 4;
            self.search();
        }
    }

    /// A report says that the path carries `octets`. It changes nothing by itself: packets of that
    /// length, or of the one in use if it is longer, are asked for (RFC 8899 section 4.6.2).
    pub(crate) fn suggest(&mut self, octets: usize) {
        self.hint = aligned(octets);
        let is_new = self.hint > self.len && self.hint < self.failed.min(self.max);
        // A search that runs is not disturbed: who reports on and on would hold it up for ever.
        match self.phase {
            Phase::Complete if self.hint < self.len => self.doubt(),
            Phase::Complete if is_new => self.search(),
            _ => {}
        }
    }

    /// Full packets are lost: perhaps the path carries shorter ones alone.
    pub(crate) fn doubt(&mut self) {
        let is_asked = matches!(self.phase, Phase::Searching | Phase::Complete);
        if is_asked && self.len > LEAST_LEN {
            self.phase = Phase::Doubting;
            self.ask(self.len, true);
        }
    }

    /// The probe left, with `nonce`.
    pub(crate) fn note_sent(&mut self, now: Instant, nonce: u64) {
        if let Some(probe) = &mut self.probe {
            probe.sent_at = now;
            probe.nonce = nonce;
            probe.is_due = false;
            probe.is_short_due = probe.is_accompanied;
        }
    }

    /// The short HEARTBEAT beside the probe left.
    pub(crate) fn note_short_sent(&mut self) {
        if let Some(probe) = &mut self.probe {
            probe.is_short_due = false;
        }
    }

    /// An answer with `nonce` came: whether it is the probe's, which ends it.
    pub(crate) fn handle_answer(&mut self, nonce: u64) -> bool {
        let Some(probe) = self
            .probe
            .take_if(|probe| !probe.is_due && probe.nonce == nonce)
        else {
            return false;
        };
        self.is_known = true;
        if self.phase == Phase::Searching && probe.len > self.len {
            self.len = probe.len;
            self.step = self.step.saturating_mul(2);
        }
        self.search();
        true
    }

    /// An answer with `nonce` came: whether it is that of the short HEARTBEAT beside the probe.
    pub(crate) fn handle_short_answer(&mut self, nonce: u64) -> bool {
        let accompanies = |probe: &&mut Probe| {
            probe.is_accompanied && !probe.is_due && probe.nonce.wrapping_add(1) == nonce
        };
        let probe = self.probe.as_mut().filter(accompanies);
        probe.map(|probe| probe.is_answered = true).is_some()
    }

    /// The probe was not answered in time. Its loss says something of its length only if the path
    /// carried a short packet meanwhile (RFC 8899 section 5.1.3: not a path that is down).
    pub(crate) fn handle_loss(&mut self) -> ProbeLoss {
        let Some(probe) = &mut self.probe else {
            return ProbeLoss::Repeat;
        };
        probe.losses += u8::from(probe.is_answered);
        if probe.losses < PROBES_MAX {
            probe.is_due = true;
            probe.is_accompanied = true;
            probe.is_answered = false;
            return ProbeLoss::Repeat;
        }
        let len = probe.len;
        self.probe = None;
        self.is_known = true;
        self.failed = len;
        if self.phase == Phase::Doubting {
            self.len = if len > BASE_LEN { BASE_LEN } else { LEAST_LEN };
            self.step = STEP;
            self.search();
            return ProbeLoss::BlackHole;
        }
        self.step = if len >= self.wanted { STEP } else { 0 };
        self.search();
        ProbeLoss::TooLong
    }

    /// Whether the search is over without the longest.
    pub(crate) fn may_rise(&self) -> bool {
        self.phase == Phase::Complete && self.len < self.wanted
    }

    fn search(&mut self) {
        match self.next_len() {
            Some(len) => {
                self.phase = Phase::Searching;
                self.ask(len, false);
            }
            None => {
                self.phase = Phase::Complete;
                self.probe = None;
            }
        }
    }

    /// The length to be asked next: what a report named, the longest of use, and then steps upwards.
    fn next_len(&mut self) -> Option<u32> {
        let hint = core::mem::take(&mut self.hint);
        if hint > self.len && hint < self.failed.min(self.max) {
            self.step = 2;
            return Some(hint);
        }
        if self.failed > self.max {
            return (self.len < self.wanted).then_some(self.wanted);
        }
        let left = self.failed - self.len;
        if left <= GRANULARITY {
            return None;
        }
        let step = if self.step == 0 { left / 2 } else { self.step };
        Some(self.len + (step.min(left - 4) & !3).max(4))
    }

    fn ask(&mut self, len: u32, is_accompanied: bool) {
        self.probe = Some(Probe {
            len,
            nonce: 0,
            sent_at: Instant::from_nanos(0),
            losses: 0,
            is_accompanied,
            is_answered: false,
            is_due: true,
            is_short_due: false,
        });
    }
}

/// The longest packet of at most `octets`: chunks are padded to four octets.
fn aligned(octets: usize) -> u32 {
    (octets.min(65_535) as u32) & !3
}

#[cfg(test)]
mod tests;
