//! Opening an association, the side that asks: INIT, COOKIE-ECHO, and their repeats (RFC 9260 section
//! 5.1).

use crate::association::{Association, Negotiated, State, Timer};
use crate::auth::AuthState;
use crate::discard::DiscardReason;
use crate::dynamic_addresses::AddressState;
use crate::endpoint::Sctp;
use crate::endpoint_state::EndpointState;
use crate::notice::Notice;
use crate::numbers::{Tag, Tsn};
use crate::path::PathState;
use crate::pdu::chunk::CHUNK_HEADER_LEN;
use crate::pdu::{
    AuthOffer, COMMON_HEADER_LEN, ChunkType, CommonHeader, DATA_HEADER_LEN, Extensions,
    I_DATA_HEADER_LEN, Init, InitParameters, u32_at,
};
use crate::procedure::{asconf, heartbeat, reconfiguration, retransmission, shutdown};
use crate::reconfig::ReconfigState;
use crate::rx::{ReceiveState, Streams};
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
    let lost = sctp.shared.address_changes.lost.clone();
    let paths = sctp.shared.config.local_addresses.paths_to(to, &lost);
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
    association.addresses.excluded = lost;
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
            addresses: config.local_addresses.listed(to, &ep.address_changes.lost),
            extensions: Extensions {
                forward_tsn: config.has_partial_reliability(),
                interleave: config.has_interleave(),
                i_forward_tsn: config.has_interleave() && config.has_partial_reliability(),
                reconfigure: config.reconfigure,
                authentication: config.authentication.is_some(),
                dynamic_addresses: config.has_dynamic_addresses(),
                zero_checksum: (!config.checksum).then_some(ZERO_CHECKSUM_METHOD),
            },
            auth: own_auth_offer(ep, tag),
            adaptation: config.adaptation,
            ..InitParameters::default()
        },
    }
}

/// What this end offers of authentication in an association with the tag `tag`.
fn own_auth_offer(ep: &EndpointState, tag: Tag) -> Option<AuthOffer> {
    let config = &ep.config;
    let authentication = config.authentication.as_ref()?;
    let secret = (&config.secret, config.seed);
    Some(authentication.offer(secret, tag, config.has_dynamic_addresses()))
}

/// The authentication of an association with the own tag `tag`; None unless both ends offer it.
pub(crate) fn auth_state(
    ep: &EndpointState,
    tag: Tag,
    peer: Option<&AuthOffer>,
) -> Option<AuthState> {
    let config = ep.config.authentication.as_ref()?;
    AuthState::new(config, own_auth_offer(ep, tag)?, peer?.clone())
}

/// Whether both ends leave the checksum out.
pub(crate) fn agrees_on_zero(ep: &EndpointState, peer: &Extensions) -> bool {
    !ep.config.checksum && peer.zero_checksum == Some(ZERO_CHECKSUM_METHOD)
}

/// The extensions that both ends support. Messages in I-DATA are given up with I-FORWARD-TSN, and
/// those in DATA with FORWARD-TSN: a peer that lacks the right one gets every message (RFC 8260 section
/// 2.3.1).
///
/// Addresses come and go only authenticated: both ends list ASCONF and its answer among the chunks that
/// they take behind an AUTH alone (RFC 5061 section 4.2.7).
pub(crate) fn negotiated_extensions(ep: &EndpointState, parameters: &InitParameters) -> Negotiated {
    let (config, peer) = (&ep.config, &parameters.extensions);
    let offer = parameters.auth.as_ref();
    let authenticates = offer.is_some_and(|offer| {
        let lists = |kind| offer.chunks().any(|listed| listed == kind);
        lists(ChunkType::ASCONF) && lists(ChunkType::ASCONF_ACK)
    });
    let interleave = config.has_interleave() && peer.interleave;
    let forwards = match interleave {
        true => peer.i_forward_tsn,
        false => peer.forward_tsn,
    };
    Negotiated {
        partial_reliability: config.has_partial_reliability() && forwards,
        interleave,
        reconfigure: config.reconfigure && peer.reconfigure,
        dynamic_addresses: config.has_dynamic_addresses()
            && peer.dynamic_addresses
            && authenticates,
    }
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
    let at = now + a.rto(a.primary);
    ep.set_timer(a.id, Timer::Handshake, at);
}

/// The peer has answered: the COOKIE-ECHO leaves, at once or with the first message.
pub(super) fn begin_cookie_echo(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if !ep.config.connects_early || !a.tx.is_empty() || a.wants_shutdown {
        return send_first_cookie_echo(a, ep, now);
    }
    tell_connected(a, ep);
    let at = now + ep.config.coalesce_delay;
    ep.set_timer(a.id, Timer::Handshake, at);
}

/// Sends the COOKIE-ECHO if it waits for a message.
pub(super) fn send_first_cookie_echo(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if let State::CookieEchoed { attempts, .. } = &mut a.state
        && *attempts == 0
    {
        *attempts = 1;
        send_cookie_echo(a, ep, now);
    }
}

/// Tells the user once that the association that it opened can carry data.
fn tell_connected(a: &mut Association, ep: &mut EndpointState) {
    if !core::mem::replace(&mut a.is_connected, true) {
        ep.events.push_back(Event::Connected(a.id));
    }
}

/// Sends the COOKIE-ECHO that the state holds, and data behind it if some wait: no other packet leaves
/// before the COOKIE-ACK (RFC 9260 section 5.1, C). Data that went with an earlier one go again.
pub(super) fn send_cookie_echo(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let State::CookieEchoed {
        chunks, sent_at, ..
    } = &mut a.state
    else {
        return;
    };
    *sent_at = now;
    let chunks = chunks.clone();
    a.control.clear();
    a.queue_control(a.primary, chunks);
    for path in 0..a.paths.len() {
        retransmission::mark_lost(a, path);
    }
    ep.mark_ready(a.id);
    let at = now + a.rto(a.primary);
    ep.set_timer(a.id, Timer::Handshake, at);
}

/// T1-init or T1-cookie expired, or no message came that the COOKIE-ECHO waited for.
pub(crate) fn handle_timeout(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if let State::CookieEchoed { attempts: 0, .. } = a.state {
        return send_first_cookie_echo(a, ep, now);
    }
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
    pub(crate) extensions: Negotiated,
    pub(crate) auth: Option<AuthOffer>,
    pub(crate) adaptation: Option<u32>,
}

/// Takes over what the peer said of itself.
pub(crate) fn take_peer(a: &mut Association, ep: &EndpointState, peer: &PeerInit) {
    let config = &ep.config;
    a.peer_tag = peer.tag;
    a.extensions = peer.extensions;
    a.auth = auth_state(ep, a.local_tag, peer.auth.as_ref()).map(Box::new);
    a.extensions.dynamic_addresses &= a.auth.is_some();
    a.adaptation = peer.adaptation;
    let streams = Streams::new(peer.streams.1, peer.extensions.interleave);
    a.rx = ReceiveState::new(peer.initial_tsn, streams, config.receive_buffer);
    a.reconfig = ReconfigState::new(a.initial_tsn, peer.initial_tsn);
    let excluded = core::mem::take(&mut a.addresses.excluded);
    a.addresses = AddressState::new(a.initial_tsn, peer.initial_tsn);
    a.addresses.excluded = excluded;
    let flight: u64 = a.paths.iter().map(|path| path.flight).sum();
    a.tx.rwnd = u64::from(peer.rwnd).saturating_sub(flight);
    a.tx.messages.set_rules(MessageRules {
        streams: peer.streams.0,
        spread: config.spread,
        unordered: config.unordered,
        endless: config.framing == Framing::Stream,
        partial_reliability: peer.extensions.partial_reliability,
        interleave: peer.extensions.interleave,
        header_len: match peer.extensions.interleave {
            true => I_DATA_HEADER_LEN,
            false => DATA_HEADER_LEN,
        },
    });
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
    if a.opened_here {
        tell_connected(a, ep);
    } else {
        let peer = a.paths[a.primary].path.remote;
        ep.events.push_back(Event::Accepted(a.id, peer));
    }
    if let Some(value) = a.adaptation {
        let association = a.id;
        ep.notify(Notice::Adaptation { association, value });
    }
    if ep.config.authentication.is_some() && a.auth.is_none() {
        ep.notify(Notice::NoAuthentication { association: a.id });
    }
    for path in 0..a.paths.len() {
        // Data that went with the COOKIE-ECHO.
        if a.paths[path].flight > 0 {
            retransmission::start_timer(a, ep, now, path);
        }
    }
    heartbeat::begin(a, ep, now);
    reconfiguration::start_interval(a, ep, now);
    asconf::begin(a, ep, now);
    if a.wants_shutdown {
        shutdown::do_shutdown(a, ep, now);
    }
}

/// Whether a chunk comes from an end that is open; one in COOKIE-ECHOED sends and answers heartbeats too.
pub(crate) fn proves_open(kind: ChunkType) -> bool {
    matches!(
        kind,
        ChunkType::DATA
            | ChunkType::I_DATA
            | ChunkType::SACK
            | ChunkType::COOKIE_ACK
            | ChunkType::RE_CONFIG
            | ChunkType::ASCONF
            | ChunkType::ASCONF_ACK
            | ChunkType::FORWARD_TSN
            | ChunkType::I_FORWARD_TSN
            | ChunkType::SHUTDOWN
    )
}
