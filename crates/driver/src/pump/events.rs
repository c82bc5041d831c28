//! Events of the engine, applied to stores and circuits.

use super::{Pump, mark_changed};
use crate::circuit_state::CircuitState;
use crate::failed::FailedMessage;
use engine::{
    AbandonedMessage, Address, AssociationId, Associations, AssociationsExt, Event, Instant,
};
use wire::Wire;

impl<E: Associations, W: Wire> Pump<E, W> {
    /// Applies the engine's events; most calls find none.
    #[inline]
    pub(super) fn drain_events(&mut self, now: Instant) {
        // Released bytes may be part of a batch the wire has not taken.
        if self.batch.is_empty()
            && let Some(event) = self.engine.poll_event()
        {
            self.handle_events(now, &event);
        }
    }

    #[inline(never)]
    pub(super) fn handle_events(&mut self, now: Instant, first: &Event) {
        self.handle_event(now, first);
        while let Some(event) = self.engine.poll_event() {
            self.handle_event(now, &event);
        }
    }

    fn handle_event(&mut self, now: Instant, event: &Event) {
        self.events += 1;
        let id = match event {
            Event::Accepted(id, from) => return self.handle_accepted(now, *id, *from),
            Event::Connected(id)
            | Event::Released(id, _)
            | Event::Abandoned(id, ..)
            | Event::LayoutChanged(id, _)
            | Event::Finished(id)
            | Event::Closed(id, _) => *id,
            // No half of an engine of associations.
            Event::Transaction(_) => return,
        };
        let Some(state) = self.circuits.get_mut(id) else {
            if matches!(event, Event::Connected(_)) {
                self.circuits.get_or_default(id).connected = true;
            }
            return;
        };
        match event {
            Event::Connected(_) | Event::Accepted(..) => state.connected = true,
            Event::Released(_, range) => {
                if let Some(store) = &mut state.store {
                    store.release(range.clone());
                }
            }
            Event::Abandoned(_, message) => give_up(state, message),
            Event::LayoutChanged(..) | Event::Transaction(_) => {}
            Event::Finished(_) => state.finished = true,
            Event::Closed(_, reason) => {
                state.closed = Some(*reason);
                if let Some(store) = &mut state.store {
                    store.return_all_loans();
                }
            }
        }
        state.newly_ready = true;
        mark_changed(&mut self.changed, id, state);
        if state.detached && state.closed.is_some() {
            self.remove_circuit(id);
        }
    }

    /// Keeps the messages that circuit `id` gives up from now on.
    pub fn keep_failed(&mut self, id: AssociationId) {
        let state = self.circuits.get_or_default(id);
        state.failed.get_or_insert_default();
    }

    /// The oldest message that circuit `id` gave up.
    pub fn next_failed(&mut self, id: AssociationId) -> Option<FailedMessage> {
        self.circuits.get_mut(id)?.failed.as_mut()?.pop()
    }

    fn handle_accepted(&mut self, now: Instant, id: AssociationId, from: Address) {
        self.circuits.get_or_default(id).connected = true;
        if self.has_room_for_unaccepted() {
            self.accept_queue.push_back((id, from));
            self.enter_unaccepted(id);
            self.learn_path_mtu(now, id, from);
            return;
        }
        self.refused += 1;
        let state = self.circuits.get_or_default(id);
        state.detached = true;
        state.clear_queue();
        self.settled_at = None;
        self.engine.abort(now, id);
    }

    /// Returns the loans of closed circuit `id` and drops its unsent batch.
    pub(crate) fn return_loans(&mut self, id: AssociationId) {
        if self.batch.sender() == Some(id) {
            self.batch.clear();
        }
        if let Some(store) = self
            .circuits
            .get_mut(id)
            .and_then(|state| state.store.as_mut())
        {
            store.return_all_loans();
        }
    }

    /// Marks circuits ready that were granted a permit.
    pub(crate) fn mark_ready(&mut self, circuits: &[AssociationId]) {
        for &id in circuits {
            if let Some(state) = self.circuits.get_mut(id) {
                state.newly_ready = true;
                mark_changed(&mut self.changed, id, state);
            }
        }
        self.publish_changes();
    }

    pub(super) fn remove_circuit(&mut self, id: AssociationId) {
        self.leave_unaccepted(id);
        if self.circuits.remove(id)
            && let Some(index) = self.with_store.iter().rposition(|&stored| stored == id)
        {
            self.with_store.swap_remove(index);
        }
    }

    /// Publishes the state of changed circuits: their idle flags, and the list of ready ones.
    #[inline]
    pub(super) fn publish_changes(&mut self) {
        if !self.changed.is_empty() {
            self.publish_changed();
        }
    }

    #[inline(never)]
    fn publish_changed(&mut self) {
        for id in self.changed.drain(..) {
            let Some(state) = self.circuits.get_mut(id) else {
                continue;
            };
            state.in_changed_list = false;
            if let Some(store) = &state.store {
                store.set_idle(self.engine.bytes_in_flight(id) == 0);
            }
            let newly_ready = std::mem::take(&mut state.newly_ready);
            if newly_ready && self.watched && !state.in_ready_list && !state.detached {
                state.in_ready_list = true;
                self.ready.push(id);
            }
        }
    }
}

/// A message was given up: its bytes are kept if its user wants them, and released.
#[cold]
fn give_up(state: &mut CircuitState, message: &AbandonedMessage) {
    let Some(store) = &mut state.store else {
        return;
    };
    if let Some(failed) = &mut state.failed {
        failed.add(message, |bytes| store.copy_kept(&message.range, bytes));
    }
    store.release(message.range.clone());
}
