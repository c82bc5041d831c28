//! RE-CONFIG: streams begin anew, or become more (RFC 6525 section 5).
//!
//! A reset of own streams takes place between two messages of the store. It is asked for once the peer
//! has all in front of it, and what is behind it waits for the answer, on all streams: the store's order
//! is that of the TSNs.

use crate::association::{Association, State, Timer};
use crate::discard::DiscardReason;
use crate::endpoint_state::EndpointState;
use crate::notice::{Notice, ReconfigOutcome, StreamDirection};
use crate::numbers::{StreamId, Tsn};
use crate::pdu::Chunk;
use crate::pdu::re_config::{
    ReconfigParameter, ReconfigResult, RequestNumber, StreamList, push_add_streams,
    push_reset_incoming, push_reset_outgoing, push_responses,
};
use crate::procedure::control_request;
use crate::reconfig::{Asked, PeerRequest, REQUESTS_MAX, Request};
use crate::tx::MessageRules;
use engine::{CommandError, Instant};

/// The user asks for something.
pub(crate) fn do_request(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    request: Request,
) -> Result<(), CommandError> {
    let may_ask = a.state == State::Established && a.extensions.reconfigure;
    let has_room = a.reconfig.waiting.len() < REQUESTS_MAX;
    if !may_ask || !has_room || !is_valid(a, &request) {
        return Err(CommandError::Unsupported);
    }
    a.reconfig.waiting.push_back(request);
    progress(a, ep, now);
    Ok(())
}

/// How often own streams begin anew at an interval: a simulation ends.
const RESETS_MAX: u32 = 16;

/// Starts the timer of [`crate::SctpConfig::reset_interval`].
pub(crate) fn start_interval(a: &Association, ep: &mut EndpointState, now: Instant) {
    let interval = ep.config.reset_interval;
    if !interval.is_zero() && a.extensions.reconfigure {
        ep.set_timer(a.id, Timer::StreamReset, now + interval);
    }
}

/// Own streams begin anew; not while requests wait.
pub(crate) fn handle_interval(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if a.state != State::Established || a.reconfig.resets >= RESETS_MAX {
        return;
    }
    if a.reconfig.waiting.is_empty() {
        a.reconfig.resets += 1;
        a.reconfig.waiting.push_back(Request::ResetOutgoing {
            streams: Vec::new(),
            response: None,
            from: a.tx.messages.whole_up_to(),
        });
        progress(a, ep, now);
    }
    start_interval(a, ep, now);
}

/// Whether the streams that a request names exist, and more are countable.
fn is_valid(a: &Association, request: &Request) -> bool {
    let rules = a.tx.messages.rules();
    match request {
        Request::ResetOutgoing { streams, .. } => {
            !rules.endless && streams.iter().all(|stream| stream.0 < rules.streams)
        }
        Request::ResetIncoming { streams } => {
            let mut streams = streams.iter();
            streams.all(|stream| a.rx.streams.has_stream(stream.0))
        }
        Request::AddOutgoing(count) => *count > 0 && rules.streams.checked_add(*count).is_some(),
        Request::AddIncoming(count) => *count > 0,
    }
}

/// Sends the next request if its time has come: a reset once the peer has all messages before it.
pub(crate) fn progress(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    if a.reconfig.asked.is_some() || !a.may_send_data() {
        return;
    }
    if let Some(Request::ResetOutgoing { from, .. }) = a.reconfig.waiting.front_mut() {
        *from = from.or_else(|| a.tx.messages.whole_up_to());
        let is_reached = from.is_some_and(|from| a.tx.messages.position() >= from);
        if !is_reached || !a.tx.outstanding.is_empty() {
            return;
        }
    }
    let Some(request) = a.reconfig.waiting.pop_front() else {
        return;
    };
    let number = a.reconfig.take_number();
    let octets = emit(a, number, &request);
    let sent = control_request::begin(a, ep, now, (Timer::Reconfigure, octets));
    a.reconfig.asked = Some(Asked {
        request,
        number,
        sent,
    });
}

fn emit(a: &Association, number: RequestNumber, request: &Request) -> Vec<u8> {
    let mut octets = Vec::new();
    match request {
        Request::ResetOutgoing {
            streams, response, ..
        } => {
            let response = response.unwrap_or(a.reconfig.peer_last());
            let last = Tsn(a.tx.outstanding.next().tsn().0.wrapping_sub(1));
            push_reset_outgoing(&mut octets, (number, response), last, streams);
        }
        Request::ResetIncoming { streams } => push_reset_incoming(&mut octets, number, streams),
        Request::AddOutgoing(count) => push_add_streams(&mut octets, number, *count, false),
        Request::AddIncoming(count) => push_add_streams(&mut octets, number, *count, true),
    }
    octets
}

/// A request was not answered in time.
pub(crate) fn handle_timeout(a: &mut Association, ep: &mut EndpointState, now: Instant) {
    control_request::handle_timeout(
        a,
        ep,
        now,
        (Timer::Reconfigure, |a| {
            a.reconfig.asked.as_mut().map(|asked| &mut asked.sent)
        }),
    );
}

pub(crate) fn handle_re_config(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    (path, chunk): (usize, &Chunk<'_>),
) -> Result<(), DiscardReason> {
    if !a.may_send_data() && !matches!(a.state, State::ShutdownSent { .. }) {
        return Err(DiscardReason::State);
    }
    let parameters = ReconfigParameter::parse_all(chunk.value).ok_or(DiscardReason::Malformed)?;
    let mut responses = Vec::new();
    for parameter in &parameters {
        if let ReconfigParameter::Response { number, result } = parameter {
            take_response(a, ep, now, *number, *result);
        } else {
            let number = number_of(parameter);
            responses.push((number, answer(a, ep, number, parameter)));
        }
    }
    if !responses.is_empty() {
        let mut octets = Vec::new();
        push_responses(&mut octets, &responses);
        a.queue_control(path, octets);
    }
    progress(a, ep, now);
    Ok(())
}

fn number_of(parameter: &ReconfigParameter<'_>) -> RequestNumber {
    match parameter {
        ReconfigParameter::ResetOutgoing { number, .. }
        | ReconfigParameter::ResetIncoming { number, .. }
        | ReconfigParameter::ResetAssociation { number }
        | ReconfigParameter::AddOutgoing { number, .. }
        | ReconfigParameter::AddIncoming { number, .. }
        | ReconfigParameter::Response { number, .. } => *number,
    }
}

/// Does what the peer asks for, once, and says what became of it.
fn answer(
    a: &mut Association,
    ep: &mut EndpointState,
    number: RequestNumber,
    parameter: &ReconfigParameter<'_>,
) -> ReconfigResult {
    match a.reconfig.classify(number) {
        PeerRequest::Answered(result) => return result,
        PeerRequest::OutOfTurn => return ReconfigResult::BAD_SEQUENCE_NUMBER,
        PeerRequest::Open => {}
    }
    let result = match parameter {
        ReconfigParameter::ResetOutgoing {
            response,
            last_tsn,
            streams,
            ..
        } => reset_incoming(a, ep, *response, *last_tsn, *streams),
        ReconfigParameter::ResetIncoming { streams, .. } => reset_outgoing(a, number, *streams),
        ReconfigParameter::AddOutgoing { count, .. } => add_incoming(a, ep, *count),
        ReconfigParameter::AddIncoming { count, .. } => queue(a, Request::AddOutgoing(*count)),
        // The TSNs of both ends would begin anew in mid-flight; no user asks for it.
        ReconfigParameter::ResetAssociation { .. } | ReconfigParameter::Response { .. } => {
            ReconfigResult::DENIED
        }
    };
    a.reconfig.record(number, result);
    result
}

/// The peer's streams begin anew once all before it is here (RFC 6525 section 5.2.2).
fn reset_incoming(
    a: &mut Association,
    ep: &mut EndpointState,
    response: RequestNumber,
    last_tsn: Tsn,
    streams: StreamList<'_>,
) -> ReconfigResult {
    if !a.rx.is_cumulative(a.rx.long(last_tsn)) {
        return ReconfigResult::IN_PROGRESS;
    }
    let streams: Vec<StreamId> = streams.iter().collect();
    let mut exist = streams.iter();
    if !exist.all(|stream| a.rx.streams.has_stream(stream.0)) {
        return ReconfigResult::WRONG_SSN;
    }
    if !a.rx.streams.reset(&streams) {
        return ReconfigResult::DENIED;
    }
    let is_answer = |asked: &mut Asked| {
        asked.number == response && matches!(asked.request, Request::ResetIncoming { .. })
    };
    if a.reconfig.asked.take_if(is_answer).is_some() {
        ep.cancel_timer(a.id, Timer::Reconfigure);
    }
    ep.notify(Notice::StreamsReset {
        association: a.id,
        direction: StreamDirection::Incoming,
        streams,
        outcome: ReconfigOutcome::Done,
    });
    ReconfigResult::PERFORMED
}

/// The peer wants own streams to begin anew: a request of this end answers (RFC 6525 section 5.2.3).
fn reset_outgoing(
    a: &mut Association,
    number: RequestNumber,
    streams: StreamList<'_>,
) -> ReconfigResult {
    if a.reconfig.resets_for(number) {
        return ReconfigResult::IN_PROGRESS;
    }
    let MessageRules {
        streams: count,
        endless,
        ..
    } = *a.tx.messages.rules();
    let streams: Vec<StreamId> = streams.iter().collect();
    if endless || a.state != State::Established {
        return ReconfigResult::DENIED;
    }
    if streams.iter().any(|stream| stream.0 >= count) {
        return ReconfigResult::WRONG_SSN;
    }
    let request = Request::ResetOutgoing {
        streams,
        response: Some(number),
        from: a.tx.messages.whole_up_to(),
    };
    match queue(a, request) {
        ReconfigResult::PERFORMED => ReconfigResult::IN_PROGRESS,
        refused => refused,
    }
}

/// A request that the peer asked for waits for its turn.
fn queue(a: &mut Association, request: Request) -> ReconfigResult {
    if !is_valid(a, &request) {
        return ReconfigResult::DENIED;
    }
    if a.reconfig.waiting.len() >= REQUESTS_MAX {
        return ReconfigResult::ALREADY_IN_PROGRESS;
    }
    a.reconfig.waiting.push_back(request);
    ReconfigResult::PERFORMED
}

/// The peer wants more streams to send on: as many as this end accepts (RFC 6525 section 5.2.5).
fn add_incoming(a: &mut Association, ep: &mut EndpointState, count: u16) -> ReconfigResult {
    if count == 0 {
        return ReconfigResult::NOTHING_TO_DO;
    }
    let Some(streams) = a.rx.streams.add(count, ep.config.inbound_streams) else {
        return ReconfigResult::DENIED;
    };
    ep.notify(Notice::StreamsAdded {
        association: a.id,
        direction: StreamDirection::Incoming,
        streams,
        outcome: ReconfigOutcome::Done,
    });
    ReconfigResult::PERFORMED
}

/// The peer says what became of the request under way (RFC 6525 section 5.2.7).
fn take_response(
    a: &mut Association,
    ep: &mut EndpointState,
    now: Instant,
    number: RequestNumber,
    result: ReconfigResult,
) {
    let Some(asked) = &mut a.reconfig.asked else {
        return;
    };
    if asked.number != number {
        return;
    }
    let path = asked.sent.path;
    if result == ReconfigResult::IN_PROGRESS {
        asked.sent.attempts = 1;
        return control_request::start_timer(a, ep, now, (Timer::Reconfigure, path));
    }
    ep.cancel_timer(a.id, Timer::Reconfigure);
    let outcome = match result {
        ReconfigResult::PERFORMED | ReconfigResult::NOTHING_TO_DO => ReconfigOutcome::Done,
        ReconfigResult::DENIED => ReconfigOutcome::Denied,
        _ => ReconfigOutcome::Failed,
    };
    if let Some(asked) = a.reconfig.asked.take() {
        finish(a, ep, asked.request, outcome);
    }
}

/// A request was answered: it takes effect here, and the user is told. What the peer does to its own
/// streams follows with its own request.
fn finish(a: &mut Association, ep: &mut EndpointState, request: Request, outcome: ReconfigOutcome) {
    let is_done = outcome == ReconfigOutcome::Done;
    let association = a.id;
    let notice = match request {
        Request::ResetOutgoing {
            streams, response, ..
        } => {
            if is_done {
                a.tx.messages.reset_numbers(&streams);
            }
            if let Some(number) = response {
                let result = match is_done {
                    true => ReconfigResult::PERFORMED,
                    false => ReconfigResult::DENIED,
                };
                a.reconfig.record(number, result);
            }
            Notice::StreamsReset {
                association,
                direction: StreamDirection::Outgoing,
                streams,
                outcome,
            }
        }
        Request::AddOutgoing(count) => {
            let mut rules = *a.tx.messages.rules();
            if is_done {
                rules.streams = rules.streams.saturating_add(count);
                a.tx.messages.set_rules(rules);
            }
            Notice::StreamsAdded {
                association,
                direction: StreamDirection::Outgoing,
                streams: rules.streams,
                outcome,
            }
        }
        Request::ResetIncoming { .. } | Request::AddIncoming(_) if is_done => return,
        Request::ResetIncoming { streams } => Notice::StreamsReset {
            association,
            direction: StreamDirection::Incoming,
            streams,
            outcome,
        },
        Request::AddIncoming(_) => Notice::StreamsAdded {
            association,
            direction: StreamDirection::Incoming,
            streams: a.rx.streams.max(),
            outcome,
        },
    };
    ep.notify(notice);
}
