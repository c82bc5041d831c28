//! An association of a socket.

use super::notifications::{self, Kind};
use super::partial_delivery::{Assembly, Owner};
use super::port::Port;
use super::socket::{SctpSocket, Style};
use crate::socket_pair::{ConnState, SocketPairEnd};
use library::sctp::{Association, AssociationStage, Notice, PathStatus};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// An association, and how far its socket knows of it.
pub(crate) struct Member {
    pub(crate) association: Association,
    number: i32,
    socket: Weak<SctpSocket>,
    /// The socket's, which outlives it.
    link: Arc<SocketPairEnd>,
    /// Its address in the handshake, with SCTP's port.
    pub(crate) peer: SocketAddr,
    /// The program was told that it is open.
    pub(crate) is_up: bool,
    /// What has come of messages and is not at the socket.
    assembly: Assembly,
    /// The peer sends no more, and the program was told so.
    peer_has_ended: bool,
    /// The length of a message that did not fit: the socket is not writable.
    awaits_room: Option<usize>,
    /// The association that the peer restarts it by.
    restarted_by: Option<u32>,
    /// Addresses of the peer that answered before.
    confirmed: BTreeSet<IpAddr>,
}

/// What became of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// It goes on.
    Lives,
    /// It is over, with this error number; 0 if both ends said all they had to say.
    Over(i32),
}

impl Member {
    pub(crate) fn new(
        mut association: Association,
        number: i32,
        socket: &Arc<SctpSocket>,
    ) -> Member {
        association.keep_failed();
        let inner = socket.lock();
        association.set_partial_delivery_point(inner.partial_point());
        if inner.settings.events & 1 << Kind::SenderDry as u16 != 0 {
            association.report_dry(true);
        }
        drop(inner);
        Member {
            peer: Port::peer_of(&association),
            confirmed: BTreeSet::from([association.peer().ip()]),
            association,
            number,
            socket: Arc::downgrade(socket),
            link: Arc::clone(&socket.link),
            is_up: false,
            assembly: Assembly::default(),
            peer_has_ended: false,
            awaits_room: None,
            restarted_by: None,
        }
    }

    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// Whether it belongs to `socket`.
    pub(crate) fn is_of(&self, socket: &Arc<SctpSocket>) -> bool {
        std::ptr::eq(self.socket.as_ptr(), Arc::as_ptr(socket))
    }

    /// Gives it to another socket.
    pub(crate) fn move_to(&mut self, socket: &Arc<SctpSocket>) {
        self.socket = Arc::downgrade(socket);
        self.link = Arc::clone(&socket.link);
        self.awaits_room = None;
    }

    /// Whether `peer`, with SCTP's port, is one of its peer's addresses.
    pub(crate) fn is_peer(&self, peer: SocketAddr) -> bool {
        peer == self.peer
            || peer.port() == self.peer.port()
                && self.peer_addresses().iter().any(|ip| *ip == peer.ip())
    }

    /// The peer's addresses, that of the handshake first.
    pub(crate) fn peer_addresses(&self) -> Vec<IpAddr> {
        let mut addresses = vec![self.peer.ip()];
        for path in self.association.status().paths {
            if !addresses.contains(&path.remote.ip()) {
                addresses.push(path.remote.ip());
            }
        }
        addresses
    }

    /// Where the peer's address `ip` gets packets.
    pub(crate) fn remote(&self, ip: IpAddr) -> Option<SocketAddr> {
        let paths = self.association.status().paths;
        let path = paths.iter().find(|path| path.remote.ip() == ip)?;
        Some(path.remote)
    }

    /// Notes that a message of `len` octets did not fit: the program's descriptor becomes writable when
    /// there is room.
    pub(crate) fn await_room(&mut self, len: usize) {
        self.awaits_room = Some(len);
    }

    /// Tells its socket what happened since the last call. `buffer` is for messages.
    pub(crate) fn serve(&mut self, buffer: &mut [u8]) -> Served {
        let Some(socket) = self.socket.upgrade() else {
            if self.link.aborts_on_close() {
                // Nobody is left to tell.
                let _ = self.association.begin_abort();
            }
            return Served::Over(0);
        };
        // First, so that what it had to say before it ended is told before.
        let stage = self.association.stage();
        if !self.is_up && stage == AssociationStage::Open {
            self.tell_open(&socket);
        }
        self.tell_notices(&socket);
        let has_all = self.receive(&socket, buffer);
        self.tell_failed(&socket);
        let is_open = matches!(stage, AssociationStage::Opening | AssociationStage::Open);
        self.tell_room(!is_open);
        if is_open || !has_all || self.restarted_by.is_some() {
            return Served::Lives;
        }
        Served::Over(self.tell_end(&socket, stage))
    }

    /// The association that its peer opens in its place, if it does.
    pub(crate) fn restarts_as(&mut self) -> Option<u32> {
        if let Some(socket) = self.socket.upgrade() {
            self.tell_notices(&socket);
        }
        self.restarted_by
    }

    /// Goes on with the association that the peer opened in its place.
    pub(crate) fn restart(&mut self, mut association: Association) {
        self.tell_room(true);
        association.keep_failed();
        self.association = association;
        self.restarted_by = None;
        self.peer_has_ended = false;
        if let Some(socket) = self.socket.upgrade() {
            let point = socket.lock().partial_point();
            self.association.set_partial_delivery_point(point);
            self.finish_messages(&socket);
            self.tell_change(&socket, notifications::RESTART);
        }
    }

    /// The endpoint's sockets failed.
    pub(crate) fn fail(mut self) {
        if let Some(socket) = self.socket.upgrade() {
            self.tell_end(&socket, AssociationStage::Aborted);
        }
    }

    /// Streams outbound and inbound.
    pub(crate) fn streams(&self) -> (u16, u16) {
        let status = self.association.status();
        (status.outbound_streams, status.inbound_streams)
    }

    fn tell_open(&mut self, socket: &SctpSocket) {
        self.is_up = true;
        // The peer chose its ports in the handshake.
        self.peer = Port::peer_of(&self.association);
        if socket.style == Style::OneToOne {
            socket.link.set_state(ConnState::Established);
            socket.link.drain_filler();
        }
        self.tell_change(socket, notifications::COMM_UP);
    }

    /// Tells of the association's beginning, restart or end.
    fn tell_change(&self, socket: &SctpSocket, state: u16) {
        let authenticates = self.association.authentication().is_some();
        let info: &[u8] = if authenticates {
            &[notifications::SUPPORTS_AUTH]
        } else {
            &[]
        };
        let octets = notifications::assoc_change((state, 0), self.streams(), self.number, info);
        socket.notify(Kind::AssocChange, self.number, octets);
    }

    fn tell_notices(&mut self, socket: &SctpSocket) {
        while let Some(notice) = self.association.next_notice() {
            self.tell_notice(socket, notice);
        }
    }

    fn tell_notice(&mut self, socket: &SctpSocket, notice: Notice) {
        let number = self.number;
        let (kind, octets) = match notice {
            Notice::Path { remote, status, .. } => {
                let Some(state) = self.state_of_path(remote.ip(), status) else {
                    return;
                };
                let address = SocketAddr::new(remote.ip(), self.peer.port());
                let octets = notifications::peer_addr_change(address, state, number);
                (Kind::PeerAddrChange, octets)
            }
            Notice::PeerAddress { address, change } => {
                let address = SocketAddr::new(address, self.peer.port());
                let state = notifications::state_of_change(change);
                let octets = notifications::peer_addr_change(address, state, number);
                (Kind::PeerAddrChange, octets)
            }
            Notice::Restarted { new } => {
                self.restarted_by = Some(new);
                return;
            }
            Notice::StreamsReset {
                direction,
                streams,
                outcome,
            } => {
                let octets = notifications::stream_reset((direction, outcome), &streams, number);
                (Kind::StreamReset, octets)
            }
            Notice::StreamsAdded { outcome, .. } => {
                let (outbound, inbound) = self.streams();
                let octets = notifications::stream_change(outcome, (inbound, outbound), number);
                (Kind::StreamChange, octets)
            }
            Notice::SenderDry => (Kind::SenderDry, notifications::sender_dry(number)),
            Notice::Adaptation(value) => {
                let octets = notifications::adaptation_indication(value, number);
                (Kind::AdaptationIndication, octets)
            }
            Notice::NoAuthentication => (
                Kind::AuthenticationEvent,
                notifications::no_authentication(number),
            ),
            // RFC 6458 has no notification for the answer to a request of this end.
            Notice::OwnAddress { .. } => return,
        };
        socket.notify(kind, number, octets);
    }

    fn state_of_path(&mut self, ip: IpAddr, status: PathStatus) -> Option<i32> {
        let was_confirmed = match status {
            PathStatus::Active => !self.confirmed.insert(ip),
            _ => true,
        };
        notifications::state_of_path(status, was_confirmed)
    }

    /// Gives the socket the messages that came; false while it is full.
    fn receive(&mut self, socket: &SctpSocket, buffer: &mut [u8]) -> bool {
        let point = socket.lock().partial_point();
        let owner = Owner {
            socket,
            peer: self.peer,
            assoc: self.number,
        };
        while !socket.is_full_for(self.number) {
            match self.association.receive(buffer, Duration::ZERO) {
                Ok(Some(part)) => {
                    let octets = &buffer[..part.len];
                    self.assembly.take(&owner, (&part, octets), point);
                }
                Ok(None) => {
                    if !std::mem::replace(&mut self.peer_has_ended, true) {
                        let octets = notifications::shutdown_event(self.number);
                        socket.notify(Kind::ShutdownEvent, self.number, octets);
                    }
                    return true;
                }
                // Nothing is there, or the association has ended, which its stage tells.
                Err(_) => return true,
            }
        }
        false
    }

    /// Messages that were begun have no end.
    fn finish_messages(&mut self, socket: &SctpSocket) {
        let owner = Owner {
            socket,
            peer: self.peer,
            assoc: self.number,
        };
        self.assembly.finish(&owner);
    }

    fn tell_failed(&mut self, socket: &SctpSocket) {
        while let Some(message) = self.association.next_failed() {
            let octets = notifications::send_failed_event(&message, self.number);
            socket.notify(Kind::SendFailedEvent, self.number, octets);
            let octets = notifications::send_failed(&message, self.number);
            socket.notify(Kind::SendFailed, self.number, octets);
        }
    }

    /// Makes the descriptor writable again if a message that did not fit has room, or never will.
    fn tell_room(&mut self, has_ended: bool) {
        if let Some(len) = self.awaits_room
            && (has_ended || self.association.has_room(len))
        {
            self.awaits_room = None;
            self.link.drain_filler();
        }
    }

    /// Tells that it has ended; with which error number.
    fn tell_end(&mut self, socket: &SctpSocket, stage: AssociationStage) -> i32 {
        let (state, error) = match (stage, self.is_up) {
            (AssociationStage::Ended, _) => (notifications::SHUTDOWN_COMP, 0),
            (AssociationStage::Refused, false) => {
                (notifications::CANT_STR_ASSOC, libc::ECONNREFUSED)
            }
            (AssociationStage::TimedOut, false) => (notifications::CANT_STR_ASSOC, libc::ETIMEDOUT),
            (_, false) => (notifications::CANT_STR_ASSOC, libc::ECONNABORTED),
            (AssociationStage::TimedOut, true) => (notifications::COMM_LOST, libc::ETIMEDOUT),
            (_, true) => (notifications::COMM_LOST, libc::ECONNRESET),
        };
        self.finish_messages(socket);
        self.tell_change(socket, state);
        if socket.style == Style::OneToOne {
            socket.end((error != 0).then_some(error));
        }
        error
    }
}
