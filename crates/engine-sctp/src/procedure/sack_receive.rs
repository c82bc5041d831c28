//! SACK: what the peer has (RFC 9260 sections 6.2.1, 7.2 and 6.3.2), in the order in which the numbers
//! depend on each other: marks, congestion window, misses, timers, the peer's window.

use crate::association::{Association, Timer};
use crate::congestion::PathAck;
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::notice::Notice;
use crate::numbers::{LongTsn, Tsn};
use crate::pdu::{Chunk, Sack};
use crate::procedure::{
    abandon, abort, path_management, path_mtu, retransmission, shutdown, window_probe,
};
use crate::tx::ChunkStatus;
use congestion::{AckSample, RttSample};
use core::ops::Range;
use engine::{AssociationId, Event, Instant};

/// Reports of a gap in a chunk's place that show that it is lost.
const MISSES_MAX: u8 = 3;

/// What an acknowledgement brought.
struct Progress {
    /// The cumulative TSN grew.
    advanced: bool,
    /// Past chunks that were given up.
    forwarded: bool,
    /// User bytes of the store that the peer never asks for again.
    released: Option<(u64, u64)>,
}

impl Progress {
    /// The peer never asks again for the bytes `range`. Positions skipped between two chunks were released when they
    /// were.
    fn release(&mut self, id: AssociationId, ep: &mut EndpointState, range: Range<u64>) {
        match &mut self.released {
            Some((_, end)) if *end == range.start => *end = range.end,
            Some((start, end)) => {
                ep.events.push_back(Event::Released(id, *start..*end));
                (*start, *end) = (range.start, range.end);
            }
            None => self.released = Some((range.start, range.end)),
        }
    }
}

pub(crate) fn handle_sack(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    if !a.may_send_data() {
        return Err(DiscardReason::State);
    }
    let sack = Sack::parse(chunk.value).ok_or(DiscardReason::Sack)?;
    let (cumulative, progress) = begin(a, ep, sack.cumulative)?;
    let limit = a.tx.outstanding.next();
    let beyond = sack
        .gaps()
        .last()
        .map_or(0, |block| u64::from(*block.end()));
    if cumulative.plus(beyond) >= limit && beyond > 0 {
        // An acknowledgement of what was never sent.
        abort::do_abort_violation(a, ep);
        return Err(DiscardReason::Sack);
    }
    let reneged = mark_gaps(a, cumulative, &sack);
    if reneged {
        for path in 0..a.paths.len() {
            retransmission::start_timer(a, ep, now, path);
        }
    }
    grow_windows(a, ep, now, progress.advanced);
    if sack.gaps().next().is_some() {
        count_misses(a, cumulative.plus(beyond), &progress);
    }
    let in_flight: u64 = a.paths.iter().map(|path| path.flight).sum();
    a.tx.rwnd = u64::from(sack.rwnd).saturating_sub(in_flight);
    if sack.rwnd > 0 {
        window_probe::cancel(a, ep);
    } else {
        // It answers, and only its user does not read (RFC 9260 section 6.1, A).
        a.errors = 0;
        let path = a.data_path();
        a.paths[path].errors = 0;
    }
    finish(a, ep, now, &progress);
    Ok(())
}

/// The peer has all up to `tsn`, as a SHUTDOWN says. It says nothing of gaps.
pub(crate) fn handle_cumulative(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    tsn: Tsn,
) -> Result<(), DiscardReason> {
    let (_, progress) = begin(a, ep, tsn)?;
    grow_windows(a, ep, now, progress.advanced);
    finish(a, ep, now, &progress);
    Ok(())
}

/// Removes the chunks up to the cumulative TSN.
fn begin(
    a: &mut Association,
    ep: &mut EndpointState,
    tsn: Tsn,
) -> Result<(LongTsn, Progress), DiscardReason> {
    let first = a.tx.outstanding.first();
    let cumulative = first.nearest(tsn);
    if cumulative.plus(1) < first {
        return Err(DiscardReason::Sack);
    }
    if cumulative >= a.tx.outstanding.next() {
        abort::do_abort_violation(a, ep);
        return Err(DiscardReason::Sack);
    }
    for path in &mut a.paths {
        path.flight_before = path.flight;
        path.newly_acked = 0;
        path.is_answered = false;
        path.highest_new = LongTsn::default();
    }
    let mut progress = Progress {
        advanced: cumulative >= first,
        forwarded: false,
        released: None,
    };
    while a.tx.outstanding.first() <= cumulative {
        // One alone, as of a request, is not worth the way.
        if a.tx.tracked.is_empty()
            && a.tx.outstanding.first() < cumulative
            && let Some(acked) = a.tx.outstanding.pop_in_flight(cumulative)
        {
            let path = &mut a.paths[usize::from(acked.path)];
            path.flight -= acked.octets;
            path.newly_acked += acked.octets;
            path.is_answered = true;
            path.highest_new = acked.last;
            progress.release(a.id, ep, acked.range);
            continue;
        }
        let tsn = a.tx.outstanding.first();
        let Some(chunk) = a.tx.outstanding.pop() else {
            break;
        };
        let path = &mut a.paths[usize::from(chunk.path)];
        let octets = chunk.octets() as u64;
        match chunk.status {
            ChunkStatus::InFlight => {
                path.flight -= octets;
                path.newly_acked += octets;
                path.is_answered |= !chunk.was_moved;
                path.highest_new = tsn;
            }
            ChunkStatus::Marked => {
                path.newly_acked += octets;
                path.is_answered |= !chunk.was_moved;
            }
            ChunkStatus::GapAcked => {}
            ChunkStatus::Abandoned => {
                progress.forwarded = true;
                continue;
            }
        }
        if chunk.is_end() && !a.tx.tracked.is_empty() {
            a.tx.forget_tracked(chunk.start);
        }
        progress.release(a.id, ep, chunk.range());
    }
    Ok((cumulative, progress))
}

/// Marks the chunks beyond gaps; whether the peer took back what it had reported before.
fn mark_gaps(a: &mut Association, cumulative: LongTsn, sack: &Sack<'_>) -> bool {
    let mut blocks = sack.gaps().peekable();
    let reported_before = a.tx.outstanding.highest_gap_acked;
    if blocks.peek().is_none() && reported_before <= cumulative {
        return false;
    }
    let (mut reneged, mut arrived_marked) = (false, Vec::new());
    let mut highest = LongTsn::default();
    let paths = &mut a.paths;
    for (tsn, chunk) in a.tx.outstanding.iter_mut() {
        let offset = tsn.since(cumulative);
        while blocks
            .next_if(|block| u64::from(*block.end()) < offset)
            .is_some()
        {}
        let block = blocks.peek();
        if block.is_none() && tsn > reported_before {
            break;
        }
        let is_reported = block.is_some_and(|block| u64::from(*block.start()) <= offset);
        let path = &mut paths[usize::from(chunk.path)];
        let octets = chunk.octets() as u64;
        match (is_reported, chunk.status) {
            (_, ChunkStatus::Abandoned) => {}
            (true, ChunkStatus::GapAcked) => highest = tsn,
            (true, status) => {
                path.newly_acked += octets;
                path.is_answered |= !chunk.was_moved;
                path.highest_new = path.highest_new.max(tsn);
                if let Some(timed) = &mut path.timed {
                    timed.is_acked |= timed.tsn == tsn;
                }
                highest = tsn;
                if status == ChunkStatus::InFlight {
                    path.flight -= octets;
                    chunk.status = ChunkStatus::GapAcked;
                } else {
                    arrived_marked.push(tsn);
                }
            }
            (false, ChunkStatus::GapAcked) => {
                chunk.status = ChunkStatus::InFlight;
                chunk.misses = 1;
                path.flight += octets;
                reneged = true;
            }
            (false, _) => {}
        }
    }
    for tsn in arrived_marked {
        a.tx.outstanding.unmark(tsn, ChunkStatus::GapAcked);
    }
    a.tx.outstanding.highest_gap_acked = highest;
    reneged
}

/// RTT samples, and what the acknowledged octets mean for each path's window.
fn grow_windows(a: &mut Association, ep: &mut EndpointState, now: Instant, advances: bool) {
    let all_acked = a.tx.outstanding.is_empty();
    let first = a.tx.outstanding.first();
    for index in 0..a.paths.len() {
        if a.paths[index].newly_acked == 0 {
            continue;
        }
        if a.paths[index].is_answered {
            path_management::activate(a, ep, index);
        }
        a.errors = 0;
        let path = &mut a.paths[index];
        path.is_in_use = true;
        path.after_timeout = false;
        path.delivered += path.newly_acked;
        let timed = path
            .timed
            .take_if(|timed| timed.is_acked || timed.tsn < first);
        let sample = timed.map(|timed| RttSample {
            rtt: now.since(timed.sent_at),
            packet: timed.packet,
        });
        if let Some(sample) = sample {
            path.sample(sample.rtt);
        }
        let ack = PathAck {
            acked: path.newly_acked,
            flight_before: path.flight_before,
            advances,
            in_recovery: a.tx.recovery.is_some(),
            all_acked,
        };
        let sample = AckSample {
            acked_bytes: path.newly_acked,
            delivered_bytes: path.delivered,
            sent_bytes: path.sent,
            inflight_bytes: path.flight,
            rtt: sample,
        };
        path.control.on_ack(now, &ack, &sample);
    }
}

/// Counts reports of gaps below the highest TSN newly acknowledged, or in fast recovery below the
/// highest reported if the cumulative TSN grew (RFC 9260 section 7.2.4).
fn count_misses(a: &mut Association, reported: LongTsn, progress: &Progress) {
    let paths = &a.paths;
    let counts_all = a.tx.recovery.is_some() && progress.advanced;
    // Chunks overtake each other on different paths: each has its own order.
    let limit_of = |path: usize| match counts_all {
        true if paths[path].newly_acked > 0 => reported,
        true if paths.len() == 1 => reported,
        true => LongTsn::default(),
        false => paths[path].highest_new,
    };
    let limit = (0..paths.len()).map(limit_of).max().unwrap_or_default();
    let (mut lost, mut doubted) = (Vec::new(), Vec::new());
    for (tsn, chunk) in a.tx.outstanding.iter_mut() {
        if tsn >= limit {
            break;
        }
        // Of a retransmission only the arrival of what left after it says something: one that is
        // lost again is sent again, as RFC 8985 does it for TCP, without a timeout.
        let is_beyond = chunk.sent_before > limit_of(usize::from(chunk.path));
        if is_beyond || chunk.status != ChunkStatus::InFlight {
            continue;
        }
        chunk.misses += 1;
        if chunk.misses >= MISSES_MAX {
            let octets = chunk.octets() as u64;
            lost.push((tsn, usize::from(chunk.path), octets));
            // Lost twice at least, while others arrive.
            if chunk.retransmissions > 0 {
                doubted.push(usize::from(chunk.path));
            }
        }
    }
    if lost.is_empty() {
        return;
    }
    doubted
        .into_iter()
        .for_each(|path| path_mtu::doubt(a, path));
    let starts_recovery = a.tx.recovery.is_none();
    for (index, (tsn, path, octets)) in lost.into_iter().enumerate() {
        a.tx.outstanding.mark(tsn);
        let path = &mut a.paths[path];
        path.flight -= octets;
        path.timed.take_if(|timed| timed.tsn == tsn);
        // One reduction an episode, whatever the number of its losses.
        path.control.on_loss(octets, starts_recovery && index == 0);
    }
    if starts_recovery {
        a.tx.recovery = Some(a.tx.outstanding.next());
        a.tx.fast_retransmit = true;
    }
}

/// Timers, the end of fast recovery, bytes the store may forget, and the way to the end.
fn finish(a: &mut Association, ep: &mut EndpointState, now: Instant, progress: &Progress) {
    let first = a.tx.outstanding.first();
    if a.tx.recovery.is_some_and(|recover| first >= recover) {
        a.tx.recovery = None;
    }
    for path in 0..a.paths.len() {
        if a.paths[path].flight == 0 {
            ep.cancel_timer(a.id, Timer::Retransmission(path as u8));
        } else if progress.advanced && a.paths[path].newly_acked > 0 {
            retransmission::restart_timer(a, ep, now, path);
        }
    }
    if let Some((start, end)) = progress.released {
        ep.events.push_back(Event::Released(a.id, start..end));
    }
    if progress.forwarded {
        // It answers, though none of what was in flight arrived.
        a.errors = 0;
        let path = a.data_path();
        a.paths[path].errors = 0;
    }
    if progress.forwarded || a.extensions.partial_reliability {
        abandon::after_sack(a, ep, now);
    }
    if progress.advanced && a.tx.reports_dry && a.tx.is_empty() {
        ep.notify(Notice::SenderDry { association: a.id });
    }
    shutdown::progress(a, ep, now);
}
