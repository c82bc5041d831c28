//! An agent's host as a worker host.

use crate::Session;
use loadgen::{ClockOffset, LocalHost, WorkerHandle, WorkerHost};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

/// Workers on an agent's host.
#[derive(Clone)]
pub struct AgentHost {
    session: Arc<Session>,
    name: String,
    /// Address of its listeners.
    address: IpAddr,
    /// The peer of its workers; None for this client.
    peer: Option<IpAddr>,
}

impl AgentHost {
    /// Workers whose peer is this host.
    pub fn new(session: Arc<Session>) -> AgentHost {
        AgentHost {
            name: format!("agent {}", session.target()),
            address: session.peer().ip(),
            session,
            peer: None,
        }
    }

    /// Workers whose peer is the host at `peer`, as the agent sees it; `address` is theirs as the
    /// peer sees it.
    pub fn between(session: Arc<Session>, address: IpAddr, peer: IpAddr) -> AgentHost {
        AgentHost {
            address,
            peer: Some(peer),
            ..AgentHost::new(session)
        }
    }
}

impl WorkerHost for AgentHost {
    fn name(&self) -> &str {
        &self.name
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        let (number, channel) = self.session.spawn().map_err(io::Error::other)?;
        let session = Arc::clone(&self.session);
        let end = move || session.await_end(number);
        Ok(WorkerHandle::remote(channel, Box::new(end)))
    }

    fn spawn_program(&self, program: &Path) -> io::Result<WorkerHandle> {
        let why = format!(
            "{} runs on this host only, not on an agent's",
            program.display()
        );
        Err(io::Error::new(io::ErrorKind::Unsupported, why))
    }

    fn addresses(&self, _ipv6: bool) -> Vec<IpAddr> {
        vec![self.address]
    }

    fn allowed_peer(&self) -> Option<IpAddr> {
        self.peer
    }

    fn clock_offset(&self) -> io::Result<Option<ClockOffset>> {
        self.session
            .clock_offset()
            .map(Some)
            .map_err(io::Error::other)
    }

    fn clock_error_since(&self, first: ClockOffset) -> Result<u64, String> {
        self.session
            .clock_error_since(first)
            .map_err(|error| error.reason)
    }
}

/// Local workers whose peer is an agent's host.
#[derive(Clone, Debug)]
pub struct LocalPeer {
    host: LocalHost,
    address: IpAddr,
    peer: IpAddr,
}

impl LocalPeer {
    /// Workers of `host` whose peer is the agent of `session`.
    pub fn new(host: LocalHost, session: &Session) -> LocalPeer {
        LocalPeer {
            host,
            address: session.local().ip(),
            peer: session.peer().ip(),
        }
    }
}

impl WorkerHost for LocalPeer {
    fn name(&self) -> &str {
        "this host"
    }

    fn spawn(&self) -> io::Result<WorkerHandle> {
        self.host.spawn()
    }

    fn spawn_program(&self, program: &Path) -> io::Result<WorkerHandle> {
        self.host.spawn_program(program)
    }

    fn addresses(&self, _ipv6: bool) -> Vec<IpAddr> {
        vec![self.address]
    }

    fn allowed_peer(&self) -> Option<IpAddr> {
        Some(self.peer)
    }
}
