//! UDP as a wire, with a shortcut between processes of one host: packets go through rings of shared memory
//! to peers that have them, and in datagrams to all others.
//!
//! [`ShortcutWire`] is [`wire_udp::UdpWire`] until its user turns the shortcut on. The side that opens
//! an association makes its peer an offer ([`ShortcutHandle::offer_to`]): a datagram beside the others, which
//! a process of the same host recognises ([`offer`]). The peer connects to a Unix socket whose name follows from
//! the offer ([`MeetingPlace`]), the kernel says of which user each is, and the maker of the offer passes
//! it a ring each way (crate `channel`). From then on each call of the wire is a message of the ring.
//! Engines, windows, retransmission and close do not notice.
//!
//! - A ring that ends, because the peer is gone or writes what no correct peer writes, is left: packets go
//!   by UDP again, and the association lives on. What was lost with it is retransmitted.
//! - A ring that is full holds nobody up: further packets go by UDP.
//! - Both halves have one descriptor, an epoll of the socket, the rings' lifelines and meetings. A peer
//!   writes into a lifeline only when it was asked for a wake ([`wire::Wire::may_wait`]), so that two
//!   ends that are busy make no system calls.
//!
//! Modules: [`offer`] is the datagram, `boot` the host's identifier, `meeting` the socket, `ring` the rings with one
//! peer, `inbound` and `outbound` the two halves, `shared` what is between them, `receiver` the wait, `observer` for captures.
#![forbid(unsafe_code)]

mod boot;
mod inbound;
mod meeting;
mod observer;
pub mod offer;
mod outbound;
mod receiver;
mod ring;
mod shared;
#[cfg(test)]
mod swarm;

pub use boot::BootId;
pub use meeting::MeetingPlace;
pub use observer::RingObserver;
pub use shared::{RingReport, ShortcutHandle};

use engine::{Address, Fragmentation, PacketLen, Path};
use inbound::{Inbound, UDP};
use offer::{NONCE_LEN, Nonce};
use outbound::Outbound;
use receiver::ShortcutReceiver;
use rustix::event::epoll;
use rustix::rand::GetRandomFlags;
use shared::{Shared, Updates};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use wire::{Arrival, Capabilities, PathReport, Receiver, Taken, Wire};
use wire_udp::UdpWire;

/// UDP as a wire, with a shortcut if it was turned on.
#[derive(Debug)]
pub struct ShortcutWire {
    udp: UdpWire,
    shortcut: Option<Shortcut>,
}

#[derive(Debug)]
struct Shortcut {
    shared: Arc<Shared>,
    outbound: Outbound,
    /// The epoll also waits for room in the UDP socket.
    awaits_room: bool,
}

impl ShortcutWire {
    /// `udp` alone: no offers are made or answered.
    pub fn off(udp: UdpWire) -> ShortcutWire {
        ShortcutWire {
            udp,
            shortcut: None,
        }
    }

    /// `udp` with the shortcut, which meets peers of the host `boot` at `place`.
    ///
    /// # Errors
    ///
    /// `NotFound` for a directory that is none, and what the system refuses.
    pub fn on(udp: UdpWire, place: MeetingPlace, boot: BootId) -> io::Result<ShortcutWire> {
        if let MeetingPlace::Directory(directory) = &place
            && !directory.is_dir()
        {
            let text = format!(
                "{} is no directory: make it, or give shortcut=on for processes of one network namespace",
                directory.display()
            );
            return Err(io::Error::new(io::ErrorKind::NotFound, text));
        }
        let epoll = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        if let Some(socket) = udp.descriptor() {
            epoll::add(&*epoll, socket, udp_token(), epoll::EventFlags::IN)?;
        }
        let updates = Arc::new(Updates::default());
        let inbound = Inbound::new(boot, place, Arc::clone(&epoll), Arc::clone(&updates));
        let shared = Arc::new(Shared::new(epoll, inbound));
        Ok(ShortcutWire {
            udp,
            shortcut: Some(Shortcut {
                shared,
                outbound: Outbound::new(updates),
                awaits_room: false,
            }),
        })
    }

    /// The wire below.
    pub fn udp(&self) -> &UdpWire {
        &self.udp
    }

    /// The wire below, to be configured before receivers are made.
    pub fn udp_mut(&mut self) -> &mut UdpWire {
        &mut self.udp
    }

    /// Tells `observer` of all packets that cross rings from now on. Without a shortcut there are none.
    pub fn set_observer(&mut self, observer: &Arc<dyn RingObserver>) {
        if let Some(shortcut) = &mut self.shortcut {
            shortcut.outbound.observer = Some(Arc::clone(observer));
            shortcut.shared.inbound().observer = Some(Arc::clone(observer));
        }
    }

    /// The shortcut; None if it is off.
    pub fn handle(&self) -> Option<ShortcutHandle> {
        let shortcut = self.shortcut.as_ref()?;
        Some(ShortcutHandle(Arc::clone(&shortcut.shared)))
    }
}

fn udp_token() -> epoll::EventData {
    epoll::EventData::new_u64(UDP)
}

/// A nonce from the operating system.
fn random_nonce() -> io::Result<Nonce> {
    let mut nonce = [0; NONCE_LEN];
    let len = rustix::rand::getrandom(&mut nonce, GetRandomFlags::empty())?;
    match len == nonce.len() {
        true => Ok(nonce),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}

impl Shortcut {
    /// Puts packets into the ring of their peer; false when they are to go by UDP. An offer to the peer goes
    /// before them.
    fn send(
        &mut self,
        udp: &mut UdpWire,
        path: Path,
        slices: &[IoSlice<'_>],
        packet_len: usize,
    ) -> bool {
        let Address::Socket(peer) = path.remote else {
            return false;
        };
        if self.outbound.send(peer, slices, packet_len) {
            return true;
        }
        if let Some(offer) = self.outbound.due_offer(peer) {
            // One that is lost is sent again; what the path says of it, it says of the packets too.
            let _ = udp.send(path, &[IoSlice::new(&offer)], offer.len());
        }
        false
    }

    /// An epoll is never writable: the descriptor is readable once the socket has room again.
    fn note_room(&mut self, udp: &UdpWire, has_room: bool) -> io::Result<()> {
        let Some(socket) = udp.descriptor() else {
            return Ok(());
        };
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, !has_room);
        epoll::modify(&*self.shared.epoll, socket, udp_token(), flags)?;
        self.awaits_room = !has_room;
        Ok(())
    }
}

impl Wire for ShortcutWire {
    fn send(&mut self, path: Path, slices: &[IoSlice<'_>], segment_size: usize) -> io::Result<()> {
        let Some(shortcut) = &mut self.shortcut else {
            return self.udp.send(path, slices, segment_size);
        };
        if shortcut.send(&mut self.udp, path, slices, segment_size) {
            return Ok(());
        }
        let sent = self.udp.send(path, slices, segment_size);
        let is_full = matches!(&sent, Err(error) if error.kind() == io::ErrorKind::WouldBlock);
        if is_full != shortcut.awaits_room {
            shortcut.note_room(&self.udp, !is_full)?;
        }
        sent
    }

    fn send_by_reference(
        &mut self,
        path: Path,
        slices: &[IoSlice<'_>],
        segment_size: usize,
    ) -> io::Result<Taken> {
        match &self.shortcut {
            None => self.udp.send_by_reference(path, slices, segment_size),
            Some(_) => self
                .send(path, slices, segment_size)
                .map(|()| Taken::Copied),
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Arrival> {
        let udp = &mut self.udp;
        match &self.shortcut {
            None => udp.receive(buffer),
            Some(shortcut) => {
                let mut inbound = shortcut.shared.inbound();
                inbound.receive(buffer, |buffer| udp.receive(buffer))
            }
        }
    }

    fn path_mtu(&mut self, path: Path) -> usize {
        // That of UDP, by which the packets may have to go tomorrow.
        self.udp.path_mtu(path)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        match &self.shortcut {
            None => self.udp.descriptor(),
            Some(shortcut) => Some(shortcut.shared.epoll.as_fd()),
        }
    }

    fn may_wait(&mut self) -> bool {
        let shortcut = self.shortcut.as_ref();
        self.udp.may_wait() && shortcut.is_none_or(|one| one.shared.inbound().prepare_wait())
    }

    fn join(&mut self, group: Address) -> io::Result<()> {
        self.udp.join(group)?;
        let Some((shortcut, socket)) = self.shortcut.as_ref().zip(self.udp.descriptor()) else {
            return Ok(());
        };
        let flags = epoll::EventFlags::IN;
        match epoll::add(&*shortcut.shared.epoll, socket, udp_token(), flags) {
            // The descriptor for groups is there since the first one.
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn receiver(&self) -> Option<Box<dyn Receiver>> {
        let Some(shortcut) = &self.shortcut else {
            return self.udp.receiver();
        };
        let udp = self.udp.udp_receiver()?;
        let shared = Arc::clone(&shortcut.shared);
        Some(Box::new(ShortcutReceiver::new(udp, shared)))
    }

    engine::forward! { self.udp;
        fn capabilities(&self) -> Capabilities;
        fn poll_path_error(&mut self) -> Option<PathReport>;
        fn set_fragmentation(&mut self, fragmentation: Fragmentation);
        fn unanswerable(&self) -> u64;
        fn receive_drops(&self) -> Option<u64>;
        fn set_packet_len(&mut self, packet_len: PacketLen);
        fn has_buffered(&self) -> bool;
        fn leave(&mut self, group: Address) -> io::Result<()>;
    }
}
