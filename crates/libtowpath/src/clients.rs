//! Endpoints of connections that this process opens: sockets that name no address of their own, and
//! have the same options, share one.

use crate::calls::{self, Held, any};
use crate::service::Service;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// Endpoints that are kept for the next connection at most; others last as long as theirs do.
const KEPT_MAX: usize = 16;

/// Which sockets share an endpoint: those for the same kind of address with the same options.
type Class = (SocketAddr, Vec<(String, String)>);

static SHARED: Mutex<BTreeMap<Class, Arc<Service>>> = Mutex::new(BTreeMap::new());

/// The endpoint for a connection to `peer`.
pub(crate) fn service(
    local: Option<SocketAddr>,
    peer: SocketAddr,
    held: &Held,
) -> io::Result<Arc<Service>> {
    if local.is_some() {
        return start(local, peer, held);
    }
    let words = held
        .words
        .iter()
        .map(|(name, value)| (name.clone(), value.clone()));
    let class = (any(peer), words.collect());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = shared.get(&class) {
        return Ok(Arc::clone(service));
    }
    let service = start(None, peer, held)?;
    if shared.len() < KEPT_MAX {
        shared.insert(class, Arc::clone(&service));
    }
    Ok(service)
}

fn start(local: Option<SocketAddr>, peer: SocketAddr, held: &Held) -> io::Result<Arc<Service>> {
    let local = local.unwrap_or(any(peer));
    let service = Arc::new(Service::start(local, &held.settings()?, None)?);
    calls::keep(&service.running);
    Ok(service)
}
