//! What a group's sender makes of joins, answers and leaves.

use super::config::{Member, Standing};
use super::members::Counted;
use super::sender::{Knowledge, Sender};
use super::shared::{Shared, control};
use crate::api::{ErrorControl, RateLimit};
use crate::pdu::{
    Body, Common, Diag, DiagCode, DiagValue, Header, Options, RTN, Reject, Spans, TrafficSpec,
    UNLIMITED,
};
use crate::tx::{Bucket, Limits};
use crate::types::is_before;
use engine::{Address, Instant};

/// Bytes a joining receiver may ask for at once.
const ALLOC_MAX: u64 = 1 << 40;

impl Sender {
    /// Takes in a packet of a receiver.
    pub(super) fn handle(
        &mut self,
        sh: &mut Shared,
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
            } => self.handle_join(sh, now, from, &common, xkey, &traffic),
            Body::Cntl(common) => self.handle_answer(sh, now, from, header, &common, Spans::EMPTY),
            Body::Ecntl(common, spans) => self.handle_answer(sh, now, from, header, &common, spans),
            _ => Err(Reject::State),
        }
    }

    fn handle_join(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        from: Address,
        common: &Common,
        xkey: u64,
        traffic: &TrafficSpec,
    ) -> Result<(), Reject> {
        if xkey == 0 || xkey & RTN != 0 {
            return Err(Reject::Body);
        }
        self.heard = now;
        let granted = common.rseq.clamp(self.una, self.next);
        let (start, counted) = match &mut self.knowledge {
            Knowledge::Counted(members) => {
                if let Some(known) = members.get(from).filter(|known| known.key == xkey) {
                    (known.from, true)
                } else if members.admits(&sh.config, from) {
                    let alloc = granted + common.alloc.min(ALLOC_MAX);
                    let member = Counted {
                        key: xkey,
                        from: granted,
                        rseq: granted,
                        alloc,
                        echo: self.sync,
                        tries: 0,
                        done: false,
                    };
                    if let Some(old) = members.join(from, member) {
                        sh.tell(self.id, old);
                    }
                    let joined = Member {
                        address: from,
                        standing: Standing::Member,
                        from: granted,
                        received: granted,
                    };
                    sh.tell(self.id, joined);
                    self.obey(now, traffic);
                    (granted, true)
                } else {
                    self.refuse(sh, from, xkey);
                    return Err(Reject::NoRoom);
                }
            }
            Knowledge::Buckets(ring) => {
                ring.hold(granted, granted + common.alloc.min(ALLOC_MAX));
                (granted, false)
            }
            Knowledge::None => (self.next, false),
        };
        self.grant(sh, from, xkey, start, counted);
        self.settle(sh, now);
        Ok(())
    }

    /// Lets a receiver in, which begins at `start`.
    fn grant(&mut self, sh: &mut Shared, to: Address, key: u64, start: u64, counted: bool) {
        let body = Body::Tcntl {
            common: Common {
                rseq: start,
                alloc: 0,
                echo: 0,
            },
            reserved: 0,
            xkey: if counted { self.key } else { 0 },
            traffic: sh.traffic(),
        };
        let packet = control(key | RTN, Options::MULTI, &body, (self.sync, self.next));
        sh.answer((self.id, to), packet);
    }

    fn refuse(&self, sh: &mut Shared, to: Address, key: u64) {
        let body = Body::Diag(Diag {
            code: DiagCode(5),
            value: DiagValue(13),
            text: b"join refused\0",
        });
        let packet = control(key | RTN, Options::MULTI, &body, (self.sync, self.next));
        sh.answer((self.id, to), packet);
    }

    /// Keeps to what a member accepts.
    fn obey(&mut self, now: Instant, traffic: &TrafficSpec) {
        let TrafficSpec::Limits {
            inrate, inburst, ..
        } = *traffic
        else {
            return;
        };
        if inrate != UNLIMITED {
            self.limits.peer = Limits {
                own: self.limits.peer,
                peer: Some(RateLimit {
                    rate_bytes_per_s: inrate,
                    burst_bytes: inburst,
                }),
            }
            .all();
        }
        if let Some(limit) = self.limits.all() {
            let bucket = self.rate.get_or_insert_with(|| Bucket::new(limit, now));
            bucket.change(limit, now);
        }
    }

    fn handle_answer(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        from: Address,
        header: &Header,
        common: &Common,
        spans: Spans<'_>,
    ) -> Result<(), Reject> {
        if header.options.has(Options::END) {
            return self.handle_leave(sh, now, from, header);
        }
        if common.rseq > self.next || is_before(self.sync, common.echo) {
            return Err(Reject::NeverSent);
        }
        let done = header.options.has(Options::RCLOSE) && self.finishing && common.rseq == self.end;
        match &mut self.knowledge {
            Knowledge::Buckets(ring) => {
                if !ring.answer(now, common.echo, (common.rseq, common.alloc), done) {
                    return Err(Reject::Released);
                }
                self.heard = now;
                Ok(())
            }
            Knowledge::Counted(members) => {
                let Some(member) = members.get_mut(from) else {
                    self.send_away(sh, from);
                    return Err(Reject::ForeignSource);
                };
                member.tries = 0;
                member.rseq = member.rseq.max(common.rseq);
                member.alloc = member.alloc.max(common.alloc);
                member.done |= done;
                if is_before(member.echo, common.echo) {
                    member.echo = common.echo;
                }
                let rseq = member.rseq;
                self.heard = now;
                self.find_missing(sh, rseq, common.echo, spans);
                self.settle(sh, now);
                Ok(())
            }
            Knowledge::None => Err(Reject::State),
        }
    }

    /// A receiver that is no member any more hears so.
    fn send_away(&self, sh: &mut Shared, to: Address) {
        let common = Common {
            rseq: self.una,
            alloc: 0,
            echo: 0,
        };
        let options = Options::MULTI | Options::END;
        let packet = control(
            self.key,
            options,
            &Body::Cntl(common),
            (self.sync, self.next),
        );
        sh.answer((self.id, to), packet);
    }

    /// The user wants a member to go.
    pub(super) fn expel(&mut self, sh: &mut Shared, now: Instant, address: Address) {
        if let Knowledge::Counted(members) = &mut self.knowledge
            && let Some(member) = members.remove(address, Standing::Silent)
        {
            sh.tell(self.id, member);
            self.send_away(sh, address);
            self.settle(sh, now);
        }
    }

    fn handle_leave(
        &mut self,
        sh: &mut Shared,
        now: Instant,
        from: Address,
        header: &Header,
    ) -> Result<(), Reject> {
        let lost = header.options.has(Options::NOERR);
        let standing = if lost { Standing::Lost } else { Standing::Left };
        let gone = match &mut self.knowledge {
            Knowledge::Counted(members) => members.remove(from, standing),
            // The sender knows nobody, but whoever says so can be named.
            _ => Some(Member {
                address: from,
                standing,
                from: 0,
                received: 0,
            }),
        };
        if let Some(member) = gone {
            sh.tell(self.id, member);
        }
        self.settle(sh, now);
        Ok(())
    }

    /// What a member lacks and was not sent again since it said so.
    fn find_missing(&mut self, sh: &Shared, rseq: u64, echo: u32, spans: Spans<'_>) {
        let Knowledge::Counted(members) = &self.knowledge else {
            return;
        };
        let sent = members.request(echo).map_or(0, |request| request.sent);
        let sent = sent.min(self.next);
        let mut left = rseq.max(self.una);
        let mut gaps = Vec::new();
        for span in spans.iter() {
            let right = span.left.min(self.next);
            if right > left {
                gaps.push(left..right);
            }
            left = left.max(span.right.min(self.next));
        }
        if sent > left {
            gaps.push(left..sent);
        }
        if sh.config.error == ErrorControl::GoBackN
            && let Some(first) = gaps.first_mut()
        {
            first.end = sent.max(left);
            gaps.truncate(1);
        }
        for gap in gaps {
            self.repeated
                .not_since(echo, gap, |range| self.again.add(range));
        }
    }
}
