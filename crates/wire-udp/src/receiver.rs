//! The waiting side of a [`UdpWire`](crate::UdpWire): busy-polls where that pays, then sleeps.

use crate::multicast::GroupReceiver;
use crate::{Shared, interrupt, receive, sys};
use engine::{Address, PacketLen};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use wire::{Arrival, Receiver};

/// An arrival of at least this length announces bulk data: the next one is due at once.
const BULK_LEN: usize = 16 << 10;

/// Tries of a receive during bulk data before it sleeps: some 20 us. Waking an idle processor costs
/// the sender more (on virtual machines, a fifth of its time).
const SPIN_TRIES: u32 = 32;

/// Longest busy-poll after [`Receiver::hint_busy_poll`]. An idle processor takes 30 us to wake on a
/// virtual machine, and so does the peer's.
const SPIN_TIME: Duration = Duration::from_micros(100);

/// Hinted receives without busy-polling after one that polled without success. It bounds the cost
/// when replies are slow or other threads want the processor.
const SPIN_BACKOFF: u32 = 64;

/// Waits on the wire's sockets.
pub struct UdpReceiver {
    pub(crate) socket: UdpSocket,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) shared: Arc<Shared>,
    /// The address at which this socket receives its own datagrams, for interrupts.
    pub(crate) own: Option<SocketAddr>,
    pub(crate) packet_len: Option<PacketLen>,
    pub(crate) spin: Duration,
    /// The last arrival had at least [`BULK_LEN`] octets.
    pub(crate) in_bulk: AtomicBool,
    /// [`Receiver::hint_busy_poll`] was called since the last receive.
    pub(crate) busy_poll_hinted: AtomicBool,
    /// Hinted receives that are still not to busy-poll.
    pub(crate) spin_backoff: AtomicU32,
    pub(crate) groups: GroupReceiver,
}

impl UdpReceiver {
    /// Receives as [`Receiver::receive`] does, without waiting.
    ///
    /// # Errors
    ///
    /// `WouldBlock` when nothing is there, else those of [`Receiver::receive`].
    pub fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let own = self.socket.as_fd();
        let members = &self.shared.members;
        let received = if members.is_empty() {
            let peer = self.shared.peer.get().copied();
            receive(own, buffer, peer, self.packet_len, false)
        } else {
            self.groups.try_receive(members, own, |socket| {
                receive(socket, buffer, None, self.packet_len, false)
            })
        };
        self.checked(received)
    }

    /// How long it busy-polls before it sleeps.
    pub fn spin(&self) -> Duration {
        self.spin
    }

    /// What a receive brought; an empty datagram is an interrupt.
    fn checked(&self, received: io::Result<Arrival>) -> io::Result<Arrival> {
        let arrived = self.shared.check(received)?;
        // An interrupt is an empty datagram from a real sender; a socket that was shut down for
        // reading gives no octets without one.
        let is_empty = arrived.len == 0 && arrived.path.remote != Address::Socket(sys::NO_SENDER);
        if is_empty && self.is_interruptible() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(arrived)
    }

    /// Receives on the only socket of a wire without groups.
    fn recv_unicast(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let peer = self.shared.peer.get().copied();
        let early = if !self.spin.is_zero() {
            self.spin_configured(buffer, peer)
        } else if self.in_bulk.load(Ordering::Relaxed) {
            self.spin_in_bulk(buffer, peer)
        } else if self.busy_poll_hinted.load(Ordering::Relaxed) {
            self.spin_once_hinted(buffer, peer)
        } else {
            None
        };
        self.busy_poll_hinted.store(false, Ordering::Relaxed);
        early.unwrap_or_else(|| receive(self.socket.as_fd(), buffer, peer, self.packet_len, true))
    }

    /// Receives on any of several sockets.
    fn recv_any(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let in_bulk = self.in_bulk.load(Ordering::Relaxed);
        let spin_tries = if in_bulk { SPIN_TRIES } else { 0 };
        let limits = (self.max_wait, spin_tries);
        let own = self.socket.as_fd();
        let members = &self.shared.members;
        self.groups.receive(members, own, limits, |socket| {
            receive(socket, buffer, None, self.packet_len, false)
        })
    }

    /// Busy-polls for the time set with [`UdpWire::set_spin`](crate::UdpWire::set_spin).
    fn spin_configured(
        &self,
        buffer: &mut [u8],
        peer: Option<SocketAddr>,
    ) -> Option<io::Result<Arrival>> {
        let began = Instant::now();
        while began.elapsed() < self.spin {
            match receive(self.socket.as_fd(), buffer, peer, self.packet_len, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::hint::spin_loop(),
                arrived => return Some(arrived),
            }
        }
        None
    }

    /// Busy-polls for up to [`SPIN_TIME`] after a hint, unless a recent poll had no success.
    fn spin_once_hinted(
        &self,
        buffer: &mut [u8],
        peer: Option<SocketAddr>,
    ) -> Option<io::Result<Arrival>> {
        let backoff = self.spin_backoff.load(Ordering::Relaxed);
        if backoff > 0 {
            self.spin_backoff.store(backoff - 1, Ordering::Relaxed);
            return None;
        }
        let mut began = None;
        loop {
            // Lets a peer on the same processor run first.
            std::thread::yield_now();
            match receive(self.socket.as_fd(), buffer, peer, self.packet_len, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                arrived => return Some(arrived),
            }
            if began.get_or_insert_with(Instant::now).elapsed() >= SPIN_TIME {
                break;
            }
        }
        self.spin_backoff.store(SPIN_BACKOFF, Ordering::Relaxed);
        None
    }

    /// Tries [`SPIN_TRIES`] times during bulk data.
    fn spin_in_bulk(
        &self,
        buffer: &mut [u8],
        peer: Option<SocketAddr>,
    ) -> Option<io::Result<Arrival>> {
        for _ in 0..SPIN_TRIES {
            match receive(self.socket.as_fd(), buffer, peer, self.packet_len, false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::yield_now();
                }
                arrived => return Some(arrived),
            }
        }
        None
    }
}

impl Receiver for UdpReceiver {
    fn max_wait(&self) -> Duration {
        self.max_wait.unwrap_or(Duration::MAX)
    }

    fn receive(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let received = match self.shared.members.is_empty() {
            true => self.recv_unicast(buffer),
            false => self.recv_any(buffer),
        };
        let arrived = self.checked(received)?;
        let in_bulk = arrived.len >= BULK_LEN;
        self.in_bulk.store(in_bulk, Ordering::Relaxed);
        Ok(arrived)
    }

    fn interrupt(&self) -> io::Result<()> {
        let own = self.own.filter(|_| self.is_interruptible());
        let own = own.ok_or(io::ErrorKind::Unsupported)?;
        interrupt(self.socket.as_fd(), own)
    }

    fn hint_busy_poll(&self) {
        self.busy_poll_hinted.store(true, Ordering::Relaxed);
    }

    fn is_interruptible(&self) -> bool {
        self.own.is_some() && self.shared.peer.get().is_none()
    }
}
