//! ASCONF: own addresses come and go, and the peer's (RFC 5061 section 5). Both are authenticated: without
//! an AUTH in front such a chunk was dropped before.

use crate::addresses::{ip_of, listed_address};
use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::dynamic_addresses::{Asked, PEER_REQUESTS_MAX, PeerAsconf, REQUESTS_MAX, Request};
use crate::endpoint_state::EndpointState;
use crate::notice::{AddressChange, Notice, ReconfigOutcome};
use crate::path::{PathState, PathStatus};
use crate::pdu::Chunk;
use crate::pdu::asconf::{
    AddressAction, AddressFault, AddressRequest, AddressResponse, Asconf, AsconfAck, push_asconf,
    push_asconf_ack,
};
use crate::pdu::cause::{Cause, CauseCode};
use crate::pdu::init::is_usable;
use crate::procedure::{abort, control_request, path_change};
use engine::{CommandError, Instant, Path};
use std::net::{IpAddr, Ipv4Addr};

/// Octets of refused requests that an answer holds: sixteen of them fit a packet of 512.
const OFFENDING_MAX: usize = 8;

/// The user asks for something.
pub(crate) fn do_request(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    request: Request,
) -> Result<(), CommandError> {
    let may_ask = a.state == State::Established && a.extensions.dynamic_addresses;
    let has_room = a.addresses.waiting.len() < REQUESTS_MAX;
    let known = ep.config.local_addresses.ip_at(request.address);
    let is_excluded = a.addresses.excluded.contains(&request.address);
    let is_valid = known.is_some() && is_excluded == (request.action == AddressAction::Add);
    if !may_ask || !has_room || !is_valid {
        return Err(CommandError::Unsupported);
    }
    // From now on it is no source of packets (RFC 5061 section 5.3).
    if request.action == AddressAction::Delete
        && !path_change::leave_address(a, ep, now, request.address)
    {
        return Err(CommandError::Unsupported);
    }
    a.addresses.waiting.push_back(request);
    progress(a, ep, now);
    Ok(())
}

/// The association is open: the peer is told of the addresses that this end got since its handshake.
pub(crate) fn begin(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    let unknown = a.addresses.excluded.clone();
    let lost = &ep.address_changes.lost;
    let gained = unknown.into_iter().filter(|known| !lost.contains(known));
    for address in gained.collect::<Vec<_>>() {
        let action = AddressAction::Add;
        // A peer that cannot goes on without it.
        let _ = do_request(a, ep, now, Request { action, address });
    }
    start_interval(a, ep, now);
}

/// Starts the timer of [`crate::SctpConfig::address_changes`].
pub(crate) fn start_interval(a: &Association, ep: &mut EndpointState, now: Instant) {
    if let Some(schedule) = ep.config.address_changes
        && a.extensions.dynamic_addresses
    {
        ep.set_timer(a.id, Timer::AddressChange, now + schedule.interval);
    }
}

/// Sends the next request if none is under way.
pub(crate) fn progress(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if a.addresses.asked.is_some() || !a.may_send_data() {
        return;
    }
    let Some(request) = a.addresses.waiting.pop_front() else {
        return;
    };
    let path = a.data_path();
    let Some(address) = ep.config.local_addresses.ip_at(request.address) else {
        return;
    };
    let own = ep.config.local_addresses.ip_at(a.paths[path].path.local);
    let own = own.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    let serial = a.addresses.take_serial();
    let mut octets = Vec::new();
    push_asconf(
        &mut octets,
        (serial, own),
        serial.0,
        (request.action, address),
    );
    let sent = control_request::begin(a, ep, now, (Timer::Asconf, octets));
    a.addresses.asked = Some(Asked {
        request,
        serial,
        sent,
    });
}

/// T4: an ASCONF was not answered in time.
pub(crate) fn handle_timeout(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    control_request::handle_timeout(
        a,
        ep,
        now,
        (Timer::Asconf, |a| {
            a.addresses.asked.as_mut().map(|asked| &mut asked.sent)
        }),
    );
}

/// The peer's addresses change. The answer goes where the ASCONF came from.
pub(crate) fn handle_asconf(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (from, chunk): (Path, &Chunk<'_>),
) -> Result<(), DiscardReason> {
    if !a.may_send_sack() {
        return Err(DiscardReason::State);
    }
    let asconf = Asconf::parse(chunk.value).ok_or(DiscardReason::Malformed)?;
    let answer = match a.addresses.classify(asconf.serial) {
        PeerAsconf::OutOfTurn => return Err(DiscardReason::State),
        PeerAsconf::Answered(answer) => answer,
        PeerAsconf::Next => {
            let mut responses = Vec::new();
            for request in asconf.requests().take(PEER_REQUESTS_MAX) {
                let fault = perform(a, ep, now, from, &request).err();
                let correlation = request.correlation;
                responses.push(AddressResponse { correlation, fault });
                if request.action.is_none() && request.parameter.kind.unknown_stops() {
                    break;
                }
            }
            let mut answer = Vec::new();
            push_asconf_ack(&mut answer, asconf.serial, &responses);
            a.addresses.record(answer.clone());
            answer
        }
    };
    a.queue_control(a.path_index(from), answer);
    Ok(())
}

/// Does what a request asks for.
fn perform(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    from: Path,
    request: &AddressRequest<'_>,
) -> Result<(), AddressFault> {
    let offending = || {
        let octets = request.parameter.octets;
        octets[..octets.len().min(OFFENDING_MAX)].to_vec()
    };
    let Some(action) = request.action else {
        return Err((CauseCode::UNRECOGNIZED_PARAMETERS, offending()));
    };
    let is_any = request
        .address
        .is_some_and(|address| address.is_unspecified());
    let source = listed_address(from);
    // An unspecified address stands for the one that the packet comes from (RFC 5061 section 4.2).
    let address = if is_any { source } else { request.address };
    let address = address.filter(|address| is_usable(*address));
    let address = address.ok_or_else(|| (CauseCode::UNRESOLVABLE_ADDRESS, offending()))?;
    let done = match action {
        AddressAction::Add => add(a, ep, now, (from, address)),
        AddressAction::Delete if is_any => {
            delete_others(a, ep, address);
            Ok(())
        }
        AddressAction::Delete => delete(a, ep, (source, address)),
        AddressAction::SetPrimary => set_primary(a, address),
    };
    done.map_err(|code| (code, offending()))?;
    let (association, change) = (a.id, change_of(action));
    ep.notify(Notice::PeerAddress {
        association,
        address,
        change,
    });
    Ok(())
}

fn change_of(action: AddressAction) -> AddressChange {
    match action {
        AddressAction::Add => AddressChange::Added,
        AddressAction::Delete => AddressChange::Deleted,
        AddressAction::SetPrimary => AddressChange::Preferred,
    }
}

fn add(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (from, address): (Path, IpAddr),
) -> Result<(), CauseCode> {
    if a.remote_addresses().contains(&address) {
        return Ok(());
    }
    // A peer elsewhere must not make this end probe this host.
    let is_local = ip_of(from.remote).is_some_and(|ip| ip.is_loopback());
    if address.is_loopback() && !is_local {
        return Err(CauseCode::UNRESOLVABLE_ADDRESS);
    }
    let before = a.live_paths().count();
    path_change::add_paths(a, ep, now, &[address]);
    let own = &ep.config.local_addresses;
    let waits = own.may_lead_to(address, &a.addresses.excluded);
    if !waits && !a.remote_addresses().contains(&address) {
        return Err(match before >= crate::addresses::PATHS_MAX {
            true => CauseCode::ADDRESS_RESOURCES,
            false => CauseCode::UNRESOLVABLE_ADDRESS,
        });
    }
    if !a.peer_addresses.contains(&address) {
        a.peer_addresses.push(address);
    }
    Ok(())
}

fn delete(
    a: &mut Association,
    ep: &mut EndpointState,
    (source, address): (Option<IpAddr>, IpAddr),
) -> Result<(), CauseCode> {
    let known = a.remote_addresses();
    if !known.contains(&address) {
        let is_listed = a.peer_addresses.contains(&address);
        a.peer_addresses.retain(|listed| *listed != address);
        return match is_listed {
            true => Ok(()),
            false => Err(CauseCode::UNRESOLVABLE_ADDRESS),
        };
    }
    if known.len() == 1 || !has_confirmed(a, |other| other != address) {
        return Err(CauseCode::DELETE_LAST_ADDRESS);
    }
    if source == Some(address) {
        return Err(CauseCode::DELETE_SOURCE_ADDRESS);
    }
    let goes = |known: &PathState| listed_address(known.path) == Some(address);
    path_change::remove_paths(a, ep, goes);
    a.peer_addresses.retain(|known| *known != address);
    Ok(())
}

/// Every address but the one that the packet comes from goes, if that one is confirmed (RFC 5061 section
/// 5.3).
fn delete_others(a: &mut Association, ep: &mut EndpointState, source: IpAddr) {
    if has_confirmed(a, |address| address == source) {
        let goes = |known: &PathState| listed_address(known.path) != Some(source);
        path_change::remove_paths(a, ep, goes);
        a.peer_addresses.retain(|known| *known == source);
    }
}

fn has_confirmed(a: &Association, is_meant: impl Fn(IpAddr) -> bool) -> bool {
    let mut confirmed = a
        .live_paths()
        .filter(|known| known.status != PathStatus::Unconfirmed);
    confirmed.any(|known| listed_address(known.path).is_some_and(&is_meant))
}

/// Data leave for this address, now or once it is confirmed.
fn set_primary(a: &mut Association, address: IpAddr) -> Result<(), CauseCode> {
    let leads =
        |known: &PathState| !known.is_removed && listed_address(known.path) == Some(address);
    let index = a.paths.iter().position(leads);
    let index = index.ok_or(CauseCode::UNRESOLVABLE_ADDRESS)?;
    a.addresses.wanted_primary = None;
    match a.paths[index].status {
        PathStatus::Unconfirmed => a.addresses.wanted_primary = Some(address),
        _ => a.primary = index,
    }
    Ok(())
}

/// The peer says what became of the request under way.
pub(crate) fn handle_asconf_ack(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    chunk: &Chunk<'_>,
) -> Result<(), DiscardReason> {
    let answer = AsconfAck::parse(chunk.value).ok_or(DiscardReason::Malformed)?;
    if a.addresses.is_future(answer.serial) {
        abort::do_abort_for(a, ep, &Cause::plain(CauseCode::ILLEGAL_ASCONF_ACK));
        return Err(DiscardReason::Malformed);
    }
    let is_answer = |asked: &mut Asked| asked.serial == answer.serial;
    let asked = a.addresses.asked.take_if(is_answer);
    let asked = asked.ok_or(DiscardReason::State)?;
    ep.cancel_timer(a.id, Timer::Asconf);
    let outcome = match answer.fault(asked.serial.0) {
        None => ReconfigOutcome::Done,
        Some(CauseCode::NO_AUTHORIZATION) => ReconfigOutcome::Denied,
        Some(_) => ReconfigOutcome::Failed,
    };
    finish(a, ep, now, asked.request, outcome);
    progress(a, ep, now);
    Ok(())
}

/// A request was answered: an address that the peer knows now is a source of packets, also one that it
/// would not forget.
fn finish(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    request: Request,
    outcome: ReconfigOutcome,
) {
    let is_done = outcome == ReconfigOutcome::Done;
    let is_known = match request.action {
        AddressAction::Add => is_done,
        AddressAction::Delete => !is_done,
        AddressAction::SetPrimary => false,
    };
    if is_known {
        a.addresses
            .excluded
            .retain(|known| *known != request.address);
        let listed = a.peer_addresses.clone();
        path_change::add_paths(a, ep, now, &listed);
    }
    ep.notify(Notice::OwnAddress {
        association: a.id,
        address: request.address,
        change: change_of(request.action),
        outcome,
    });
}
