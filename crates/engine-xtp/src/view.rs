//! What an endpoint's associations are doing, for people to look at.

use crate::api::{CloseState, RateLimit};
use crate::association::Xtp;
use crate::pdu::Service;
use crate::procedure::receive;
use crate::state::{Context, Phase, TIMERS, Timer};
use core::time::Duration;
use engine::{Address, AssociationId, Instant};

/// One association as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationView {
    /// Its number within the endpoint.
    pub circuit: AssociationId,
    /// The other end.
    pub peer: Address,
    /// This side opened it.
    pub initiator: bool,
    /// What it does.
    pub standing: Standing,
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
    pub silence: Duration,
    /// Timers that run, by name, and the time each has left; zero when it is due.
    pub timers: Vec<(&'static str, Duration)>,
}

/// What an association does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It waits for the answer to FIRST.
    Opening,
    /// It carries data, or could.
    Active,
    /// A status request was not answered: it asks again, and sends nothing else.
    Synchronizing,
    /// A direction ended, or is about to.
    Closing,
}

impl Standing {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Opening => "opening",
            Standing::Active => "active",
            Standing::Synchronizing => "synchronizing",
            Standing::Closing => "closing",
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
    pub requests: usize,
}

/// A receiving direction. Positions are byte numbers from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivingView {
    /// Everything below arrived.
    pub next: u64,
    /// Bytes that the user has not taken.
    pub unread_bytes: u64,
    /// Bytes that came before their turn and are kept.
    pub held_bytes: u64,
    /// The peer was told that it may send bytes below this.
    pub allocated: u64,
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
        let left = |timer: &Timer| Some((timer.name(), ctx.due_at(*timer)?.since(now)));
        AssociationView {
            circuit: ctx.id,
            peer: ctx.peer,
            initiator: ctx.initiator,
            standing: standing(ctx),
            close: close_state(ctx),
            service: ctx.service,
            key: ctx.key,
            remote_key: ctx.remote,
            route: ctx.route,
            sort: ctx.sort,
            sending: SendingView {
                end: tx.end,
                next: tx.next,
                acknowledged: tx.acknowledged,
                allocation: tx.alloc,
                lost_bytes: tx.lost.iter().map(|range| range.end - range.start).sum(),
                retransmissions: tx.retransmissions,
                congestion_window: tx.congestion.as_ref().map(|control| control.window()),
                rate: tx.limits.all(),
                sync: tx.sync,
                requests: tx.requests.len(),
            },
            receiving: ReceivingView {
                next: rx.next,
                unread_bytes: rx.unread,
                held_bytes: rx.held.bytes() as u64,
                allocated: rx.told,
                allocation: receive::allocation(ctx, &self.shared),
            },
            rtt: Some(tx.rtt.smooth()).filter(|rtt| !rtt.is_zero()),
            rtt_variation: tx.rtt.variation(),
            silence: now.since(ctx.heard),
            timers: TIMERS.iter().filter_map(left).collect(),
        }
    }
}

fn standing(ctx: &Context) -> Standing {
    if ctx.phase == Phase::Opening {
        Standing::Opening
    } else if ctx.tx.handshake.is_some() {
        Standing::Synchronizing
    } else if ctx.tx.finishing || ctx.rx.last.is_some() {
        Standing::Closing
    } else {
        Standing::Active
    }
}

/// The four bits.
pub(crate) fn close_state(ctx: &Context) -> CloseState {
    CloseState {
        wclose_sent: ctx.close.wclose_sent,
        rclose_received: ctx.close.rclose_received,
        wclose_received: ctx.rx.last.is_some(),
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
