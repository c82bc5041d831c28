//! Path MTU discovery: probes of the longest packet of each path (RFC 8899 sections 5 and 6.3). A probe is
//! a HEARTBEAT with a nonce of its own and PAD; its loss is neither an error of the path nor a sign of
//! congestion.

use crate::association::{Association, State, Timer};
use crate::config::SctpConfig;
use crate::endpoint::Sctp;
use crate::endpoint_state::{EndpointState, chunk_checksum};
use crate::path::{PathState, PathStatus};
use crate::path_mtu::ProbeLoss;
use crate::pdu::chunk::{CHUNK_HEADER_LEN, push_pad};
use crate::pdu::{COMMON_HEADER_LEN, CommonHeader};
use crate::procedure::{heartbeat, path_management, retransmission};
use core::time::Duration;
use engine::{Batch, Fragmentation, Instant, Integrity, PathFault};

/// The time after which a search that found less than the longest begins anew (PMTU_RAISE_TIMER, RFC
/// 8899 section 5.1.1).
const RAISE_INTERVAL: Duration = Duration::from_secs(600);

impl Association {
    /// Octets of a full packet: what all paths carry that data may take, as chunks once cut may leave by
    /// any of them (RFC 9260 section 7.3).
    pub(crate) fn packet_len(&self) -> usize {
        if let [only] = &self.paths[..] {
            return only.mtu.len();
        }
        let counts = |path: &&PathState| {
            !path.is_removed && path.status != PathStatus::Unconfirmed && path.mtu.is_known()
        };
        let known = self.paths.iter().filter(counts);
        let least = known.map(|path| path.mtu.len()).min();
        least.unwrap_or_else(|| self.paths[self.data_path()].mtu.len())
    }

    /// Octets of chunks in a full packet (PMDCS): a multiple of four.
    pub(crate) fn pmdcs(&self) -> usize {
        (self.packet_len() - COMMON_HEADER_LEN) & !3
    }

    /// Octets of the chunk that is to be sent again next. One that was cut when packets could be longer
    /// leaves alone, as its TSN stands for all of it (RFC 9260 section 7.3).
    pub(crate) fn next_marked_len(&mut self) -> Option<usize> {
        let outstanding = &mut self.tx.outstanding;
        let tsn = outstanding.next_marked()?;
        Some(outstanding.get(tsn)?.octets())
    }

    /// Whether a COOKIE-ECHO goes without data: a path that is narrower than the base length would never
    /// carry both, and nothing of it can be asked yet.
    pub(crate) fn cookie_leaves_alone(&self, config: &SctpConfig) -> bool {
        let was_lost = matches!(self.state, State::CookieEchoed { attempts: 3.., .. });
        was_lost && config.probes_path_mtu
    }
}

/// An association begins: what its paths carry is asked of those that are confirmed.
pub(crate) fn begin(a: &mut Association) {
    for path in a.paths.iter_mut() {
        if path.status == PathStatus::Active {
            path.mtu.begin();
        }
    }
}

/// The path that is to be asked now.
pub(crate) fn due_path(a: &Association) -> Option<usize> {
    let may_ask = |path: &PathState| a.fills_packets || path.mtu.is_in_doubt();
    let is_due = |path: &PathState| {
        let probe = path.mtu.probe();
        probe.is_some_and(|probe| probe.is_due || probe.is_short_due) && may_ask(path)
    };
    let carries = |path: &PathState| !path.is_removed && path.status != PathStatus::Unconfirmed;
    (a.paths.iter()).position(|path| is_due(path) && carries(path))
}

/// Puts a probe into `batch` if one is due; whether it did.
pub(crate) fn transmit(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    batch: &mut Batch,
) -> bool {
    // What never fills a packet has no use for a longer one: short associations are not probed at all.
    let unsent = a.tx.messages.unsent();
    a.fills_packets |= unsent >= a.pmdcs() as u64;
    let headers = COMMON_HEADER_LEN + a.tx.messages.rules().header_len;
    for path in &mut a.paths {
        path.mtu.want(unsent + headers as u64);
    }
    let Some(index) = due_path(a).filter(|_| a.may_send_data()) else {
        return false;
    };
    let path = &a.paths[index];
    let Some(probe) = path.mtu.probe().copied() else {
        return false;
    };
    batch.set_path(path.path, Some(a.id));
    if !probe.is_due {
        // Alone: with data it would be as long as the others.
        let chunks = a.authenticated(heartbeat::chunk(probe.nonce | 1, index));
        push_packet(a, ep, &chunks, batch);
        a.paths[index].mtu.note_short_sent();
        return true;
    }
    let nonce = ep.nonce() & !1;
    let chunks = padded(a, heartbeat::chunk(nonce, index), probe.len as usize);
    batch.set_fragmentation(Fragmentation::Refused);
    push_packet(a, ep, &chunks, batch);
    a.paths[index].mtu.note_sent(now, nonce);
    let at = now + a.rto(index);
    ep.set_timer(a.id, Timer::PathMtu(index as u8), at);
    true
}

/// Adds a packet of `chunks` to `batch`.
fn push_packet(a: &Association, ep: &mut EndpointState, chunks: &[u8], batch: &mut Batch) {
    let packet = batch.begin().own(&a.header().emit()).join_own(chunks);
    packet.end(match a.zero_checksum {
        true => Integrity::None,
        false => Integrity::Crc32c {
            at: chunk_checksum(),
        },
    });
    ep.counters.packets_built += 1;
}

/// `chunks` with PAD behind them and an AUTH in front if the peer wants one: a packet of `len` octets with
/// the common header.
fn padded(a: &Association, mut chunks: Vec<u8>, len: usize) -> Vec<u8> {
    let at = chunks.len();
    push_pad(&mut chunks, CHUNK_HEADER_LEN);
    let auth = a.auth.as_ref().filter(|auth| auth.covers(&chunks));
    let auth_len = auth.map_or(0, |auth| auth.len());
    chunks.truncate(at);
    let padding = len.saturating_sub(COMMON_HEADER_LEN + auth_len + at);
    push_pad(&mut chunks, padding.max(CHUNK_HEADER_LEN));
    a.authenticated(chunks)
}

/// A HEARTBEAT was answered: whether it was a probe, or one that accompanied it.
pub(crate) fn handle_answer(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    nonce: u64,
) -> bool {
    for index in 0..a.paths.len() {
        let state = &mut a.paths[index];
        let sent_at = state.mtu.probe().map(|probe| probe.sent_at);
        let rtt = sent_at.map_or(Duration::ZERO, |at| now.since(at));
        if state.mtu.handle_answer(nonce) {
            state.sample(rtt);
            apply(a, ep, now, index);
            return true;
        }
        if state.mtu.handle_short_answer(nonce) {
            state.sample(rtt);
            // It answers: only its long packets are in doubt.
            path_management::activate(a, ep, index);
            a.errors = 0;
            return true;
        }
    }
    false
}

/// A probe was not answered in time, or the search is to begin anew.
pub(crate) fn handle_timeout(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    index: usize,
) {
    if !a.may_send_data() || a.paths[index].is_removed {
        return;
    }
    if a.paths[index].mtu.probe().is_none() {
        return a.paths[index].mtu.raise();
    }
    match a.paths[index].mtu.handle_loss() {
        ProbeLoss::Repeat => {}
        ProbeLoss::TooLong => apply(a, ep, now, index),
        ProbeLoss::BlackHole => {
            apply(a, ep, now, index);
            // All of it was too long, and its timer has been doubled for nothing.
            retransmission::mark_lost(a, index);
            a.paths[index].after_timeout = true;
        }
    }
}

/// Full packets of a path are lost: whether it still carries them is asked.
pub(crate) fn doubt(a: &mut Association, index: usize) {
    a.paths[index].mtu.doubt();
}

/// A packet was too big for a path: by the host itself, or by a report that quotes one. It counts only if it
/// quotes the peer's tag, and even then it only raises a question (RFC 8899 section 4.6.1, RFC 9260
/// section 10).
pub(crate) fn handle_too_big(sctp: &mut Sctp, fault: &PathFault<'_>, octets: usize) {
    let quoted = CommonHeader::parse(fault.quoted);
    if quoted.is_none() && !fault.quoted.is_empty() {
        return;
    }
    for a in sctp.associations.values_mut() {
        let is_ours = |quoted: &CommonHeader| {
            (quoted.tag, quoted.source, quoted.destination)
                == (a.peer_tag, a.local_port, a.peer_port)
        };
        let is_named = quoted.as_ref().is_none_or(is_ours);
        let is_path = |known: &PathState| known.path == fault.path && !known.is_removed;
        if let Some(index) = a.paths.iter().position(is_path).filter(|_| is_named) {
            suggest(a, index, octets);
            sctp.shared.mark_ready(a.id);
        }
    }
}

/// The host knows or heard what a path carries; anybody can forge that, so it is asked.
pub(crate) fn suggest(a: &mut Association, index: usize, octets: usize) {
    a.paths[index].mtu.suggest(octets);
}

/// The search went a step on.
fn apply(a: &mut Association, ep: &mut EndpointState, now: Instant, index: usize) {
    let state = &mut a.paths[index];
    let pmdcs = (state.mtu.len() - COMMON_HEADER_LEN) & !3;
    state.control.set_pmdcs(pmdcs as u64);
    let timer = Timer::PathMtu(index as u8);
    if state.mtu.may_rise() {
        ep.set_timer(a.id, timer, now + RAISE_INTERVAL);
    } else if state.mtu.probe().is_none() {
        ep.cancel_timer(a.id, timer);
    }
}
