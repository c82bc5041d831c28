//! Endpoints for outgoing connections: unbound sockets with the same options share one.

use crate::calls::{self, SocketInner};
use crate::stream_service::StreamService;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use wire_udp::route::wildcard_address;

/// Shared endpoints kept for later connections at most; others end with their connections.
const SHARED_MAX: usize = 16;

/// The option that circuits of an endpoint may differ in.
const OF_CIRCUIT: &str = "sort";

/// Sockets with the same address family and options share an endpoint; their priorities may differ.
type ShareKey = (SocketAddr, Vec<(String, String)>);

static SHARED: Mutex<BTreeMap<ShareKey, Arc<StreamService>>> = Mutex::new(BTreeMap::new());

/// The endpoint for a connection to `peer`.
pub(crate) fn service_for(
    local: Option<SocketAddr>,
    peer: SocketAddr,
    inner: &SocketInner,
) -> io::Result<Arc<StreamService>> {
    if local.is_some() {
        return start(local, peer, inner);
    }
    let options = inner
        .options
        .iter()
        .filter(|(name, _)| *name != OF_CIRCUIT)
        .map(|(name, value)| (name.clone(), value.clone()));
    let class = (wildcard_address(&peer), options.collect());
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(service) = shared.get(&class) {
        return Ok(Arc::clone(service));
    }
    let service = start(None, peer, inner)?;
    if shared.len() < SHARED_MAX {
        shared.insert(class, Arc::clone(&service));
    }
    Ok(service)
}

fn start(
    local: Option<SocketAddr>,
    peer: SocketAddr,
    inner: &SocketInner,
) -> io::Result<Arc<StreamService>> {
    let local = local.unwrap_or(wildcard_address(&peer));
    let mut settings = inner.settings()?;
    // Each circuit brings its own.
    settings.config.sort = None;
    let service = Arc::new(StreamService::start(local, &settings, None)?);
    calls::register_for_exit(&service.running);
    Ok(service)
}
