//! INIT and INIT-ACK: no state is kept before the peer returns a cookie (RFC 9260 sections 5.1 and
//! 5.2).

use crate::addresses::listed_address;
use crate::association::{Association, State};
use crate::discard::DiscardReason;
use crate::endpoint::Sctp;
use crate::endpoint_state::EndpointState;
use crate::numbers::{Tag, Tsn};
use crate::pdu::cause::{Cause, CauseCode};
use crate::pdu::chunk::push_chunk;
use crate::pdu::parameter::{ParameterType, parameters};
use crate::pdu::{Chunk, ChunkType, CommonHeader, Cookie, Init, InitFault, u16_at};
use crate::procedure::association_setup::{
    self, PeerInit, agrees_on_zero, negotiated_extensions, own_init,
};
use crate::procedure::{out_of_the_blue, shutdown};
use engine::{CloseReason, Instant, Path};
use std::net::IpAddr;

/// A cookie lives at most this much longer than usual, however much its peer asks for.
const PRESERVATIVE_MAX_MS: u32 = 10_000;

/// Answers with an ABORT of one cause.
fn abort(ep: &mut EndpointState, path: Path, header: CommonHeader, cause: &Cause<'_>) {
    let (mut causes, mut chunks) = (Vec::new(), Vec::new());
    cause.push(&mut causes);
    push_chunk(&mut chunks, ChunkType::ABORT, 0, &causes);
    ep.reply(path, header, &chunks);
}

pub(crate) fn handle_init(
    sctp: &mut Sctp,
    now: Instant,
    header: &CommonHeader,
    path: Path,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    if !out_of_the_blue::is_unicast(path) {
        return Err(DiscardReason::OutOfTheBlue);
    }
    let ep = &mut sctp.shared;
    let init = match Init::parse(chunk.value) {
        Ok(init) => init,
        Err(InitFault::Unanswerable) => return Err(DiscardReason::Malformed),
        Err(InitFault::Impossible(tag)) => {
            let cause = Cause::plain(CauseCode::INVALID_MANDATORY_PARAMETER);
            abort(ep, path, header.reversed(tag), &cause);
            return Err(DiscardReason::Malformed);
        }
    };
    let answer = header.reversed(init.tag);
    if let Some(name) = &init.parameters.host_name {
        let cause = Cause {
            code: CauseCode::UNRESOLVABLE_ADDRESS,
            value: name,
        };
        abort(ep, path, answer, &cause);
        return Err(DiscardReason::Malformed);
    }
    let key = (path.remote, header.source, header.destination);
    let known = ep.by_peer.get(&key).copied();
    let known = known.and_then(|id| sctp.associations.get_mut(&id));
    let Some(a) = known else {
        if !ep.owns_port(header.destination) {
            return Err(DiscardReason::OutOfTheBlue);
        }
        if !ep.is_listening || header.destination != ep.config.port {
            // Nobody wants it: the peer is told at once (RFC 9260 section 5.1, G).
            abort(ep, path, answer, &Cause::plain(CauseCode::USER_ABORT));
            return Err(DiscardReason::OutOfTheBlue);
        }
        let own = (ep.new_tag(), ep.new_tsn());
        return send_init_ack(ep, now, (header, path), &init, own, (Tag::NONE, Tag::NONE));
    };
    match a.state {
        State::ShutdownAckSent { .. } => {
            shutdown::repeat_ack(a);
            let id = a.id;
            ep.mark_ready(id);
            Ok(())
        }
        // Both ends opened at the same time: the numbers stay as they were sent.
        State::CookieWait { .. } => {
            let own = (a.local_tag, a.initial_tsn);
            send_init_ack(ep, now, (header, path), &init, own, (Tag::NONE, Tag::NONE))
        }
        _ if has_new_address(a, &init.parameters.addresses) => {
            let cause = Cause::plain(CauseCode::RESTART_WITH_NEW_ADDRESSES);
            abort(ep, path, answer, &cause);
            Err(DiscardReason::State)
        }
        State::CookieEchoed { .. } => {
            let (own, tie) = ((a.local_tag, a.initial_tsn), (a.local_tag, a.peer_tag));
            send_init_ack(ep, now, (header, path), &init, own, tie)
        }
        // The peer restarted, or a forged packet says so: nothing changes before its cookie returns.
        _ => {
            let (own, tie) = ((ep.new_tag(), ep.new_tsn()), (a.local_tag, a.peer_tag));
            send_init_ack(ep, now, (header, path), &init, own, tie)
        }
    }
}

/// Whether one of `addresses` is none that the peer had when the association began.
fn has_new_address(a: &Association, addresses: &[IpAddr]) -> bool {
    let is_path = |address: &IpAddr| {
        let mut paths = a.live_paths();
        paths.any(|path| listed_address(path.path) == Some(*address))
    };
    let mut addresses = addresses.iter();
    addresses.any(|address| !a.peer_addresses.contains(address) && !is_path(address))
}

fn send_init_ack(
    ep: &mut EndpointState,
    now: Instant,
    (header, path): (&CommonHeader, Path),
    init: &Init,
    own: (Tag, Tsn),
    tie_tags: (Tag, Tag),
) -> Result<(), DiscardReason> {
    let config = &ep.config;
    let life_ms = config.cookie_life.as_millis() as u32;
    let zero_checksum = agrees_on_zero(ep, &init.parameters.extensions);
    let extensions = negotiated_extensions(ep, &init.parameters);
    let cookie = Cookie {
        created_at: now,
        life_ms: life_ms + init.parameters.preservative_ms.min(PRESERVATIVE_MAX_MS),
        ports: (header.destination, header.source),
        local_tag: own.0,
        peer_tag: init.tag,
        tie_tags,
        local_tsn: own.1,
        peer_tsn: init.initial_tsn,
        peer_rwnd: init.rwnd,
        streams: negotiated(ep, init),
        zero_checksum,
        forward_tsn: extensions.partial_reliability,
        interleave: extensions.interleave,
        reconfigure: extensions.reconfigure,
        dynamic_addresses: extensions.dynamic_addresses,
        adaptation: init.parameters.adaptation,
        // Without an own offer it is of no use.
        auth: (config.authentication.as_ref()).and_then(|_| init.parameters.auth.clone()),
        path,
        addresses: init.parameters.addresses.clone(),
    };
    let mut answer = own_init(ep, path.remote, own.0, own.1);
    // No more streams than the peer accepts (section 5.1.1).
    answer.outbound_streams = answer.outbound_streams.min(init.inbound_streams);
    answer.parameters.cookie = Some(cookie.emit(&ep.cookie_keys));
    answer.parameters.unrecognized = init.parameters.unrecognized.clone();
    let mut chunks = Vec::new();
    answer.push(&mut chunks, ChunkType::INIT_ACK);
    ep.reply(path, header.reversed(init.tag), &chunks);
    Ok(())
}

/// Streams to send on and to accept: what one end offers and the other accepts.
fn negotiated(ep: &EndpointState, peer: &Init) -> (u16, u16) {
    let config = &ep.config;
    (
        config.outbound_streams.min(peer.inbound_streams),
        config.inbound_streams.min(peer.outbound_streams),
    )
}

pub(crate) fn handle_init_ack(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    path: usize,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    let State::CookieWait { attempts, stale } = a.state else {
        return Err(DiscardReason::State);
    };
    let from = a.paths[path].path;
    let init = match Init::parse(chunk.value) {
        Ok(init) => init,
        Err(fault) => {
            refuse_init_ack(a, ep, from, chunk.value, fault);
            return Err(DiscardReason::Malformed);
        }
    };
    a.peer_tag = init.tag;
    let Some(cookie) = init
        .parameters
        .cookie
        .as_deref()
        .filter(|_| init.parameters.host_name.is_none())
    else {
        let mut missing = vec![0, 0, 0, 1];
        missing.extend(ParameterType::STATE_COOKIE.0.to_be_bytes());
        let cause = match &init.parameters.host_name {
            Some(name) => Cause {
                code: CauseCode::UNRESOLVABLE_ADDRESS,
                value: name,
            },
            None => Cause {
                code: CauseCode::MISSING_PARAMETER,
                value: &missing,
            },
        };
        abort(ep, from, a.header(), &cause);
        a.state = State::Gone(CloseReason::Refused);
        return Err(DiscardReason::Malformed);
    };
    let mut chunks = Vec::new();
    push_chunk(&mut chunks, ChunkType::COOKIE_ECHO, 0, cookie);
    if !init.parameters.unrecognized.is_empty() {
        let mut report = Vec::new();
        let cause = Cause {
            code: CauseCode::UNRECOGNIZED_PARAMETERS,
            value: without_padding(&init.parameters.unrecognized),
        };
        cause.push(&mut report);
        push_chunk(&mut chunks, ChunkType::ERROR, 0, &report);
    }
    let peer = PeerInit {
        tag: init.tag,
        initial_tsn: init.initial_tsn,
        rwnd: init.rwnd,
        streams: negotiated(ep, &init),
        zero_checksum: agrees_on_zero(ep, &init.parameters.extensions),
        extensions: negotiated_extensions(ep, &init.parameters),
        auth: init.parameters.auth.clone(),
        adaptation: init.parameters.adaptation,
    };
    association_setup::take_peer(a, ep, &peer);
    if attempts == 1 {
        let sent_at = a.paths[path].last_sent_at;
        a.paths[path].sample(now.since(sent_at));
    }
    a.primary = path;
    ep.unindex_paths(a);
    a.set_peer_addresses(&ep.config, now, &init.parameters.addresses);
    ep.index_paths(a);
    a.state = State::CookieEchoed {
        attempts: 0,
        stale,
        chunks,
        sent_at: now,
    };
    association_setup::begin_cookie_echo(a, ep, now);
    Ok(())
}

/// Parameters without the padding of the last: a cause's length does not count it (section 3.3.10).
fn without_padding(list: &[u8]) -> &[u8] {
    let end = parameters(list).fold(0_usize, |end, parameter| {
        end.next_multiple_of(4) + parameter.octets.len()
    });
    &list[..end]
}

/// An INIT-ACK that cannot be (RFC 9260 section 3.3.3): without a tag or streams the association ends,
/// with too small a window it waits for a better one.
fn refuse_init_ack(
    a: &mut Association,
    ep: &mut EndpointState,
    from: Path,
    value: &[u8],
    fault: InitFault,
) {
    let InitFault::Impossible(tag) = fault else {
        if value.len() >= 16 {
            a.state = State::Gone(CloseReason::Refused);
        }
        return;
    };
    let header = CommonHeader { tag, ..a.header() };
    let cause = Cause::plain(CauseCode::INVALID_MANDATORY_PARAMETER);
    abort(ep, from, header, &cause);
    if u16_at(value, 8) == Some(0) || u16_at(value, 10) == Some(0) {
        a.state = State::Gone(CloseReason::Refused);
    }
}
