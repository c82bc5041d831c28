//! One stream to a group: what its sender remembers, and when it asks.

use super::buckets::{Ring, Verdict};
use super::config::{Config, Holdings, Reliability, Standing};
use super::members::{Least, Members, Request};
use super::ranges::{Again, Repeated};
use super::shared::Shared;
use crate::tx::{Bucket, Limits, MessageEnds, RoundTrip};
use core::time::Duration;
use engine::{Address, AssociationId, CloseReason, Event, Framing, Instant};

/// How the sender knows its group.
#[derive(Clone, Debug)]
pub(super) enum Knowledge {
    Counted(Members),
    Buckets(Ring),
    None,
}

#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub(super) id: AssociationId,
    pub(super) key: u64,
    pub(super) group: Address,
    /// The store holds bytes below this.
    pub(super) end: u64,
    /// Bytes below this leave even in a part-filled packet.
    pub(super) pushed: u64,
    /// The next byte to send for the first time.
    pub(super) next: u64,
    /// Where the slot last cut from ends.
    pub(super) border: u64,
    /// Everything below was released.
    pub(super) una: u64,
    /// Bytes from here on may not be sent.
    pub(super) limit: u64,
    pub(super) ends: MessageEnds,
    /// The user will add no more.
    pub(super) finishing: bool,
    /// Members enough have joined.
    pub(super) connected: bool,
    /// Over: the reason.
    pub(super) ended: Option<CloseReason>,
    pub(super) sync: u32,
    pub(super) again: Again,
    pub(super) repeated: Repeated,
    pub(super) knowledge: Knowledge,
    pub(super) rtt: RoundTrip,
    pub(super) rate: Option<Bucket>,
    /// Its own limit, and the lowest any member named.
    pub(super) limits: Limits,
    /// Bytes sent since the last request.
    pub(super) unasked: u64,
    /// The next DATA packet is to ask.
    pub(super) ask_next: bool,
    pub(super) first_due: bool,
    pub(super) request_due: bool,
    /// When anybody was heard last.
    pub(super) heard: Instant,
    /// Wait timers that ended in a row.
    pub(super) silences: u32,
    /// Requests in a row with nothing new to ask about: whether the window is open again, whether
    /// the end has come.
    pub(super) probes: u32,
    pub(super) first_at: Option<Instant>,
    /// The next request of the bucket algorithm, or the one that nobody made yet.
    pub(super) request_at: Option<Instant>,
    /// WTIMER.
    pub(super) wait_at: Option<Instant>,
    pub(super) rate_at: Option<Instant>,
    pub(super) linger_at: Option<Instant>,
}

impl Sender {
    pub(super) fn new(
        id: AssociationId,
        key: u64,
        group: Address,
        sh: &mut Shared,
        now: Instant,
    ) -> Sender {
        let knowledge = match sh.config.reliability {
            Reliability::Counted => Knowledge::Counted(Members::default()),
            Reliability::Buckets(config) => Knowledge::Buckets(Ring::new(config)),
            Reliability::None => Knowledge::None,
        };
        let counted = matches!(knowledge, Knowledge::Counted(_));
        let bucketed = matches!(knowledge, Knowledge::Buckets(_));
        Sender {
            id,
            key,
            group,
            end: 0,
            pushed: 0,
            next: 0,
            border: 0,
            una: 0,
            limit: if counted { 0 } else { sh.config.initial_window },
            ends: MessageEnds::default(),
            finishing: false,
            connected: !counted,
            ended: None,
            sync: sh.random.next_u64() as u32,
            again: Again::default(),
            repeated: Repeated::default(),
            knowledge,
            rtt: RoundTrip::default(),
            limits: Limits {
                own: sh.config.rate,
                peer: None,
            },
            rate: sh.config.rate.map(|limit| Bucket::new(limit, now)),
            unasked: 0,
            ask_next: false,
            first_due: true,
            request_due: bucketed,
            heard: now,
            silences: 0,
            probes: 0,
            first_at: None,
            request_at: None,
            wait_at: None,
            rate_at: None,
            linger_at: None,
        }
    }

    /// Acts on what the members said together.
    pub(super) fn settle(&mut self, sh: &mut Shared, now: Instant) {
        let Knowledge::Counted(members) = &mut self.knowledge else {
            return;
        };
        if !self.connected {
            if members.len() >= sh.config.members_min {
                self.connected = true;
                self.first_at = None;
                self.first_due = false;
                sh.events.push_back(Event::Connected(self.id));
            }
        } else if members.len() < sh.config.members_keep && self.ended.is_none() {
            return self.end(sh, CloseReason::Aborted);
        }
        if members.len() == 0 {
            members.requests.clear();
        }
        let settled = members.settle();
        if let Some(request) = settled {
            self.rtt.sample(now.since(request.at));
            self.silences = 0;
        }
        if settled.is_some() || members.requests.is_empty() {
            let wait = self.rtt.wait(&sh.timing, members.tries()) + sh.slot();
            let oldest = members.requests.front();
            self.wait_at = oldest.map(|oldest| (oldest.at + wait).max(now));
        }
        let everybody = Least {
            rseq: self.next,
            alloc: self.end,
            done: self.finishing && self.next == self.end,
        };
        let least = members.least().unwrap_or(everybody);
        if least.alloc > self.limit || least.rseq > self.una {
            self.probes = 0;
        }
        self.limit = least.alloc;
        self.release(sh, least.rseq);
        if self.connected && least.done && self.una == self.end && self.finishing {
            self.end(sh, CloseReason::Graceful);
        }
    }

    /// Acts on what all buckets said together.
    pub(super) fn act(&mut self, sh: &mut Shared, verdict: Verdict) {
        let usual = self.rtt.wait(&sh.timing, 0);
        if let Some(rtt) = verdict.rtt {
            self.rtt.sample(rtt);
            let wanted = self.rtt.wait(&sh.timing, 0);
            if let Knowledge::Buckets(ring) = &mut self.knowledge {
                ring.shorten(wanted, usual);
            }
        }
        if let Some(alloc) = verdict.alloc {
            self.limit = self.limit.max(alloc);
        }
        let Some(rseq) = verdict.rseq else {
            return;
        };
        self.release(sh, rseq);
        if verdict.lossy {
            self.again.add(rseq.max(self.una)..self.next);
            // The request that goes out now is ahead of what is sent again.
            let sync = self.sync.wrapping_add(1);
            if let Knowledge::Buckets(ring) = &mut self.knowledge {
                ring.went_back(sync);
            }
        }
        if verdict.done && self.finishing && self.una == self.end {
            self.end(sh, CloseReason::Graceful);
        }
    }

    /// Bytes below `position` are needed no more.
    pub(super) fn release(&mut self, sh: &mut Shared, position: u64) {
        if position > self.una {
            self.una = position;
            self.ends.release(position);
            self.again.advance(position);
            self.repeated.release(position);
            sh.events.push_back(Event::Released(self.id, position));
        }
    }

    pub(super) fn end(&mut self, sh: &mut Shared, reason: CloseReason) {
        if self.ended.is_none() {
            self.ended = Some(reason);
            sh.events.push_back(Event::Closed(self.id, reason));
        }
    }

    /// Everything below was sent, for the first time or again.
    pub(super) fn sent(&self) -> u64 {
        self.again.first().map_or(self.next, |range| range.start)
    }

    /// Makes the packet with the next sync a request to the members.
    pub(super) fn ask(&mut self, sh: &Shared, now: Instant) {
        self.unasked = 0;
        self.ask_next = false;
        self.request_at = None;
        let (sync, sent) = (self.sync, self.sent());
        if let Knowledge::Counted(members) = &mut self.knowledge {
            members.ask(Request {
                sync,
                sent,
                at: now,
            });
            if self.wait_at.is_none() {
                let tries = members.tries().max(self.silences);
                self.wait_at = Some(now + self.rtt.wait(&sh.timing, tries) + sh.slot());
            }
        }
    }

    /// The store holds bytes up to `end`.
    pub(super) fn extend(&mut self, sh: &Shared, end: u64, push: bool) {
        if self.finishing || self.ended.is_some() {
            return;
        }
        self.end = self.end.max(end);
        let payload = sh.payload_max();
        if push || self.next == self.una || sh.config.linger.is_zero() {
            self.pushed = self.end;
        } else if self.end - self.next >= payload {
            let part = match sh.config.framing {
                Framing::Messages => 0,
                _ => self.end % payload,
            };
            self.pushed = self.pushed.max(self.end - part);
        }
    }

    /// When something is to be done.
    pub(super) fn deadline(&self, config: &Config) -> Option<Instant> {
        if self.ended.is_some() {
            return None;
        }
        let silence = self.is_waiting().then_some(self.heard + config.silence_max);
        [
            self.first_at,
            self.request_at,
            self.wait_at,
            self.rate_at,
            self.linger_at,
            silence,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether anybody must be heard some time.
    fn is_waiting(&self) -> bool {
        let asks = matches!(self.knowledge, Knowledge::Buckets(_));
        asks && (self.next > self.una || self.finishing)
    }

    /// Acts on a deadline.
    pub(super) fn handle_timeout(&mut self, sh: &mut Shared, now: Instant) {
        let is_due = |at: &mut Instant| *at <= now;
        if self.first_at.take_if(is_due).is_some() {
            self.first_due = true;
            sh.counters.retransmissions += 1;
        }
        if self.linger_at.take_if(is_due).is_some() {
            self.pushed = self.end;
        }
        if self.request_at.take_if(is_due).is_some() {
            self.handle_request_time(sh, now);
        }
        if self.wait_at.take_if(is_due).is_some() {
            self.handle_silence(sh, now);
        }
        self.rate_at.take_if(is_due);
        if self.is_waiting() && now >= self.heard + sh.config.silence_max {
            self.end(sh, CloseReason::TimedOut);
        }
    }

    /// Bytes are on their way that nobody asked about: the next DATA packet does, or if none comes
    /// a CNTL. With buckets it is time for the next one.
    fn handle_request_time(&mut self, sh: &Shared, now: Instant) {
        let more = self.next < self.end.min(self.limit).min(self.pushed);
        if matches!(self.knowledge, Knowledge::Counted(_)) && more && !self.ask_next {
            self.ask_next = true;
            self.request_at = Some(now + sh.config.status_delay);
        } else {
            self.probes += u32::from(self.unasked == 0);
            self.request_due = true;
        }
    }

    /// Somebody did not answer in time.
    fn handle_silence(&mut self, sh: &mut Shared, now: Instant) {
        let Knowledge::Counted(members) = &mut self.knowledge else {
            return;
        };
        let (silent, _late) = members.count_try(sh.config.retries_max);
        for address in silent {
            if let Some(member) = members.remove(address, Standing::Silent) {
                sh.tell(self.id, member);
            }
        }
        self.silences += 1;
        self.request_due = true;
        self.settle(sh, now);
    }

    /// Whether receivers, not the user, keep the sender from going on.
    pub(super) fn is_blocked(&self) -> bool {
        self.next < self.end && self.limit <= self.next
    }

    /// Sees to it that somebody asks about what is on its way, about a closed window, about the
    /// end, and now and then about nothing.
    pub(super) fn watch(&mut self, sh: &Shared, now: Instant) {
        let Knowledge::Counted(members) = &self.knowledge else {
            return;
        };
        let quiet = members.requests.is_empty() && self.wait_at.is_none();
        if !self.connected || !quiet || self.request_due || self.ended.is_some() {
            return;
        }
        let wanted = if self.next > self.una || self.finishing {
            let delay = match self.unasked {
                0 => self.rtt.wait(&sh.timing, self.probes),
                _ => sh.config.status_delay,
            };
            Some(delay)
        } else if self.is_blocked() {
            Some(self.rtt.wait(&sh.timing, self.probes))
        } else {
            Some(sh.config.keep_alive).filter(|span| !span.is_zero())
        };
        if let Some(delay) = wanted {
            let at = now + delay.max(Duration::from_micros(1));
            self.request_at = Some(self.request_at.map_or(at, |known| known.min(at)));
        }
    }

    /// Bytes that may not be forgotten, and the end that nobody has confirmed.
    pub(super) fn in_flight(&self) -> u64 {
        let ending = self.finishing && self.ended.is_none();
        (self.next - self.una).max(u64::from(ending))
    }

    pub(super) fn add_to(&self, holdings: &mut Holdings) {
        holdings.unreleased += self.next - self.una;
        holdings.entries += self.again.len() + self.repeated.len();
        match &self.knowledge {
            Knowledge::Counted(members) => {
                holdings.members += members.len();
                holdings.entries += members.requests.len();
            }
            Knowledge::Buckets(ring) => holdings.entries += ring.len(),
            Knowledge::None => {}
        }
    }
}
