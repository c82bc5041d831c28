//! What carries the messages of a channel to another host, and why it ended.

use super::shm::to_io_error;
use channel::ChannelError;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

/// What carries the messages of a circuit to another host.
#[derive(Debug)]
pub(super) struct Carrier {
    /// Why a proxy of the circuit ended before its channel was closed.
    pub broken: BreakReason,
    /// The proxy of this end's messages. The circuit waits for it when it is dropped.
    pub outgoing: Option<JoinHandle<()>>,
    /// Options in effect on the way.
    pub effective: BTreeMap<String, String>,
}

/// Why the proxies of a circuit broke it: the first of their errors.
#[derive(Clone, Debug, Default)]
pub(super) struct BreakReason(Arc<OnceLock<String>>);

impl BreakReason {
    /// Keeps the error, unless there is one already.
    pub(super) fn keep(&self, error: &io::Error) {
        let _ = self.0.set(error.to_string());
    }
}

/// A channel's error; of one whose proxy is gone, what the proxy ended with.
#[cold]
pub(super) fn broken(carrier: Option<&Carrier>, error: ChannelError) -> io::Error {
    let reason = carrier.and_then(|own| own.broken.0.get());
    match (error, reason) {
        (ChannelError::PeerGone, Some(reason)) => {
            let text = format!("what carries the channel to the other host ended: {reason}");
            io::Error::new(io::ErrorKind::BrokenPipe, text)
        }
        (error, _) => to_io_error(error),
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        // A proxy that panicked has nothing more to send.
        self.outgoing.take().map(JoinHandle::join);
    }
}
