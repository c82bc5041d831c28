//! Waits for what is below the stream: sockets of the kernel, or rings of shared memory.

use super::{Inner, Provider, XtiEndpoint};
use crate::connections::LoopProvider;
use crate::error::Error;
use crate::loopback::{LoopDatagrams, Waits};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::Socket;
use std::io;
use std::time::Duration;

/// The longest wait for rings before they are looked at again: another thread may have taken the wake.
const TURN: Duration = Duration::from_millis(50);

/// The same while something has arrived in part.
const TURN_OF_ARRIVAL: Duration = Duration::from_millis(1);

impl XtiEndpoint {
    /// Waits until the provider has something to say, or has room, at most as long as told, and perhaps
    /// shorter.
    ///
    /// # Errors
    ///
    /// What poll refuses.
    pub fn wait(&self, write: bool, limit: Duration) -> Result<(), Error> {
        self.wait_below(write, Some(limit))
    }

    pub(super) fn wait_below(&self, write: bool, limit: Option<Duration>) -> Result<(), Error> {
        let is_ring = self.shared.provider.has_rings();
        match self.socket() {
            Some(socket) if is_ring => self.wait_for_rings(&socket, write, limit),
            Some(socket) => {
                let flags = if write { PollFlags::OUT } else { PollFlags::IN };
                self.poll(&socket, flags, limit).map(drop)
            }
            None if is_ring => {
                // Nothing is there to wait for, but a connection that another stream passes on.
                std::thread::sleep(limit.unwrap_or(TURN_OF_ARRIVAL).min(TURN_OF_ARRIVAL));
                Ok(())
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
        use std::sync::atomic::Ordering;
        self.shared.waits.fetch_add(1, Ordering::Relaxed);
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut [PollFd::new(socket, flags)], limit.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(io::Error::from(error).into()),
        }
    }

    /// Asks the peers for a wake, and polls the descriptor by which it comes.
    fn wait_for_rings(
        &self,
        socket: &Socket,
        write: bool,
        limit: Option<Duration>,
    ) -> Result<(), Error> {
        use std::sync::atomic::Ordering;
        let provider = self.shared.provider;
        let may_sleep = |driver: &mut dyn Waits| driver.prepare_wait(write);
        if !self.lock().with_rings(provider, may_sleep)? {
            return Ok(());
        }
        let turn = match self.shared.socket.look_soon.load(Ordering::Relaxed) {
            true => TURN_OF_ARRIVAL,
            false => TURN,
        };
        let limit = limit.map_or(turn, |limit| limit.min(turn));
        if self.poll(socket, PollFlags::IN, Some(limit))? {
            let take = |driver: &mut dyn Waits| driver.take_wakes();
            self.lock().with_rings(provider, take)?;
        }
        Ok(())
    }

    pub(super) fn count_calls_of_rings(&self) {
        let provider = self.shared.provider;
        if provider.has_rings() {
            let count = |driver: &mut dyn Waits| driver.count_calls();
            // A stream that has failed counts no more.
            let _ = self.lock().with_rings(provider, count);
        }
    }

    /// Octets of the ring to the peer; None for other providers, and while there is none.
    pub fn ring_octets(&self) -> Option<u64> {
        let inner = self.lock();
        match self.shared.provider {
            Provider::Loop(_) => {
                let driver = inner.runtime.driver::<LoopProvider>(inner.stream);
                driver.ok()?.ring_octets()
            }
            Provider::LoopDatagrams => {
                let driver = inner.runtime.driver::<LoopDatagrams>(inner.stream);
                Some(driver.ok()?.ring_octets())
            }
            Provider::Tcp | Provider::Udp => None,
        }
    }
}

impl Provider {
    fn has_rings(self) -> bool {
        matches!(self, Provider::Loop(_) | Provider::LoopDatagrams)
    }
}

impl Inner {
    fn with_rings<T>(
        &mut self,
        provider: Provider,
        action: impl FnOnce(&mut dyn Waits) -> T,
    ) -> Result<T, Error> {
        let (runtime, stream) = (&mut self.runtime, self.stream);
        Ok(match provider {
            Provider::LoopDatagrams => {
                runtime.with_driver(stream, |driver: &mut LoopDatagrams, _| action(driver))?
            }
            _ => runtime.with_driver(stream, |driver: &mut LoopProvider, _| action(driver))?,
        })
    }
}
