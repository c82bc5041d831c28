//! State of an endpoint's associations, for users to inspect.

use crate::config::{CloseState, Holdings, RateLimit};
use crate::context::{Context, TIMERS, Timer};
use crate::endpoint::Xtp;
use crate::management::{self, Subject};
use crate::numbers::Key;
use crate::opening::OpenReport;
use crate::pdu::v3::{BodyV3, HeaderV3, PacketV3};
use crate::pdu::{DiagValue, Service};
use crate::procedure::data_receive;
use crate::route_values::value_or_none;
use core::time::Duration;
use engine::{Address, AssociationId, Instant};

/// A snapshot of one association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationView {
    /// Its number within the endpoint.
    pub association: AssociationId,
    /// Address of the peer.
    pub peer: Address,
    /// This side opened it.
    pub initiator: bool,
    /// State of the association.
    pub state: AssociationState,
    /// The close bits.
    pub close: CloseState,
    /// The service that its initiator requested.
    pub service: Service,
    /// The key of this side.
    pub key: u64,
    /// The peer's key, once known.
    pub remote_key: Option<u64>,
    /// This side's value of the route (XTP 3.x); 0 for none.
    pub route: u32,
    /// The sort value, if it has one.
    pub sort: Option<u16>,
    /// The peer asks this side to allocate only buffers that its user posted (RES).
    pub reserves: bool,
    /// It waits for [`Xtp::admit`] or [`Xtp::refuse`].
    pub awaits_admission: bool,
    /// The sending direction.
    pub sending: SendingView,
    /// The receiving direction.
    pub receiving: ReceivingView,
    /// Smoothed RTT, once measured.
    pub rtt: Option<Duration>,
    /// RTT variation.
    pub rtt_variation: Duration,
    /// Time since the last packet from the peer.
    pub since_last_received: Duration,
    /// Armed timers by name, with the time left; zero when expired.
    pub timers: Vec<(&'static str, Duration)>,
}

/// State of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationState {
    /// FIRST is not answered yet.
    Opening,
    /// Open for data.
    Active,
    /// Synchronizing handshake: a status request was not answered and is repeated; data stop.
    Synchronizing,
    /// A direction is closed, or about to be.
    Closing,
}

impl AssociationState {
    /// Name for the user.
    pub fn name(self) -> &'static str {
        match self {
            AssociationState::Opening => "opening",
            AssociationState::Active => "active",
            AssociationState::Synchronizing => "synchronizing",
            AssociationState::Closing => "closing",
        }
    }
}

/// The sending direction. Positions are byte numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingView {
    /// End of the data that the user submitted.
    pub end: u64,
    /// The next byte to send for the first time.
    pub next: u64,
    /// Everything below was acknowledged.
    pub acknowledged: u64,
    /// The peer's allocation: bytes below it may be sent.
    pub allocation: u64,
    /// Bytes in the retransmission queue.
    pub lost_bytes: u64,
    /// Packets retransmitted so far.
    pub retransmissions: u64,
    /// Congestion window in bytes, with a congestion controller.
    pub congestion_window: Option<u64>,
    /// The rate limit in force, if there is one.
    pub rate: Option<RateLimit>,
    /// The last sync used.
    pub sync: u32,
    /// Number of status requests without an answer.
    pub outstanding_requests: usize,
}

/// The receiving direction. Positions are byte numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivingView {
    /// Everything below was received.
    pub next: u64,
    /// Bytes delivered that the user has not consumed.
    pub unread_bytes: u64,
    /// Bytes in the reassembly queue.
    pub reassembly_bytes: u64,
    /// The allocation last advertised to the peer.
    pub advertised_alloc: u64,
    /// The allocation that a control packet would advertise now.
    pub allocation: u64,
}

/// How fast an association may send, and what came of it; cheap enough to read many times a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingPace {
    /// Congestion window in bytes, with a congestion controller.
    pub congestion_window: Option<u64>,
    /// Bytes beyond what was acknowledged that the peer's allocation has room for.
    pub send_window: u64,
    /// Bytes sent that are neither acknowledged nor waiting to be retransmitted.
    pub in_flight_bytes: u64,
    /// Bytes a second that it may send: the lower of the rate limit in force and its controller's
    /// pacing; None without either.
    pub rate_bytes_per_s: Option<u64>,
    /// Smoothed RTT, once measured.
    pub smoothed_rtt: Option<Duration>,
    /// Packets retransmitted so far.
    pub retransmissions: u64,
}

impl Xtp {
    /// The priority of an association, its own or its peer's.
    pub fn sort(&self, id: AssociationId) -> Option<u16> {
        self.table.get(id)?.sort
    }

    /// Why the peer refused an opening of this side, one of the last few.
    pub fn refusal(&self, id: AssociationId) -> Option<DiagValue> {
        self.state.refusals.of(id)
    }

    /// Whether openings of peers wait for a decision ([`crate::Config::supervised`]).
    pub fn is_supervised(&self) -> bool {
        self.state.config.supervised
    }

    /// How fast an association may send now; None once it is gone.
    pub fn sending(&self, id: AssociationId) -> Option<SendingPace> {
        let tx = &self.table.get(id)?.tx;
        let lost = tx.queue.retransmission_queue.bytes();
        let control = tx.congestion.as_ref();
        let limit = tx.limits.effective();
        let limit = limit.map(|limit| u64::from(limit.rate_bytes_per_s));
        let paced = control.and_then(|control| control.pacing_rate_bytes_per_s());
        Some(SendingPace {
            congestion_window: control.map(|control| control.window_bytes()),
            send_window: tx.queue.alloc.saturating_sub(tx.queue.acknowledged),
            in_flight_bytes: tx.queue.bytes_in_flight().saturating_sub(lost),
            rate_bytes_per_s: limit.into_iter().chain(paced).min(),
            smoothed_rtt: Some(tx.rtt.srtt()).filter(|rtt| !rtt.is_zero()),
            retransmissions: tx.retransmissions,
        })
    }

    /// What the endpoint holds right now. Visits every association.
    pub fn holdings(&self) -> Holdings {
        let armed = |ctx: &Context| {
            TIMERS
                .iter()
                .filter(|&&timer| ctx.timers.is_armed(timer))
                .count()
        };
        Holdings {
            associations: self.table.active(),
            unvalidated: self.unvalidated.len(),
            quarantined: self.table.quarantined(),
            reassembly_bytes: self
                .table
                .contexts()
                .map(|ctx| ctx.rx.reassembly.bytes())
                .sum(),
            timers: self.table.contexts().map(armed).sum(),
            routes: self.state.routes.len(),
            queued: self.state.stateless_replies.len()
                + self.state.events.len()
                + self.state.ready_queue.len(),
        }
    }

    /// Snapshots of at most `max` associations.
    pub fn associations(&self, now: Instant, max: usize) -> Vec<AssociationView> {
        let contexts = self.table.contexts().take(max);
        contexts.map(|ctx| self.view(ctx, now)).collect()
    }

    /// The state of one association; None once it is gone.
    pub fn association(&self, now: Instant, id: AssociationId) -> Option<AssociationView> {
        self.table.get(id).map(|ctx| self.view(ctx, now))
    }

    /// Answers a question of an allowed host; false where there is none.
    pub(crate) fn answer_manager(
        &mut self,
        now: Instant,
        from: Address,
        header: &HeaderV3,
        packet: &[u8],
    ) -> bool {
        let config = &self.state.config;
        let (version, hop_limit) = (config.version, config.hop_limit);
        if !management::is_manager(&config.managers, from) {
            return false;
        }
        let Some(BodyV3::Mgmt(info)) = BodyV3::parse(version, header, packet) else {
            return false;
        };
        if !self.state.stranger_replies.allows(now) {
            return false;
        }
        let records = |subject| self.records(now, subject);
        let Some((header, octets)) = management::respond(header, &info, hop_limit, records) else {
            return false;
        };
        let body = management::response_body(&octets);
        let octets = PacketV3 { header, body }.emit(version);
        self.state.count_packet_built(0);
        self.state.queue_octets(from, octets);
        true
    }

    /// What a manager is told.
    fn records(&self, now: Instant, subject: Subject) -> Box<dyn Iterator<Item = String> + '_> {
        match subject {
            Subject::Contexts => {
                let views = self.table.contexts().map(move |ctx| self.view(ctx, now));
                Box::new(views.map(|view| context_record(&view)))
            }
            Subject::Routes => Box::new(self.state.routes.records()),
            Subject::Counters => Box::new(management::counter_records(&self.state.counters)),
        }
    }

    fn view(&self, ctx: &Context, now: Instant) -> AssociationView {
        let (tx, rx) = (&ctx.tx, &ctx.rx);
        let left = |timer: &Timer| Some((timer.name(), ctx.timers.deadline(*timer)?.since(now)));
        AssociationView {
            association: ctx.id,
            peer: ctx.peer,
            initiator: ctx.initiator,
            state: association_state(ctx),
            close: close_state(ctx),
            service: ctx.service,
            key: ctx.key.field(),
            remote_key: ctx.remote_key.map(Key::field),
            route: value_or_none(ctx.route),
            sort: ctx.sort,
            reserves: ctx.rx.res_requested,
            awaits_admission: ctx.open_report == OpenReport::AwaitingAdmission,
            sending: SendingView {
                end: tx.queue.submitted,
                next: tx.queue.next_seq,
                acknowledged: tx.queue.acknowledged,
                allocation: tx.queue.alloc,
                lost_bytes: tx.queue.retransmission_queue.bytes(),
                retransmissions: tx.retransmissions,
                congestion_window: tx.congestion.as_ref().map(|control| control.window_bytes()),
                rate: tx.limits.effective(),
                sync: tx.sync.0,
                outstanding_requests: tx.outstanding_requests.len(),
            },
            receiving: ReceivingView {
                next: rx.next_seq,
                unread_bytes: rx.unread_bytes,
                reassembly_bytes: rx.reassembly.bytes() as u64,
                advertised_alloc: rx.advertised_alloc,
                allocation: data_receive::next_alloc(ctx, &self.state),
            },
            rtt: Some(tx.rtt.srtt()).filter(|rtt| !rtt.is_zero()),
            rtt_variation: tx.rtt.rttvar(),
            since_last_received: now.since(ctx.last_received_at),
            timers: TIMERS.iter().filter_map(left).collect(),
        }
    }
}

/// An association as a record. Keys stay out of it: who knows them can end it.
fn context_record(view: &AssociationView) -> String {
    let us = |time: Duration| time.as_micros().to_string();
    let rate = view.sending.rate.map(|rate| rate.rate_bytes_per_s);
    management::record(&[
        ("context", Some(view.association.0.to_string())),
        ("peer", Some(management::address_text(view.peer))),
        ("state", Some(view.state.name().to_owned())),
        ("service", Some(view.service.name().replace(' ', "_"))),
        (
            "opened",
            Some(if view.initiator { "here" } else { "there" }.to_owned()),
        ),
        ("sort", view.sort.map(|sort| sort.to_string())),
        ("route", (view.route != 0).then(|| view.route.to_string())),
        ("sent", Some(view.sending.next.to_string())),
        ("acknowledged", Some(view.sending.acknowledged.to_string())),
        ("received", Some(view.receiving.next.to_string())),
        (
            "retransmissions",
            Some(view.sending.retransmissions.to_string()),
        ),
        ("rate_bytes_per_s", rate.map(|rate| rate.to_string())),
        ("rtt_us", view.rtt.map(us)),
        ("silence_us", Some(us(view.since_last_received))),
    ])
}

fn association_state(ctx: &Context) -> AssociationState {
    if ctx.is_opening() {
        AssociationState::Opening
    } else if ctx.tx.handshake.is_some() {
        AssociationState::Synchronizing
    } else if ctx.closing.is_finishing() || ctx.rx.final_seq.is_some() {
        AssociationState::Closing
    } else {
        AssociationState::Active
    }
}

/// The four close bits.
pub(crate) fn close_state(ctx: &Context) -> CloseState {
    CloseState {
        wclose_sent: ctx.closing.wclose_sent(),
        rclose_received: ctx.closing.rclose_received(),
        wclose_received: ctx.rx.final_seq.is_some(),
        rclose_sent: ctx.closing.rclose_sent(),
    }
}

impl Service {
    /// Name for the user.
    pub fn name(self) -> &'static str {
        match self {
            Service::Unspecified => "unspecified",
            Service::Datagram => "datagram",
            Service::AckedDatagram => "acknowledged datagram",
            Service::Transaction => "transaction",
            Service::Stream => "stream",
            Service::Isochronous => "isochronous",
            Service::Bulk => "bulk",
            Service::Other(_) => "other",
        }
    }
}
