//! The waiting side of a wire: rings and the UDP socket in one wait.

use crate::shared::Shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wire::{Arrival, Receiver};
use wire_udp::UdpReceiver;

/// An arrival of at least this length announces bulk data: the next one is due at once.
const BULK_LEN: usize = 16 << 10;

/// Looks during bulk data before a sleep: as UDP's receiver, whose reason is the same.
const BULK_LOOKS: u32 = 32;

/// Longest busy-poll after [`Receiver::hint_busy_poll`], and hinted receives without one after it was in
/// vain: as UDP's receiver.
const HINTED_TIME: Duration = Duration::from_micros(100);
const HINTED_BACKOFF: u32 = 64;

/// Waits on the rings and the socket of a wire.
pub(crate) struct ShortcutReceiver {
    udp: UdpReceiver,
    shared: Arc<Shared>,
    in_bulk: AtomicBool,
    busy_poll_hinted: AtomicBool,
    backoff: AtomicU32,
}

impl ShortcutReceiver {
    pub(crate) fn new(udp: UdpReceiver, shared: Arc<Shared>) -> ShortcutReceiver {
        ShortcutReceiver {
            udp,
            shared,
            in_bulk: AtomicBool::new(false),
            busy_poll_hinted: AtomicBool::new(false),
            backoff: AtomicU32::new(0),
        }
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let udp = |buffer: &mut [u8]| self.udp.try_receive(buffer);
        self.shared.inbound().receive(buffer, udp)
    }

    /// Receives what is there, or comes while it pays to look.
    fn receive_early(&self, buffer: &mut [u8]) -> Option<io::Result<Arrival>> {
        let hinted = self.busy_poll_hinted.swap(false, Ordering::Relaxed);
        let mut look = |yields: bool| {
            if yields {
                // Lets a peer on the same processor run first.
                std::thread::yield_now();
            }
            match self.try_receive(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
                received => Some(received),
            }
        };
        if let Some(received) = look(false) {
            return Some(received);
        }
        let spin = self.udp.spin();
        if !spin.is_zero() {
            return look_for(spin, || look(false));
        }
        if self.in_bulk.load(Ordering::Relaxed) {
            return (0..BULK_LOOKS).find_map(|_| look(true));
        }
        if !hinted {
            return None;
        }
        let backoff = self.backoff.load(Ordering::Relaxed);
        if backoff > 0 {
            self.backoff.store(backoff - 1, Ordering::Relaxed);
            return None;
        }
        let received = look_for(HINTED_TIME, || look(true));
        if received.is_none() {
            self.backoff.store(HINTED_BACKOFF, Ordering::Relaxed);
        }
        received
    }

    /// Waits without rings: the system call that waits receives too.
    fn receive_by_udp(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
        if self.busy_poll_hinted.swap(false, Ordering::Relaxed) {
            self.udp.hint_busy_poll();
        }
        let arrival = self.udp.receive(buffer)?;
        Ok(self.shared.inbound().take_offers(arrival, buffer))
    }

    /// Ends a receive that brought nothing. Other threads may be polling the descriptor: the peers are left asked
    /// for wakes, and packets that they sent before are taken.
    fn leave(&self, buffer: &mut [u8], error: io::Error) -> io::Result<Arrival> {
        let mut inbound = self.shared.inbound();
        match inbound.prepare_wait() {
            true => Err(error),
            false => inbound.receive_ring(buffer).ok_or(error),
        }
    }

    fn receive_any(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let began = Instant::now();
        loop {
            if !self.shared.inbound().is_in_use() {
                if let Some(arrival) = self.receive_by_udp(buffer)? {
                    return Ok(arrival);
                }
                continue;
            }
            if let Some(received) = self.receive_early(buffer) {
                return received;
            }
            if !self.shared.inbound().prepare_wait() {
                continue;
            }
            let left = self.max_wait().saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let mut ready = [PollFd::new(&*self.shared.epoll, PollFlags::IN)];
            match poll(&mut ready, Timespec::try_from(left).ok().as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whether a receive only brought nothing.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Calls `look` until it finds something or `time` is over.
fn look_for<T>(time: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let found = look();
        if found.is_some() || began.elapsed() >= time {
            return found;
        }
        std::hint::spin_loop();
    }
}

impl Receiver for ShortcutReceiver {
    fn max_wait(&self) -> Duration {
        self.udp.max_wait()
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let arrival = match self.receive_any(buffer) {
            Err(error) if is_passing(&error) => self.leave(buffer, error)?,
            received => received?,
        };
        self.in_bulk
            .store(arrival.len >= BULK_LEN, Ordering::Relaxed);
        Ok(arrival)
    }

    fn interrupt(&self) -> io::Result<()> {
        self.udp.interrupt()
    }

    fn hint_busy_poll(&self) {
        self.busy_poll_hinted.store(true, Ordering::Relaxed);
    }

    fn is_interruptible(&self) -> bool {
        self.udp.is_interruptible()
    }
}
