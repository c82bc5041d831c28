//! Endpoints and associations for an event loop: calls that do not wait, and one descriptor for all.

use super::association::Association;
use super::endpoint::{Endpoint, EndpointWire};
use engine::{Address, AssociationId, Associations, CloseReason, CommandError};
use engine_sctp::Sctp;
use engine_sctp::numbers::Port;
use std::io;
use std::net::SocketAddr;

/// Readiness of all associations of an endpoint on one descriptor; see [`driver::Watch`].
pub type EndpointWatch = driver::Watch<Sctp, EndpointWire>;

/// How far an association has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssociationStage {
    /// The handshake is under way.
    Opening,
    /// It carries data.
    Open,
    /// Both ends said all they had to say.
    Ended,
    /// The peer refused it, or knows no such association.
    Refused,
    /// The peer did not answer within the limit of retries.
    TimedOut,
    /// One end aborted it.
    Aborted,
}

impl Endpoint {
    /// Begins to open an association to the peer with the addresses `to`;
    /// [`Association::stage`] tells what became of it.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for no address, or errors of the sockets.
    pub fn begin_connect(&self, to: &[SocketAddr]) -> io::Result<Association> {
        self.begin_connect_by(to, |engine, now, named| engine.connect(now, named))
    }

    /// The same to another of SCTP's ports than that of the configuration. UDP's ports are those of `to`.
    /// Errors are those of [`begin_connect`](Endpoint::begin_connect).
    pub fn begin_connect_to_port(&self, to: &[SocketAddr], port: u16) -> io::Result<Association> {
        self.begin_connect_by(to, |engine, now, named| {
            engine.connect_to_port(now, named, Port(port))
        })
    }

    fn begin_connect_by(
        &self,
        to: &[SocketAddr],
        connect: impl FnOnce(
            &mut Sctp,
            engine::Instant,
            &[Address],
        ) -> Result<AssociationId, CommandError>,
    ) -> io::Result<Association> {
        let named: Vec<Address> = to.iter().copied().map(Address::Socket).collect();
        let Some(&first) = named.first() else {
            let text = "no address to connect to; name one at least";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        };
        let open = |engine: &mut Sctp, now| connect(engine, now, &named);
        let mut circuit = self.inner.open(first, open)?;
        circuit.flush()?;
        Ok(self.association(circuit))
    }

    /// The next association that a peer opened, if there is one.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when there is none, or errors of the sockets.
    pub fn try_accept(&self) -> io::Result<Association> {
        Ok(self.association(self.inner.try_accept()?))
    }

    /// A watch. An endpoint has at most one.
    ///
    /// # Errors
    ///
    /// `AlreadyExists` for a second one, or those of the system for want of descriptors.
    pub fn watch(&self) -> io::Result<EndpointWatch> {
        self.inner.watch()
    }

    /// Associations that the endpoint keeps, those that end with it.
    pub fn associations_len(&self) -> usize {
        self.inner
            .with_pump(|pump| pump.engine().associations_len())
    }
}

impl Association {
    /// Its number within the endpoint, as an [`EndpointWatch`] reports it.
    pub fn id(&self) -> u32 {
        self.circuit.id().0
    }

    /// SCTP's ports: the own one, and the peer's; 0 once the association has ended.
    pub fn ports(&self) -> (u16, u16) {
        let ports = self.engine(|engine, id| engine.ports(id));
        ports.map_or((0, 0), |(own, peer)| (own.0, peer.0))
    }

    /// How far it has come.
    pub fn stage(&self) -> AssociationStage {
        let status = self.circuit.status();
        match status.closed {
            None if status.connected => AssociationStage::Open,
            None => AssociationStage::Opening,
            Some(CloseReason::Graceful) => AssociationStage::Ended,
            Some(CloseReason::Refused) => AssociationStage::Refused,
            Some(CloseReason::TimedOut) => AssociationStage::TimedOut,
            Some(CloseReason::Aborted) => AssociationStage::Aborted,
        }
    }

    /// Begins to end the association, as [`shutdown`](Association::shutdown) without waiting. What the
    /// peer has sent can still be received, and must be: a shut window keeps the peer from ending.
    /// Errors are those of the sockets.
    pub fn begin_shutdown(&mut self) -> io::Result<()> {
        self.circuit.finish()
    }

    /// Ends the association at once and leaves it to its user to see how it ended. Errors are those of the sockets.
    pub fn begin_abort(&mut self) -> io::Result<()> {
        self.circuit.abort()
    }
}
