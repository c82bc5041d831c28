//! An endpoint of a C program: calls wait unless its descriptor is non-blocking.

use crate::descriptor::Descriptor;
use crate::watcher::Watcher;
use library::xti_carrier;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use xti::{Error, StreamOptions, TliError, XtiEndpoint, XtiReadiness};

/// T_GODATA: what flow control held back may go now.
const GO_DATA: u32 = 0x100;

/// One wait of many that have no end together.
const TURN: Duration = Duration::from_secs(3600);

/// The endpoint behind a descriptor.
pub(crate) struct Endpoint {
    xti: XtiEndpoint,
    descriptor: Descriptor,
    /// A call was told TFLOW, and t_look has not said T_GODATA since.
    was_refused: AtomicBool,
    watcher: Watcher,
}

/// Opens an endpoint by the name of its provider: one of crate `xti`, or of our own protocols.
fn open_device(name: &str) -> Result<XtiEndpoint, Error> {
    let options = StreamOptions::default();
    let carrier = match name {
        "/dev/udp_s" => return XtiEndpoint::open_datagrams(xti_carrier::udp(), options),
        "/dev/rawip" => return XtiEndpoint::open_datagrams(xti_carrier::rawip(), options),
        "/dev/xtp" => xti_carrier::xtp(&library::xtp::EndpointConfig::default()),
        "/dev/sctp_t" => xti_carrier::sctp(&library::sctp::EndpointConfig::default()),
        _ => return XtiEndpoint::open_device(name, options),
    };
    XtiEndpoint::open_over(carrier, options)
}

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitFor {
    Event,
    Room,
}

impl Endpoint {
    /// Opens an endpoint of a provider (t_open).
    pub(crate) fn open(name: &str, is_nonblocking: bool) -> Result<Arc<Endpoint>, Error> {
        Ok(Arc::new(Endpoint {
            xti: open_device(name)?,
            descriptor: Descriptor::new(is_nonblocking)?,
            was_refused: AtomicBool::new(false),
            watcher: Watcher::default(),
        }))
    }

    /// The endpoint of crate `xti`.
    pub(crate) fn xti(&self) -> &XtiEndpoint {
        &self.xti
    }

    /// Its descriptor's number.
    pub(crate) fn fd(&self) -> RawFd {
        self.descriptor.number()
    }

    /// Closes the descriptor (t_close).
    pub(crate) fn close_descriptor(&self) {
        self.descriptor.close();
    }

    /// The program closed the descriptor by close(2).
    pub(crate) fn forget_descriptor(&self) {
        self.descriptor.forget();
    }

    /// Tries until it has an answer; TNODATA and TFLOW are answers of a non-blocking descriptor only. A signal ends
    /// a wait with EINTR.
    pub(crate) fn until<T>(
        self: &Arc<Self>,
        what: WaitFor,
        attempt: impl FnMut(&XtiEndpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let result = self.attempts(what, attempt);
        self.settle(result)
    }

    /// As [`Endpoint::until`], for what only sends: what poll says stays, also for other threads that poll now.
    pub(crate) fn until_sent<T>(
        &self,
        attempt: impl FnMut(&XtiEndpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.attempts(WaitFor::Room, attempt)
    }

    fn attempts<T>(
        &self,
        what: WaitFor,
        mut attempt: impl FnMut(&XtiEndpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            let result = attempt(&self.xti);
            match &result {
                Err(error) if error.tli == TliError::Flow => {
                    self.was_refused.store(true, Ordering::Relaxed);
                }
                Err(error) if error.tli == TliError::NoData => {}
                _ => return result,
            }
            if self.descriptor.is_nonblocking() {
                return result;
            }
            self.watcher.begin_wait();
            let waited = self.xti.wait(what == WaitFor::Room, TURN);
            self.watcher.end_wait();
            waited?;
        }
    }

    /// Does what never waits.
    pub(crate) fn now<T>(
        self: &Arc<Self>,
        action: impl FnOnce(&XtiEndpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.settle(action(&self.xti))
    }

    /// Lets poll say what is true after a call, whose result is passed on.
    pub(crate) fn settle<T>(self: &Arc<Self>, result: Result<T, Error>) -> Result<T, Error> {
        let readiness = self.xti.readiness()?;
        self.descriptor.show(&readiness)?;
        if matches!(readiness, XtiReadiness::InProcess) {
            self.watcher.watch(Arc::downgrade(self));
        }
        result
    }

    pub(crate) fn watcher(&self) -> &Watcher {
        &self.watcher
    }

    /// Waits for an event, at most this long; whether one waits, which poll says then.
    pub(crate) fn waits_after(&self, limit: Duration) -> bool {
        // What fails here fails in the next call too, which tells it.
        let waited = self.xti.wait(false, limit);
        if waited.is_ok() && self.xti.look().is_none() {
            return false;
        }
        self.descriptor.signal();
        true
    }

    /// The event that waits (t_look); 0 for none.
    pub(crate) fn look(self: &Arc<Self>) -> Result<u32, Error> {
        let event = self.now(|xti| Ok(xti.look()))?;
        if let Some(event) = event {
            return Ok(event as u32);
        }
        let has_room = self.xti.flush(Duration::ZERO).is_ok();
        let goes = has_room && self.was_refused.swap(false, Ordering::Relaxed);
        Ok(if goes { GO_DATA } else { 0 })
    }
}
