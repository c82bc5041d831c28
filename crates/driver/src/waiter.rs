//! Waits for what arrives at an endpoint.

use crate::shared::EndpointHandle;
use engine::Associations;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wire::Wire;

/// Waits for what arrives at an endpoint, from any thread, without a circuit in hand.
///
/// Like a circuit it keeps the endpoint open.
pub struct Waiter<E, W> {
    shared: Arc<EndpointHandle<E, W>>,
}

impl<E, W> Clone for Waiter<E, W> {
    fn clone(&self) -> Self {
        Waiter {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<E: Associations, W: Wire> Waiter<E, W> {
    pub(crate) fn new(shared: Arc<EndpointHandle<E, W>>) -> Self {
        Waiter { shared }
    }

    /// How much has arrived at the endpoint, of any circuit.
    ///
    /// # Errors
    ///
    /// The panic that broke the endpoint.
    pub fn arrivals(&self) -> io::Result<u64> {
        Ok(self.shared.lock()?.arrivals())
    }

    /// Sleeps until more has arrived than `seen`, the engine's next timeout is due, or `limit` passes.
    ///
    /// `seen` was read before the caller looked for what it waits for: from
    /// [`Circuit::seen_arrivals`](crate::Circuit::seen_arrivals) after a call that found nothing, or
    /// from [`arrivals`](Waiter::arrivals) before it. Errors are those of the wire.
    pub fn wait(&self, seen: u64, limit: Duration) -> io::Result<()> {
        self.shared.sleep(limit, seen)
    }
}
