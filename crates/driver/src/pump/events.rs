//! What the engine says, carried to stores and users.

use super::{Pump, touch};
use engine::{Address, AssociationId, Engine, Event, Instant};
use wire::Wire;

impl<E: Engine, W: Wire> Pump<E, W> {
    pub(super) fn drain_events(&mut self, now: Instant) {
        if !self.batch.is_empty() {
            // Released bytes may be part of a batch the wire has not taken.
            return;
        }
        while let Some(event) = self.engine.poll_event() {
            self.events += 1;
            self.handle_event(now, event);
        }
    }

    fn handle_event(&mut self, now: Instant, event: Event) {
        let id = match event {
            Event::Accepted(id, from) => return self.handle_accepted(now, id, from),
            Event::Connected(id)
            | Event::Released(id, _)
            | Event::Finished(id)
            | Event::Closed(id, _) => id,
        };
        let Some(held) = self.circuits.get_mut(&id) else {
            if matches!(event, Event::Connected(_)) {
                self.circuits.entry(id).or_default().connected = true;
            }
            return;
        };
        match event {
            Event::Connected(_) | Event::Accepted(..) => held.connected = true,
            Event::Released(_, position) => {
                if let Some(store) = &mut held.store {
                    store.release(position);
                }
            }
            Event::Finished(_) => held.finished = true,
            Event::Closed(_, reason) => {
                held.closed = Some(reason);
                if let Some(store) = &mut held.store {
                    store.return_all();
                }
            }
        }
        held.news = true;
        touch(&mut self.touched, id, held);
        if held.orphan && held.closed.is_some() {
            self.forget(id);
        }
    }

    fn handle_accepted(&mut self, now: Instant, id: AssociationId, from: Address) {
        let held = self.circuits.entry(id).or_default();
        held.connected = true;
        if self.accepted.len() < self.backlog {
            self.accepted.push_back((id, from));
            return;
        }
        self.refused += 1;
        held.orphan = true;
        held.inbox.clear();
        self.engine.abort(now, id);
    }

    /// Gives back what circuit `id`, which ended, was lent. What of it waits for the wire is lost.
    pub(crate) fn return_loans(&mut self, id: AssociationId) {
        if self.batch.destination().is_some_and(|(of, _)| of == id) {
            self.batch.clear();
        }
        if let Some(store) = self
            .circuits
            .get_mut(&id)
            .and_then(|held| held.store.as_mut())
        {
            store.return_all();
        }
    }

    /// There is memory for circuits whose stores had none.
    pub(crate) fn note_room(&mut self, circuits: &[AssociationId]) {
        for &id in circuits {
            if let Some(held) = self.circuits.get_mut(&id) {
                held.news = true;
                touch(&mut self.touched, id, held);
            }
        }
        self.settle();
    }

    pub(super) fn forget(&mut self, id: AssociationId) {
        if self
            .circuits
            .remove(&id)
            .is_some_and(|held| held.store.is_some())
            && let Some(index) = self.stored.iter().rposition(|&stored| stored == id)
        {
            self.stored.swap_remove(index);
        }
    }

    /// Tells the users of all touched circuits how those stand.
    pub(super) fn settle(&mut self) {
        for id in self.touched.drain(..) {
            let Some(held) = self.circuits.get_mut(&id) else {
                continue;
            };
            held.touched = false;
            if let Some(store) = &held.store {
                store.set_idle(self.engine.bytes_in_flight(id) == 0);
            }
            let news = std::mem::take(&mut held.news);
            if news && self.watched && !held.listed && !held.orphan {
                held.listed = true;
                self.ready.push(id);
            }
        }
    }
}
