//! The waiting side of a wire: rings and the UDP socket in one wait.

use crate::shared::Shared;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use wire::{Arrival, BusyPoll, Receiver, busy_poll};
use wire_udp::UdpReceiver;

/// Waits on the rings and the socket of a wire.
pub(crate) struct ShortcutReceiver {
    udp: UdpReceiver,
    shared: Arc<Shared>,
    busy_poll: BusyPoll,
}

impl ShortcutReceiver {
    pub(crate) fn new(udp: UdpReceiver, shared: Arc<Shared>) -> ShortcutReceiver {
        ShortcutReceiver {
            udp,
            shared,
            busy_poll: BusyPoll::default(),
        }
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let udp = |buffer: &mut [u8]| self.udp.try_receive(buffer);
        self.shared.inbound().receive(buffer, udp)
    }

    /// Receives what is there, or comes while it pays to poll.
    fn receive_early(&self, buffer: &mut [u8]) -> Option<io::Result<Arrival>> {
        match self.try_receive(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return Some(received),
        }
        let spin = self.udp.spin();
        match spin.is_zero() {
            true => self.busy_poll.poll(|| self.try_receive(buffer)),
            false => busy_poll::poll_for(spin, || self.try_receive(buffer)),
        }
    }

    /// Waits without rings: the system call that waits receives too.
    fn receive_by_udp(&self, buffer: &mut [u8]) -> io::Result<Option<Arrival>> {
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
        let mut began = None;
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
            // Without rings the clock is not read.
            let began = *began.get_or_insert_with(Instant::now);
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

impl Receiver for ShortcutReceiver {
    fn max_wait(&self) -> Duration {
        self.udp.max_wait()
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let arrival = match self.receive_any(buffer) {
            Err(error) if is_passing(&error) => self.leave(buffer, error)?,
            received => received?,
        };
        self.busy_poll.note_arrival(arrival.len);
        Ok(arrival)
    }

    fn interrupt(&self) -> io::Result<()> {
        self.udp.interrupt()
    }

    fn hint_busy_poll(&self) {
        // Whichever receives next.
        self.busy_poll.hint();
        self.udp.hint_busy_poll();
    }

    fn is_interruptible(&self) -> bool {
        self.udp.is_interruptible()
    }
}
