//! A look at the engine of an endpoint that may be gone.

use super::Shared;
use engine::{Instant, Transactions};
use std::sync::Weak;
use wire::Wire;

/// Looks at the engine of an endpoint for as long as that lives.
pub struct TransactionObserver<E: Transactions, W: Wire>(pub(super) Weak<Shared<E, W>>);

impl<E: Transactions, W: Wire> TransactionObserver<E, W> {
    /// What `look` returns of the engine; None when the endpoint is gone, or broken.
    pub fn look<T>(&self, look: impl FnOnce(&E, Instant) -> T) -> Option<T> {
        let shared = self.0.upgrade()?;
        let now = shared.now();
        let looked = shared.with_state(|state| look(&state.pump.engine, now));
        looked.ok()
    }
}
