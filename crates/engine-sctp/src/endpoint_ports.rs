//! SCTP's ports of associations, and what each direction may use.

use crate::endpoint::Sctp;
use crate::numbers::Port;
use crate::procedure::association_setup;
use engine::{Address, AssociationId, CommandError, Instant};

impl Sctp {
    /// As [`Associations::connect`](engine::Associations::connect), to the port `peer_port` of the peer
    /// instead of that of the configuration.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn connect_to_port(
        &mut self,
        now: Instant,
        to: &[Address],
        peer_port: Port,
    ) -> Result<AssociationId, CommandError> {
        let usual = std::mem::replace(&mut self.shared.config.peer_port, peer_port);
        let opened = association_setup::do_connect(self, now, to);
        self.shared.config.peer_port = usual;
        opened
    }

    /// The ports of an association: the own one, and the peer's. None of an unknown one.
    pub fn ports(&self, id: AssociationId) -> Option<(Port, Port)> {
        let a = self.associations.get(&id)?;
        Some((a.local_port, a.peer_port))
    }

    /// Streams that the peer may send on: 0 up to one less. None of an unknown association.
    pub fn inbound_streams(&self, id: AssociationId) -> Option<u16> {
        Some(self.associations.get(&id)?.rx.streams.max())
    }

    /// Octets that the own window allows the peer now, and those of the buffer behind it. None of an unknown
    /// association.
    pub fn receive_window(&self, id: AssociationId) -> Option<(u32, u64)> {
        let now = self.associations.get(&id)?.rx.window();
        Some((now, self.shared.config.receive_buffer))
    }
}
