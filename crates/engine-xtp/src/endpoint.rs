//! The unicast engine. It only dispatches to the procedures.

use crate::codec::{Arrival, Input};
use crate::config::{CloseState, Config, RateLimit};
use crate::context::{Context, ReadyPlace, Timer};
use crate::context_table::{ContextTable, Slot};
use crate::endpoint_state::EndpointState;
use crate::introspection;
use crate::opening::OpenReport;
use crate::pdu::v3::{HeaderV3, PacketKind, RTN_V3};
use crate::pdu::{DiagCode, DiagValue, Format, Header, Options, RTN, Reject, Rejects, Service};
use crate::procedure::{
    address_validation, association_accept, association_close, association_setup, control_send,
    data_receive, data_send, packet_input, path_mtu, prediction, route_management, status_request,
    tags,
};
use crate::route_values::RouteId;
use crate::unvalidated::UnvalidatedQueue;
use engine::time::earlier;
use engine::{
    Address, AssociationId, Associations, Batch, Close, CommandError, Counters, Deliveries,
    Delivery, Event, Instant, Layout, Note, PathFault, Properties, Protocol, Received, SendFlags,
    Status,
};
use std::sync::Arc;

/// An endpoint of XTP: any number of associations over one wire.
#[derive(Debug)]
pub struct Xtp {
    pub(crate) table: ContextTable,
    pub(crate) state: EndpointState,
    /// Contexts opened by peers whose address is not validated.
    pub(crate) unvalidated: UnvalidatedQueue,
    /// Route by which the current packet arrived (XTP 3.x).
    pub(crate) arrival_route: Option<RouteId>,
}

impl Xtp {
    /// An endpoint without associations. It refuses openings until [`Associations::listen`] is called.
    ///
    /// # Panics
    ///
    /// If `packet_len` is below 128 or above 65,535.
    pub fn new(config: Config) -> Self {
        let (secret, seed) = (config.secret, config.seed);
        Xtp::with_shared_config(Arc::new(config), &secret, seed)
    }

    /// Packets dropped so far, by reason.
    pub fn rejects(&self) -> Rejects {
        self.state.rejects
    }

    /// The close bits of an association; None once it is gone.
    pub fn close_state(&self, id: AssociationId) -> Option<CloseState> {
        self.table.get(id).map(introspection::close_state)
    }

    /// As [`Associations::connect`], with `service` instead of the configured one.
    ///
    /// # Errors
    ///
    /// [`CommandError::TooManyAssociations`].
    pub fn open(
        &mut self,
        now: Instant,
        to: Address,
        service: Service,
    ) -> Result<AssociationId, CommandError> {
        association_setup::do_connect(self, now, to, service)
    }

    /// Admits an opening by a peer ([`Config::supervised`]): the association may send from now on.
    pub fn admit(&mut self, _now: Instant, id: AssociationId) {
        self.with_context(id, |ctx, ep| {
            if ctx.open_report == OpenReport::AwaitingAdmission {
                ctx.open_report = OpenReport::Done;
            }
            ctx.mark_ready(ep);
        });
    }

    /// Refuses an opening by a peer with a DIAG. The association is closed as aborted.
    pub fn refuse(&mut self, now: Instant, id: AssociationId, why: DiagValue) {
        self.with_context(id, |ctx, ep| {
            let (peer, key) = (ctx.peer, ctx.outgoing_key());
            let allowed = ctx.amplification_limit.map_or(usize::MAX, |b| {
                b.received_octets.saturating_sub(b.sent_octets) as usize
            });
            let header_context = ctx.header_context(ep);
            ep.queue_diag(peer, key, DiagCode::REFUSED, why, allowed, &header_context);
            ctx.terminate(ep, engine::CloseReason::Aborted, false);
        });
        self.retire_if_closed(now, id);
    }

    /// The user posts buffers for `bytes` more (reservation mode).
    pub fn post(&mut self, _now: Instant, id: AssociationId, bytes: u64) {
        self.with_context(id, |ctx, ep| data_receive::do_post(ctx, ep, bytes));
    }

    /// Marks the eight bytes at position `start` as a tag (BTAG), which the peer receives as such.
    /// Called in ascending order, before data beyond `start` are submitted. The tag counts as data
    /// and begins a packet.
    pub fn tag(&mut self, id: AssociationId, start: u64) {
        self.with_context(id, |ctx, _| {
            if start >= ctx.tx.queue.submitted {
                ctx.tx.queue.begin_tags.push(start);
            }
        });
    }

    /// Marks the eight bytes before position `end`, where a message ends, as a tag (ETAG). Called
    /// as [`tag`](Xtp::tag), with [`engine::Framing::Messages`]. The tag counts as data and is never
    /// split. Returns false in 4.0, which has no such bit.
    pub fn tag_end(&mut self, id: AssociationId, end: u64) -> bool {
        let supported = self.state.codec.has_end_tags();
        self.with_context(id, |ctx, _| {
            if supported && end >= ctx.tx.queue.submitted.saturating_add(8) {
                ctx.tx.queue.end_tags.push(end);
            }
        });
        supported
    }

    /// Sets the rate limit of this side; None for no limit. The rate that the peer accepts still
    /// applies.
    pub fn set_rate(&mut self, now: Instant, id: AssociationId, rate: Option<RateLimit>) {
        self.with_context(id, |ctx, ep| {
            association_setup::do_set_rate(ctx, ep, now, rate)
        });
    }

    /// Sets the rate that the peer may send at. Repeated until the peer acknowledges it.
    pub fn impose_rate(&mut self, _now: Instant, id: AssociationId, rate: Option<RateLimit>) {
        self.with_context(id, |ctx, ep| {
            association_setup::do_impose_rate(ctx, ep, rate)
        });
    }

    /// The rate limit in force: the lower of this side's and the peer's.
    pub fn rate(&self, id: AssociationId) -> Option<RateLimit> {
        self.table.get(id)?.tx.limits.effective()
    }

    /// The rate limit that a router set for the route, shared by all associations on it.
    pub fn route_limit(&self, id: AssociationId) -> Option<RateLimit> {
        let ctx = self.table.get(id)?;
        self.state.routes.rate_limit(ctx.route?)
    }

    /// Sets the priority of an association: the lowest value is served first, None last.
    pub fn set_sort(&mut self, id: AssociationId, sort: Option<u16>) {
        self.with_context(id, |ctx, ep| association_setup::do_set_sort(ctx, ep, sort));
    }

    /// Calls `act` with the context of an association, if it exists.
    fn with_context(
        &mut self,
        id: AssociationId,
        act: impl FnOnce(&mut Context, &mut EndpointState),
    ) {
        if let Some(ctx) = self.table.get_mut(id) {
            act(ctx, &mut self.state);
        }
    }

    /// Retires the association if it is closed.
    fn retire_if_closed(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.table.find_association(id) {
            self.retire_slot_if_closed(now, slot);
        }
    }

    pub(crate) fn retire_slot_if_closed(&mut self, now: Instant, slot: usize) {
        let Some(ctx) = self.table.context(slot).filter(|ctx| ctx.is_closed()) else {
            return;
        };
        ctx.unschedule(&mut self.state);
        if let Some(route) = ctx.route {
            let idle_time = self.state.config.quarantine;
            self.state.routes.remove_user(route, now, idle_time);
        }
        if !ctx.is_validated() {
            self.unvalidated.forget_one();
        }
        self.table.retire(slot, now, &self.state);
        // Who opens the next one waits for that, and mostly nobody for this end.
        self.state.keys.prepare();
        self.state.rng.prepare();
    }

    /// Parses a packet; in 3.x, sequence numbers stay as on the wire. None for packets that belong to no association.
    fn parse<'a>(
        &mut self,
        now: Instant,
        from: Address,
        packet: &'a [u8],
    ) -> Result<Option<Arrival<'a>>, Reject> {
        let input = self.state.codec.parse(packet)?;
        let summed = self.state.codec.summed_len(input.options(), packet);
        self.state.counters.bytes_summed += summed;
        let arrival = match input {
            Input::Association(arrival) => arrival,
            Input::Neighbour(header) => {
                let is_answered = header.kind == PacketKind::Mgmt
                    && self.answer_manager(now, from, &header, packet);
                if !is_answered {
                    route_management::handle_packet(&mut self.state, now, from, &header, packet)?;
                }
                return Ok(None);
            }
        };
        match arrival.v3() {
            Some(header) => self.arrive_by_route(now, from, header)?,
            None => return Ok(Some(arrival)),
        }
        Ok(Some(arrival.by_route(self.arrival_route)))
    }

    /// Finds out by which route a packet of 3.x arrived.
    fn arrive_by_route(
        &mut self,
        now: Instant,
        from: Address,
        header: &HeaderV3,
    ) -> Result<(), Reject> {
        let route = route_management::resolve_arrival_route(&mut self.state, now, from, header);
        // The neighbour knows a route of this side's earlier life. With the route of its repetition, FIRST
        // would open a second association (0008, Routes).
        let unknown = route.is_none() && header.route & RTN_V3 != 0 && self.state.config.routes;
        if unknown && header.kind == PacketKind::First {
            return Err(Reject::UnknownRoute);
        }
        self.arrival_route = route;
        self.state.reply_sync = header.sync;
        Ok(())
    }

    fn dispatch(
        &mut self,
        now: Instant,
        received: &Received<'_>,
        deliveries: &mut Vec<Delivery>,
    ) -> Result<(), Reject> {
        let (from, packet) = (received.path.remote, received.octets);
        let Some(arrival) = self.parse(now, from, packet)? else {
            return Ok(());
        };
        let header = &arrival.header;
        if header.options.has(Options::MULTI) || header.format == Format::Jcntl {
            return Err(Reject::Multicast);
        }
        // A DIAG returns a sync of this side (0008, Names).
        let sync = (header.format != Format::Diag).then_some(header.sync);
        let mut first_data = None;
        let slot = match self.table.find_key(from, header.key, sync) {
            Some(slot) => slot,
            None if header.format == Format::First && header.key & RTN == 0 => {
                let opened = association_accept::handle_first(self, now, from, &arrival)?;
                let Some((slot, data)) = opened else {
                    return Ok(());
                };
                first_data = Some(data);
                slot
            }
            None if header.format == Format::Tcntl && header.key & RTN != 0 => {
                address_validation::handle_returned_cookie(self, now, from, header, packet)?
            }
            None => return Err(Reject::UnknownKey),
        };
        let Some(Slot::Active(ctx)) = self.table.slot(slot) else {
            return self.answer_inactive(slot, from, header, packet.len());
        };
        if ctx.peer != from {
            return Err(Reject::ForeignSource);
        }
        if self.arrival_route != ctx.route && self.state.config.routes {
            route_management::follow_new_route(
                ctx,
                &mut self.state,
                now,
                header,
                self.arrival_route,
            );
        }
        let was_validated = ctx.is_validated();
        let last_received_at = ctx.last_received_at;
        let ep = &mut self.state;
        let done = packet_input::handle_packet(ctx, ep, now, &arrival, first_data, deliveries);
        if !was_validated && ctx.is_validated() {
            self.unvalidated.forget_one();
        } else if !was_validated && done.is_err() {
            // Only packets that are valid prolong an association that may be forged (0021).
            ctx.last_received_at = last_received_at;
        }
        if ctx.is_closed() {
            self.retire_slot_if_closed(now, slot);
        }
        done
    }

    fn answer_inactive(
        &mut self,
        slot: usize,
        from: Address,
        header: &Header,
        len: usize,
    ) -> Result<(), Reject> {
        match self.table.slot(slot) {
            Some(Slot::Inactive(inactive)) => {
                association_close::answer_inactive(inactive, &mut self.state, from, header, len)
            }
            _ => Err(Reject::UnknownKey),
        }
    }

    fn handle_timers(&mut self, now: Instant, id: AssociationId) {
        self.with_context(id, |ctx, ep| {
            while let Some(timer) = ctx.take_expired(now) {
                match timer {
                    Timer::Wtimer => status_request::handle_wtimer(ctx, ep, now),
                    Timer::Status => status_request::handle_status_timeout(ctx, ep, now),
                    Timer::Ctimer => status_request::handle_ctimer(ctx, ep, now),
                    Timer::Rtimer => ctx.mark_ready(ep),
                    Timer::Reply => control_send::handle_reply_timeout(ctx, ep),
                    Timer::Coalesce => data_send::handle_coalesce_timeout(ctx, ep),
                }
            }
            ctx.reschedule(ep);
        });
        self.retire_if_closed(now, id);
    }
}

impl Protocol for Xtp {
    fn properties(&self) -> Properties {
        let config = &self.state.config;
        Properties {
            packet_max: config.packet_len,
            packet_len: config.version.packet_len_reader(),
            framing: config.framing,
            notes: tags::note_fields(&self.state),
            coalesce_delay: config.coalesce_delay,
        }
    }

    fn handle_packet(&mut self, now: Instant, packet: Received<'_>, deliveries: &mut Deliveries) {
        self.state.counters.packets_parsed += 1;
        if !prediction::handle_packet(self, now, &packet, deliveries)
            && let Err(reason) = self.dispatch(now, &packet, &mut deliveries.bytes)
        {
            self.state.reject(reason);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.table.release_expired(now);
        while let Some(id) = self.state.timers.pop_due(now) {
            self.handle_timers(now, id);
        }
        if self.state.config.routes {
            route_management::handle_timeout(&mut self.state, now);
        }
    }

    fn handle_path_error(&mut self, _now: Instant, fault: PathFault<'_>) {
        path_mtu::handle_path_error(self, fault);
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut Batch) {
        if let Some((to, octets)) = self.state.stateless_replies.pop_front() {
            batch.set_path(to, None);
            batch.push_own(&octets);
            return;
        }
        while let Some(slot) = self.state.ready_queue.pop() {
            let slot = slot as usize;
            let Some(ctx) = self.table.context(slot) else {
                continue;
            };
            if ctx.gives_way(&mut self.state) {
                continue;
            }
            ctx.ready_place = ReadyPlace::Absent;
            data_send::transmit(ctx, &mut self.state, now, batch);
            if ctx.is_closed() {
                self.retire_slot_if_closed(now, slot);
            }
            if !batch.is_empty() {
                return;
            }
        }
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.state.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let timers = self.state.timers.deadline();
        let routes = self.state.routes.next_expiry();
        earlier(earlier(timers, routes), self.table.next_release())
    }

    fn counters(&self) -> Counters {
        self.state.counters
    }
}

impl Associations for Xtp {
    fn layout(&self, id: Option<AssociationId>) -> Layout {
        let ctx = id.and_then(|id| self.table.get(id));
        let payload = ctx.map_or(self.state.payload_max(), |ctx| ctx.tx.path.slot);
        Layout {
            header: self.state.config.version.overhead(),
            payload: payload as usize,
            trailer: 0,
        }
    }

    fn connect(&mut self, now: Instant, to: &[Address]) -> Result<AssociationId, CommandError> {
        match *to {
            [to] => self.open(now, to, self.state.config.service),
            _ => Err(CommandError::Unsupported),
        }
    }

    fn listen(&mut self, accept: bool) {
        self.state.listening = accept;
    }

    fn submit(
        &mut self,
        _now: Instant,
        id: AssociationId,
        end: u64,
        flags: SendFlags,
        note: &Note,
    ) {
        self.with_context(id, |ctx, ep| {
            if note.tag.is_some() || note.end_tag.is_some() {
                tags::mark(ctx, ep, end, note);
            }
            data_send::do_submission(ctx, ep, end, flags);
        });
    }

    fn submit_all(&mut self, now: Instant, id: AssociationId, ends: &[u64]) {
        engine::submit_each(self, now, id, ends);
    }

    fn consume(&mut self, _now: Instant, id: AssociationId, bytes: u64) {
        self.with_context(id, |ctx, ep| data_receive::do_consume(ctx, ep, bytes));
    }

    fn close(&mut self, now: Instant, id: AssociationId, how: Close) {
        match how {
            Close::Graceful => self.with_context(id, association_close::do_finish),
            Close::Abort => self.with_context(id, association_close::do_abort),
        }
        self.retire_if_closed(now, id);
    }

    fn status(&self, id: AssociationId) -> Status {
        let Some(ctx) = self.table.get(id) else {
            return Status::default();
        };
        // An unacknowledged WCLOSE counts as in flight: a host may drop an association with nothing
        // in flight (0007, Close).
        let ending = u64::from(ctx.is_first_due() || ctx.closing.is_ending());
        Status {
            bytes_in_flight: ctx.tx.queue.bytes_in_flight().max(ending),
        }
    }

    fn receive_window(&self) -> u64 {
        self.state.config.window
    }

    fn set_receive_full(&mut self, id: AssociationId, is_full: bool) {
        self.with_context(id, |ctx, _| ctx.rx.is_full = is_full);
    }

    fn set_path_mtu(&mut self, _now: Instant, id: AssociationId, octets: usize) {
        self.with_context(id, |ctx, ep| path_mtu::do_set(ctx, ep, octets));
    }

    fn sort_by_priority(&self, associations: &mut [AssociationId]) {
        if self.state.uses_sort {
            let rank = |id: &AssociationId| {
                let sort = self.table.get(*id).and_then(|ctx| ctx.sort);
                (sort.is_none(), sort)
            };
            associations.sort_by_key(rank);
        }
    }
}
