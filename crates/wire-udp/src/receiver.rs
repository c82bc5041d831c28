//! The waiting side of a [`UdpWire`](crate::UdpWire): busy-polls where that pays, then sleeps.

use crate::multicast::GroupReceiver;
use crate::{Shared, receive, sys};
use engine::{Address, PacketLen};
use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;
use wire::{Arrival, BusyPoll, Receiver, busy_poll};

/// Waits on the wire's sockets.
pub struct UdpReceiver {
    pub(crate) socket: UdpSocket,
    pub(crate) max_wait: Option<Duration>,
    pub(crate) shared: Arc<Shared>,
    /// The address at which this socket receives its own datagrams, for interrupts.
    pub(crate) own: Option<SocketAddr>,
    pub(crate) packet_len: Option<PacketLen>,
    pub(crate) spin: Duration,
    pub(crate) busy_poll: BusyPoll,
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
        let socket = self.socket.as_fd();
        let mut receive = |waits| receive(socket, buffer, peer, self.packet_len, waits);
        let early = match self.spin.is_zero() {
            true => self.busy_poll.poll(|| receive(false)),
            false => busy_poll::poll_for(self.spin, || receive(false)),
        };
        early.unwrap_or_else(|| receive(true))
    }

    /// Receives on any of several sockets.
    fn recv_any(&self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let waiting = (self.max_wait, Some(&self.busy_poll));
        let own = self.socket.as_fd();
        let members = &self.shared.members;
        self.groups.receive(members, own, waiting, |socket| {
            receive(socket, buffer, None, self.packet_len, false)
        })
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
        self.busy_poll.note_arrival(arrived.len);
        Ok(arrived)
    }

    fn interrupt(&self) -> io::Result<()> {
        let own = self.own.filter(|_| self.is_interruptible());
        let own = own.ok_or(io::ErrorKind::Unsupported)?;
        interrupt(self.socket.as_fd(), own)
    }

    fn hint_busy_poll(&self) {
        self.busy_poll.hint();
    }

    fn is_interruptible(&self) -> bool {
        self.own.is_some() && self.shared.peer.get().is_none()
    }
}

/// Sends an empty datagram to the socket's own address, which ends a wait on it.
pub(crate) fn interrupt(socket: BorrowedFd<'_>, own: SocketAddr) -> io::Result<()> {
    sys::send_segmented(socket, Some(own), &[IoSlice::new(&[])], None)
}

/// The address at which this host reaches a socket bound to `local`.
pub(crate) fn local_destination(mut local: SocketAddr) -> SocketAddr {
    if local.ip().is_unspecified() {
        local.set_ip(match local {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    local
}
