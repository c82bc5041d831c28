//! Requests to reset and add streams, and where they stand (RFC 6525 section 5).

use crate::numbers::{StreamId, Tsn};
use crate::pdu::re_config::{ReconfigResult, RequestNumber};
use crate::procedure::control_request::ControlRequest;
use std::collections::VecDeque;

/// Requests of one association that wait: its user asks seldom, and its peer is answered once for each.
pub(crate) const REQUESTS_MAX: usize = 4;

/// What is asked of the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Own streams begin anew; none stands for all.
    ResetOutgoing {
        streams: Vec<StreamId>,
        /// The peer's request that asked for it.
        response: Option<RequestNumber>,
        /// Bytes of the store from here on are of messages behind it; None until the message that is
        /// being submitted ends.
        from: Option<u64>,
    },
    /// The peer's streams are to begin anew.
    ResetIncoming { streams: Vec<StreamId> },
    /// More streams to send on.
    AddOutgoing(u16),
    /// More streams for the peer to send on.
    AddIncoming(u16),
}

/// A request that was sent and not answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) number: RequestNumber,
    /// The chunk, and how often it was sent.
    pub(crate) sent: ControlRequest,
}

/// What a request of the peer is, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerRequest {
    /// It is to be looked at: a new one, or one that was not done yet.
    Open,
    /// It was answered so.
    Answered(ReconfigResult),
    /// Its turn is past, or not yet.
    OutOfTurn,
}

/// Requests of both ends. One of each is under way at a time.
#[derive(Debug)]
pub(crate) struct ReconfigState {
    next: RequestNumber,
    pub(crate) waiting: VecDeque<Request>,
    pub(crate) asked: Option<Asked>,
    /// How often own streams began anew by [`crate::SctpConfig::reset_interval`].
    pub(crate) resets: u32,
    peer_next: RequestNumber,
    /// The last two requests of the peer: a chunk may hold two.
    answered: [Option<(RequestNumber, ReconfigResult)>; 2],
}

impl ReconfigState {
    /// Requests are counted from the first TSNs of both ends.
    pub(crate) fn new(local: Tsn, peer: Tsn) -> ReconfigState {
        ReconfigState {
            next: RequestNumber(local.0),
            waiting: VecDeque::new(),
            asked: None,
            resets: 0,
            peer_next: RequestNumber(peer.0),
            answered: [None; 2],
        }
    }

    /// Whether new data from this position of the store on wait for a reset.
    pub(crate) fn holds(&self, position: u64) -> bool {
        if self.is_idle() {
            return false;
        }
        let asked = self.asked.as_ref().map(|asked| &asked.request);
        asked.into_iter().chain(&self.waiting).any(
            |request| matches!(request, Request::ResetOutgoing { from: Some(from), .. } if position >= *from),
        )
    }

    /// Whether nothing is asked of the peer, and so no data wait.
    pub(crate) fn is_idle(&self) -> bool {
        self.asked.is_none() && self.waiting.is_empty()
    }

    /// The number of a new request.
    pub(crate) fn take_number(&mut self) -> RequestNumber {
        let number = self.next;
        self.next = number.plus(1);
        number
    }

    /// The number of the peer's last request.
    pub(crate) fn peer_last(&self) -> RequestNumber {
        self.peer_next.plus(u32::MAX)
    }

    /// Whether a reset of own streams waits that this request of the peer asked for.
    pub(crate) fn resets_for(&self, number: RequestNumber) -> bool {
        let asked = self.asked.as_ref().map(|asked| &asked.request);
        asked.into_iter().chain(&self.waiting).any(
            |request| matches!(request, Request::ResetOutgoing { response, .. } if *response == Some(number)),
        )
    }

    /// What the request `number` of the peer is.
    pub(crate) fn classify(&self, number: RequestNumber) -> PeerRequest {
        if number == self.peer_next {
            return PeerRequest::Open;
        }
        let mut answered = self.answered.iter().flatten();
        match answered.find(|(known, _)| *known == number) {
            Some((_, ReconfigResult::IN_PROGRESS)) => PeerRequest::Open,
            Some((_, result)) => PeerRequest::Answered(*result),
            None => PeerRequest::OutOfTurn,
        }
    }

    /// The request `number` of the peer, which was open, has this result now.
    pub(crate) fn record(&mut self, number: RequestNumber, result: ReconfigResult) {
        if number == self.peer_next {
            self.peer_next = number.plus(1);
            self.answered = [self.answered[1], Some((number, result))];
            return;
        }
        let mut answered = self.answered.iter_mut().flatten();
        if let Some(entry) = answered.find(|(known, _)| *known == number) {
            entry.1 = result;
        }
    }
}
