//! Waits for what is below the stream: sockets of the kernel, rings of shared memory, protocols.

use super::connections::time_left;
use super::{Inner, Provider, XtiEndpoint, XtiState};
use crate::carrier::CarriedProtocol;
use crate::connections::{ConnectionProvider, Sleep, Waits};
use crate::datagrams::DatagramProvider;
use crate::error::{Error, TliError};
use crate::loopback::{LoopDatagrams, LoopProtocol};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The longest wait that a driver prepared before it is looked at again: another thread may have taken the
/// wake.
const TURN: Duration = Duration::from_millis(50);

/// The same while something has arrived in part.
const TURN_OF_ARRIVAL: Duration = Duration::from_millis(1);

/// What tells that a call on an endpoint may succeed.
#[derive(Clone, Debug)]
pub enum XtiReadiness {
    /// An event waits: see [`XtiEndpoint::look`].
    Now,
    /// An event comes when this is readable, and there is no room while it is not writable.
    Socket(Arc<Socket>),
    /// An event comes when this is readable; there is room, or nothing can be sent.
    Readable(Arc<Socket>),
    /// The answer to a connect comes when this is writable.
    Writable(Arc<Socket>),
    /// A protocol in this process tells it, by [`XtiEndpoint::wait`] alone.
    InProcess,
    /// Nothing comes: there is no address or no connection yet.
    Nothing,
}

impl XtiEndpoint {
    /// Waits until the provider has something to say, or has room, at most as long as told, and perhaps
    /// shorter.
    ///
    /// # Errors
    ///
    /// What poll refuses; EINTR when a signal came while it waited on a descriptor.
    pub fn wait(&self, write: bool, limit: Duration) -> Result<(), Error> {
        self.wait_once(write, Some(limit))
    }

    /// As [`XtiEndpoint::wait`]; a signal ends it without an error.
    pub(super) fn wait_below(&self, write: bool, limit: Option<Duration>) -> Result<(), Error> {
        match self.wait_once(write, limit) {
            Err(error) if error.errno == rustix::io::Errno::INTR.raw_os_error() => Ok(()),
            other => other,
        }
    }

    /// Makes a call again until there is room (`write`), or something to receive, at most so long.
    pub(super) fn repeat_within<T>(
        &self,
        write: bool,
        limit: Duration,
        mut call: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let blocked = match write {
            true => TliError::Flow,
            false => TliError::NoData,
        };
        let mut deadline = None;
        loop {
            let done = call();
            if !matches!(&done, Err(error) if error.tli == blocked) {
                return done;
            }
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + limit);
            let Some(left) = time_left(deadline) else {
                return done;
            };
            self.wait_below(write, Some(left))?;
        }
    }

    fn wait_once(&self, write: bool, limit: Option<Duration>) -> Result<(), Error> {
        if self.shared.provider.has_waits() {
            return self.wait_prepared(write, limit);
        }
        match self.socket() {
            Some(_) if write && self.shared.socket.look_soon.load(Ordering::Relaxed) => {
                std::thread::sleep(limit.unwrap_or(TURN).min(TURN_OF_ARRIVAL));
                Ok(())
            }
            Some(socket) => {
                // Urgent data make nothing readable.
                let flags = match write {
                    true => PollFlags::OUT,
                    false => PollFlags::IN | PollFlags::PRI,
                };
                self.poll(&socket, flags, limit).map(drop)
            }
            None => Ok(()),
        }
    }

    fn poll(
        &self,
        socket: &Socket,
        flags: PollFlags,
        limit: Option<Duration>,
    ) -> Result<bool, Error> {
        self.shared.waits.fetch_add(1, Ordering::Relaxed);
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut [PollFd::new(socket, flags)], limit.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Waits as the driver has prepared it.
    fn wait_prepared(&self, write: bool, limit: Option<Duration>) -> Result<(), Error> {
        let provider = self.shared.provider;
        let mut inner = self.lock();
        let sleep = inner.with_waits(provider, |driver| driver.prepare_wait(write))?;
        let turn = match self.shared.socket.look_soon.load(Ordering::Relaxed) {
            true => TURN_OF_ARRIVAL,
            false => TURN,
        };
        let limit = limit.map_or(turn, |limit| limit.min(turn));
        match sleep {
            Sleep::Not => Ok(()),
            // Another thread has looked since, and put here what came.
            Sleep::By(..) if !write && inner.look().is_some() => Ok(()),
            Sleep::By(waiter, seen) => {
                drop(inner);
                self.shared.waits.fetch_add(1, Ordering::Relaxed);
                Ok(waiter.wait(seen, limit)?)
            }
            Sleep::OnDescriptor => {
                drop(inner);
                self.wait_on_descriptor(limit)
            }
        }
    }

    fn wait_on_descriptor(&self, limit: Duration) -> Result<(), Error> {
        let Some(socket) = self.socket() else {
            // Nothing is there to wait for, but a connection that another stream passes on.
            std::thread::sleep(limit.min(TURN_OF_ARRIVAL));
            return Ok(());
        };
        if self.poll(&socket, PollFlags::IN, Some(limit))? {
            let provider = self.shared.provider;
            self.lock()
                .with_waits(provider, |driver| driver.take_wakes())?;
        }
        Ok(())
    }

    /// What tells an event loop that a call may succeed now. It holds until the next call on the endpoint.
    ///
    /// # Errors
    ///
    /// [`TliError::System`] when the stream has failed.
    pub fn readiness(&self) -> Result<XtiReadiness, Error> {
        let mut inner = self.lock();
        let provider = self.shared.provider;
        if provider == Provider::Datagrams && inner.look().is_none() {
            // What a carrier has taken in is no longer in its socket.
            inner.run();
        }
        if inner.look().is_some() {
            return Ok(XtiReadiness::Now);
        }
        if !provider.has_waits() {
            let of_socket = match (inner.state, provider) {
                (XtiState::Connecting, _) => XtiReadiness::Writable,
                (XtiState::Idle | XtiState::Incoming, Provider::Tcp) => XtiReadiness::Readable,
                _ => XtiReadiness::Socket,
            };
            return Ok(self.socket().map_or(XtiReadiness::Nothing, of_socket));
        }
        let sleep = inner.with_waits(provider, |driver| {
            driver.take_wakes();
            driver.prepare_wait(false)
        })?;
        let is_connected = matches!(
            inner.state,
            XtiState::DataTransfer | XtiState::Released | XtiState::PeerReleased
        );
        let comes_in_part = self.shared.socket.look_soon.load(Ordering::Relaxed);
        Ok(match (sleep, self.socket()) {
            (Sleep::Not, _) => XtiReadiness::Now,
            // Its rest makes nothing readable.
            _ if comes_in_part => XtiReadiness::Now,
            (Sleep::OnDescriptor, Some(socket)) if is_connected => XtiReadiness::Socket(socket),
            (Sleep::OnDescriptor, Some(socket)) => XtiReadiness::Readable(socket),
            (Sleep::OnDescriptor, None) => XtiReadiness::Nothing,
            (Sleep::By(..), _) => XtiReadiness::InProcess,
        })
    }

    pub(super) fn count_calls_below(&self) {
        let provider = self.shared.provider;
        if provider.has_waits() {
            // A stream that has failed counts no more.
            let _ = self
                .lock()
                .with_waits(provider, |driver| driver.count_calls());
        }
    }

    /// Datagrams that came and were none: too short, or with a sum that is wrong.
    pub fn malformed_datagrams(&self) -> u64 {
        let inner = self.lock();
        let driver = inner.runtime.driver::<DatagramProvider>(inner.stream);
        driver.map_or(0, DatagramProvider::malformed)
    }

    /// Octets of the ring to the peer; None for other providers, and while there is none.
    pub fn ring_octets(&self) -> Option<u64> {
        let inner = self.lock();
        let (runtime, stream) = (&inner.runtime, inner.stream);
        match self.shared.provider {
            Provider::Loop(_) => {
                let driver = runtime.driver::<ConnectionProvider<LoopProtocol>>(stream);
                driver.ok()?.ring_octets()
            }
            Provider::LoopDatagrams => {
                let driver = runtime.driver::<LoopDatagrams>(stream);
                Some(driver.ok()?.ring_octets())
            }
            Provider::Tcp | Provider::Datagrams | Provider::Carried(_) => None,
        }
    }
}

impl Provider {
    /// Whether its driver prepares waits; sockets of the kernel are polled.
    fn has_waits(self) -> bool {
        !matches!(self, Provider::Tcp | Provider::Datagrams)
    }
}

impl Inner {
    pub(super) fn with_waits<T>(
        &mut self,
        provider: Provider,
        action: impl FnOnce(&mut dyn Waits) -> T,
    ) -> Result<T, Error> {
        type Loop = ConnectionProvider<LoopProtocol>;
        type Carried = ConnectionProvider<CarriedProtocol>;
        let (runtime, stream) = (&mut self.runtime, self.stream);
        Ok(match provider {
            Provider::LoopDatagrams => {
                runtime.with_driver(stream, |driver: &mut LoopDatagrams, _| action(driver))?
            }
            Provider::Carried(_) => {
                runtime.with_driver(stream, |driver: &mut Carried, _| action(driver))?
            }
            _ => runtime.with_driver(stream, |driver: &mut Loop, _| action(driver))?,
        })
    }
}
