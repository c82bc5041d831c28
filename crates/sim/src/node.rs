//! What a station runs: an engine, by the half of it that users, or nobody, talk to.

use engine::{Associations, Protocol, Router, Transactions};

/// The engine of a station.
pub enum Node {
    /// One with associations: its users send and receive.
    Associations(Box<dyn Associations>),
    /// One with transactions: its users call and answer.
    Transactions(Box<dyn Transactions>),
    /// One that forwards what others built.
    Router(Box<dyn Router>),
}

impl Node {
    /// An engine with associations.
    pub fn associations(engine: impl Associations + 'static) -> Node {
        Node::Associations(Box::new(engine))
    }

    /// An engine with transactions.
    pub fn transactions(engine: impl Transactions + 'static) -> Node {
        Node::Transactions(Box::new(engine))
    }

    /// An intermediate system.
    pub fn router(engine: impl Router + 'static) -> Node {
        Node::Router(Box::new(engine))
    }

    /// The half that faces the network.
    pub fn protocol(&self) -> &dyn Protocol {
        match self {
            Node::Associations(engine) => engine.as_ref(),
            Node::Transactions(engine) => engine.as_ref(),
            Node::Router(engine) => engine.as_ref(),
        }
    }

    pub(crate) fn protocol_mut(&mut self) -> &mut dyn Protocol {
        match self {
            Node::Associations(engine) => engine.as_mut(),
            Node::Transactions(engine) => engine.as_mut(),
            Node::Router(engine) => engine.as_mut(),
        }
    }

    pub(crate) fn users(&self) -> Option<&dyn Associations> {
        match self {
            Node::Associations(engine) => Some(engine.as_ref()),
            Node::Transactions(_) | Node::Router(_) => None,
        }
    }

    pub(crate) fn users_mut(&mut self) -> Option<&mut dyn Associations> {
        match self {
            Node::Associations(engine) => Some(engine.as_mut()),
            Node::Transactions(_) | Node::Router(_) => None,
        }
    }

    pub(crate) fn transactions_mut(&mut self) -> Option<&mut dyn Transactions> {
        match self {
            Node::Transactions(engine) => Some(engine.as_mut()),
            Node::Associations(_) | Node::Router(_) => None,
        }
    }

    pub(crate) fn as_router(&self) -> Option<&dyn Router> {
        match self {
            Node::Router(engine) => Some(engine.as_ref()),
            Node::Associations(_) | Node::Transactions(_) => None,
        }
    }
}
