//! COOKIE-ECHO: the peer returns what was remembered of its INIT (RFC 9260 sections 5.1.5 and 5.2.4).

use crate::association::{Association, Negotiated, State};
use crate::discard::DiscardReason;
use crate::endpoint::Sctp;
use crate::endpoint_state::EndpointState;
use crate::notice::Notice;
use crate::numbers::Tag;
use crate::path::PathStatus;
use crate::pdu::cause::{Cause, CauseCode};
use crate::pdu::chunk::push_chunk;
use crate::pdu::{Chunk, ChunkType, CommonHeader, Cookie};
use crate::procedure::association_setup::{self, PeerInit};
use crate::procedure::{authentication, heartbeat, out_of_the_blue, shutdown};
use core::time::Duration;
use engine::{AssociationId, CloseReason, Instant, Path, Received};

/// What a cookie means for an association that exists: the table of RFC 9260 section 5.2.4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A: the peer restarted.
    Restart,
    /// B: both ends opened at the same time.
    Collision,
    /// D: the cookie was returned twice, or its COOKIE-ACK lost.
    Duplicate,
    /// C, or no row of the table.
    Drop,
}

fn action(a: &Association, cookie: &Cookie) -> Action {
    let local = cookie.local_tag == a.local_tag;
    let peer = cookie.peer_tag == a.peer_tag;
    let tie = cookie.tie_tags == (a.local_tag, a.peer_tag);
    let opening = matches!(
        a.state,
        State::CookieWait { .. } | State::CookieEchoed { .. }
    );
    match (local, peer) {
        (true, true) => Action::Duplicate,
        (true, false) if opening => Action::Collision,
        (false, false) if tie => Action::Restart,
        _ => Action::Drop,
    }
}

/// The association that the cookie opens or belongs to. `auth` is the AUTH in front of it.
pub(crate) fn handle_cookie_echo(
    sctp: &mut Sctp,
    now: Instant,
    (header, received): (&CommonHeader, Received<'_>),
    (auth, chunk): (Option<&Chunk<'_>>, &Chunk<'_>),
) -> Result<AssociationId, DiscardReason> {
    let path = received.path;
    if !out_of_the_blue::is_unicast(path) {
        return Err(DiscardReason::OutOfTheBlue);
    }
    let cookie = Cookie::open(chunk.value, &sctp.shared.cookie_keys, now);
    let cookie = cookie.ok_or(DiscardReason::Cookie)?;
    let ports = (header.destination, header.source);
    if header.tag != cookie.local_tag || ports != cookie.ports {
        return Err(DiscardReason::Tag);
    }
    check_auth(&sctp.shared, &cookie, auth, received.octets)?;
    let key = (cookie.path.remote, header.source, header.destination);
    let known = sctp.shared.by_peer.get(&key).copied();
    let known = known.and_then(|id| sctp.associations.get(&id));
    let action = known.map(|a| (a.id, action(a, &cookie)));
    let late = now.since(cookie.created_at + Duration::from_millis(u64::from(cookie.life_ms)));
    let is_duplicate = action.is_some_and(|(_, action)| action == Action::Duplicate);
    if !late.is_zero() && !is_duplicate {
        report_stale(sctp, header, path, &cookie, late);
        return Err(DiscardReason::Cookie);
    }
    match action {
        None => accept(sctp, now, header, path, &cookie),
        Some((_, Action::Drop)) => Err(DiscardReason::Tag),
        Some((id, Action::Duplicate)) => {
            confirm(sctp, now, (id, path), None);
            Ok(id)
        }
        Some((id, Action::Collision)) => {
            confirm(sctp, now, (id, path), Some(&cookie));
            Ok(id)
        }
        Some((id, Action::Restart)) => {
            restart(sctp, id)?;
            let new = accept(sctp, now, header, path, &cookie)?;
            sctp.shared.notify(Notice::Restarted { old: id, new });
            Ok(new)
        }
    }
}

/// Checks the AUTH in front of a COOKIE-ECHO with what the cookie says of it. No association holds that
/// yet (RFC 4895 section 6.3).
fn check_auth(
    ep: &EndpointState,
    cookie: &Cookie,
    auth: Option<&Chunk<'_>>,
    packet: &[u8],
) -> Result<(), DiscardReason> {
    let state = association_setup::auth_state(ep, cookie.local_tag, cookie.auth.as_ref());
    let is_right = match (state, auth) {
        (Some(state), Some(chunk)) => authentication::check(&state, chunk, packet).is_ok(),
        (Some(state), None) => !state.requires(ChunkType::COOKIE_ECHO),
        (None, auth) => auth.is_none(),
    };
    is_right.then_some(()).ok_or(DiscardReason::Authentication)
}

/// Tells the peer how late its cookie came.
fn report_stale(
    sctp: &mut Sctp,
    header: &CommonHeader,
    path: Path,
    cookie: &Cookie,
    late: Duration,
) {
    let staleness = u32::try_from(late.as_micros()).unwrap_or(u32::MAX);
    let (mut cause, mut chunks) = (Vec::new(), Vec::new());
    Cause {
        code: CauseCode::STALE_COOKIE,
        value: &staleness.to_be_bytes(),
    }
    .push(&mut cause);
    push_chunk(&mut chunks, ChunkType::ERROR, 0, &cause);
    let answer = header.reversed(cookie.peer_tag);
    sctp.shared.reply(path, answer, &chunks);
}

fn peer_of(cookie: &Cookie) -> PeerInit {
    PeerInit {
        tag: cookie.peer_tag,
        initial_tsn: cookie.peer_tsn,
        rwnd: cookie.peer_rwnd,
        streams: cookie.streams,
        zero_checksum: cookie.zero_checksum,
        extensions: Negotiated {
            partial_reliability: cookie.forward_tsn,
            interleave: cookie.interleave,
            reconfigure: cookie.reconfigure,
            dynamic_addresses: cookie.dynamic_addresses,
        },
        auth: cookie.auth.clone(),
        adaptation: cookie.adaptation,
    }
}

/// Opens the association of a cookie.
fn accept(
    sctp: &mut Sctp,
    now: Instant,
    header: &CommonHeader,
    path: Path,
    cookie: &Cookie,
) -> Result<AssociationId, DiscardReason> {
    let ep = &mut sctp.shared;
    let is_taken = ep.by_tag.contains_key(&cookie.local_tag);
    if !ep.is_listening || is_taken || cookie.local_tag == Tag::NONE {
        return Err(DiscardReason::OutOfTheBlue);
    }
    let local = (cookie.local_tag, cookie.local_tsn);
    let mut association = Association::new(now, &ep.config, &[cookie.path], cookie.ports, local);
    association.addresses.excluded = ep.address_changes.unknown_since(cookie.created_at);
    association_setup::take_peer(&mut association, ep, &peer_of(cookie));
    association.set_peer_addresses(&ep.config, now, &cookie.addresses);
    let Ok(id) = sctp.add(association) else {
        let (mut cause, mut chunks) = (Vec::new(), Vec::new());
        Cause::plain(CauseCode::OUT_OF_RESOURCE).push(&mut cause);
        push_chunk(&mut chunks, ChunkType::ABORT, 0, &cause);
        let answer = header.reversed(cookie.peer_tag);
        sctp.shared.reply(path, answer, &chunks);
        return Err(DiscardReason::Full);
    };
    confirm(sctp, now, (id, path), None);
    Ok(id)
}

/// Answers with a COOKIE-ACK where the cookie came from; an association that was being opened is open
/// now. `cookie` in a collision, whose numbers of the peer are the right ones.
fn confirm(
    sctp: &mut Sctp,
    now: Instant,
    (id, from): (AssociationId, Path),
    cookie: Option<&Cookie>,
) {
    let Some(a) = sctp.associations.get_mut(&id) else {
        return;
    };
    let ep = &mut sctp.shared;
    if let Some(cookie) = cookie {
        a.addresses.excluded = ep.address_changes.unknown_since(cookie.created_at);
        association_setup::take_peer(a, ep, &peer_of(cookie));
        ep.unindex_paths(a);
        a.set_peer_addresses(&ep.config, now, &cookie.addresses);
        ep.index_paths(a);
    }
    if matches!(
        a.state,
        State::CookieWait { .. } | State::CookieEchoed { .. }
    ) {
        association_setup::establish(a, ep, now);
    }
    let mut chunk = Vec::new();
    push_chunk(&mut chunk, ChunkType::COOKIE_ACK, 0, &[]);
    let path = a.path_index(from);
    a.queue_control(path, chunk);
    if a.paths[path].status == PathStatus::Unconfirmed {
        heartbeat::probe(a, ep, now, path);
    }
    ep.mark_ready(id);
}

/// The peer restarted: the association that it forgot ends, and its user learns that. While it is
/// being shut down the peer has to wait for that (RFC 9260 section 5.2.4, A).
fn restart(sctp: &mut Sctp, id: AssociationId) -> Result<(), DiscardReason> {
    let Some(a) = sctp.associations.get_mut(&id) else {
        return Ok(());
    };
    if let State::ShutdownAckSent { .. } = a.state {
        let (mut cause, mut chunk) = (Vec::new(), Vec::new());
        Cause::plain(CauseCode::COOKIE_WHILE_SHUTTING_DOWN).push(&mut cause);
        push_chunk(&mut chunk, ChunkType::ERROR, 0, &cause);
        shutdown::repeat_ack(a);
        a.queue_control(a.data_path(), chunk);
        sctp.shared.mark_ready(id);
        return Err(DiscardReason::State);
    }
    a.state = State::Gone(CloseReason::Aborted);
    sctp.remove_if_gone(id);
    Ok(())
}
