//! The endpoints of this process by their descriptors.

use crate::endpoint::Endpoint;
use std::os::fd::RawFd;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use xti::{Error, TliError};

/// By the number of the descriptor: never longer than the limit of open files.
static TABLE: RwLock<Vec<Option<Arc<Endpoint>>>> = RwLock::new(Vec::new());

/// The endpoint of a descriptor. Fails with [`TliError::BadEndpoint`] for a descriptor that is none.
pub(crate) fn find(fd: RawFd) -> Result<Arc<Endpoint>, Error> {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    let found = usize::try_from(fd).ok().and_then(|at| table.get(at));
    Ok(found.cloned().flatten().ok_or(TliError::BadEndpoint)?)
}

/// Adds an endpoint. One that had the number was closed by close(2), and ends now.
pub(crate) fn insert(endpoint: Arc<Endpoint>) {
    let at = endpoint.fd() as usize;
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    if table.len() <= at {
        table.resize(at + 1, None);
    }
    let old = table[at].replace(endpoint);
    drop(table);
    if let Some(old) = old {
        old.forget_descriptor();
    }
}

/// Takes an endpoint out. Fails with [`TliError::BadEndpoint`] for a descriptor that is none.
pub(crate) fn remove(fd: RawFd) -> Result<Arc<Endpoint>, Error> {
    let mut table = TABLE.write().unwrap_or_else(PoisonError::into_inner);
    let found = usize::try_from(fd).ok().and_then(|at| table.get_mut(at));
    Ok(found.and_then(Option::take).ok_or(TliError::BadEndpoint)?)
}

/// Lets what endpoints have queued leave, as far as it can without waiting: a forked child has a copy of the queues.
pub(crate) fn flush_all() {
    let table = TABLE.read().unwrap_or_else(PoisonError::into_inner);
    for endpoint in table.iter().flatten() {
        // What the kernel does not take now stays queued.
        let _ = endpoint.xti().flush(Duration::ZERO);
    }
}
