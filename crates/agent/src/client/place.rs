//! An agent's host as a place for workers.

use super::Session;
use measure::{ClockOffset, Place, ThisHost, WorkerHandle};
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

/// Workers on an agent's host.
#[derive(Clone)]
pub struct AgentPlace {
    session: Arc<Session>,
    name: String,
    /// Where its listeners are found.
    address: IpAddr,
    /// Whom its workers speak with; None for this session's own client.
    peer: Option<IpAddr>,
}

impl AgentPlace {
    /// Workers that speak with this host.
    pub fn new(session: Arc<Session>) -> AgentPlace {
        AgentPlace {
            name: format!("agent {}", session.target()),
            address: session.peer().ip(),
            session,
            peer: None,
        }
    }

    /// Workers that speak with the host at `peer`, as the agent sees it, and are found at `address`
    /// from there.
    pub fn between(session: Arc<Session>, address: IpAddr, peer: IpAddr) -> AgentPlace {
        AgentPlace {
            address,
            peer: Some(peer),
            ..AgentPlace::new(session)
        }
    }
}

impl Place for AgentPlace {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        let (number, channel) = self.session.spawn().map_err(io::Error::other)?;
        let session = Arc::clone(&self.session);
        let end = move || session.await_end(number);
        Ok(WorkerHandle::elsewhere(channel, Box::new(end)))
    }

    fn address(&self, _ipv6: bool) -> Option<IpAddr> {
        Some(self.address)
    }

    fn peer(&self) -> Option<IpAddr> {
        self.peer
    }

    fn clock(&self) -> io::Result<Option<ClockOffset>> {
        self.session.clock().map(Some).map_err(io::Error::other)
    }

    fn clock_since(&self, first: ClockOffset) -> Result<u64, String> {
        self.session.clock_since(first).map_err(|error| error.why)
    }
}

/// Workers on this host that speak with an agent's.
#[derive(Clone, Debug)]
pub struct NearPlace {
    host: ThisHost,
    address: IpAddr,
    peer: IpAddr,
}

impl NearPlace {
    /// Workers of `host` that speak with the agent of `session`.
    pub fn new(host: ThisHost, session: &Session) -> NearPlace {
        NearPlace {
            host,
            address: session.local().ip(),
            peer: session.peer().ip(),
        }
    }
}

impl Place for NearPlace {
    fn name(&self) -> &str {
        "this host"
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        self.host.spawn()
    }

    fn address(&self, _ipv6: bool) -> Option<IpAddr> {
        Some(self.address)
    }

    fn peer(&self) -> Option<IpAddr> {
        Some(self.peer)
    }
}
