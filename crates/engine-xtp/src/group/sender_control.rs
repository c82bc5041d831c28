//! Control packets that a sender receives: joins, acknowledgements and leaves.

use super::config::{Member, MemberState};
use super::endpoint_state::{GroupEndpointState, control_octets};
use super::members::MemberRow;
use super::sender::{GroupTracking, Sender};
use crate::config::{ErrorControl, RateLimit};
use crate::numbers::sync_before;
use crate::pdu::{
    Body, CommonControl, Diag, DiagCode, DiagValue, Header, Options, RTN, Reject, Spans,
    TrafficSpec, UNLIMITED,
};
use crate::tx::RateLimits;
use congestion::RateCredit;
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
        header: &Header,
        body: &Body<'_>,
    ) -> Result<(), Reject> {
        match *body {
            Body::Jcntl {
                common,
                xkey,
                traffic,
                ..
            } => self.handle_join(ep, now, from, &common, xkey, &traffic),
            Body::Cntl(common) => self.handle_control(ep, now, from, header, &common, Spans::EMPTY),
            Body::Ecntl(common, spans) => {
                self.handle_control(ep, now, from, header, &common, spans)
            }
            _ => Err(Reject::State),
        }
    }

    fn handle_join(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        common: &CommonControl,
        xkey: u64,
        traffic: &TrafficSpec,
    ) -> Result<(), Reject> {
        if xkey == 0 || xkey & RTN != 0 {
            return Err(Reject::Body);
        }
        self.last_received_at = now;
        let granted = common.rseq.clamp(self.una, self.next_seq);
        let (start, counted) = match &mut self.tracking {
            GroupTracking::Counted(members) => {
                if let Some(known) = members.get(from).filter(|known| known.key == xkey) {
                    (known.start, true)
                } else if members.admits(&ep.config, from) {
                    let alloc = granted + common.alloc.min(ALLOC_MAX);
                    let member = MemberRow {
                        key: xkey,
                        start: granted,
                        rseq: granted,
                        alloc,
                        echo: self.sync,
                        unanswered: 0,
                        done: false,
                    };
                    if let Some(old) = members.join(from, member) {
                        ep.push_member_event(self.id, old);
                    }
                    let joined = Member {
                        address: from,
                        state: MemberState::Member,
                        start: granted,
                        received: granted,
                    };
                    ep.push_member_event(self.id, joined);
                    self.apply_member_rate(now, traffic);
                    (granted, true)
                } else {
                    self.refuse_join(ep, from, xkey);
                    return Err(Reject::NoRoom);
                }
            }
            GroupTracking::Buckets(ring) => {
                ring.add_join(granted, granted + common.alloc.min(ALLOC_MAX));
                (granted, false)
            }
            GroupTracking::None => (self.next_seq, false),
        };
        self.accept_join(ep, from, xkey, traffic, start, counted);
        self.update_from_members(ep, now);
        Ok(())
    }

    /// Accepts a join with TCNTL: the receiver begins at `start` (0009, Joining).
    fn accept_join(
        &mut self,
        ep: &mut GroupEndpointState,
        to: Address,
        key: u64,
        asked: &TrafficSpec,
        start: u64,
        counted: bool,
    ) {
        // As long as it was asked, so that it is shorter than the JCNTL (0018, Credit).
        let traffic = match (asked, ep.traffic()) {
            (TrafficSpec::Plain(..), own) => TrafficSpec::Plain(own.service(), [0; 4]),
            (TrafficSpec::Limits { .. }, own) => own,
        };
        let body = Body::Tcntl {
            common: CommonControl {
                rseq: start,
                alloc: 0,
                echo: 0,
            },
            reserved: 0,
            xkey: if counted { self.key } else { 0 },
            traffic,
        };
        let packet = control_octets(key | RTN, Options::MULTI, &body, (self.sync, self.next_seq));
        ep.queue_control((self.id, to), packet);
    }

    fn refuse_join(&self, ep: &mut GroupEndpointState, to: Address, key: u64) {
        let body = Body::Diag(Diag {
            code: DiagCode(5),
            value: DiagValue(13),
            text: b"join refused\0",
        });
        let packet = control_octets(key | RTN, Options::MULTI, &body, (self.sync, self.next_seq));
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
            self.rate_limits.peer = RateLimits {
                own: self.rate_limits.peer,
                peer: Some(RateLimit {
                    rate_bytes_per_s: inrate,
                    burst_bytes: inburst,
                }),
            }
            .effective();
        }
        if let Some(limit) = self.rate_limits.effective() {
            let credit = self
                .rate_credit
                .get_or_insert_with(|| RateCredit::new(limit, now));
            credit.set_limit(limit, now);
        }
    }

    fn handle_control(
        &mut self,
        ep: &mut GroupEndpointState,
        now: Instant,
        from: Address,
        header: &Header,
        common: &CommonControl,
        spans: Spans<'_>,
    ) -> Result<(), Reject> {
        if header.options.has(Options::END) {
            return self.handle_leave(ep, now, from, header);
        }
        if common.rseq > self.next_seq || sync_before(self.sync, common.echo) {
            return Err(Reject::NeverSent);
        }
        let done =
            header.options.has(Options::RCLOSE) && self.finishing && common.rseq == self.submitted;
        match &mut self.tracking {
            GroupTracking::Buckets(ring) => {
                if !ring.add_answer(now, common.echo, (common.rseq, common.alloc), done) {
                    return Err(Reject::Released);
                }
                self.last_received_at = now;
                Ok(())
            }
            GroupTracking::Counted(members) => {
                let Some(member) = members.get_mut(from) else {
                    self.send_end(ep, from);
                    return Err(Reject::ForeignSource);
                };
                member.unanswered = 0;
                member.rseq = member.rseq.max(common.rseq);
                member.alloc = member.alloc.max(common.alloc);
                member.done |= done;
                if sync_before(member.echo, common.echo) {
                    member.echo = common.echo;
                }
                let rseq = member.rseq;
                self.last_received_at = now;
                self.queue_retransmissions(ep, rseq, common.echo, spans);
                self.update_from_members(ep, now);
                Ok(())
            }
            GroupTracking::None => Err(Reject::State),
        }
    }

    /// Sends END to a receiver that is no member (any more).
    fn send_end(&self, ep: &mut GroupEndpointState, to: Address) {
        let common = CommonControl {
            rseq: self.una,
            alloc: 0,
            echo: 0,
        };
        let options = Options::MULTI | Options::END;
        let packet = control_octets(
            self.key,
            options,
            &Body::Cntl(common),
            (self.sync, self.next_seq),
        );
        ep.queue_control((self.id, to), packet);
    }

    /// Removes a member at the user's request.
    pub(super) fn expel(&mut self, ep: &mut GroupEndpointState, now: Instant, address: Address) {
        if let GroupTracking::Counted(members) = &mut self.tracking
            && let Some(member) = members.remove(address, MemberState::Silent)
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
        let departed = match &mut self.tracking {
            GroupTracking::Counted(members) => members.remove(from, state),
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

    /// Queues the ranges a member lacks that were not retransmitted since request `echo`.
    fn queue_retransmissions(
        &mut self,
        ep: &GroupEndpointState,
        rseq: u64,
        echo: u32,
        spans: Spans<'_>,
    ) {
        let GroupTracking::Counted(members) = &self.tracking else {
            return;
        };
        let sent = members.find_request(echo).map_or(0, |request| request.sent);
        let sent = sent.min(self.next_seq);
        let mut left = rseq.max(self.una);
        let mut gaps = Vec::new();
        for span in spans.iter() {
            let right = span.left.min(self.next_seq);
            if right > left {
                gaps.push(left..right);
            }
            left = left.max(span.right.min(self.next_seq));
        }
        if sent > left {
            gaps.push(left..sent);
        }
        if ep.config.error == ErrorControl::GoBackN
            && let Some(first) = gaps.first_mut()
        {
            first.end = sent.max(left);
            gaps.truncate(1);
        }
        for gap in gaps {
            self.retransmission_log
                .not_resent_since(echo, gap, |range| self.retransmission_queue.add(range));
        }
    }
}
