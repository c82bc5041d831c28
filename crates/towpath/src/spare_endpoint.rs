//! Endpoints that are used again by a thread that opens and closes circuits to one listener.
//!
//! An association is no more than an entry of its endpoint, and RFC 6951 has one UDP port for all
//! associations of a host. So a circuit that follows another one of the same thread needs no socket and no
//! helper thread of its own, and the end of the one before goes on while it opens.

use crate::engine_endpoint::EngineEndpoint;
use crate::medium::Medium;
use crate::options::Options;
use engine::{Address, Associations};
use std::any::Any;
use std::cell::RefCell;

thread_local! {
    /// The endpoint of the circuit that this thread dropped last.
    static KEPT: RefCell<Option<Box<dyn Any>>> = const { RefCell::new(None) };
}

/// An endpoint to one listener that no circuit uses now. Dropped, it waits for the ends of its circuits.
pub(crate) struct Spare<M: Medium, E: Associations> {
    end: EngineEndpoint<M, E>,
    peer: Address,
    /// The listener's entry of a rendezvous.
    line: Vec<u8>,
    options: Options,
}

impl<M: Medium, E: Associations + 'static> Spare<M, E> {
    pub(crate) fn new(
        line: &[u8],
        options: &Options,
        end: EngineEndpoint<M, E>,
        peer: Address,
    ) -> Spare<M, E> {
        Spare {
            end,
            peer,
            line: line.to_vec(),
            options: options.clone(),
        }
    }

    /// That of this thread, if it is to the same listener with the same options. Another one is closed.
    pub(crate) fn take(line: &[u8], options: &Options) -> Option<Spare<M, E>> {
        let kept = KEPT.with(RefCell::take)?;
        let spare = *kept.downcast::<Spare<M, E>>().ok()?;
        let is_same = spare.line == line && spare.options == *options;
        is_same.then_some(spare)
    }

    /// Keeps it for the next circuit of this thread.
    pub(crate) fn keep(self) {
        // A thread that ends keeps nothing.
        let _ = KEPT.try_with(|kept| kept.replace(Some(Box::new(self))));
    }

    pub(crate) fn end(&self) -> &EngineEndpoint<M, E> {
        &self.end
    }

    pub(crate) fn peer(&self) -> Address {
        self.peer
    }
}

impl<M: Medium, E: Associations> Drop for Spare<M, E> {
    fn drop(&mut self) {
        self.end.await_ends();
    }
}
