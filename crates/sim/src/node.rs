//! What a station runs: an engine, by the half of it that users, or nobody, talk to.

use engine::{Associations, Protocol, Router};

/// The engine of a station.
pub enum Node {
    /// One with associations: its users send and receive.
    Associations(Box<dyn Associations>),
    /// One that forwards what others built.
    Router(Box<dyn Router>),
}

impl Node {
    /// An engine with associations.
    pub fn associations(engine: impl Associations + 'static) -> Node {
        Node::Associations(Box::new(engine))
    }

    /// An intermediate system.
    pub fn router(engine: impl Router + 'static) -> Node {
        Node::Router(Box::new(engine))
    }

    pub(crate) fn protocol(&self) -> &dyn Protocol {
        match self {
            Node::Associations(engine) => engine,
            Node::Router(engine) => engine,
        }
    }

    pub(crate) fn protocol_mut(&mut self) -> &mut dyn Protocol {
        match self {
            Node::Associations(engine) => engine,
            Node::Router(engine) => engine,
        }
    }

    pub(crate) fn users(&self) -> Option<&dyn Associations> {
        match self {
            Node::Associations(engine) => Some(engine.as_ref()),
            Node::Router(_) => None,
        }
    }

    pub(crate) fn users_mut(&mut self) -> Option<&mut dyn Associations> {
        match self {
            Node::Associations(engine) => Some(engine.as_mut()),
            Node::Router(_) => None,
        }
    }

    pub(crate) fn as_router(&self) -> Option<&dyn Router> {
        match self {
            Node::Router(engine) => Some(engine.as_ref()),
            Node::Associations(_) => None,
        }
    }
}
