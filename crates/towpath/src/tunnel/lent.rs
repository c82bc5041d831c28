//! Circuits whose data the program moves itself, and how the tunnel gets them back.
//!
//! The socket of such a circuit stays registered here: what a program writes to it by another way than the library's
//! calls, or that all its descriptors were closed, is seen, and the tunnel goes on with the circuit.

use super::proxied_connection::PumpOutcome;
use super::{LocalSocket, Tunnel, WATCH_TOKEN};
use engine::AssociationId;
use rustix::event::epoll::{self, EventFlags};
use std::collections::HashMap;
use std::io;

/// The sockets of lent circuits.
#[derive(Default)]
pub(super) struct LentCircuits {
    sockets: HashMap<u64, (AssociationId, Box<dyn LocalSocket>)>,
    tokens: HashMap<AssociationId, u64>,
}

impl LentCircuits {
    pub(super) fn is_empty(&self) -> bool {
        self.sockets.is_empty()
    }

    fn insert(&mut self, token: u64, id: AssociationId, socket: Box<dyn LocalSocket>) {
        self.sockets.insert(token, (id, socket));
        self.tokens.insert(id, token);
    }

    fn remove(&mut self, token: u64) -> Option<(AssociationId, Box<dyn LocalSocket>)> {
        let (id, socket) = self.sockets.remove(&token)?;
        self.tokens.remove(&id);
        Some((id, socket))
    }
}

impl Tunnel {
    /// Offers the circuit of a connection to its socket's user.
    pub(super) fn lend(&mut self, token: u64) -> PumpOutcome {
        let Some(connection) = self.connections.remove(&token) else {
            return PumpOutcome::Waiting;
        };
        let id = connection.circuit_id();
        let refused = match connection.offer() {
            Ok((socket, user)) => {
                self.by_circuit.remove(&id);
                self.lent.insert(token, id, socket);
                self.watch.add_user(id, user);
                return PumpOutcome::Waiting;
            }
            Err(connection) => connection,
        };
        let (connection, outcome) = refused.go_on();
        self.connections.insert(token, connection);
        outcome
    }

    /// Takes the circuit of a socket back that is used without the library's calls.
    pub(super) fn take_back_if_used(&mut self, token: u64, flags: EventFlags, todo: &mut Vec<u64>) {
        let ends = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        if flags.intersects(EventFlags::IN | EventFlags::PRI | ends) {
            self.take_back(token, todo);
        }
    }

    /// Takes the circuits back that the program wants the tunnel to go on with.
    pub(super) fn take_back_wanted(&mut self, todo: &mut Vec<u64>) {
        let is_wanted = |socket: &dyn LocalSocket| {
            let user = socket.user();
            user.is_some_and(|user| user.is_wanted_back())
        };
        let lent = self.lent.sockets.iter();
        let wanted: Vec<u64> = lent
            .filter(|(_, (_, socket))| is_wanted(&**socket))
            .map(|(&token, _)| token)
            .collect();
        for token in wanted {
            self.take_back(token, todo);
        }
    }

    fn take_back(&mut self, token: u64, todo: &mut Vec<u64>) {
        let user = self.lent.sockets.get(&token);
        let user = user.and_then(|(_, socket)| socket.user());
        // One that was handed over is on its way.
        let Some(circuit) = user.and_then(|user| user.give_back()) else {
            return;
        };
        let Some((id, socket)) = self.lent.remove(token) else {
            return;
        };
        self.stop_lending(id, &*socket);
        let added = self.add(socket, circuit, false, None);
        todo.extend(self.settle("cannot carry a connection", added));
    }

    /// The circuit was handed over; whether it was lent.
    pub(super) fn remove_lent(&mut self, id: AssociationId) -> bool {
        let Some(&token) = self.lent.tokens.get(&id) else {
            return false;
        };
        if let Some((id, socket)) = self.lent.remove(token) {
            self.stop_lending(id, &*socket);
        }
        true
    }

    /// Waits for the watch unless threads of the program do, and no connection is carried here; whether it does.
    pub(super) fn update_cover(&mut self) -> io::Result<bool> {
        let waits = !self.watch.is_covered() || !self.connections.is_empty();
        if waits != self.waits_for_watch {
            let interest = match waits {
                true => EventFlags::IN,
                false => EventFlags::empty(),
            };
            let data = epoll::EventData::new_u64(WATCH_TOKEN);
            epoll::modify(&self.epoll, self.watch.descriptor(), data, interest)?;
            self.waits_for_watch = waits;
        }
        Ok(waits)
    }

    fn stop_lending(&self, id: AssociationId, socket: &dyn LocalSocket) {
        self.watch.forget(id);
        // Cannot fail: it is registered.
        let _ = epoll::delete(&self.epoll, socket.as_fd());
    }
}
