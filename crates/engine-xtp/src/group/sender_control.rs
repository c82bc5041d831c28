//! Control packets that a sender receives: joins, acknowledgements and leaves.

use super::buckets::BucketAnswer;
use super::config::{Member, MemberState};
use super::endpoint_state::{GroupEndpointState, Numbers};
use super::members::{MemberRow, Rejoin};
use super::repair_limit::RepairAccount;
use super::sender::{GroupTracking, Sender};
use crate::codec::Arrival;
use crate::config::{ErrorControl, RateLimit};
use crate::numbers::{Key, SyncNumber};
use crate::pdu::{
    Body, CommonControl, Diag, DiagCode, DiagValue, Header, Options, Reject, Span, TrafficSpec,
    UNLIMITED,
};
use crate::tx::{RANGES_MAX, RateLimits, missing_ranges, spans_are_valid};
use congestion::RateCredit;
use core::ops::Range;
use engine::{Address, Instant};

/// Largest window taken from a JCNTL.
const ALLOC_MAX: u64 = 1 << 40;

impl Sender {
    /// Handles a packet of a receiver.
    pub(super) fn handle(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        arrival: &Arrival<'_>,
    ) -> Result<(), Reject> {
        let header = &arrival.header;
        match arrival.body(self.queue.acknowledged).ok_or(Reject::Body)? {
            Body::Jcntl {
                common,
                xkey,
                traffic,
                ..
            } if Key::in_field(header.key) == self.key => {
                let join = JoinRequest {
                    key: Key::stated(xkey).ok_or(Reject::Body)?,
                    start: common.rseq,
                    window: common.alloc.min(ALLOC_MAX),
                    traffic,
                };
                self.handle_join(ep, now, from, &join)
            }
            Body::Cntl(common) => self.handle_control(ep, now, from, arrival, &common, &[]),
            Body::Ecntl(common, spans) => {
                let spans: Vec<Span> = spans.iter().collect();
                self.handle_control(ep, now, from, arrival, &common, &spans)
            }
            _ => Err(Reject::State),
        }
    }

    fn handle_join(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        join: &JoinRequest,
    ) -> Result<(), Reject> {
        self.last_received_at = now;
        let start = join
            .start
            .clamp(self.queue.acknowledged, self.queue.next_seq);
        let (start, granted_key) = match &mut self.tracking {
            GroupTracking::Counted(_) => self.grant_membership(ep, now, from, join, start)?,
            GroupTracking::Buckets(ring) => {
                ring.add_join(start, start + join.window);
                (start, None)
            }
            GroupTracking::None => (self.queue.next_seq, None),
        };
        self.accept_join(ep, from, join, start, granted_key);
        self.update_from_members(ep, now);
        Ok(())
    }

    /// Makes the receiver at `from` a member, or grants it to become one with its next packet if
    /// there is a member at this address. Returns its first byte and the key granted to it.
    fn grant_membership(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        join: &JoinRequest,
        start: u64,
    ) -> Result<(u64, Option<Key>), Reject> {
        let GroupTracking::Counted(members) = &mut self.tracking else {
            return Err(Reject::State);
        };
        if let Some(known) = members.get(from) {
            if known.key == join.key {
                return Ok((known.start, Some(known.granted_key)));
            }
            if let Some(rejoin) = known.rejoin.filter(|rejoin| rejoin.key == join.key) {
                return Ok((rejoin.start, Some(rejoin.granted_key)));
            }
        }
        if !members.admits(&ep.config, from, join.key, self.key) {
            self.refuse_join(ep, from, join.key);
            return Err(Reject::NoRoom);
        }
        let granted_key = ep.grant_key(self.id);
        let rejoin = Rejoin {
            key: join.key,
            granted_key,
            start,
            alloc: start + join.window,
            traffic: join.traffic,
        };
        if let Some(known) = members.get_mut(from) {
            // The packet may be forged: the member stays, and so do its bytes.
            if let Some(forgotten) = known.rejoin.replace(rejoin) {
                ep.sender_keys.remove(&forgotten.granted_key);
            }
        } else {
            self.add_member(ep, now, from, &rejoin);
        }
        Ok((start, Some(granted_key)))
    }

    fn add_member(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        address: Address,
        joined: &Rejoin,
    ) {
        let GroupTracking::Counted(members) = &mut self.tracking else {
            return;
        };
        let row = MemberRow {
            key: joined.key,
            granted_key: joined.granted_key,
            start: joined.start,
            rseq: joined.start,
            alloc: joined.alloc,
            echo: self.sync,
            unanswered: 0,
            done: false,
            repairs: RepairAccount::new(joined.start),
            rejoin: None,
        };
        members.join(address, row);
        let member = Member {
            address,
            state: MemberState::Member,
            start: joined.start,
            received: joined.start,
        };
        ep.push_member_event(self.id, member);
        self.apply_member_rate(now, &joined.traffic);
    }

    /// Checks that a control packet with `key` is from the member at `from`. With the first packet
    /// that carries the key of its rejoin, the new member takes the place of the old one
    /// (0018, Keys).
    fn check_member(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        key: Key,
    ) -> Result<(), Reject> {
        let GroupTracking::Counted(members) = &mut self.tracking else {
            return Err(Reject::State);
        };
        let Some(member) = members.get_mut(from) else {
            self.send_end(ep, from);
            return Err(Reject::ForeignSource);
        };
        if member.granted_key == key {
            return Ok(());
        }
        let is_new = |rejoin: &mut Rejoin| rejoin.granted_key == key;
        let Some(rejoin) = member.rejoin.take_if(is_new) else {
            return Err(Reject::ForeignSource);
        };
        if rejoin.start < self.queue.acknowledged {
            ep.sender_keys.remove(&key);
            self.send_end(ep, from);
            return Err(Reject::Released);
        }
        let old = members.remove(from, MemberState::Restarted, &mut ep.sender_keys);
        if let Some(old) = old {
            ep.push_member_event(self.id, old);
        }
        self.add_member(ep, now, from, &rejoin);
        Ok(())
    }

    /// Accepts a join with TCNTL: the receiver begins at `start` (0009, Joining).
    fn accept_join(
        &mut self,
        ep: &mut GroupEndpointState,
        to: Address,
        join: &JoinRequest,
        start: u64,
        granted_key: Option<Key>,
    ) {
        // As long as it was asked, so that it is shorter than the JCNTL (0018, Amplification).
        let traffic = match (join.traffic, ep.traffic()) {
            (TrafficSpec::Plain(..), own) => TrafficSpec::Plain(own.service(), [0; 4]),
            (TrafficSpec::Limits { .. }, own) => own,
        };
        let body = Body::Tcntl {
            common: CommonControl {
                rseq: start,
                alloc: 0,
                echo: SyncNumber::NONE,
            },
            reserved: 0,
            // 0 if it does not count members.
            xkey: granted_key.map_or(0, Key::field),
            traffic,
        };
        let key = join.key.returned();
        let packet = ep.control_octets(key, Options::MULTI, &body, self.numbers());
        ep.queue_control((self.id, to), packet);
    }

    fn refuse_join(&self, ep: &mut GroupEndpointState, to: Address, key: Key) {
        let body = Body::Diag(Diag {
            code: DiagCode(5),
            value: DiagValue(13),
            text: b"join refused\0",
        });
        let packet = ep.control_octets(key.returned(), Options::MULTI, &body, self.numbers());
        ep.queue_control((self.id, to), packet);
    }

    /// Lowers the rate limit to what a member accepts.
    fn apply_member_rate(&mut self, now: Instant, traffic: &TrafficSpec) {
        let TrafficSpec::Limits {
            inrate, inburst, ..
        } = *traffic
        else {
            return;
        };
        if inrate != UNLIMITED {
            self.lower_rate(RateLimit {
                rate_bytes_per_s: inrate,
                burst_bytes: inburst,
            });
        }
        if let Some(limit) = self.rate_limits.effective() {
            let credit = self
                .rate_credit
                .get_or_insert_with(|| RateCredit::new(limit, now));
            credit.set_limit(limit, now);
        }
    }

    /// Lowers the rate limit to `accepted`; with buckets it holds from the next request on.
    fn lower_rate(&mut self, accepted: RateLimit) {
        self.rate_limits.peer = RateLimits {
            own: self.rate_limits.peer,
            peer: Some(accepted),
        }
        .effective();
    }

    fn handle_control(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        arrival: &Arrival<'_>,
        common: &CommonControl,
        spans: &[Span],
    ) -> Result<(), Reject> {
        let header = &arrival.header;
        if header.options.has(Options::END) {
            return self.handle_leave(ep, now, from, header);
        }
        let is_known = common.rseq <= self.queue.next_seq && !self.sync.is_before(common.echo);
        if !is_known || !spans_are_valid(common.rseq, self.queue.next_seq, spans) {
            return Err(Reject::NeverSent);
        }
        let done = header.options.has(Options::RCLOSE)
            && self.finishing
            && common.rseq == self.queue.submitted;
        let alloc = common.alloc.min(common.rseq + ALLOC_MAX);
        match &mut self.tracking {
            GroupTracking::Buckets(ring) => {
                let dseq = arrival.dseq(self.queue.acknowledged);
                let answer = BucketAnswer {
                    rseq: common.rseq,
                    dseq: dseq.unwrap_or(common.rseq).min(common.rseq),
                    alloc,
                    done,
                };
                if !ring.add_answer(now, common.echo, &answer) {
                    return Err(Reject::Released);
                }
                self.last_received_at = now;
                if let Some(limit) = arrival.accepted_rate() {
                    self.lower_rate(limit);
                }
                Ok(())
            }
            GroupTracking::Counted(_) => {
                self.check_member(ep, now, from, Key::in_field(header.key))?;
                self.last_received_at = now;
                self.record_report(from, common, alloc, done);
                self.repair(ep, from, common.echo, spans);
                self.update_from_members(ep, now);
                Ok(())
            }
            GroupTracking::None => Err(Reject::State),
        }
    }

    /// Those of a control packet sent now.
    fn numbers(&self) -> Numbers {
        Numbers::of_sender(self.sync, self.queue.next_seq)
    }

    fn record_report(&mut self, from: Address, common: &CommonControl, alloc: u64, done: bool) {
        if let GroupTracking::Counted(members) = &mut self.tracking
            && let Some(member) = members.get_mut(from)
        {
            member.unanswered = 0;
            member.rseq = member.rseq.max(common.rseq);
            member.alloc = member.alloc.max(alloc);
            member.done |= done;
            if member.echo.is_before(common.echo) {
                member.echo = common.echo;
            }
        }
    }

    /// Sends END to a receiver that is no member (any more).
    fn send_end(&self, ep: &mut GroupEndpointState, to: Address) {
        let common = CommonControl {
            rseq: self.queue.acknowledged,
            alloc: 0,
            echo: SyncNumber::NONE,
        };
        let options = Options::MULTI | Options::END;
        let body = Body::Cntl(common);
        let packet = ep.control_octets(self.key.field(), options, &body, self.numbers());
        ep.queue_control((self.id, to), packet);
    }

    /// Removes a member at the user's request.
    pub(super) fn expel(&mut self, ep: &mut GroupEndpointState, now: Instant, address: Address) {
        if let GroupTracking::Counted(members) = &mut self.tracking
            && let Some(member) = members.remove(address, MemberState::Silent, &mut ep.sender_keys)
        {
            ep.push_member_event(self.id, member);
            self.send_end(ep, address);
            self.update_from_members(ep, now);
        }
    }

    fn handle_leave(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        header: &Header,
    ) -> Result<(), Reject> {
        let lost = header.options.has(Options::NOERR);
        let state = if lost {
            MemberState::Lost
        } else {
            MemberState::Left
        };
        if let GroupTracking::Counted(members) = &self.tracking {
            members.get(from).ok_or(Reject::ForeignSource)?;
            self.check_member(ep, now, from, Key::in_field(header.key))?;
        }
        let departed = match &mut self.tracking {
            GroupTracking::Counted(members) => members.remove(from, state, &mut ep.sender_keys),
            // Without a member list, the departure itself can still be reported.
            _ => Some(Member {
                address: from,
                state,
                start: 0,
                received: 0,
            }),
        };
        if let Some(member) = departed {
            ep.push_member_event(self.id, member);
        }
        self.update_from_members(ep, now);
        Ok(())
    }

    /// Queues the ranges that the member at `from` lacks and that were not retransmitted since
    /// request `echo`; excludes a member that asks for too many (0018, Repairs).
    fn repair(
        &mut self,
        ep: &mut GroupEndpointState,
        from: Address,
        echo: SyncNumber,
        spans: &[Span],
    ) {
        let GroupTracking::Counted(members) = &mut self.tracking else {
            return;
        };
        let request = members.find_request(echo);
        let sent = request.map_or(0, |request| request.sent.min(self.queue.next_seq));
        let Some(member) = members.get_mut(from) else {
            return;
        };
        let missing = missing_ranges(member.rseq.max(self.queue.acknowledged), sent, spans);
        // A later report has the others.
        let mut missing: Vec<_> = missing.take(RANGES_MAX).collect();
        if ep.config.error == ErrorControl::GoBackN
            && let (Some(first), Some(last)) = (missing.first(), missing.last())
        {
            let rest = first.start..last.end.max(sent);
            missing.clear();
            missing.push(rest);
        }
        let lost = self.retransmission_log.not_resent_since(echo, &missing);
        let waits = |range: &&Range<u64>| self.queue.retransmission_queue.contains(range.start);
        let queued: Vec<_> = lost.iter().filter(|range| !waits(range)).cloned().collect();
        member.repairs.record(&missing, &queued, sent);
        if members.asks_too_much(&ep.config, from, self.queue.next_seq) {
            return self.exclude(ep, from);
        }
        for range in lost {
            self.queue.retransmission_queue.add(range);
        }
    }

    fn exclude(&mut self, ep: &mut GroupEndpointState, address: Address) {
        if let GroupTracking::Counted(members) = &mut self.tracking
            && let Some(member) =
                members.remove(address, MemberState::Excluded, &mut ep.sender_keys)
        {
            ep.push_member_event(self.id, member);
            self.send_end(ep, address);
        }
    }
}

/// What a receiver asks for in JCNTL.
#[derive(Clone, Copy, Debug)]
struct JoinRequest {
    /// Its own key.
    key: Key,
    /// The first byte that it wants.
    start: u64,
    /// Bytes that it has room for.
    window: u64,
    traffic: TrafficSpec,
}
