//! An endpoint of a C program: calls wait unless its descriptor is non-blocking.

use crate::descriptor::Descriptor;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use xti::{Error, StreamOptions, TliError, XtiEndpoint};

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
        let endpoint = Arc::new(Endpoint {
            xti: XtiEndpoint::open_device(name, StreamOptions::default())?,
            descriptor: Descriptor::new(is_nonblocking)?,
            was_refused: AtomicBool::new(false),
        });
        let weak = Arc::downgrade(&endpoint);
        endpoint.xti.on_look(move || {
            if let Some(endpoint) = weak.upgrade() {
                // What fails here fails in the next call too, which tells it.
                let _ = endpoint.settle(Ok(()));
            }
        });
        Ok(endpoint)
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
        &self,
        what: WaitFor,
        mut attempt: impl FnMut(&XtiEndpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let result = loop {
            let result = attempt(&self.xti);
            let waits = match &result {
                Err(error) => match error.tli {
                    TliError::NoData => true,
                    TliError::Flow => {
                        self.was_refused.store(true, Ordering::Relaxed);
                        true
                    }
                    _ => false,
                },
                Ok(_) => false,
            };
            if !waits || self.descriptor.is_nonblocking() {
                break result;
            }
            if let Err(error) = self.xti.wait(what == WaitFor::Room, TURN) {
                break Err(error);
            }
        };
        self.settle(result)
    }

    /// Does what never waits.
    pub(crate) fn now<T>(
        &self,
        action: impl FnOnce(&XtiEndpoint) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.settle(action(&self.xti))
    }

    /// Lets poll say what is true after a call, whose result is passed on.
    pub(crate) fn settle<T>(&self, result: Result<T, Error>) -> Result<T, Error> {
        let readiness = self.xti.readiness()?;
        self.descriptor.show(&readiness)?;
        result
    }

    /// The event that waits (t_look); 0 for none.
    pub(crate) fn look(&self) -> Result<u32, Error> {
        let event = self.now(|xti| Ok(xti.look()))?;
        if let Some(event) = event {
            return Ok(event as u32);
        }
        let has_room = self.xti.flush(Duration::ZERO).is_ok();
        let goes = has_room && self.was_refused.swap(false, Ordering::Relaxed);
        Ok(if goes { GO_DATA } else { 0 })
    }
}
