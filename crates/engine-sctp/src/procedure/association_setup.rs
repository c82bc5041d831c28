//! Opening an association, the side that asks: INIT, COOKIE-ECHO, and their repeats (RFC 9260 section
//! 5.1).

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint::Sctp;
use crate::endpoint_state::EndpointState;
use crate::numbers::{Tag, Tsn};
use crate::path::PathState;
use crate::pdu::chunk::CHUNK_HEADER_LEN;
use crate::pdu::{
    COMMON_HEADER_LEN, ChunkType, CommonHeader, Extensions, Init, InitParameters, u32_at,
};
use crate::procedure::{heartbeat, shutdown};
use crate::rx::ReceiveState;
use crate::tx::MessageRules;
use engine::{
    Address, AssociationId, CloseReason, CommandError, Event, Framing, Instant, PathFault,
};

/// The error detection method that stands for a checksum of zero (RFC 9653 section 3). The registered
/// one is DTLS, 1; this is a number of our own, so that only ends of this project, whose users asked
/// for it, leave the checksum out.
const ZERO_CHECKSUM_METHOD: u32 = 0x746f_7770;

/// Peers that asked twice for a longer life of a cookie get no third INIT.
pub(super) const STALE_COOKIES_MAX: u32 = 2;

pub(crate) fn do_connect(
    sctp: &mut Sctp,
    now: Instant,
    to: &[Address],
) -> Result<AssociationId, CommandError> {
    let paths = sctp.shared.config.local_addresses.paths_to(to);
    let Some(first) = paths.first() else {
        return Err(CommandError::Unsupported);
    };
    if sctp.associations.len() >= sctp.shared.config.associations_max {
        return Err(CommandError::TooManyAssociations);
    }
    let ep = &mut sctp.shared;
    let port = ep.free_port(first.remote);
    let port = port.ok_or(CommandError::TooManyAssociations)?;
    let ports = (port, ep.config.peer_port);
    let local = (ep.new_tag(), ep.new_tsn());
    let mut association = Association::new(now, &ep.config, &paths, ports, local);
    association.opened_here = true;
    let id = sctp.add(association)?;
    if let Some(a) = sctp.associations.get_mut(&id) {
        send_init(a, &mut sctp.shared, now, 0);
    }
    Ok(id)
}

/// What this end says of itself in an INIT or INIT-ACK.
pub(crate) fn own_init(ep: &EndpointState, to: Address, tag: Tag, initial_tsn: Tsn) -> Init {
    let config = &ep.config;
    Init {
        tag,
        rwnd: u32::try_from(config.receive_buffer).unwrap_or(u32::MAX),
        outbound_streams: config.outbound_streams,
        inbound_streams: config.inbound_streams,
        initial_tsn,
        parameters: InitParameters {
            addresses: config.local_addresses.listed(to),
            extensions: Extensions {
                forward_tsn: false,
                zero_checksum: (!config.checksum).then_some(ZERO_CHECKSUM_METHOD),
            },
            ..InitParameters::default()
        },
    }
}

/// Whether both ends leave the checksum out.
pub(crate) fn agrees_on_zero(ep: &EndpointState, peer: &Extensions) -> bool {
    !ep.config.checksum && peer.zero_checksum == Some(ZERO_CHECKSUM_METHOD)
}

/// Sends an INIT; `stale_ms` is how late the last cookie came.
fn send_init(a: &mut Association, ep: &mut EndpointState, now: Instant, stale_ms: u32) {
    let to = a.paths[a.primary].path.remote;
    let mut init = own_init(ep, to, a.local_tag, a.initial_tsn);
    init.parameters.preservative_ms = stale_ms;
    let mut chunks = Vec::new();
    init.push(&mut chunks, ChunkType::INIT);
    let header = CommonHeader {
        tag: Tag::NONE,
        ..a.header()
    };
    a.paths[a.primary].last_sent_at = now;
    ep.send_for(Some(a.id), a.paths[a.primary].path, header, &chunks);
    let at = now + a.rto(&ep.config, a.primary);
    ep.set_timer(a.id, Timer::Handshake, at);
}

/// Sends the COOKIE-ECHO that the state holds.
pub(super) fn send_cookie_echo(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let header = a.header();
    if let State::CookieEchoed {
        chunks, sent_at, ..
    } = &mut a.state
    {
        *sent_at = now;
        ep.send_for(Some(a.id), a.paths[a.primary].path, header, chunks);
    }
    let at = now + a.rto(&ep.config, a.primary);
    ep.set_timer(a.id, Timer::Handshake, at);
}

/// T1-init or T1-cookie expired.
pub(crate) fn handle_timeout(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let retries_max = ep.config.init_retries;
    let (State::CookieWait { attempts, .. } | State::CookieEchoed { attempts, .. }) = &mut a.state
    else {
        return;
    };
    *attempts += 1;
    if *attempts > retries_max + 1 {
        a.state = State::Gone(CloseReason::TimedOut);
        return;
    }
    let primary = a.primary;
    a.paths[primary].back_off();
    a.primary = a.next_handshake_path();
    ep.counters.retransmissions += 1;
    match a.state {
        State::CookieWait { .. } => send_init(a, ep, now, 0),
        _ => send_cookie_echo(a, ep, now),
    }
}

/// The peer says that its cookie was `stale_us` microseconds too old: a new one is asked for, which
/// is to live that much longer and a round trip (RFC 9260 section 5.2.6).
pub(super) fn handle_stale_cookie(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    stale_us: u32,
) {
    let State::CookieEchoed { stale, .. } = a.state else {
        return;
    };
    if stale >= STALE_COOKIES_MAX {
        a.state = State::Gone(CloseReason::Refused);
        return;
    }
    a.state = State::CookieWait {
        attempts: 1,
        stale: stale + 1,
    };
    let srtt_ms = a.paths[a.primary].srtt().as_millis() as u32;
    // At most a second more than was measured.
    let more_ms = srtt_ms.saturating_add((stale_us / 1000).min(1000));
    send_init(a, ep, now, more_ms.max(1));
}

pub(crate) fn handle_cookie_ack(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
) -> Result<(), DiscardReason> {
    let State::CookieEchoed {
        attempts, sent_at, ..
    } = a.state
    else {
        return Err(DiscardReason::State);
    };
    if attempts == 1 {
        let primary = a.primary;
        a.paths[primary].sample(now.since(sent_at));
    }
    establish(a, ep, now);
    Ok(())
}

/// What the peer said of itself: its tag, window, streams and extensions.
pub(crate) struct PeerInit {
    pub(crate) tag: Tag,
    pub(crate) initial_tsn: Tsn,
    pub(crate) rwnd: u32,
    /// Streams to send on, and to accept.
    pub(crate) streams: (u16, u16),
    pub(crate) zero_checksum: bool,
}

/// Takes over what the peer said of itself.
pub(crate) fn take_peer(a: &mut Association, ep: &EndpointState, peer: &PeerInit) {
    let config = &ep.config;
    a.peer_tag = peer.tag;
    a.rx = ReceiveState::new(peer.initial_tsn, peer.streams.1, config.receive_buffer);
    a.tx.rwnd = u64::from(peer.rwnd);
    a.tx.messages.rules = MessageRules {
        streams: peer.streams.0,
        spread: config.spread,
        unordered: config.unordered,
        endless: config.framing == Framing::Stream,
    };
    a.zero_checksum = peer.zero_checksum;
}

/// Nobody is at the address of an INIT, as a report says that quotes it: the next address is asked.
/// Without one the association ends, and its identifier is returned.
pub(crate) fn handle_refused(
    sctp: &mut Sctp,
    now: Instant,
    fault: &PathFault<'_>,
) -> Option<AssociationId> {
    let is_init = fault.quoted.get(COMMON_HEADER_LEN) == Some(&ChunkType::INIT.0);
    let tag = u32_at(fault.quoted, COMMON_HEADER_LEN + CHUNK_HEADER_LEN).filter(|_| is_init)?;
    let id = *sctp.shared.by_tag.get(&Tag(tag))?;
    let a = sctp.associations.get_mut(&id)?;
    if !matches!(a.state, State::CookieWait { .. }) {
        return None;
    }
    let ep = &mut sctp.shared;
    let refuses = |known: &PathState| known.path.remote == fault.path.remote;
    if a.paths.iter().all(refuses) {
        a.state = State::Gone(CloseReason::Refused);
        return Some(id);
    }
    let asked = a.paths[a.primary].path;
    ep.unindex_paths(a);
    a.paths.retain(|known| !refuses(known));
    ep.index_paths(a);
    let by_asked = |known: &PathState| known.path == asked;
    let still_asked = a.paths.iter().position(by_asked);
    a.primary = still_asked.unwrap_or(0);
    if still_asked.is_none() {
        send_init(a, ep, now, 0);
    }
    None
}

/// The association can carry data.
pub(crate) fn establish(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    ep.cancel_timer(a.id, Timer::Handshake);
    a.state = State::Established;
    a.errors = 0;
    let event = match a.opened_here {
        true => Event::Connected(a.id),
        false => Event::Accepted(a.id, a.paths[a.primary].path.remote),
    };
    ep.events.push_back(event);
    heartbeat::begin(a, ep, now);
    if a.wants_shutdown {
        shutdown::do_shutdown(a, ep, now);
    }
}
