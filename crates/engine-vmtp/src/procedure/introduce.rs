//! Where entities are: introductions, and entities that have moved to another host.

use crate::client::Current;
use crate::endpoint::{Key, Vmtp};
use crate::pdu::{Introduction, ResponseCode};
use engine::{Address, EntityId, Instant, Path};

impl Vmtp {
    /// Tells the host at `path` where an entity is.
    pub(crate) fn introduce(&mut self, path: Path, entity: EntityId, at: Address) {
        let introduction = Introduction { entity, at };
        let transaction = self.sh.next_notification();
        let (manager, domain) = (self.sh.config.manager(), self.sh.config.domain);
        let header = introduction.header(manager, domain, transaction);
        self.sh.send(path, &header);
    }

    /// The host at `path` says where an entity is. It is believed about an entity that nobody else
    /// has placed, and about one that is called there.
    pub(crate) fn handle_introduction(
        &mut self,
        now: Instant,
        path: Path,
        introduction: &Introduction,
    ) -> Option<()> {
        let entity = self.sh.config.entity(introduction.entity);
        let named = self.places.get(&entity).map(|at| Path::to(*at));
        if named.is_some_and(|named| named == path) {
            self.places.insert(entity, introduction.at);
            let clients = self.clients.sorted().into_iter();
            let calls = clients.filter_map(|(id, client)| match &client.current {
                Current::Call(call) if call.called.server == introduction.entity => Some(*id),
                _ => None,
            });
            for id in calls.collect::<Vec<_>>() {
                self.follow_entity(now, id);
            }
            return Some(());
        }
        if named.is_some() {
            // This host's user placed it.
            return None;
        }
        if !self.introduced.contains_key(&entity) {
            if self.introduced.len() >= self.sh.config.records_max
                && let Some(oldest) = self.introductions.pop_front()
            {
                self.introduced.remove(&oldest);
            }
            self.introductions.push_back(entity);
        }
        self.introduced.insert(entity, introduction.at);
        Some(())
    }

    /// Where a client of another host is, whose Request was forwarded.
    pub(crate) fn place_of_client(&self, client: EntityId) -> Option<Path> {
        let entity = self.sh.config.entity(client);
        let place = self.places.get(&entity);
        let place = place.or_else(|| self.introduced.get(&entity));
        place.map(|at| Path::to(*at))
    }

    /// Calls to `entity`, which was of this host, are sent on to `at`: their callers are told
    /// ENTITY_MIGRATED, and where it is.
    pub fn migrate(&mut self, entity: EntityId, at: Address) {
        self.forget_entity(entity);
        if self.moved.contains_key(&entity) || self.moved.len() < self.sh.config.entities_max {
            self.moved.insert(entity, at);
        }
    }

    /// The called entity has moved: the Request is sent again, to where it is.
    pub(crate) fn follow_entity(&mut self, now: Instant, id: EntityId) {
        let Some(Current::Call(call)) = self.clients.get_mut(&id).map(|c| &mut c.current) else {
            return;
        };
        let entity = self.sh.config.entity(call.called.server);
        let place = self.places.get(&entity).map(|at| Path::to(*at));
        match place {
            Some(path) if path != call.called.path => {
                call.called.path = path;
                call.responder = call.called;
                call.request.retries = 0;
                call.request.repeat_all();
                self.sh.peers.get(path).is_valid = true;
                self.note_ready(Key::Client(id));
            }
            // The introduction was lost: the time-out asks again.
            _ if call.request.retries < call.retries_max(&self.sh) => {
                let peer = self.sh.peers.get(call.called.path);
                call.timeout = now + call.response_wait(peer, &self.sh.config);
                self.arm(Key::Client(id));
            }
            _ => {
                let code = ResponseCode::ENTITY_MIGRATED.0;
                self.end_call(id, engine::TransactionEnd::Code(code));
            }
        }
    }
}
