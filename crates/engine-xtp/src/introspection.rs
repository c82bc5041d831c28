//! What an endpoint's associations are doing, for people to look at.

use crate::config::{CloseState, RateLimit};
use crate::context::{Context, ContextState, TIMERS, Timer};
use crate::endpoint::Xtp;
use crate::pdu::Service;
use crate::procedure::data_receive;
use core::time::Duration;
use engine::{Address, AssociationId, Instant};

/// One association as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationView {
    /// Its number within the endpoint.
    pub association: AssociationId,
    /// The other end.
    pub peer: Address,
    /// This side opened it.
    pub initiator: bool,
    /// What it does.
    pub state: AssociationState,
    /// How far its close got.
    pub close: CloseState,
    /// What its initiator asked for.
    pub service: Service,
    /// The own key.
    pub key: u64,
    /// The peer's key, once known.
    pub remote_key: Option<u64>,
    /// The own value of the route, in the third revision; 0 for none.
    pub route: u32,
    /// The priority, if it has one.
    pub sort: Option<u16>,
    /// The sending direction.
    pub sending: SendingView,
    /// The receiving direction.
    pub receiving: ReceivingView,
    /// The smoothed round trip, once measured.
    pub rtt: Option<Duration>,
    /// How much it varies.
    pub rtt_variation: Duration,
    /// Since when nothing was heard of the peer.
    pub since_last_received: Duration,
    /// Timers that run, by name, and the time each has left; zero when it is due.
    pub timers: Vec<(&'static str, Duration)>,
}

/// What an association does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationState {
    /// It waits for the answer to FIRST.
    Opening,
    /// It carries data, or could.
    Active,
    /// A status request was not answered: it asks again, and sends nothing else.
    Synchronizing,
    /// A direction ended, or is about to.
    Closing,
}

impl AssociationState {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            AssociationState::Opening => "opening",
            AssociationState::Active => "active",
            AssociationState::Synchronizing => "synchronizing",
            AssociationState::Closing => "closing",
        }
    }
}

/// A sending direction. Positions are byte numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendingView {
    /// The user's bytes end here, so far.
    pub end: u64,
    /// The next byte to send for the first time.
    pub next: u64,
    /// Everything below was acknowledged.
    pub acknowledged: u64,
    /// The peer takes bytes below this.
    pub allocation: u64,
    /// Bytes that were lost and are yet to be sent again.
    pub lost_bytes: u64,
    /// Packets sent again so far.
    pub retransmissions: u64,
    /// Bytes the congestion controller lets be on their way, if there is one.
    pub congestion_window: Option<u64>,
    /// The rate it keeps to, if there is one.
    pub rate: Option<RateLimit>,
    /// The last sync used.
    pub sync: u32,
    /// Status requests that were not answered yet.
    pub outstanding_requests: usize,
}

/// A receiving direction. Positions are byte numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivingView {
    /// Everything below arrived.
    pub next: u64,
    /// Bytes that the user has not taken.
    pub unread_bytes: u64,
    /// Bytes that came before their turn and are kept.
    pub reassembly_bytes: u64,
    /// The peer was told that it may send bytes below this.
    pub advertised_alloc: u64,
    /// What it would be told now.
    pub allocation: u64,
}

impl Xtp {
    /// Associations as they stand, `max` of them at most.
    pub fn associations(&self, now: Instant, max: usize) -> Vec<AssociationView> {
        let contexts = self.table.contexts().take(max);
        contexts.map(|ctx| self.view(ctx, now)).collect()
    }

    fn view(&self, ctx: &Context, now: Instant) -> AssociationView {
        let (tx, rx) = (&ctx.tx, &ctx.rx);
        let left = |timer: &Timer| Some((timer.name(), ctx.deadline(*timer)?.since(now)));
        AssociationView {
            association: ctx.id,
            peer: ctx.peer,
            initiator: ctx.initiator,
            state: association_state(ctx),
            close: close_state(ctx),
            service: ctx.service,
            key: ctx.key,
            remote_key: ctx.remote_key,
            route: ctx.route,
            sort: ctx.sort,
            sending: SendingView {
                end: tx.submitted,
                next: tx.next_seq,
                acknowledged: tx.acknowledged,
                allocation: tx.alloc,
                lost_bytes: tx
                    .retransmission_queue
                    .iter()
                    .map(|range| range.end - range.start)
                    .sum(),
                retransmissions: tx.retransmissions,
                congestion_window: tx.congestion.as_ref().map(|control| control.cwnd()),
                rate: tx.limits.effective(),
                sync: tx.sync,
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

fn association_state(ctx: &Context) -> AssociationState {
    if ctx.state == ContextState::Opening {
        AssociationState::Opening
    } else if ctx.tx.handshake.is_some() {
        AssociationState::Synchronizing
    } else if ctx.tx.finishing || ctx.rx.final_seq.is_some() {
        AssociationState::Closing
    } else {
        AssociationState::Active
    }
}

/// The four bits.
pub(crate) fn close_state(ctx: &Context) -> CloseState {
    CloseState {
        wclose_sent: ctx.close.wclose_sent,
        rclose_received: ctx.close.rclose_received,
        wclose_received: ctx.rx.final_seq.is_some(),
        rclose_sent: ctx.close.rclose_sent,
    }
}

impl Service {
    /// In a word.
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
