//! Circuits that use the endpoint of others of their thread: after them, or beside them.

use super::{CONNECT_TIMEOUT, connect, open_listener, open_to};
use crate::contract::{CircuitResult, Listener, Rendezvous};
use crate::engine_setup::EngineSetup;
use crate::medium::Medium;
use crate::options::Options;
use crate::socket;
use crate::spare_endpoint::Spare;
use engine::{AssociationId, Associations};
use std::io;

/// As [`connect`], where circuits are opened and closed repeatedly by the endpoint of the one that this
/// thread dropped last, if that was to the same listener with the same options.
pub(crate) fn connect_again<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    (rendezvous, index): (&Rendezvous, usize),
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> CircuitResult {
    if options.one_peer {
        return connect(medium, (rendezvous, index), options, setup);
    }
    let line = socket::rendezvous_entry(&rendezvous.bytes, index)?;
    let spare = kept_or_new(medium, line, options, setup)?;
    let circuit = spare
        .end()
        .endpoint
        .connect(spare.peer(), CONNECT_TIMEOUT)?;
    let mut circuit = spare.end().circuit(circuit)?;
    circuit.keep_endpoint = Some(Box::new(|| spare.keep()));
    circuit.is_outlived = true;
    Ok(Box::new(circuit))
}

/// Listens with one endpoint for all circuits.
pub(crate) fn listen_shared<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<Box<dyn Listener>> {
    let listener = open_listener(medium, options, 1, setup)?;
    Ok(Box::new(listener))
}

/// Opens circuit `index` to a listener of [`listen_shared`] by the endpoint of the circuits that this thread opened
/// to it before; `prepare` is run before the peer hears of it.
pub(crate) fn connect_shared<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    (rendezvous, index): (&Rendezvous, usize),
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
    prepare: impl FnOnce(&mut E, AssociationId),
) -> CircuitResult {
    let line = socket::rendezvous_entry(&rendezvous.bytes, 0)?;
    let spare = kept_or_new(medium, line, options, setup)?;
    let peer = spare.peer();
    let open = |engine: &mut E, now| {
        let id = engine.connect(now, &[peer])?;
        prepare(engine, id);
        Ok(id)
    };
    let endpoint = &spare.end().endpoint;
    let circuit = endpoint.connect_by(peer, CONNECT_TIMEOUT, open)?;
    let mut circuit = spare.end().circuit(circuit)?;
    circuit.is_counted = index == 0;
    spare.keep();
    Ok(Box::new(circuit))
}

/// The endpoint that this thread kept, if it is to the listener of this rendezvous entry, or a new one.
fn kept_or_new<M: Medium, E: Associations + Send + 'static>(
    medium: &M,
    line: &[u8],
    options: &Options,
    setup: impl Fn(u16) -> EngineSetup<E>,
) -> io::Result<Spare<M, E>> {
    if let Some(spare) = Spare::take(line, options) {
        return Ok(spare);
    }
    let (end, peer) = open_to(medium, line, options, setup)?;
    Ok(Spare::new(line, options, end, peer))
}
