//! Requests to change addresses, and where they stand (RFC 5061 section 5).

use crate::numbers::Tsn;
use crate::pdu::asconf::{AddressAction, Serial};
use crate::procedure::control_request::ControlRequest;
use engine::{Instant, LocalAddress};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Requests of one association that wait: its user asks seldom.
pub(crate) const REQUESTS_MAX: usize = 4;

/// Requests of one ASCONF of the peer that are looked at: more than it may have addresses.
pub(crate) const PEER_REQUESTS_MAX: usize = 16;

/// Own addresses that came and went while the endpoint ran.
#[derive(Debug, Default)]
pub(crate) struct AddressChanges {
    /// Those that it does not have now: no association begins with them.
    pub(crate) lost: Vec<LocalAddress>,
    /// Those that it got, and when last.
    gained: Vec<(LocalAddress, Instant)>,
}

impl AddressChanges {
    pub(crate) fn gain(&mut self, address: LocalAddress, now: Instant) {
        self.lost.retain(|lost| *lost != address);
        self.gained.retain(|(gained, _)| *gained != address);
        self.gained.push((address, now));
    }

    pub(crate) fn lose(&mut self, address: LocalAddress) {
        if !self.lost.contains(&address) {
            self.lost.push(address);
        }
    }

    /// The addresses that a handshake at `then` did not list, and those that went.
    pub(crate) fn unknown_since(&self, then: Instant) -> Vec<LocalAddress> {
        let later = self.gained.iter().filter(|(_, at)| *at > then);
        let later = later.map(|(address, _)| *address);
        self.lost.iter().copied().chain(later).collect()
    }
}

/// What is asked of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) action: AddressAction,
    pub(crate) address: LocalAddress,
}

/// A request that was sent and not answered.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: Request,
    pub(crate) serial: Serial,
    /// The chunk, and how often it was sent.
    pub(crate) sent: ControlRequest,
}

/// What an ASCONF of the peer is, by its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PeerAsconf {
    /// It is to be looked at.
    Next,
    /// It was answered so, with a whole chunk.
    Answered(Vec<u8>),
    /// Its turn is past, or not yet.
    OutOfTurn,
}

/// Requests of both ends. One of each is under way at a time.
#[derive(Debug)]
pub(crate) struct AddressState {
    next: Serial,
    pub(crate) waiting: VecDeque<Request>,
    pub(crate) asked: Option<Asked>,
    peer_next: Serial,
    /// The answer to the peer's last one.
    answered: Option<Vec<u8>>,
    /// Own addresses that the peer does not know, or no longer.
    pub(crate) excluded: Vec<LocalAddress>,
    /// The peer wants this address of its own to be preferred once it is confirmed.
    pub(crate) wanted_primary: Option<IpAddr>,
    /// How often own addresses changed by [`crate::SctpConfig::address_changes`].
    pub(crate) changes: u32,
}

impl AddressState {
    /// ASCONFs are counted from the first TSNs of both ends.
    pub(crate) fn new(local: Tsn, peer: Tsn) -> AddressState {
        AddressState {
            next: Serial(local.0),
            waiting: VecDeque::new(),
            asked: None,
            peer_next: Serial(peer.0),
            answered: None,
            excluded: Vec::new(),
            wanted_primary: None,
            changes: 0,
        }
    }

    /// The number of a new ASCONF.
    pub(crate) fn take_serial(&mut self) -> Serial {
        let serial = self.next;
        self.next = serial.plus(1);
        serial
    }

    /// Whether an ASCONF with this number was not sent yet.
    pub(crate) fn is_future(&self, serial: Serial) -> bool {
        serial.0.wrapping_sub(self.next.0) < 1 << 31
    }

    /// What the ASCONF `serial` of the peer is.
    pub(crate) fn classify(&self, serial: Serial) -> PeerAsconf {
        if serial == self.peer_next {
            return PeerAsconf::Next;
        }
        match &self.answered {
            Some(answer) if serial.plus(1) == self.peer_next => {
                PeerAsconf::Answered(answer.clone())
            }
            _ => PeerAsconf::OutOfTurn,
        }
    }

    /// The peer's next ASCONF was answered with this chunk.
    pub(crate) fn record(&mut self, answer: Vec<u8>) {
        self.peer_next = self.peer_next.plus(1);
        self.answered = Some(answer);
    }
}
