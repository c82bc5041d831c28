//! The engine: dispatch only.

use crate::api::{CloseState, Config, Holdings, RateLimit};
use crate::pdu::three::{Header3, Kind};
use crate::pdu::{
    DiagCode, DiagValue, Format, HEADER_LEN, Header, Options, RTN, Reject, Rejects, Service,
    packet_len,
};
use crate::procedure::three;
use crate::procedure::{arrive, close, receive, reply, request, route, send, setup};
use crate::shared::Shared;
use crate::state::{Context, TIMERS, Timer};
use crate::table::{Slot, Table};
use crate::view;
use core::time::Duration;
use engine::{
    Address, Batch, AssociationId, CommandError, Counters, Delivery, Engine, Event, Framing, Instant,
    PacketLen, SegmentLayout, SplitMix64,
};

/// An endpoint of XTP: any number of associations over one wire.
#[derive(Debug)]
pub struct Xtp {
    pub(crate) table: Table,
    pub(crate) shared: Shared,
    /// Contexts opened by peers whose address is not proven.
    pub(crate) unproven: usize,
    /// The route of the packet at hand, in the third revision.
    pub(crate) route: u32,
}

impl Xtp {
    /// An endpoint without associations that refuses openings until told to listen.
    ///
    /// # Panics
    ///
    /// When packets are to be shorter than 128 octets or longer than 65,535.
    pub fn new(config: Config) -> Self {
        let range = 128..=usize::from(u16::MAX);
        assert!(
            range.contains(&config.packet_len),
            "packet_len is out of range"
        );
        Xtp {
            table: Table::new(
                SplitMix64::at(config.seed, u64::MAX),
                config.dialect.is_three(),
            ),
            shared: Shared::new(config),
            unproven: 0,
            route: 0,
        }
    }

    /// Packets dropped so far, by reason.
    pub fn rejects(&self) -> Rejects {
        self.shared.rejects
    }

    /// What the endpoint holds right now. Looks at every association.
    pub fn holdings(&self) -> Holdings {
        let armed = |ctx: &Context| TIMERS.iter().filter(|&&timer| ctx.is_armed(timer)).count();
        Holdings {
            associations: self.table.active(),
            unproven: self.unproven,
            quarantined: self.table.quarantined(),
            held_bytes: self.table.contexts().map(|ctx| ctx.rx.held.bytes()).sum(),
            timers: self.table.contexts().map(armed).sum(),
            routes: self.shared.routes.len(),
            waiting: self.shared.answers.len() + self.shared.events.len() + self.shared.ready.len(),
        }
    }

    /// How far the close of a circuit got at this end; None once it is gone.
    pub fn close_state(&self, id: AssociationId) -> Option<CloseState> {
        self.table.peek(id).map(view::close_state)
    }

    /// Opens an association to `to` that asks for `service`, as [`Engine::connect`] does for the
    /// configured one.
    ///
    /// # Errors
    ///
    /// [`CommandError::TooManyCircuits`].
    pub fn open(
        &mut self,
        now: Instant,
        to: Address,
        service: Service,
    ) -> Result<AssociationId, CommandError> {
        setup::do_connect(self, now, to, service)
    }

    /// Admits an opening by a peer, if openings are supervised: answers go out from now on.
    pub fn admit(&mut self, _now: Instant, id: AssociationId) {
        self.with(id, |ctx, sh| {
            ctx.supervised = false;
            ctx.wake(sh);
        });
    }

    /// Refuses an opening by a peer and tells it why. The circuit is closed as aborted.
    pub fn refuse(&mut self, now: Instant, id: AssociationId, why: DiagValue) {
        self.with(id, |ctx, sh| {
            let (peer, key) = (ctx.peer, ctx.wire_key());
            let allowed = ctx
                .budget
                .map_or(usize::MAX, |b| b.received.saturating_sub(b.sent) as usize);
            let link = three::link(ctx, sh);
            sh.diagnose(peer, key, DiagCode::REFUSED, why, allowed, &link);
            ctx.end(sh, engine::CloseReason::Aborted, false);
        });
        self.settle(now, id);
    }

    /// The user of a circuit makes room for `bytes` more, in reservation mode.
    pub fn post(&mut self, _now: Instant, id: AssociationId, bytes: u64) {
        self.with(id, |ctx, sh| receive::do_post(ctx, sh, bytes));
    }

    /// The bytes of a circuit's store from position `start` on begin with a tag of eight octets,
    /// which its peer gets as such. Called in ascending order, before the store is said to extend
    /// beyond `start`. The tag counts as data, and a packet begins with it.
    pub fn tag(&mut self, id: AssociationId, start: u64) {
        self.with(id, |ctx, _| {
            if start >= ctx.tx.end {
                ctx.tx.tags.push(start);
            }
        });
    }

    /// The bytes of a circuit's store below position `end`, where a message ends, end with a tag of
    /// eight octets, which its peer gets as such. Called as [`tag`](Xtp::tag) is, before the store is
    /// said to extend to `end`, for circuits that keep messages. The tag counts as data and is in one
    /// packet. False, and nothing done, in 4.0, which has no bit for it.
    pub fn tag_end(&mut self, id: AssociationId, end: u64) -> bool {
        let knows = self.shared.config.dialect.is_three();
        self.with(id, |ctx, _| {
            if knows && end >= ctx.tx.end.saturating_add(8) {
                ctx.tx.end_tags.push(end);
            }
        });
        knows
    }

    /// Takes back the tag that ends at `end`, whose bytes were not written after all.
    pub fn untag_end(&mut self, id: AssociationId, end: u64) {
        self.with(id, |ctx, _| {
            if end > ctx.tx.end {
                ctx.tx.end_tags.take_back(end);
            }
        });
    }

    /// Takes back the tag at `start`, whose bytes were not written after all.
    pub fn untag(&mut self, id: AssociationId, start: u64) {
        self.with(id, |ctx, _| {
            if start >= ctx.tx.end {
                ctx.tx.tags.take_back(start);
            }
        });
    }

    /// Sets the rate this side of a circuit keeps to; None for no limit of its own. What the peer
    /// accepts still holds.
    pub fn set_rate(&mut self, now: Instant, id: AssociationId, rate: Option<RateLimit>) {
        self.with(id, |ctx, sh| setup::do_set_rate(ctx, sh, now, rate));
    }

    /// Sets the rate the peer of a circuit is to keep to, and tells it until it knows.
    pub fn impose_rate(&mut self, _now: Instant, id: AssociationId, rate: Option<RateLimit>) {
        self.with(id, |ctx, sh| setup::do_impose_rate(ctx, sh, rate));
    }

    /// The rate a circuit keeps to: the lowest of its own limit and what the peer accepts.
    pub fn rate(&self, id: AssociationId) -> Option<RateLimit> {
        self.table.peek(id)?.tx.limits.all()
    }

    /// The limit an intermediate system imposed on the route of a circuit, for all circuits on it
    /// together.
    pub fn route_limit(&self, id: AssociationId) -> Option<RateLimit> {
        let ctx = self.table.peek(id)?;
        self.shared.routes.limit(ctx.route)
    }

    /// Sets the priority of a circuit: the lowest value is served first, None last.
    pub fn set_sort(&mut self, id: AssociationId, sort: Option<u16>) {
        self.with(id, |ctx, sh| setup::do_set_sort(ctx, sh, sort));
    }

    /// Carries out `act` on a circuit, if there is one of that number.
    fn with(&mut self, id: AssociationId, act: impl FnOnce(&mut Context, &mut Shared)) {
        if let Some(ctx) = self.table.by_circuit(id) {
            act(ctx, &mut self.shared);
        }
    }

    /// Retires the circuit if it ended.
    fn settle(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.table.circuit(id) {
            self.settle_slot(now, slot);
        }
    }

    fn settle_slot(&mut self, now: Instant, slot: usize) {
        let Some(ctx) = self.table.context(slot).filter(|ctx| ctx.is_ended()) else {
            return;
        };
        ctx.look_no_more(&mut self.shared);
        if ctx.route != 0 {
            let linger = self.shared.config.quarantine;
            self.shared.routes.leave(ctx.route, now, linger);
        }
        self.unproven -= usize::from(ctx.budget.is_some());
        let (span, max) = (
            self.shared.config.quarantine,
            self.shared.config.quarantine_max,
        );
        self.table.retire(slot, now, span, max);
    }

    /// The same in the third revision, with the byte numbers as they stand on the wire.
    fn parse_three(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
    ) -> Result<Option<Header>, Reject> {
        let dialect = self.shared.config.dialect;
        let header = Header3::parse(dialect, packet)?;
        let alone = header.options.has(Options::NOCHECK);
        let summed = if alone {
            dialect.header_len()
        } else {
            packet.len()
        };
        self.shared.counters.bytes_summed += summed as u64;
        if let Kind::Maint | Kind::Mgmt | Kind::Route | Kind::Rcntl = header.kind {
            route::handle(&mut self.shared, now, from, &header, packet)?;
            return Ok(None);
        }
        let route = route::arrive(&mut self.shared, now, from, &header);
        self.route = route;
        Ok(three::as_header(&header, route))
    }

    fn parse(&mut self, packet: &[u8]) -> Result<Header, Reject> {
        let header = Header::parse(packet)?;
        let alone = header.options.has(Options::NOCHECK);
        let summed = if alone { HEADER_LEN } else { packet.len() };
        self.shared.counters.bytes_summed += summed as u64;
        Ok(header)
    }

    fn dispatch(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let header = if self.shared.config.dialect.is_three() {
            match self.parse_three(now, from, packet)? {
                Some(header) => header,
                None => return Ok(()),
            }
        } else {
            self.parse(packet)?
        };
        if header.options.has(Options::MULTI) || header.format == Format::Jcntl {
            return Err(Reject::Multicast);
        }
        let slot = match self.table.find(from, header.key) {
            Some(slot) => slot,
            None if header.format == Format::First && header.key & RTN == 0 => {
                setup::handle_first(self, now, from, &header, packet)?
            }
            None => return Err(Reject::UnknownKey),
        };
        let Some(Slot::Active(ctx)) = self.table.slot(slot) else {
            return self.answer_late(slot, from, &header, packet.len());
        };
        if ctx.peer != from {
            return Err(Reject::ForeignSource);
        }
        if self.route != ctx.route && self.shared.config.routes {
            route::follow(ctx, &mut self.shared, now, &header, self.route);
        }
        let was_unproven = ctx.budget.is_some();
        let done = arrive::handle_packet(ctx, &mut self.shared, now, &header, packet, deliveries);
        self.unproven -= usize::from(was_unproven && ctx.budget.is_none());
        if ctx.is_ended() {
            self.settle_slot(now, slot);
        }
        done
    }

    fn answer_late(
        &mut self,
        slot: usize,
        from: Address,
        header: &Header,
        len: usize,
    ) -> Result<(), Reject> {
        match self.table.slot(slot) {
            Some(Slot::Inactive(inactive)) => {
                close::answer_late(inactive, &mut self.shared, from, header, len)
            }
            _ => Err(Reject::UnknownKey),
        }
    }

    fn handle_timers(&mut self, now: Instant, id: AssociationId) {
        self.with(id, |ctx, sh| {
            while let Some(timer) = ctx.take_due(now) {
                match timer {
                    Timer::Wait => request::handle_wait(ctx, sh, now),
                    Timer::Status => request::handle_status(ctx, sh, now),
                    Timer::Idle => request::handle_idle(ctx, sh, now),
                    Timer::Rate => ctx.wake(sh),
                    Timer::Reply => reply::handle_reply_late(ctx, sh),
                    Timer::Linger => send::handle_linger(ctx, sh),
                }
            }
            ctx.look_again(sh);
        });
        self.settle(now, id);
    }
}

impl Engine for Xtp {
    fn layout(&self) -> SegmentLayout {
        SegmentLayout {
            header: self.shared.config.dialect.overhead(),
            payload: self.shared.payload_max() as usize,
        }
    }

    fn packet_len(&self) -> Option<PacketLen> {
        (!self.shared.config.dialect.is_three()).then_some(packet_len)
    }

    fn framing(&self) -> Framing {
        self.shared.config.framing
    }

    fn connect(&mut self, now: Instant, to: Address) -> Result<AssociationId, CommandError> {
        self.open(now, to, self.shared.config.service)
    }

    fn listen(&mut self, accept: bool) {
        self.shared.listening = accept;
    }

    fn submit(&mut self, _now: Instant, id: AssociationId, end: u64, push: bool) {
        self.with(id, |ctx, sh| {
            if ctx.is_one_way() && !ctx.initiator || ctx.tx.finishing {
                return;
            }
            send::do_extend(ctx, sh, end, push);
        });
    }

    fn end_message(&mut self, id: AssociationId, end: u64) {
        self.with(id, |ctx, _| ctx.tx.ends.push(end));
    }

    fn consume(&mut self, _now: Instant, id: AssociationId, bytes: u64) {
        self.with(id, |ctx, sh| receive::do_consume(ctx, sh, bytes));
    }

    fn finish(&mut self, _now: Instant, id: AssociationId) {
        self.with(id, close::do_finish);
    }

    fn request_ack(&mut self, _now: Instant, id: AssociationId) {
        self.with(id, request::do_hurry);
    }

    fn abort(&mut self, now: Instant, id: AssociationId) {
        self.with(id, close::do_abort);
        self.settle(now, id);
    }

    fn handle_packet(
        &mut self,
        now: Instant,
        from: Address,
        packet: &[u8],
        deliveries: &mut Vec<Delivery>,
    ) {
        self.shared.counters.packets_parsed += 1;
        if let Err(reason) = self.dispatch(now, from, packet, deliveries) {
            self.shared.reject(reason);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.table.release_due(now);
        while let Some(&(_, id)) = self.shared.timers.first().filter(|entry| entry.0 <= now) {
            self.handle_timers(now, id);
        }
        if self.shared.config.routes {
            route::handle_timeout(&mut self.shared, now);
        }
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if let Some((to, octets)) = self.shared.answers.pop_front() {
            batch.set_destination(AssociationId(0), to);
            batch.push(&octets, 0..0);
            return;
        }
        while let Some(slot) = self.shared.ready.pop() {
            let slot = slot as usize;
            let Some(ctx) = self.table.context(slot) else {
                continue;
            };
            ctx.queued = false;
            send::transmit(ctx, &mut self.shared, now, batch);
            if ctx.is_ended() {
                self.settle_slot(now, slot);
            }
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let timers = self.shared.timers.first().map(|&(at, _)| at);
        let routes = self.shared.routes.deadline();
        let others = routes.into_iter().chain(self.table.quarantine_end());
        timers.into_iter().chain(others).min()
    }

    fn bytes_in_flight(&self, id: AssociationId) -> u64 {
        let Some(ctx) = self.table.peek(id) else {
            return 0;
        };
        // An end that the peer does not know of is on its way too: a host that waits until nothing
        // is may let go of the circuit.
        let ending = ctx.tx.finishing && !ctx.close.rclose_received;
        ctx.tx.in_flight().max(u64::from(ctx.first.due || ending))
    }

    fn counters(&self) -> Counters {
        self.shared.counters
    }

    fn sort_by_priority(&self, circuits: &mut [AssociationId]) {
        if self.shared.sorted {
            let rank = |id: &AssociationId| {
                let sort = self.table.peek(*id).and_then(|ctx| ctx.sort);
                (sort.is_none(), sort)
            };
            circuits.sort_by_key(rank);
        }
    }

    fn coalesce_delay(&self) -> Duration {
        self.shared.config.linger
    }
}
